"""From a run's facts to a rehearsal. Recording a live run is recording its journal."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from midstream.core import inputs
from midstream.core.call_notes import REFUSED, shown_of, with_hooks
from midstream.core.events import (
    AgentPrompted,
    AgentStopped,
    Fact,
    FileWritten,
    HookRan,
    ModeTold,
    PermissionGranted,
    QuestionAnswered,
    QuestionAsked,
    QuestionSuperseded,
    RunStarted,
    StateTransition,
    ToolCalled,
    ToolReturned,
    WorkflowOutput,
    WorkspaceSeen,
)
from midstream.core.fold.apply import apply
from midstream.core.guidance import not_read
from midstream.core.notices import Envelope
from midstream.core.pending import AskModel, CallTool, RunHandler, pending
from midstream.core.routing import branch_at, living
from midstream.core.run import Run, owner_of
from midstream.core.summaries import is_summary_key
from midstream.language.errors import UserMistake
from midstream.rehearsal import format as form
from midstream.rehearsal.fake_world import path_of, timer_of
from midstream.rehearsal.inputs_from_facts import Heard, inputs_of
from midstream.runtime.agent import WorkflowAgent, summary_request
from midstream.views.side_effects import SEEN, TREE


def from_facts(envelopes: Sequence[Envelope]) -> form.Rehearsal:
    """Return the rehearsal of a run, from all of its facts in order.

    A run that has not ended gives the rehearsal of what has happened so far.

    Raises:
        UserMistake: there are none, or another version of midstream made them.
    """
    told = [*_without_surroundings(_without_programs(envelopes))]
    facts = [envelope.event for envelope in told if isinstance(envelope.event, Fact)]
    if not facts or not isinstance(facts[0], RunStarted):
        raise UserMistake("A rehearsal is made of all facts of a run.", hint="Name a run.")
    started = facts[0]
    heard = inputs_of(facts, [envelope.at for envelope in told])
    run, ways = Run(id="recorded"), dict[str, list[str]]()
    for fact in facts:
        run = apply(run, fact)
        if isinstance(fact, StateTransition):
            ways.setdefault(fact.branch, []).append(fact.target)
    own = ways.pop("", [])
    return form.Rehearsal(
        rehearsal=form.FORMAT,
        workflow=started.definition.found_as or started.workflow,
        input=started.input,
        variables=started.variables,
        allowed=started.allowed,
        approvals=started.approvals,
        limits=started.limits,
        steps=_steps(heard),
        expected=form.Expected(
            status=run.status,
            states=tuple(own),
            branches={path: tuple(states) for path, states in ways.items()},
            output=run.output if run.status == "finished" else msgspec.UNSET,
            error=form.without_places(run.error) if run.status == "failed" else "",
            contexts={name: tuple(messages) for name, messages in run.contexts.items()},
            is_midway=_has_handler_at_work(run),
        ),
    )


def _without_programs(envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
    """Yield the facts of a run as they were if models had spoken for its external agents.

    A rehearsal starts no program: what an agent did itself, in the middle of a reply, is left out.
    """
    calls, questions = {SEEN, TREE}, set[str]()
    was_asked = False
    for envelope in envelopes:
        match envelope.event:
            case AgentPrompted() | AgentStopped() | WorkspaceSeen():
                continue
            case ToolCalled(external=effect, call_id=call_id) if effect is not None:
                calls.add(call_id)
                continue
            case ToolReturned(call_id=call_id) | FileWritten(call_id=call_id) if call_id in calls:
                continue
            case HookRan(call_id=call_id) if call_id in calls:
                continue
            case QuestionAsked(call_id=call_id, question_id=question_id) if call_id in calls:
                questions.add(question_id)
                continue
            case (
                QuestionAnswered(question_id=question_id)
                | QuestionSuperseded(question_id=question_id)
            ) if question_id in questions:
                was_asked = True
                continue
            case PermissionGranted() if was_asked:
                continue
            case Fact():
                was_asked = False
                yield envelope


def _without_surroundings(told: Iterable[Envelope]) -> Iterator[Envelope]:
    """Yield the facts of a run as they were without what was around it, which no rehearsal has.

    No permission mode was told, and what a call's result ends with of AGENTS.md is what its tool said.
    """
    unread: list[Envelope] = []
    for envelope in told:
        match envelope.event:
            case ModeTold():
                continue
            case WorkflowOutput():
                unread.append(envelope)
                continue
            case ToolReturned(below=below) as fact if below:
                words = {not_read(path) for path, length in below.items() if not length}
                unread = [e for e in unread if _output(e) not in words]
                envelope = msgspec.structs.replace(
                    envelope, event=msgspec.structs.replace(fact, below={})
                )
        yield from unread
        unread = []
        yield envelope
    yield from unread


def _output(envelope: Envelope) -> str:
    return envelope.event.text if isinstance(envelope.event, WorkflowOutput) else ""


def _steps(heard: Sequence[Heard]) -> tuple[form.AnyStep, ...]:
    began, is_timed = heard[0].at, any(each.worked_s for each in heard)
    steps: list[form.AnyStep] = []
    handlers = 0
    asked: dict[inputs.EffectKey, Run] = {}
    running: set[inputs.EffectKey] = set()
    for each in heard:
        if isinstance(each.input, inputs.HandlerReturned):
            handlers += 1
        # A conversation that branches share may have grown since a model was sent it.
        owed = pending(each.before)
        models = [effect.key for effect in owed if isinstance(effect, AskModel)]
        asked = {key: asked.get(key) or owner_of(each.before, key) for key in models}
        running |= {e.key for e in owed if isinstance(e, CallTool) and not e.stopping}
        if isinstance(each.input, inputs.ModelReplied | inputs.ModelFailed):
            step: form.AnyStep | None = _model_step(each.input, asked[each.input.key])
        elif isinstance(each.input, inputs.ToolFinished) and each.input.key not in running:
            continue  # told to stop before it began: no tool has said this, but midstream
        else:
            step = _step(each.input, each.before, each, began)
        if isinstance(each.input, inputs.Recovered):
            asked, running = {}, set()
        if step is None:
            continue
        if is_timed:
            step = msgspec.structs.replace(step, after_s=round(max(0.0, each.at - began), 3))
        if _has_handler_at_work(each.before):
            step = msgspec.structs.replace(step, after_handlers=handlers)
        steps.append(step)
        handlers = 0
    return tuple(steps)


def _has_handler_at_work(run: Run) -> bool:
    return any(isinstance(effect, RunHandler) for effect in pending(run))


def _step(input: inputs.AnyInput, run: Run, heard: Heard, began: float) -> form.AnyStep | None:
    """Return what happened from outside; None for what the workflow did, or what changed nothing."""
    match input:
        case inputs.ToolFinished() | inputs.ToolEnded() | inputs.CallReviewed(kind="deny"):
            return _tool_step(input, owner_of(run, input.key))
        case inputs.TimerRang():
            return _time_step(input, owner_of(run, input.key))
        case inputs.UserSaid():
            return _words_step(input, run, heard, began)
        case inputs.Approve():
            return _decided(input, run)
        case inputs.Compact():
            return form.UserCompacted(note=input.note, room=input.room)
        case inputs.Rename():
            return form.UserRenamed(name=input.name)
        case inputs.EditTodo():
            return form.UserEditedTodo(edit=str(input.edit))
        case inputs.Revoke():
            return form.UserRevoked(permission=input.permission)
        case inputs.Halt():
            return form.UserHalted(shown=_text(input.shown), shown_in=_texts(input.shown))
        case inputs.Stop():
            return form.UserStopped(
                reason=input.reason, shown=_text(input.shown), shown_in=_texts(input.shown)
            )
        case inputs.Withdraw(input_id=""):
            return None
        case inputs.Withdraw():
            return form.UserWithdrew(text=run.inbox.lines[input.input_id].text)
        case inputs.Recovered():
            seen = {
                inner.branch.path: inner.visit.turn.shown
                for inner in (run, *living(run))
                if inner.visit.turn
            }
            return form.ProcessChanged(
                was_cut=input.was_cut,
                shown=seen.pop("", ""),
                shown_in={path: text for path, text in seen.items() if text},
            )
        case inputs.Resume():
            return form.UserResumed()
        case _:
            return None


def _tool_step(
    input: inputs.ToolFinished | inputs.ToolEnded | inputs.CallReviewed, here: Run
) -> form.AnyStep:
    """Return how a call ended, also one that was yet to be checked, or that its review refused it."""
    assert here.visit.turn is not None
    made = next(c for c in here.visit.turn.calls if c.call.id == input.key[-1])
    note = ""
    if isinstance(input, inputs.ToolEnded):
        return form.ToolEnded(
            tool=made.call.name,
            arguments=made.asked,
            outcome=input.ended.outcome,
            result=input.ended.result,
            branch=here.branch.path,
        )
    if isinstance(input, inputs.ToolFinished):
        note = input.note
        # Hooks are no part of the workflow: what they made of the call and its result is the world's.
        outcome, result = input.outcome, with_hooks(made, input.text, input.hooks)
    else:
        outcome = "denied"
        result = f"{REFUSED}{input.reason}{f' {input.hint}' if input.hint else ''}"
    return form.ToolReturned(
        tool=made.call.name,
        arguments=made.asked,
        outcome=outcome,
        result=result,
        note=note,
        branch=here.branch.path,
    )


def _time_step(input: inputs.TimerRang, here: Run) -> form.AnyStep:
    return form.TimeCame(
        state=here.visit.state,
        timer=timer_of(input.key),
        shown=_text(input.shown),
        shown_in=_texts(input.shown),
        branch=here.branch.path,
    )


def _model_step(input: inputs.ModelReplied | inputs.ModelFailed, run: Run) -> form.AnyStep:
    if is_summary_key(input.key):
        asked = summary_request(run)
        agent, state, seen = asked.agent, asked.state, form.digest(asked.messages)
    else:
        assert run.visit.turn is not None
        agent, state = run.visit.turn.agent, run.visit.state
        seen = form.digest(WorkflowAgent(run, agent).messages())
    if isinstance(input, inputs.ModelFailed):
        return form.ModelFailed(
            agent=agent,
            state=state,
            error=input.error,
            hint=input.hint,
            shown=input.shown,
            calling=input.calling or (input.is_broken and not input.shown),
            seen=seen,
            branch=run.branch.path,
        )
    return form.ModelReplied(
        agent=agent,
        state=state,
        text=input.text,
        calls=tuple(
            form.Called(name=call.name, arguments=call.arguments, problem=call.problem)
            for call in input.calls
        ),
        seen=seen,
        branch=run.branch.path,
    )


def _words_step(
    input: inputs.UserSaid, run: Run, heard: Heard, began: float
) -> form.AnyStep | None:
    question = next((q for q in run.inbox.questions if q.id == input.to.question), None)
    if input.to.question is not None and (question is None or not question.is_open):
        return None  # an answer to nothing: it changed nothing
    if input.refused:
        return None  # a hook kept the words from the workflow
    if question is not None and question.kind != "input":
        return form.UserAnswered(
            question=question.text,
            text=input.to.text,
            source=input.source,
            branch=question.branch,
        )
    return form.UserSaid(
        text=input.to.line,
        state=run.visit.state,
        policy=input.policy,
        shown=_text(input.shown),
        shown_in=_texts(input.shown),
        calling=next((part.calling for part in input.shown if part.calling), "")
        or any(part.has_calls for part in input.shown),
        source=input.source,
        after_s=round(max(0.0, input.at - began), 3),
        branch="" if question is None else question.branch,
    )


def _decided(input: inputs.Approve, run: Run) -> form.AnyStep:
    question = next(q for q in run.inbox.open_questions if q.id == input.question)
    here = branch_at(run, question.branch)
    assert here is not None, "its question is open"
    assert here.visit.turn is not None, "only a turn parks calls"
    call = next(c.call for c in here.visit.turn.calls if c.call.id == question.call_id)
    return form.UserDecided(
        tool=call.name,
        arguments=call.arguments,
        granted=input.granted,
        for_run=input.for_run,
        note=input.note,
        edited=input.edited,
        mode=input.mode,
        asks=question.asks,
        shows=shown_of(question) if question.asks else "",
        why=question.why,
        branch=question.branch,
    )


def _text(shown: Sequence[inputs.Shown]) -> str:
    """Return what was seen of a reply of the run itself."""
    return next((part.text for part in shown if not path_of(part.key)), "")


def _texts(shown: Sequence[inputs.Shown]) -> dict[str, str]:
    """Return what was seen of replies in branches."""
    return {path: part.text for part in shown if part.text and (path := path_of(part.key))}
