"""The two halves of a conversation with a person: a UI shows things, and hands lines to the console.

A terminal, plain lines and JSON lines are UIs; whoever writes another one fulfils `UI` and uses `Console`.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from midstream.config.manager import ConfigManager
from midstream.core.notices import Envelope
from midstream.core.question import Decision, Question
from midstream.core.routing import Destination, Route
from midstream.core.run import Run
from midstream.core.todo import TodoItem
from midstream.language.names import Policy
from midstream.views.lanes import Lane
from midstream.views.run_status import Waiting
from midstream.views.side_effects import ChangedFile
from midstream.views.turns import Turn

InFull: TypeAlias = Literal["on", "off", "last"]
"""Which tool results and reasoning are shown in full, which else have a line or nothing."""

_HERE: Final = secrets.token_hex(4)


def own_id() -> str:
    """Return a fresh id for words that are typed in this process."""
    return f"{_HERE}{secrets.token_hex(4)}"


def is_own(input_id: str) -> bool:
    """Return whether words were typed in this process, and in no other that talks to the run, too."""
    return input_id.startswith(_HERE)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What the bottom line says. `enter` is what Enter will do now, in words; empty parts are left out.

    `on_empty` is what Enter does on an empty line, such as "resumes", "" where it does nothing.
    `tab` is what Tab does with a line instead, such as "queues", "" where it does nothing else.
    `thinking` is what the active run is doing, such as "reviewer is thinking". `busy`: it is in a
    turn or a handler, be it one that waits for the person, so that Esc has something to stop; `esc`
    is what Esc does then, where it is something else.
    `notes` are further words for the right edge, such as waiting inputs or background runs. `lanes`
    are the branches at work, `addressees` what `@name words` would do, by the name.
    `permission` is how much happens unasked, in a word or two. `progress` is how far the active
    workflow is, such as "step 2 of 5 · 3 min". Lanes may also be of the run itself and of others.
    `todo` is the list its agents keep.
    `is_watched`: another process runs the active run. `is_ending`: the person has it end just now, to be
    done with it or to go back in it. `numbered`: so many things the next line
    chooses from by their numbers.
    """

    mode: str
    enter: str
    state: str = ""
    thinking: str = ""
    model: str = ""
    cost: str = ""
    busy: bool = False
    esc: str = ""
    notes: tuple[str, ...] = ()
    lanes: tuple[Lane, ...] = ()
    addressees: dict[str, str] = {}
    permission: str = ""
    run: str = ""
    progress: str = ""
    tab: str = ""
    on_empty: str = ""
    is_watched: bool = False
    is_ending: bool = False
    todo: tuple[TodoItem, ...] = ()
    numbered: int = 0


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a line a UI handed over.

    `taken`: it is on its way. `unclear`: it was begun before the open question `question` was on the
    screen; ask with one key whether it is the answer or a new instruction, the text kept, and submit
    again. `returned`: it had no effect, for `reason`; put it back into the editor, if it is `to_mend`:
    another line in its place may have one. `exit`: leave.
    """

    kind: Literal["taken", "unclear", "returned", "exit"]
    reason: str = ""
    question: str = ""
    to_mend: bool = True


async def come_of(work: Awaitable[Submitted]) -> Submitted:
    """Return what became of a line; one that made something fail has come back as well."""
    try:
        return await work
    except Exception as error:
        return Submitted(kind="returned", reason=f"{type(error).__name__}: {error}")


class OwnCommandEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended that the person ran with `!`. `text` may be sent along: the command, its
    output with the middle left out where it is long, its secrets redacted; `lines` is how long it was.
    """

    words: str
    lines: int
    text: str


