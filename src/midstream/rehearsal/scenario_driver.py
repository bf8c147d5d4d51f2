"""The driver: does to a run in a fake world what a step says, and tells where a step does not fit."""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping

import msgspec

from midstream.core.call_notes import REFUSED
from midstream.core.conversation import Message, cut_words
from midstream.core.events import ToolReturned
from midstream.core.inputs import RequestedCall
from midstream.core.question import Decision, Question
from midstream.core.routing import branch_at
from midstream.core.run import Run
from midstream.core.summaries import why_not
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.rehearsal import format as form
from midstream.rehearsal.fake_world import BEGAN_AT, FakeWorld, Standing
from midstream.rehearsal.step_words import clipped, standing_in_words, step_in_words
from midstream.runtime.ports import ModelReply, Review, ToolOutcome


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step cannot happen now: what it needed, and how things were."""

    expected: str
    got: str


class Driver:
    """Plays one rehearsal in a fake world.

    Args:
        rehearsal: what happens.
        fake: the world it happens in.
    """

    def __init__(self, rehearsal: form.Rehearsal, fake: FakeWorld) -> None:
        self.rehearsal = rehearsal
        self.fake = fake
        self._tasks: list[asyncio.Task[None]] = []
        self._words = 0
        self._done = 0
        fake.foreseen = self._foreseen

    async def begin(self) -> None:
        """Start the run."""
        told = self.rehearsal
        life = self.fake.born()
        await life.machine.start(
            told.input,
            variables=told.variables,
            allowed=told.allowed,
            approvals=told.approvals,
            limits=told.limits,
        )

    async def revive(self, *, was_cut: bool) -> None:
        """Go on with the run in a new machine, from the bytes of its facts."""
        await self.fake.life.kill()
        run = self.fake.notebook.folded()
        if run.definition is None:
            await self.begin()  # nothing of the start was kept
        elif not run.is_over:
            await self.fake.born().machine.resume(run, was_cut=was_cut)

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.fake.life.kill()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- steps --------------------------------------------------------------------------------

    async def handlers_until(self, step: form.AnyStep | None) -> None:
        """Let the handlers run that ran before a step; None: all that stand."""
        limit = None if step is None else step.after_handlers
        ran = 0
        await self.fake.life.quiet()
        branch = "" if step is None else step.branch
        while (handler := self.handler_near(branch)) is not None and (limit is None or ran < limit):
            self.fake.life.finish(handler, None)
            await self.fake.life.quiet()
            ran += 1

    async def do(self, step: form.AnyStep) -> Misfit | None:
        """Let a step happen; where it does not fit, nothing happens. The run is quiet before."""
        for number, each in enumerate(self.rehearsal.steps, 1):
            if each is step:
                self._done = number
        self.fake.time = max(self.fake.time, BEGAN_AT + step.after_s)
        match step:
            case form.ModelReplied() | form.ModelFailed():
                return self._reply(step)
            case form.ToolReturned():
                return self._return(step)
            case form.ToolEnded():
                return await self._done_call(step)
            case form.UserSaid():
                self._see(step.shown, step.shown_in, calling=step.calling)
                await self.say(step)
            case form.UserAnswered():
                question = self._question(step)
                if question is None:
                    return self.misfit(step)
                await self.fake.life.machine.say(
                    step.text, question=question.id, source=step.source, id=self.next_id()
                )
            case form.UserDecided():
                return await self._decide(step)
            case form.UserHalted():
                self._see(step.shown, step.shown_in)
                await self.fake.life.machine.halt()
            case form.UserStopped():
                self._see(step.shown, step.shown_in)
                await self.stop(step.reason)
            case form.UserWithdrew():
                waiting = [r for r in self.fake.run.inbox.undelivered if r.text == step.text]
                if not waiting:
                    return self.misfit(step)
                await self.fake.life.machine.withdraw(waiting[0].id)
            case form.UserResumed():
                await self.fake.life.machine.unsuspend()
            case form.UserCompacted():
                if why_not(self.fake.run):
                    return self.misfit(step)
                with contextlib.suppress(UserMistake):  # should it be killed just then
                    await self.fake.life.machine.compact(step.note, room=step.room)
            case form.UserRenamed():
                await self.fake.life.machine.rename(step.name)
            case form.UserEditedTodo():
                with contextlib.suppress(UserMistake):
                    await self.fake.life.machine.edit_todo(step.edit)
            case form.UserRevoked():
                await self.fake.life.machine.revoke(step.permission)
            case form.TimeCame():
                return self._ring(step)
            case form.ProcessChanged():
                self._see(step.shown, step.shown_in)
                await self.fake.life.checkpoint()
                await self.revive(was_cut=step.was_cut)
        return None

    async def say(self, step: form.UserSaid) -> None:
        """Say a step's words, at the time they were said."""
        self.fake.time = max(self.fake.time, BEGAN_AT + step.after_s)
        asked = next((q for q in self.fake.run.inbox.open_questions if q.kind == "input"), None)
        if asked is not None and step.branch:
            of_it = [q for q in self.fake.run.inbox.open_questions if q.branch == step.branch]
            asked = next((q for q in of_it if q.kind == "input"), asked)
            await self.fake.life.machine.say(
                step.text, question=asked.id, source=step.source, id=self.next_id()
            )
            return
        await self.fake.life.machine.say(
            step.text, unasked=True, policy=step.policy, source=step.source, id=self.next_id()
        )

    def soon(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Do something beside what happens; it is awaited in the end."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def stop(self, reason: str) -> None:
        """Stop the run; it ends once its tools have been let end."""
        life = self.fake.life
        self.soon(life.machine.stop(reason))
        while not (life.is_over or life.machine.run.halt.leads_to == "stop"):  # noqa: ASYNC110
            await asyncio.sleep(0)

    def next_id(self) -> str:
        """Return an id for words, the same in every rehearsal."""
        self._words += 1
        return f"said-{self._words}"

    # --- looking ------------------------------------------------------------------------------

    def standing(
        self, kind: str, name: str | None = None, branch: str | None = None
    ) -> Standing | None:
        """Return the first effect of a kind that stands still, of that name and branch if given."""
        for standing in self.fake.life.standing.values():
            is_it = name in (None, standing.name) and branch in (None, standing.branch)
            if standing.kind == kind and is_it:
                return standing
        return None

    def handler_near(self, branch: str) -> Standing | None:
        """Return a handler that stands still, of that branch if there is one.

        Handlers of several branches may be at work at once. What follows in a branch waits for its own.
        """
        return self.standing("handler", branch=branch) or self.standing("handler")

    def misfit(self, step: form.AnyStep) -> Misfit:
        """Return that a step does not fit how things are."""
        return Misfit(expected=step_in_words(step), got=self.in_words())

    def in_words(self) -> str:
        """Return how the run stands, in a line."""
        return standing_in_words(self.fake.run, list(self.fake.life.standing.values()))

    def _see(self, shown: str, inside: Mapping[str, str], *, calling: bool | str = False) -> None:
        for standing in tuple(self.fake.life.standing.values()):
            if standing.kind == "model":
                text = inside.get(standing.branch, "") if standing.branch else shown
                standing.show(text, calling=calling)

    def _reply(self, step: form.ModelReplied | form.ModelFailed) -> Misfit | None:
        model = self.standing("model", step.agent, step.branch)
        if model is None or model.state != step.state:
            return self.misfit(step)
        if (other := self._other_messages(step, model)) is not None:
            return other
        answer(self.fake, model, step)
        return None

    def _return(self, step: form.ToolReturned) -> Misfit | None:
        if (standing := self._standing_call(step)) is None:
            return None if self._was_refused(step) else self.misfit(step)
        outcome = ToolOutcome(outcome=step.outcome, text=step.result, note=step.note)
        self.fake.life.finish(standing, outcome)
        return None

    async def _done_call(self, step: form.ToolEnded) -> Misfit | None:
        standing = self._standing_call(step)
        if standing is None or standing.tell_done is None:
            return self.misfit(step)
        await standing.tell_done(ToolOutcome(outcome=step.outcome, text=step.result))
        return None

    def _standing_call(self, step: form.ToolReturned | form.ToolEnded) -> Standing | None:
        for standing in self.fake.life.standing.values():
            is_it = standing.name == step.tool and standing.arguments == step.arguments
            if standing.kind == "tool" and is_it and standing.branch == step.branch:
                return standing
        return None

    def _was_refused(self, step: form.ToolReturned) -> bool:
        """Return whether a review refused the call, as often as one did so far: it was never made."""
        if step.outcome != "denied":
            return False
        told = [envelope.event for envelope in self.fake.notebook.envelopes()]
        ended = [
            fact for fact in told if isinstance(fact, ToolReturned) and fact.outcome == "denied"
        ]
        same = [f for f in ended if (f.name, f.result) == (step.tool, step.result)]
        return len(same) >= self.rehearsal.steps[: self._done].count(step)

    def _ring(self, step: form.TimeCame) -> Misfit | None:
        timer = self.standing("timer", step.timer, step.branch)
        if timer is None or timer.state != step.state:
            return self.misfit(step)
        self._see(step.shown, step.shown_in)
        self.fake.life.finish(timer, None)
        return None

    async def _decide(self, step: form.UserDecided) -> Misfit | None:
        run = self.fake.run
        for question in run.inbox.open_questions:
            call = call_of(run, question)
            is_there = question.kind == "approval" and question.branch == step.branch
            if is_there and call == (step.tool, step.arguments):
                decision = Decision(
                    granted=step.granted,
                    for_run=step.for_run,
                    note=step.note,
                    edited=step.edited,
                    mode=step.mode,
                )
                await self.fake.life.machine.approve(question.id, decision)
                return None
        return self.misfit(step)

    def _foreseen(self, tool: str, arguments: dict[str, Json], branch: str) -> Review:
        """Return what the review of a call must have come to, by what became of the call."""
        for step in self.rehearsal.steps[self._done :]:
            if not isinstance(step, form.UserDecided | form.ToolReturned) or step.branch != branch:
                continue
            if (step.tool, step.arguments) != (tool, arguments):
                continue
            if isinstance(step, form.UserDecided):
                return Review(kind="ask", asks=step.asks, shows=step.shows, reason=step.why)
            if step.outcome == "denied":
                return Review(kind="deny", reason=step.result.removeprefix(REFUSED))
            break
        return Review()

    def _question(self, step: form.UserAnswered) -> Question | None:
        for question in self.fake.run.inbox.open_questions:
            if (question.text, question.branch) == (step.question, step.branch):
                return question
        return None

    def _other_messages(
        self, step: form.ModelReplied | form.ModelFailed, model: Standing
    ) -> Misfit | None:
        """Return how the messages an agent is shown differ from those it was shown then."""
        assert model.request is not None
        if not step.seen or form.digest(model.request.messages) == step.seen:
            return None
        here = branch_at(self.fake.run, step.branch)
        assert here is not None
        context = here.plan.agents[step.agent].context
        is_own = not step.branch or context in here.branch.shared
        recorded = self.rehearsal.expected.contexts.get(context, ()) if is_own else ()
        now = here.contexts[context]
        for number, (before, after) in enumerate(zip(recorded, now, strict=False), 1):
            if before != after:
                where = f"message {number} of the context {context}"
                return Misfit(
                    expected=f"{where}: {message_in_words(before)}",
                    got=message_in_words(after),
                )
        return Misfit(
            expected=f"{step.agent} in {step.state} gets the messages it got when recorded",
            got="other messages: " + " | ".join(map(message_in_words, model.request.messages[-3:])),
        )


def answer(fake: FakeWorld, model: Standing, step: form.ModelReplied | form.ModelFailed) -> None:
    """Let a model's request end as a step says."""
    if isinstance(step, form.ModelFailed):
        model.show(step.shown, calling=step.calling)
        fake.life.finish(model, WorldTrouble(step.error, hint=step.hint))
        return
    model.show(step.text, calling=bool(step.calls))
    calls = tuple(
        RequestedCall(name=call.name, arguments=call.arguments, problem=call.problem)
        for call in step.calls
    )
    fake.life.finish(model, ModelReply(text=step.text, calls=calls))


def call_of(run: Run, question: Question) -> tuple[str, dict[str, Json]] | None:
    """Return the name and arguments of the call a question is about, None if it is about none."""
    here = branch_at(run, question.branch)
    for open_call in () if here is None or here.visit.turn is None else here.visit.turn.calls:
        if open_call.call.id == question.call_id:
            return open_call.call.name, open_call.call.arguments
    return None


def message_in_words(message: Message) -> str:
    """Return a message in a line."""
    calls = "".join(f" [{call.name}]" for call in message.calls)
    cut = f" ({cut_words(message.calling)})" if message.interrupted else ""
    return clipped(f"{message.author or message.role}: {message.text}{calls}{cut}")
