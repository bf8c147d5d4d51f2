"""From a run's facts to a rehearsal. Recording a live run is recording its journal."""

from collections.abc import Sequence

import msgspec

from midstream.core.apply import apply
from midstream.core.errors import UserMistake
from midstream.core.events import Fact, RunStarted, StateTransition
from midstream.core.inputs import (
    AnyInput,
    Approve,
    Halt,
    HandlerReturned,
    ModelFailed,
    ModelReplied,
    Recovered,
    Resume,
    Shown,
    Stop,
    ToolFinished,
    UserSaid,
    Withdraw,
)
from midstream.core.notices import Envelope
from midstream.core.pending import RunHandler, pending
from midstream.core.run import Run
from midstream.rehearsal import format as form
from midstream.rehearsal.inputs import Heard, inputs_of
from midstream.workflow.agent import WorkflowAgent


def from_facts(envelopes: Sequence[Envelope]) -> form.Rehearsal:
    """Return the rehearsal of a run, from all of its facts in order.

    A run that has not ended gives the rehearsal of what has happened so far.

    Raises:
        UserMistake: there are none, or another version of midstream made them.
    """
    told = [envelope for envelope in envelopes if isinstance(envelope.event, Fact)]
    facts = [envelope.event for envelope in told if isinstance(envelope.event, Fact)]
    if not facts or not isinstance(facts[0], RunStarted):
        raise UserMistake("A rehearsal is made of all facts of a run.", hint="Name a run.")
    started = facts[0]
    heard = inputs_of(facts, [envelope.at for envelope in told])
    run = Run(id="recorded")
    for fact in facts:
        run = apply(run, fact)
    owed = pending(run)
    return form.Rehearsal(
        rehearsal=form.FORMAT,
        workflow=started.definition.found_as or started.workflow,
        input=started.input,
        variables=started.variables,
        allowed=started.allowed,
        approvals=started.approvals,
        steps=_steps(heard),
        expected=form.Expected(
            status=run.status,
            states=tuple(fact.target for fact in facts if isinstance(fact, StateTransition)),
            output=run.output if run.status == "finished" else msgspec.UNSET,
            error=form.without_places(run.error) if run.status == "failed" else "",
            contexts=run.contexts,
            is_midway=bool(owed) and isinstance(owed[0], RunHandler),
        ),
    )


def _steps(heard: Sequence[Heard]) -> tuple[form.AnyStep, ...]:
    began = heard[0].at
    steps: list[form.AnyStep] = []
    handlers = 0
    for each in heard:
        if isinstance(each.input, HandlerReturned):
            handlers += 1
        step = _step(each.input, each.before, each, began)
        if step is None:
            continue
        owed = pending(each.before)
        if owed and isinstance(owed[0], RunHandler):
            step = msgspec.structs.replace(step, after_handlers=handlers)
        steps.append(step)
        handlers = 0
    return tuple(steps)


def _step(input: AnyInput, run: Run, heard: Heard, began: float) -> form.AnyStep | None:
    """Return what happened from outside; None for what the workflow did, or what changed nothing."""
    match input:
        case ModelReplied() | ModelFailed() if run.turn is not None:
            return _model_step(input, run, run.turn.agent)
        case ToolFinished() if run.turn is not None:
            call = next(c.call for c in run.turn.calls if c.call.id == input.key[2])
            return form.ToolReturned(
                tool=call.name,
                arguments=call.arguments,
                outcome=input.outcome,
                result=input.text,
            )
        case UserSaid():
            return _words_step(input, run, heard, began)
        case Approve():
            return _decided(input, run)
        case Halt():
            return form.UserHalted(shown=_text(input.shown))
        case Stop():
            return form.UserStopped(reason=input.reason, shown=_text(input.shown))
        case Withdraw():
            return form.UserWithdrew(text=run.inbox[input.input_id].text)
        case Recovered():
            return form.ProcessChanged(was_cut=input.was_cut)
        case Resume():
            return form.UserResumed()
        case _:
            return None


def _model_step(input: ModelReplied | ModelFailed, run: Run, agent: str) -> form.AnyStep:
    seen = form.digest(WorkflowAgent(run, agent).messages())
    if isinstance(input, ModelFailed):
        return form.ModelFailed(
            agent=agent,
            state=run.state,
            error=input.error,
            hint=input.hint,
            shown=input.shown,
            seen=seen,
        )
    return form.ModelReplied(
        agent=agent,
        state=run.state,
        text=input.text,
        calls=tuple(
            form.Called(name=call.name, arguments=call.arguments, problem=call.problem)
            for call in input.calls
        ),
        seen=seen,
    )


def _words_step(input: UserSaid, run: Run, heard: Heard, began: float) -> form.AnyStep | None:
    question = next((q for q in run.questions if q.id == input.question), None)
    if input.question is not None and (question is None or not question.is_open):
        return None  # an answer to nothing: it changed nothing
    if question is not None and question.kind != "input":
        return form.UserAnswered(question=question.text, text=input.text, source=input.source)
    return form.UserSaid(
        text=input.text,
        state=run.state,
        policy=input.policy,
        shown=_text(input.shown),
        calling=any(part.has_calls for part in input.shown),
        source=input.source,
        after_s=round(max(0.0, input.at - began), 3),
    )


def _decided(input: Approve, run: Run) -> form.AnyStep:
    assert run.turn is not None
    question = next(q for q in run.open_questions if q.id == input.question)
    call = next(c.call for c in run.turn.calls if c.call.id == question.call_id)
    return form.UserDecided(
        tool=call.name,
        arguments=call.arguments,
        granted=input.granted,
        for_run=input.for_run,
        note=input.note,
    )


def _text(shown: Sequence[Shown]) -> str:
    return shown[0].text if shown else ""
