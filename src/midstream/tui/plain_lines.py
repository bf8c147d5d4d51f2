"""PlainFace: lines in, plain lines out, for pipes, files, logs and terminals without any skill."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from midstream.app.ui import Console, InFull, Submitted
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.language.names import mode_words
from midstream.system.own_process import columns, is_terminal, own_redactor
from midstream.tui.changed_lines import changed_lines
from midstream.tui.event_lines import (
    Block,
    Kind,
    Words,
    own_words,
    plain_words,
    question_lines,
    typed,
)
from midstream.tui.event_renderer import Narrator
from midstream.tui.pipes import QueueWriter, lines_from
from midstream.tui.styled_lines import Line, rows, to_plain
from midstream.views.side_effects import ChangedFile

STDIN: Final = 0
STDOUT: Final = 1


class LineReader:
    """Hands lines to the desk one by one, until they end or nobody listens.

    A piped line has no first key. It counts as begun when it was read, so it can answer what had
    been asked by then; a line that was there earlier is never taken for an answer by guessing. In a
    chat it is no word against a reply of which nothing was there either: it waits until that is whole.
    """

    def __init__(
        self,
        fd: int,
        *,
        taking: Callable[[str], None],
        told: Callable[[str, Submitted], None],
    ) -> None:
        """Make one. `taking` hears each line before the desk does, `told` what the desk said."""
        self._fd = fd
        self._taking = taking
        self._told = told
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop reading; may be called from any thread."""
        if self._loop is not None and self._reading is not None:
            # The loop may be closed already: then reading has stopped.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._reading.cancel)

    async def run(self, desk: Console) -> None:
        """Return when the lines have ended, the desk said to leave, or `stop` was called."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            self._reading = group.create_task(self._read(desk))

    async def _read(self, desk: Console) -> None:
        async for line in lines_from(self._fd, between=desk.answered):
            if not line.strip():
                continue
            seen = frozenset(question.id for question in desk.open_questions())
            self._taking(line)
            try:
                result = await desk.submit(line, seen=seen)
            except Exception as error:
                result = Submitted(kind="returned", reason=f"{type(error).__name__}: {error}")
            self._told(line, result)
            if result.kind == "exit":
                return
            # Lines that came together still let the runs take a step between them.
            await asyncio.sleep(0)


def unread(line: str, result: Submitted) -> str:
    """Return what to say of a line without effect, "" if it had one."""
    match result.kind:
        case "returned":
            return f"Not delivered: {line}\n{result.reason}"
        case "unclear":
            return (
                f"Not delivered: {line}\nIt came before the question was asked and may be an answer "
                "or a new instruction. Begin it with the question's number, such as #1, to answer."
            )
        case _:
            return ""


class PlainFace:
    """Prints what happens as plain lines and reads stdin as it comes.

    Nothing here is drawn twice: streaming words come when they are whole, tools when they end.
    """

    def __init__(self, *, stdin: int = STDIN, stdout: int = STDOUT) -> None:
        """Make one over two file descriptors, which stay open."""
        self._narrator = Narrator(with_cards=False)
        self._reader = LineReader(stdin, taking=self._taking, told=self._told)
        self._writer = QueueWriter(stdout, on_broken=self._reader.stop)
        self._settles = False
        self._is_terminal = is_terminal(stdout)
        self._is_typed = is_terminal(stdin)

    @property
    def lost(self) -> OSError | None:
        """Return why what was shown could not be written; None as long as it could."""
        return self._writer.lost

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run; see `UI.show`."""
        self._print(self._narrator.told(envelope, is_behind=is_behind))
        if not self._settles:
            self._settles = True
            # What an interruption ended is told in the same breath of the loop as the interruption.
            _soon(self._settle)

    def say(self, text: str, *, kind: Kind = "info") -> None:
        """Show the console's own words; see `UI.say`."""
        # What is said comes after what was heard: an interruption is summed up first.
        self._print(self._narrator.settle())
        self._writer.write(self._laid(own_words(own_redactor().redacted(text), kind)))

    def recall(self, run: Run) -> None:
        """Know how a run stands; see `UI.recall`."""
        self._print(self._narrator.recall(run))

    def past(self, run: Run) -> None:
        """Print the last turns of a chat; see `UI.past`."""
        self._print(self._narrator.past(run))

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Print what a run did meanwhile, and asks; see `UI.turned_to`."""
        self._print(self._narrator.kept(run))
        for question in questions:
            self._print([*question_lines(question)])

    def show_in_full(self, what: InFull) -> None:
        """Print results and reasoning in full; see `UI.show_in_full`."""
        if what == "last":
            self._print(self._narrator.last_in_full())
        else:
            self._narrator.is_verbose = what == "on"

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Print what became of files; see `UI.show_changes`."""
        self._print([*changed_lines(changes)])

    def hand(self, words: str) -> None:
        """Print words that may be sent again; see `UI.hand`."""
        self.say(f"They were: {words}", kind="note")

    def refresh(self) -> None:
        """Do nothing: a plain face has no status to draw."""

    def copy(self, text: str) -> bool:
        """Know of no clipboard."""
        return False

    def follow(self, run: Callable[[], Run] | None) -> bool:
        """Keep nothing above a prompt: there is none that stays in its place."""
        return False

    async def run(self, desk: Console) -> None:
        """Hand over lines until the input ends, the desk says to leave, or the output is broken."""
        if self._is_terminal and self._is_typed:
            # Nothing is drawn here that could say it.
            keys = "Enter sends a line, /help lists the commands, Ctrl-D leaves."
            self.say(f"{mode_words(desk.status().mode).capitalize()}. {keys}", kind="note")
        await self._reader.run(desk)

    async def close(self) -> None:
        """Return when everything shown is written."""
        self._settle()
        await self._writer.aclose()

    def _settle(self) -> None:
        self._settles = False
        self._print(self._narrator.settle())

    def _taking(self, line: str) -> None:
        if not (self._is_terminal and self._is_typed):
            # A terminal has shown it as it was typed.
            self._print([*typed(line)])

    def _told(self, line: str, result: Submitted) -> None:
        text = unread(line, result)
        if text:
            self.say(text, kind="warning")

    def _print(self, blocks: list[Block]) -> None:
        """Write blocks. Where plain lines go they may stay: nothing secret goes with them."""
        lines = [
            line
            for block in blocks
            for line in (plain_words(block) if isinstance(block, Words) else [block])
        ]
        if text := self._laid(lines):
            self._writer.write(own_redactor().redacted(text))

    def _laid(self, lines: list[Line]) -> str:
        """Return lines as text, broken between words where a terminal would break them anywhere."""
        if not self._is_terminal:
            return to_plain(lines)
        redacted = own_redactor().redacted
        # Broken in two, nobody would know a secret.
        clean = [
            msgspec.structs.replace(
                line, fragments=tuple((style, redacted(text)) for style, text in line.fragments)
            )
            for line in lines
        ]
        found = [row for line in clean for row in rows(line, columns())]
        return "".join("".join(text for _, text in row).rstrip() + "\n" for row in found)


def _soon(action: Callable[[], None]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        action()
        return
    loop.call_soon(action)