class Console(Protocol):
    """The console as a UI uses it: where lines go and what the screen should say."""

    def status(self) -> Status:
        """Return what the bottom line says now."""

    def status_fields(self) -> dict[str, str]:
        """Return what a person's own status line may say; its UI knows the folder and branch."""

    def open_questions(self) -> tuple[Question, ...]:
        """Return the active run's open questions a person sees as cards (approvals included)."""

    def route(
        self,
        line: str,
        *,
        seen: Collection[str],
        focused: str = "",
        answers: str = "",
        is_new: bool = False,
    ) -> Route | None:
        """Return whom a line is for, None for a command and for a goodbye: these are for the console.

        The arguments are those of `core.routing.route`. Judged once, at Enter: `send` takes what it says.
        """

    def interrupts(self, to: Destination) -> bool:
        """Return whether words for there cut off what is at work now."""

    async def send(
        self, to: Destination, *, seen: Collection[str], policy: Policy | None = None
    ) -> Submitted:
        """Give words to whom they are for; `policy` overrides what unasked words do there.

        Where lines go to another run by now, plain words are for that one, judged by it and `seen`.
        """

    async def submit(self, line: str, *, seen: Collection[str]) -> Submitted:
        """Take a line as it is: a `/command`, a goodbye, an answer, or words for the active run or chat.

        `seen` are the ids of the questions on the screen before the line's first key.
        """

    async def answered(self) -> None:
        """Return once the chat that lines go to waits for a person; at once if they go to a workflow."""

    async def halt(self) -> None:
        """Stop the active run's current turn (Esc); while none is under way, the last `/btw`."""

    async def go_on(self) -> None:
        """Let the active run go on where it was stopped; where nothing was, nothing happens."""

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call that waits for approval, after a fresh key press."""

    def next_permission_mode(self) -> str:
        """Let the next of ask, auto and plan say what happens unasked; return which, in a line.

        Counts from the next tool call on; what runs already goes on. Never goes to full.

        Raises:
            UserMistake: it cannot be changed now.
        """

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the word at the end of `before` may go on: (whole word, description) pairs."""

    def mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give what a word that begins with `@` may go on as besides, the best first: files.

        Of a whole line that is a command, what its last word may be: what had to be asked for, too.

        More is given where it takes a while to look them up; what was given stays true.
        """

    async def own_command(
        self, command: str, *, stop: asyncio.Event, hears: Callable[[tuple[str, ...], str], None]
    ) -> OwnCommandEnded:
        """Run a command the person typed behind `!`, with nobody asked; return once it has ended.

        `hears` gets whole lines of its output, and what there is of the next. Setting `stop` ends it
        softly, cancelling kills it and everything it started.

        Raises:
            WorldTrouble: it could not be started.
        """

    async def picture(self, pasted: str) -> str:
        """Keep the picture whose path was pasted, such as a dropped file's; return its mark, "" for none.

        Raises:
            UserMistake: it cannot be shown to a model.
        """

    async def clipboard(self) -> str:
        """Return what the clipboard holds as it goes into a line: a kept picture's mark, else its text.

        Raises:
            UserMistake: nothing here can read it, or the picture cannot be shown.
        """

    def waiting_inputs(self) -> tuple[Waiting, ...]:
        """Return the lines that were taken and not yet delivered, the oldest first."""

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits and return it, None if it is too late for that."""

    async def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the active run that words began, the newest first.

        Raises:
            UserMistake: there is no run to go back in, or it lives in another process.
        """

    async def go_back(self, turn: Turn) -> None:
        """Go on in a copy of the active run from before a turn; its words come to `UI.hand`."""


class UI(Protocol):
    """Where the console shows things: a terminal, plain lines, JSON lines.

    One that is derived from it leaves out what it has no place for: nothing happens then.
    """

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run. Returns at once; drawing may come later.

        `is_behind`: lines do not go to that run. What it does is kept until they do (`turned_to`),
        or, once it has ended, until the last is asked for in full.
        """

    def say(self, text: str, *, kind: Literal["info", "note", "warning", "error"] = "info") -> None:
        """Show the console's own words (they may hold foreign text: sanitize before drawing)."""

    def recall(self, run: Run) -> None:
        """Know how a run stands whose events begin in the middle. Nothing is shown of it."""
        return

    def past(self, run: Run) -> None:
        """Show the last turns of a chat that is gone on with, so that a person sees where they were."""
        return

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Show what a run did and asked before the lines went to it, where nothing else shows it."""

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Show what became of files, each with its difference."""

    def left(self) -> None:
        """Show what came of replies nobody hears the end of, as their runs are left. Once."""
        return

    def hand(self, words: str) -> None:
        """Put words into the editor, to be changed and sent again; nothing typed there is lost."""

    def apply(self, setting: str, config: ConfigManager) -> bool:
        """Be as one of the settings `LOOKS` says from now on; return False where there is nothing to be."""
        return False

    def refresh(self) -> None:
        """Draw the status anew: the mode, the state or the open questions changed."""
        return

    def show_in_full(self, what: InFull) -> None:
        """Show tool results and reasoning in full from now on (`on`) or not (`off`), or the `last`.

        The `last` again, with nothing new since, is the one before it.
        """
        return

    def copy(self, text: str) -> bool:
        """Put a text into the person's clipboard; return False where that cannot be done for sure."""
        return False

    def follow(self, run: Callable[[], Run] | None) -> bool:
        """Keep the graph of a workflow's run above the prompt while it goes on; None: no more.

        Return whether there is a place for it. It goes by itself once the run is over or left.
        """
        return False

    async def run(self, console: Console) -> None:
        """Read lines and hand them to the console until the person leaves or the input ends."""

    async def close(self) -> None:
        """Return once everything shown has been written."""
