"""Words on their way to a run: which question they answer, or which branch they are for."""

from collections.abc import Collection

from midstream.app.background_runs import Background
from midstream.app.chats import Chats
from midstream.app.open_questions import run_and_question, screen_id
from midstream.app.run_sentences import way_past
from midstream.app.switching import Switching
from midstream.app.ui import Submitted
from midstream.core.routing import (
    Answer,
    Returned,
    Unclear,
    address_of,
    addressees,
    gone,
    only_agent,
    route,
    shared_names,
)
from midstream.language.errors import UserMistake
from midstream.language.names import Policy
from midstream.runtime.ports import Machine, Receipt
from midstream.views.run_status import Waiting, kept, waiting


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

    async def take(
        self,
        words: str,
        *,
        seen: Collection[str],
        question: str | None,
        as_new: bool,
        policy: Policy | None,
    ) -> Submitted:
        """Take a line that is no command; see `Console.submit`.

        Raises:
            MidstreamError: it cannot be taken; nothing changed.
        """
        if self._switching.is_choosing:
            await self._chats.go(words.strip())
            return Submitted(kind="taken")
        async with self._switching.travelling:
            pass  # whoever goes back or forward has arrived
        async with self._switching.in_order:
            machine = await self._switching.addressee()
            own = [id.removeprefix(f"{machine.run.id}/") for id in seen]
            if question is not None:
                run, question = run_and_question(question)
                if run != machine.run.id:
                    return Submitted(kind="returned", reason="That question is not open any more.")
            elif (rest := _for_the_agent(machine, words)) is not None:
                words = rest
            elif not as_new or policy is not None:
                found = route(
                    words,
                    # With a policy of its own it answers nothing, but it may be for a branch.
                    open_questions=() if as_new else machine.run.inbox.open_questions,
                    seen=own,
                    addressees=addressees(machine.run),
                    gone=gone(machine.run),
                    shared=shared_names(machine.run),
                )
                match found:
                    case Unclear(question=unclear):
                        shown = screen_id(machine.run.id, unclear)
                        return Submitted(kind="unclear", question=shown)
                    case Returned(reason=reason):
                        return Submitted(kind="returned", reason=reason)
                    case Answer(question=question, text=words):
                        pass
                    case _:
                        pass
            # A question that comes up in this very moment was not on the screen: it gets no answer.
            receipt = await machine.say(
                words,
                question=question,
                unasked=question is None,
                policy=policy,
                source=self._source,
            )
        if not _is_taken(machine, receipt):
            way_out = way_past(machine.run, question, words)
            reason = " ".join(filter(None, (receipt.reason, way_out)))
            return Submitted(kind="returned", reason=reason)
        self._background.tell_kept(machine, receipt)
        if receipt.handling != "reject" and receipt.input_id not in machine.run.inbox.lines:
            self._sent.setdefault(machine.run.id, {})[receipt.input_id] = words
        self._ui.refresh()
        return Submitted(kind="taken")

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy.

        Raises:
            UserMistake: it takes none now; nothing changed.
        """
        async with self._switching.in_order:
            machine = await self._switching.addressee()
            receipt = await machine.say(text, policy=policy, source=self._source)
        if not _is_taken(machine, receipt):
            raise UserMistake(receipt.reason)
        self._ui.refresh()

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


def _for_the_agent(machine: Machine, words: str) -> str | None:
    """Return the words for the one agent at work in a workflow, None where they are not for it."""
    name, rest = address_of(words)
    return rest if name and name == only_agent(machine.run) else None


def _is_taken(machine: Machine, receipt: Receipt) -> bool:
    """Return whether words are on their way. What is said of them stands in the run's own events."""
    record = machine.run.inbox.lines.get(receipt.input_id)
    if record is None:
        return receipt.handling != "reject"  # kept for the process that will go on with the run
    return record.disposition != "rejected"
