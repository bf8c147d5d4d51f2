"""A run as a program holds it: what can be done with it, whichever process it runs in.

The handle adds no behaviour of its own to a run. It gives the machine's methods one shape, whether
that machine is the loop in this process or follows the run of another one through the journal.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, Literal, TypeAlias
from weakref import finalize

from midstream.api.turn import Turn
from midstream.app.headless import Given, go_on
from midstream.core.events import AnyFact, RunFailed, RunStopped
from midstream.core.notices import AnyNotice, Envelope, TextDelta
from midstream.core.proposal import Onwards
from midstream.core.question import Decision, Question
from midstream.core.run import Run
from midstream.language.errors import (
    AuthorMistake,
    MidstreamError,
    OurBug,
    UserMistake,
    WorldTrouble,
)
from midstream.language.names import Json, Policy
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.engine.resume import stop_here
from midstream.runtime.json_values import json_text, kept_object
from midstream.runtime.ports import Receipt
from midstream.runtime.state_machine import WorkflowStateMachine

Status: TypeAlias = Literal["running", "waiting", "suspended", "finished", "failed", "stopped"]
"""How a run stands. `waiting`: only a person can move it on; `suspended`: it died too often."""

Event: TypeAlias = AnyFact | AnyNotice

PROGRAM: Final = "program"
"""The source of words that a program says, for the record."""


class RunHandle:
    """A run, here or in another process. Made by an `Engine`.

    Every method may be called from any task of the engine's loop. Cancelling a call never harms the
    run: what was said is said. A run of another process is followed as long as somebody has its handle.
    """

    def __init__(
        self,
        machine: WorkflowStateMachine | RemoteMachine,
        local: LocalEngine,
        forked: "Callable[[str, int | None], Awaitable[RunHandle]]",
    ) -> None:
        self._machine = machine
        self._local = local
        self._forked = forked
        self._end: RunFailed | RunStopped | None = None
        if isinstance(machine, RemoteMachine):
            # A server that gets a handle for each request would have as many followers of one run.
            finalize(self, machine.let_go).atexit = False

    def __repr__(self) -> str:
        return f"<RunHandle {self.id} {self.status}>"

    # --- how it stands ----------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Return the run's id, the same in every process."""
        return self._machine.id

    @property
    def name(self) -> str:
        """Return what people call the run, "" if nothing."""
        return self._machine.run.name

    @property
    def is_here(self) -> bool:
        """Return whether this process runs it."""
        return isinstance(self._machine, WorkflowStateMachine)

    @property
    def run(self) -> Run:
        """Return all that is true of the run as one immutable value.

        Of a run of another process it is as it was a moment ago.
        """
        return self._machine.run

    @property
    def status(self) -> Status:
        """Return how the run stands."""
        run = self._machine.run
        if run.status != "running":
            return run.status
        if run.suspended:
            return "suspended"
        return "waiting" if run.is_parked else "running"

    @property
    def state(self) -> str:
        """Return the name of the state the run is in, "" before the first."""
        return self._machine.run.visit.state

    @property
    def data(self) -> dict[str, Json]:
        """Return the run's `common_data`. Read it: changing it changes nothing of the run."""
        return self._machine.run.common_data

    @property
    def reply(self) -> str:
        """Return the words of the last reply that ended an agent's turn, "" before the first."""
        response = self._machine.run.visit.last_response
        return "" if response is None else response.text

    @property
    def output(self) -> Json:
        """Return what the run came to, None until it has finished."""
        return self._machine.run.output

    @property
    def error(self) -> str:
        """Return why the run failed, "" if it has not."""
        return self._machine.run.error

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the open questions, the oldest first; approvals (`kind`) among them."""
        return self._machine.run.inbox.open_questions

    def streaming(self) -> tuple[TextDelta, ...]:
        """Return all that is shown of each reply under way here; of another process `events` tell it."""
        if isinstance(self._machine, RemoteMachine):
            return ()
        replies = self._machine.streaming()
        return tuple(
            TextDelta(branch=branch, agent=reply.agent, text=reply.words)
            for branch, reply in replies
        )

    # --- what is said to it -----------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        policy: Policy | None = None,
        id: str | None = None,
        source: str = PROGRAM,
        unasked: bool = False,
    ) -> Receipt:
        """Give the run a line, at any moment; return what is being done with it.

        It answers the one open question of an agent, if there is one; else it is unasked, and follows
        the state's `on_input`: by default the current operation is halted at once, and the run goes to
        its state `resume`.

        Args:
            text: the words.
            policy: `interrupt`, `steer`, `queue` or `reject`, in place of the state's `on_input`; the
                words then answer nothing.
            id: makes the call repeatable: the same id again changes nothing and gives the same receipt.
            source: whose words they are, for the record.
            unasked: they answer nothing, whatever is being asked.

        Raises:
            AuthorMistake: the words are no text. Nothing was said.
            UserMistake: several questions are open: use `answer`. Nothing was said.
            WorldTrouble: there is no room to keep the words. Nothing was said.
        """
        if not isinstance(text, str):
            raise AuthorMistake(
                f"What is said is no text, but of the type {type(text).__name__}.",
                hint="A value that answers a question is given with answer(question, value).",
            )
        receipt = await self._machine.say(
            text, policy=policy, id=id, source=source, unasked=unasked
        )
        return self._as_it_ended(receipt)

    async def answer(
        self,
        question: "str | Question",
        answer: Json,
        *,
        id: str | None = None,
        source: str = PROGRAM,
    ) -> Receipt:
        """Answer an open question; return what became of the answer.

        Args:
            question: the question, or its id. The receipt's `handling` is `reject`, with the reason,
                where it is closed or the answer does not fit; then the question stays as it is.
            answer: text, or a JSON value for a question with a schema.
            id, source: as of `say`.

        Raises:
            AuthorMistake: it is no JSON, or the question is neither. Nothing was answered.
        """
        text = answer if isinstance(answer, str) else json_text("The answer", answer)
        asked = _id_of(question)
        receipt = await self._machine.say(text, question=asked, id=id, source=source)
        return self._as_it_ended(receipt)

    async def approve(
        self,
        question: "str | Question",
        granted: bool = True,
        *,
        for_run: bool = False,
        note: str = "",
        arguments: dict[str, Json] | None = None,
        mode: Onwards = "ask",
    ) -> None:
        """Decide on a tool call that waits for approval. A closed question is left as it is.

        Args:
            question: the question (`kind` is `approval`), or its id.
            granted: yes or no.
            for_run: with a yes, what was asked for needs no further approval in this run.
            note: with a no, words for the model.
            arguments: with a yes, arguments in place of the call's own; those left out stay. Of a plan
                (`about` is `plan`) they are asked about next.
            mode: with a yes to a plan, the permission mode it is carried out in.

        Raises:
            AuthorMistake: they are no JSON. Nothing was decided.
        """
        edited = None if arguments is None else kept_object(arguments)
        decision = Decision(granted=granted, for_run=for_run, note=note, edited=edited, mode=mode)
        await self._machine.approve(_id_of(question), decision)

    async def withdraw(self, input_id: str) -> None:
        """Take back words that have not been delivered yet, by the id of their receipt."""
        await self._machine.withdraw(input_id)

    async def rename(self, name: str) -> None:
        """Give the run a name, by which `Engine.get` and lists know it, too; "" takes it away."""
        await self._machine.rename(name)

    async def compact(self, note: str = "") -> None:
        """Have the model summarise the older turns; return when that has begun.

        The conversation changes once the summary is there whole; `note` is what it keeps in mind.

        Raises:
            UserMistake: nothing can be summarised now; nothing changed.
        """
        await self._machine.compact(note)

    async def halt(self) -> None:
        """Stop the current turn, keep what was shown, and hold until the next words."""
        await self._machine.halt()

    async def stop(self, reason: str = "stopped by the program") -> None:
        """End the run; return when its tools have stopped and the end is journaled.

        One that no process runs ends here, and nothing of it is begun again.

        Raises:
            UserMistake: it is an import, or its process has let go of it meanwhile.
        """
        machine = self._machine
        is_left = isinstance(machine, RemoteMachine) and not machine.run.is_over
        if isinstance(machine, RemoteMachine) and is_left and not await machine.owner():
            await stop_here(self._local.store, self._local.world.clock, self.id, reason=reason)
            await machine.wait()
            return
        await machine.stop(reason)
        if not self._machine.run.is_over:
            raise UserMistake(
                f"Run {self.id} has not ended: this process has let go of it.",
                hint=f"End it with: midstream stop {self.id}",
            )

    async def fork(self, at: int | None = None) -> "RunHandle":
        """Return a copy of the run as it was after its fact `at` (None: as it is), which goes on here.

        What tools had done after that point stays done.
        """
        return await self._forked(self.id, at)

    # --- what comes of it -------------------------------------------------------------------

    async def wait(self, answers: Sequence[str] | None = None) -> Json:
        """Return the run's output once it has ended.

        Args:
            answers: answers to its questions, in the order in which they are asked. Nobody else answers
                then: None waits for whoever does.

        Raises:
            UserMistake: it asks something no answer was given for, or waits for an approval; it was
                stopped; or this process follows it no more.
            AuthorMistake, UserMistake, WorldTrouble, OurBug: it failed, by whose fault it was.
        """
        if answers is None:
            run = await self._machine.wait()
        else:
            given = tuple(
                each if isinstance(each, str) else json_text(f"answers[{number}]", each)
                for number, each in enumerate(answers)
            )
            run = await go_on(self._machine, Given(answers=given))
        if run.status == "finished":
            return run.output
        raise await self._failure(run, is_alone=answers is not None)

    async def settled(self) -> Status:
        """Return how the run stands once it has ended or only a person can move it on.

        A question with a deadline is moved on by time, too: of that one, `events` tell.
        """
        await self._machine.settled()
        return self.status

    async def events(self, since: int = 0, *, transient: bool = True) -> AsyncGenerator[Event]:
        """Yield what happened in the run, and what happens, until it has ended.

        Facts come in order, without a gap and once each, from the one after number `since` on, however
        slow the reader is. Transient events (text as it streams) come as they happen; a reader that
        falls behind misses some. Of a reply under way all that was shown so far comes first, in one piece.

        Args:
            since: how many facts to leave out; see `numbered`.
            transient: whether to yield transient events, too.
        """
        async with aclosing(self.numbered(since, transient=transient)) as numbered:
            async for envelope in numbered:
                yield envelope.event

    async def numbered(self, since: int = 0, *, transient: bool = True) -> AsyncGenerator[Envelope]:
        """Yield the same with the number and time of each: to go on later, pass the last `seq`."""
        async with aclosing(self._machine.events(since)) as events:
            async for envelope in events:
                if transient or envelope.seq is not None:
                    yield envelope

    def turn(self, since: int | None = None, *, through_approvals: bool = False) -> Turn:
        """Return what happens from here to the end of a turn: enter it, say something, and read it.

            async with run.turn() as turn:
                await run.say("about snow, please")
                async for envelope in turn:
                    ...

        The events are those of `numbered`. They end once only a person can move the run on, it has
        ended, or it asked something new (branches beside that go on). What streams is whole: before the
        fact that ends a reply, all of its text has come as `text_delta`.

        Args:
            since: how many facts to leave out; None: those there are.
            through_approvals: go on where only a person's decision is waited for (an approval, a budget,
                what became of a call that a crash cut), until somebody has given it.
        """
        return Turn(self, self._machine, since, through_approvals=through_approvals)

    async def close(self) -> None:
        """Follow a run of another process no more. A run of this one goes on as it is."""
        if isinstance(self._machine, RemoteMachine):
            await self._machine.aclose()

    # --- inside -----------------------------------------------------------------------------

    def _as_it_ended(self, receipt: Receipt) -> Receipt:
        """Return the receipt of a line: one that was taken as an answer may have been refused by now."""
        record = self._machine.run.inbox.lines.get(receipt.input_id)
        if record is None or record.disposition != "rejected":
            return receipt
        return Receipt(input_id=receipt.input_id, handling="reject", reason=record.reason)

    async def _failure(self, run: Run, *, is_alone: bool) -> MidstreamError:
        if run.is_parked and is_alone:
            asked = " ".join(question.text for question in run.inbox.open_questions[:1])
            hint = (
                "Give it with answers=[...], allow the tool with allowed=[...], or resume the run."
            )
            if not asked and run.is_chat:
                hint = (
                    "A chat has no end and no output: await settled(), then read the run's reply."
                )
            return UserMistake(
                f"Run {run.id} waits for what was not given: {asked or 'words'}", hint=hint
            )
        if not run.is_over:
            return UserMistake(
                f"Run {run.id} has not ended: this process does not follow it any more.",
                hint="Engine.get finds it again.",
            )
        if self._end is None:  # read once: it can be asked for when the engine is closed, too
            facts = [
                each.event for each in await self._local.store.read(run.id, max(run.seq - 8, 0))
            ]
            ends = [fact for fact in facts if isinstance(fact, RunFailed | RunStopped)]
            self._end = ends[-1] if ends else None
        match self._end:
            case RunStopped(reason=reason):
                return UserMistake(
                    f"Run {run.id} was stopped: {reason}.", hint="A fork of it goes on from before."
                )
            case RunFailed() as failed:
                kinds = (AuthorMistake, UserMistake, WorldTrouble, OurBug)
                kind = next(kind for kind in kinds if kind.fault == failed.fault)
                return kind(f"Run {run.id} failed: {failed.error}", hint=failed.hint)
        # The journal failed with it: its end was never kept.
        return WorldTrouble(f"Run {run.id} {run.status}: {run.error}", hint="Look at the journal.")


def _id_of(question: str | Question) -> str:
    if isinstance(question, Question):
        return question.id
    if not isinstance(question, str):
        raise AuthorMistake(
            f"{question!r} is no question's id.", hint="Give the question itself, or its id."
        )
    return question
