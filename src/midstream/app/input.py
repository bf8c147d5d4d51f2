"""Words on their way to a run, the lines that wait there, and the questions a person sees meanwhile."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import msgspec

from midstream.app.background_runs import Background
from midstream.app.chats import Chats
from midstream.app.file_mentions import missing
from midstream.app.run_sentences import way_past
from midstream.app.switching import Switching
from midstream.app.ui import Submitted, own_id
from midstream.core.question import Question
from midstream.core.routing import (
    Destination,
    Returned,
    Route,
    Unclear,
    addressees,
    route,
    screen_id,
)
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.language.names import Policy
from midstream.runtime.ports import Machine, Receipt
from midstream.system.offloop import in_thread
from midstream.views.run_status import Waiting, asked, kept, waiting, what_addressing_does

_SHOWN_FILES: Final = 3


class NotSent(UserMistake):
    """What a text runs before it is sent was refused or stopped: its line comes back."""


def questions_on_screen(machine: Machine | None) -> tuple[Question, ...]:
    """Return a run's open questions a person sees as cards, with the ids they have there."""
    if machine is None:
        return ()
    return tuple(
        msgspec.structs.replace(question, id=screen_id(machine.run.id, question.id))
        for question in asked(machine.run)
    )


def numbers(questions: Sequence[Question], before: str) -> tuple[tuple[str, str], ...]:
    """Return the questions a line that begins with `#` may answer, as completions."""
    if " " in before:
        return ()
    cards = [question for question in questions if question.kind == "question"]
    numbered = ((f"#{card.number}", " ".join(card.text.split())[:60]) for card in cards)
    return tuple(pair for pair in numbered if pair[0].startswith(before))


def names(machine: Machine | None, before: str) -> tuple[tuple[str, str], ...]:
    """Return the branches a line that begins with `@` may be meant for, as completions."""
    if machine is None or " " in before:
        return ()
    named = what_addressing_does(machine.run)
    return tuple(
        (f"@{name}", f"to one: {does}")
        for name, does in named.items()
        if f"@{name}".startswith(before)
    )


class Input:
    """Hands words to the run they are for, and knows which of them wait there.

    Args:
        switching: what lines go to.
        background: tells of words for a run nobody runs.
        chats: the next line may choose one.
        source: whose the lines are, for the record.
    """

    def __init__(
        self, switching: Switching, background: Background, chats: Chats, *, source: str = "user"
    ) -> None:
        self._switching = switching
        self._ui = switching.ui
        self._background = background
        self._chats = chats
        self._source = source
        # What was sent to a run nobody runs, by run and id: its inbox does not know of it.
        self._sent: dict[str, dict[str, str]] = {}

    async def send(
        self, to: Destination, *, seen: Collection[str], policy: Policy | None = None
    ) -> Submitted:
        """Give words to whom they are for; see `Console.send`.

        Raises:
            MidstreamError: they cannot be taken; nothing changed.
        """
        if self._switching.offered_chats:
            await self._chats.go(to.line.strip())
            return Submitted(kind="taken")
        async with self._switching.travelling:
            pass  # whoever goes back or forward has arrived
        async with self._switching.in_order:
            machine = await self._switching.addressee()
            if to.run != machine.run.id:
                # A run that began with these words, or one that was turned to since Enter was pressed.
                found = _judged_anew(to, machine.run, seen, is_new=policy is not None)
                if not isinstance(found, Destination):
                    return not_sent(found)
                to = found
            unknown = await self._unknown_files(to.text, machine)
            receipt = await machine.say(to, policy=policy, source=self._source, id=own_id())
        if not _is_taken(machine, receipt):
            way_out = way_past(machine.run, to)
            reason = " ".join(filter(None, (receipt.reason, way_out)))
            return Submitted(kind="returned", reason=reason)
        self._background.say_stored(machine, receipt)
        if receipt.handling != "reject" and receipt.input_id not in machine.run.inbox.lines:
            self._sent.setdefault(machine.run.id, {})[receipt.input_id] = to.line
        if unknown:
            self._ui.say(unknown, kind="note")
        self._ui.refresh()
        return Submitted(kind="taken")

    async def say(self, text: str, policy: Policy | None = None) -> None:
        """Give the active run words with this policy, None: with that of the state it is in.

        Raises:
            UserMistake: it takes none now; nothing changed.
        """
        async with self._switching.in_order:
            machine = await self._switching.addressee()
            to = route(text, machine.run, seen=(), is_new=True)
            if not isinstance(to, Destination):
                raise UserMistake(not_sent(to).reason)
            unknown = await self._unknown_files(to.text, machine)
            receipt = await machine.say(to, policy=policy, source=self._source, id=own_id())
        if not _is_taken(machine, receipt):
            raise UserMistake(receipt.reason)
        if unknown:
            self._ui.say(unknown, kind="note")
        self._ui.refresh()

    async def _unknown_files(self, text: str, machine: Machine) -> str:
        """Return what is said of files that words mention and that are not there, "" mostly."""
        if "@" not in text or self._switching.runs.is_watched(machine):
            return ""  # the files of a watched run may be elsewhere
        workspace = self._switching.runs.parts.engine.world.workspace
        paths = await in_thread(partial(missing, text, workspace))
        named = addressees(machine.run)
        unknown = [path for path in paths if path not in named]
        if not unknown:
            return ""
        more = f" and {len(unknown) - _SHOWN_FILES} more" if len(unknown) > _SHOWN_FILES else ""
        them = f"{', '.join(unknown[:_SHOWN_FILES])}{more}"
        return f"No such file here: {them}. Your words went as they are."

    def waiting(self) -> tuple[Waiting, ...]:
        """Return the lines of the active run that were taken and not yet delivered, the oldest first."""
        machine = self._switching.active()
        if machine is None or machine.run.is_over:
            return ()
        sent = self._sent.get(machine.run.id, {}).items()
        left = (kept(id, text) for id, text in sent if id not in machine.run.inbox.lines)
        return (*waiting(machine.run), *left)

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits and return it, None if it is too late for that."""
        machine = self._switching.active()
        for line in reversed(self.waiting()):
            if machine is not None and line.can_be_withdrawn:
                await machine.withdraw(line.id)
                self._sent.get(machine.run.id, {}).pop(line.id, None)
                record = machine.run.inbox.lines.get(line.id)
                is_back = record is None or record.disposition == "withdrawn"
                return line.text if is_back else None
        return None


def not_sent(found: Unclear | Returned) -> Submitted:
    """Return what is said of a line that is for nobody as it stands."""
    if isinstance(found, Unclear):
        return Submitted(kind="unclear", question=found.question)
    return Submitted(kind="returned", reason=found.reason)


def _judged_anew(to: Destination, run: Run, seen: Collection[str], *, is_new: bool) -> Route:
    """Return whom words are for in another run than the one they were judged by.

    An answer, and words for one branch, are for nobody there.
    """
    if to.branch:
        return Returned(reason=f"{to.branch} is not at work here.")
    if to.question is not None:
        return Returned(reason="That question is not open any more.")
    return route(to.text, run, seen=seen, is_new=is_new)


def _is_taken(machine: Machine, receipt: Receipt) -> bool:
    """Return whether words are on their way. What is said of them stands in the run's own events."""
    record = machine.run.inbox.lines.get(receipt.input_id)
    if record is None:
        return receipt.handling != "reject"  # kept for the process that will go on with the run
    return record.disposition != "rejected"
