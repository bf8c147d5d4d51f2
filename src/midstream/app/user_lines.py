"""Words on their way to a run: which question they answer, or which branch they are for."""

from collections.abc import Collection

from midstream.app.background_runs import Background
from midstream.app.chats import Sessions
from midstream.app.destinations import Addressing
from midstream.app.inbox import Inbox
from midstream.app.open_questions import run_and_question, screen_id
from midstream.app.run_past import Past
from midstream.app.run_sentences import way_past
from midstream.core.branch_address import address_of, addressees, gone, only_agent, shared_names
from midstream.core.routing import Answer, Returned, Unclear, route
from midstream.language.errors import UserMistake
from midstream.language.names import Policy
from midstream.runtime.ports import Face, Machine, Receipt, Submitted


class Saying:
    """Hands words to the run they are for.

    Args:
        to: where lines go.
        face: where it is told.
        background: the runs that are not on the screen.
        past: going back in time; that may be under way.
        sessions: the chats; the next line may choose one.
        inbox: remembers the lines that wait.
        source: whose the lines are, for the record.
    """

    def __init__(
        self,
        to: Addressing,
        face: Face,
        background: Background,
        past: Past,
        sessions: Sessions,
        inbox: Inbox,
        *,
        source: str = "user",
    ) -> None:
        self._source = source
        self._to = to
        self._face = face
        self._background = background
        self._past = past
        self._sessions = sessions
        self._inbox = inbox

    async def take(
        self,
        words: str,
        *,
        seen: Collection[str],
        question: str | None,
        as_new: bool,
        policy: Policy | None,
    ) -> Submitted:
        """Take a line that is no command; see the port `Desk`.

        Raises:
            MidstreamError: it cannot be taken; nothing changed.
        """
        if self._sessions.is_choosing:
            await self._sessions.go(words.strip())
            return Submitted(kind="taken")
        await self._past.arrived()
        async with self._to.in_order:
            machine = await self._to.addressee()
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
        self._inbox.note(machine, receipt, words)
        self._face.refresh()
        return Submitted(kind="taken")

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy.

        Raises:
            UserMistake: it takes none now; nothing changed.
        """
        async with self._to.in_order:
            machine = await self._to.addressee()
            receipt = await machine.say(text, policy=policy, source=self._source)
        if not _is_taken(machine, receipt):
            raise UserMistake(receipt.reason)
        self._face.refresh()


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
