"""The director: does to a run on strings what a step says, and tells where a step does not fit."""

import asyncio
from collections.abc import Coroutine

import msgspec

from midstream.core.conversation import Message
from midstream.core.errors import WorldTrouble
from midstream.core.inputs import RequestedCall
from midstream.core.names import Json
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.ports import ModelReply, ToolOutcome
from midstream.rehearsal import format as form
from midstream.rehearsal.puppet import BEGAN_AT, Puppet, Standing
from midstream.rehearsal.telling import clipped, standing_in_words, step_in_words


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step cannot happen now: what it needed, and how things were."""

    expected: str
    got: str


class Director:
    """Plays one rehearsal in a puppet world.

    Args:
        rehearsal: what happens.
        puppet: the world it happens in.
    """

    def __init__(self, rehearsal: form.Rehearsal, puppet: Puppet) -> None:
        self.rehearsal = rehearsal
        self.puppet = puppet
        self._tasks: list[asyncio.Task[None]] = []
        self._words = 0

    async def begin(self) -> None:
        """Start the run."""
        told = self.rehearsal
        life = self.puppet.born()
        await life.machine.start(
            told.input, variables=told.variables, allowed=told.allowed, approvals=told.approvals
        )

    async def revive(self, *, was_cut: bool) -> None:
        """Go on with the run in a new machine, from the bytes of its facts."""
        await self.puppet.life.kill()
        run = self.puppet.notebook.folded()
        if run.definition is None:
            await self.begin()  # nothing of the start was kept
        elif not run.is_over:
            await self.puppet.born().machine.resume(run, was_cut=was_cut)

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.puppet.life.kill()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- steps --------------------------------------------------------------------------------

    async def handlers_until(self, step: form.AnyStep | None) -> None:
        """Let the handlers run that ran before a step; None: all that stand."""
        limit = None if step is None else step.after_handlers
        ran = 0
        await self.puppet.life.quiet()
        while (handler := self.standing("handler")) is not None and (limit is None or ran < limit):
            self.puppet.life.finish(handler, None)
            await self.puppet.life.quiet()
            ran += 1

    async def do(self, step: form.AnyStep) -> Misfit | None:
        """Let a step happen; where it does not fit, nothing happens. The run is quiet before."""
        match step:
            case form.ModelReplied() | form.ModelFailed():
                return self._reply(step)
            case form.ToolReturned():
                return self._return(step)
            case form.UserSaid():
                self._see(step.shown, calling=step.calling)
                await self.say(step)
            case form.UserAnswered():
                question = self._question(step.question)
                if question is None:
                    return self.misfit(step)
                await self.puppet.life.machine.say(
                    step.text, question=question.id, source=step.source, id=self.next_id()
                )
            case form.UserDecided():
                return await self._decide(step)
            case form.UserHalted():
                self._see(step.shown)
                await self.puppet.life.machine.halt()
            case form.UserStopped():
                self._see(step.shown)
                await self.stop(step.reason)
            case form.UserWithdrew():
                waiting = [r for r in self.puppet.run.undelivered if r.text == step.text]
                if not waiting:
                    return self.misfit(step)
                await self.puppet.life.machine.withdraw(waiting[0].id)
            case form.UserResumed():
                await self.puppet.life.machine.unsuspend()
            case form.ProcessChanged():
                await self.revive(was_cut=step.was_cut)
        return None

    async def say(self, step: form.UserSaid) -> None:
        """Say a step's words, at the time they were said."""
        self.puppet.clock.time = max(self.puppet.clock.time, BEGAN_AT + step.after_s)
        await self.puppet.life.machine.say(
            step.text, unasked=True, policy=step.policy, source=step.source, id=self.next_id()
        )

    def soon(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside what happens; it is awaited in the end."""
        self._tasks.append(asyncio.create_task(work))

    async def stop(self, reason: str) -> None:
        """Stop the run; it ends once its tools have been let end."""
        life = self.puppet.life
        self.soon(life.machine.stop(reason))
        while not (life.is_over or life.machine.run.halting_for == "stop"):  # noqa: ASYNC110
            await asyncio.sleep(0)

    def next_id(self) -> str:
        """Return an id for words, the same in every rehearsal."""
        self._words += 1
        return f"said-{self._words}"

    # --- looking ------------------------------------------------------------------------------

    def standing(self, kind: str, name: str | None = None) -> Standing | None:
        """Return the first effect of a kind that stands still, of that name if one is given."""
        for standing in self.puppet.life.standing.values():
            if standing.kind == kind and name in (None, standing.name):
                return standing
        return None

    def misfit(self, step: form.AnyStep) -> Misfit:
        """Return that a step does not fit how things are."""
        return Misfit(
            expected=step_in_words(step),
            got=standing_in_words(self.puppet.run, list(self.puppet.life.standing.values())),
        )

    def _see(self, shown: str, *, calling: bool = False) -> None:
        model = self.standing("model")
        if model is not None:
            model.show(shown, calling=calling)

    def _reply(self, step: form.ModelReplied | form.ModelFailed) -> Misfit | None:
        model = self.standing("model", step.agent)
        if model is None or self.puppet.run.state != step.state:
            return self.misfit(step)
        if (other := self._other_messages(step, model)) is not None:
            return other
        answer(self.puppet, model, step)
        return None

    def _return(self, step: form.ToolReturned) -> Misfit | None:
        for standing in self.puppet.life.standing.values():
            is_it = standing.name == step.tool and standing.arguments == step.arguments
            if standing.kind == "tool" and is_it:
                outcome = ToolOutcome(outcome=step.outcome, text=step.result)
                self.puppet.life.finish(standing, outcome)
                return None
        return self.misfit(step)

    async def _decide(self, step: form.UserDecided) -> Misfit | None:
        run = self.puppet.run
        for question in run.open_questions:
            call = call_of(run, question)
            if question.kind == "approval" and call == (step.tool, step.arguments):
                await self.puppet.life.machine.approve(
                    question.id, granted=step.granted, for_run=step.for_run, note=step.note
                )
                return None
        return self.misfit(step)

    def _question(self, text: str) -> Question | None:
        return next((q for q in self.puppet.run.open_questions if q.text == text), None)

    def _other_messages(
        self, step: form.ModelReplied | form.ModelFailed, model: Standing
    ) -> Misfit | None:
        """Return how the messages an agent is shown differ from those it was shown then."""
        assert model.request is not None
        if not step.seen or form.digest(model.request.messages) == step.seen:
            return None
        plan = self.puppet.run.plan
        assert plan is not None
        context = plan.agents[step.agent].context
        recorded = self.rehearsal.expected.contexts.get(context, ())
        now = self.puppet.run.contexts[context]
        for number, (before, after) in enumerate(zip(recorded, now, strict=False), 1):
            if before != after:
                where = f"message {number} of the context {context}"
                return Misfit(
                    expected=f"{where}: {message_in_words(before)}",
                    got=message_in_words(after),
                )
        return Misfit(
            expected=f"{step.agent} in {step.state} is shown what it was shown then",
            got="other messages: " + " | ".join(map(message_in_words, model.request.messages[-3:])),
        )


def answer(puppet: Puppet, model: Standing, step: form.ModelReplied | form.ModelFailed) -> None:
    """Let a model's request end as a step says."""
    if isinstance(step, form.ModelFailed):
        model.show(step.shown)
        puppet.life.finish(model, WorldTrouble(step.error, hint=step.hint))
        return
    model.show(step.text, calling=bool(step.calls))
    calls = tuple(
        RequestedCall(name=call.name, arguments=call.arguments, problem=call.problem)
        for call in step.calls
    )
    puppet.life.finish(model, ModelReply(text=step.text, calls=calls))


def call_of(run: Run, question: Question) -> tuple[str, dict[str, Json]] | None:
    """Return the name and arguments of the call a question is about, None if it is about none."""
    for open_call in () if run.turn is None else run.turn.calls:
        if open_call.call.id == question.call_id:
            return open_call.call.name, open_call.call.arguments
    return None


def message_in_words(message: Message) -> str:
    """Return a message in a line."""
    calls = "".join(f" [{call.name}]" for call in message.calls)
    cut = " (interrupted)" if message.interrupted else ""
    return clipped(f"{message.author or message.role}: {message.text}{calls}{cut}")
