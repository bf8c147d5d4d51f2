"""decide(run, input): what does this make true? Judged once, live; replay folds the facts instead.

A `Story` collects facts and keeps the run folded up to date, so that each fact can be judged in the
light of the one before. What unasked words do is in `midstream.core.steering`.

An input whose effect is no longer owed (its key is gone: the run was halted or moved on) makes
nothing true. So a late reply changes nothing, however late it comes.
"""

from typing import assert_never

import msgspec

from midstream.core import steering
from midstream.core.conversation import ToolCall
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    AnyFact,
    DefinitionChanged,
    FileWritten,
    HandlerRan,
    PermissionGranted,
    QuestionAnswered,
    QuestionAsked,
    RunRecovered,
    RunResumed,
    RunStarted,
    RunSuspended,
    ToolCalled,
    WorkflowOutput,
)
from midstream.core.inputs import (
    AnyInput,
    Approve,
    EffectKey,
    FileChanging,
    Halt,
    HandlerFailed,
    HandlerLogged,
    HandlerReturned,
    ModelFailed,
    ModelReplied,
    Recovered,
    RequestedCall,
    Resume,
    Start,
    Stop,
    ToolFinished,
    UserSaid,
    Withdraw,
)
from midstream.core.names import REQUEST_USERS_INPUT, Json
from midstream.core.nearest import did_you_mean
from midstream.core.pending import call_key, handler_key, handler_of, request_key
from midstream.core.pinning import misfit_of
from midstream.core.question import Question
from midstream.core.run import Run, Turn, definition_of, plan_for
from midstream.core.spec import ToolSpec, tools_for
from midstream.core.story import Story

MAX_MISSES = 3
"""Unusable replies (empty, no required call, unreadable arguments) in one turn before it fails."""

MAX_REQUESTS = 100
"""Model requests in one turn before it fails: a model that calls tools for ever is stopped."""


def decide(run: Run, input: AnyInput) -> tuple[AnyFact, ...]:
    """Return the facts an input makes true, in order; none when it is too late to count."""
    return tuple(judged(run, input).facts)


def judged(run: Run, input: AnyInput) -> Story:
    """Return the facts an input makes true together with the run folded over them.

    For the loop, which needs both: it saves folding the facts of `decide` a second time.
    """
    story = Story(run)
    # A run that has not started has no rules yet; one that has ended hears nothing any more.
    if run.phase == "ended" or (run.phase == "new" and not isinstance(input, Start)):
        return story
    before = _request_owed(run)
    _judge(story, input)
    steering.settle(story, is_new_request=_request_owed(story.run) != before)
    return story


def _request_owed(run: Run) -> Json:
    is_owed = run.phase == "turn" and run.turn is not None and not run.turn.calls
    return request_key(run) if is_owed else None


def _judge(story: Story, input: AnyInput) -> None:
    match input:
        case HandlerReturned():
            _handler_returned(story, input)
        case UserSaid():
            steering.said(story, input)
        case ModelReplied():
            _model_replied(story, input)
        case ToolFinished():
            _tool_finished(story, input)
        case HandlerLogged():
            if input.key == handler_key(story.run):
                story.tell(WorkflowOutput(text=input.text))
        case HandlerFailed():
            if input.key == handler_key(story.run):
                story.fail(input.error, input.hint, fault=input.fault)
        case ModelFailed():
            if input.key == _request_owed(story.run):
                _turn_failed(story, input.error, input.hint, partial=input.shown)
        case Halt():
            steering.halted(story, input)
        case Approve():
            _approved(story, input)
        case Withdraw():
            steering.withdrawn(story, input)
        case Stop():
            steering.stopped(story, input)
        case Recovered():
            _recovered(story, input)
        case Resume():
            if story.run.suspended:
                story.tell(RunResumed())
        case FileChanging():
            _file_changing(story, input)
        case Start():
            _start(story, input)
        case _:
            assert_never(input)


def _start(story: Story, input: Start) -> None:
    if story.run.phase != "new":
        return
    story.tell(
        RunStarted(
            workflow=input.definition.workflow.workflow_name,
            definition=input.definition,
            input=input.input,
            variables=input.variables,
            allowed=input.allowed,
            approvals=input.approvals,
            workspace=input.workspace,
        )
    )


# --- handlers ---------------------------------------------------------------------------------


def _handler_returned(story: Story, input: HandlerReturned) -> None:
    run = story.run
    if input.key != handler_key(run):
        return
    handler, slot = handler_of(run)
    contexts = plan_for(run).contexts
    unknown = next((c.context for c in input.contexts if c.context not in contexts), None)
    if unknown is not None:
        story.fail(
            f"{handler}, the {slot} of state {run.state!r}, changed the context {unknown!r}, "
            "which the workflow does not have.",
            did_you_mean(unknown, contexts),
            fault="author",
        )
        return
    chosen = input.chosen if slot == "transition_handler" else None
    if chosen is not None and not isinstance(chosen, str):
        story.fail(
            f"{handler}, the transition_handler of state {run.state!r}, returned {chosen!a:.80}.",
            "Return the name of the next state, as a string.",
            fault="author",
        )
        return
    story.tell(
        HandlerRan(
            state=run.state,
            handler=handler,
            slot=slot,
            changed=input.changed,
            removed=input.removed,
            variables=input.variables,
            contexts=input.contexts,
            chosen=chosen,
        )
    )


# --- the agent's turn -------------------------------------------------------------------------


def _model_replied(story: Story, input: ModelReplied) -> None:
    run = story.run
    if run.turn is None or input.key != _request_owed(run):
        return
    agent = run.turn.agent
    role = definition_of(run).roles[plan_for(run).agents[agent].agent_role]
    parsing = {tool.name for tool in role.parsingTools}
    parsed = [call for call in input.calls if call.name in parsing]
    is_parsed = any(not call.problem for call in parsed)
    # Beside a usable call of a parsing tool, an unusable one is dropped: no handler may read it.
    sent = [call for call in input.calls if not (is_parsed and call in parsed and call.problem)]
    calls = tuple(
        ToolCall(id=f"call_{run.calls_made + n}", name=call.name, arguments=call.arguments)
        for n, call in enumerate(sent, 1)
    )
    problem = ""
    if not calls and not input.text.strip():
        problem = "Your reply was empty. Answer, or call a tool."
    elif parsing and not calls:
        problem = f"Answer by calling one of these tools: {', '.join(sorted(parsing))}."
    elif parsed and not is_parsed:
        problem = parsed[0].problem
    story.tell(
        AgentResponded(
            agent=agent,
            text=input.text,
            calls=calls,
            is_final=not problem and (is_parsed or not calls),
            problem=problem,
            usage=input.usage,
        )
    )
    turn = story.run.turn
    if turn is None or story.run.phase != "turn":
        return
    if turn.misses >= MAX_MISSES:
        _give_up(story, turn, f"{agent} gave {turn.misses} unusable replies. The last: {problem}")
        return
    if turn.request >= MAX_REQUESTS:
        _give_up(story, turn, f"{agent} made {turn.request} model requests in one turn.")
        return
    if not calls:
        return
    offered = {
        tool.name: tool for tool in tools_for(definition_of(run), plan_for(run).agents[agent])
    }
    for call, requested in zip(calls, sent, strict=True):
        _begin_call(story, agent, call, requested, offered)


def _give_up(story: Story, turn: Turn, error: str) -> None:
    for open_call in turn.calls:
        if open_call.status != "done":
            story.close_call(open_call.call.id, "not_run", "Not run: the turn was given up.")
    _turn_failed(story, error, "Try a larger model, or make the role's instructions plainer.")


def _turn_failed(story: Story, error: str, hint: str, *, partial: str = "") -> None:
    run = story.run
    assert run.turn is not None
    story.tell(AgentFailed(agent=run.turn.agent, error=error, hint=hint, partial=partial))
    target = plan_for(run).states[run.state].on_failure
    if target is None:
        story.fail(error, hint, fault="world")
    else:
        steering.enter(story, target, "the agent failed")


def _begin_call(
    story: Story,
    agent: str,
    call: ToolCall,
    requested: RequestedCall,
    offered: dict[str, ToolSpec],
) -> None:
    spec = offered.get(call.name)
    if spec is None:
        names = ", ".join(sorted(offered)) or "none"
        story.close_call(call.id, "failed", f"There is no tool {call.name!r}. Tools: {names}.")
    elif requested.problem:
        story.close_call(call.id, "failed", requested.problem)
    elif call.name == REQUEST_USERS_INPUT:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
        )
        _ask_user(story, agent, call)
    elif spec.needs_approval and call.name not in story.run.allowed:
        _ask_approval(story, agent, call)
    else:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
        )


def _ask_user(story: Story, agent: str, call: ToolCall) -> None:
    schema = call.arguments.get("schema")
    choices = call.arguments.get("choices")
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="question",
            text=str(call.arguments.get("question", "")),
            agent=agent,
            call_id=call.id,
            choices=tuple(map(str, choices)) if isinstance(choices, list) else (),
            schema=schema if isinstance(schema, dict) and schema else None,
        )
    )


def _ask_approval(story: Story, agent: str, call: ToolCall) -> None:
    if story.run.approvals == "deny":
        story.close_call(
            call.id,
            "denied",
            f"Refused: {call.name} needs approval and nobody is there to give it. "
            f"A person can allow it with --allow {call.name}.",
        )
        return
    arguments = msgspec.json.encode(call.arguments).decode()
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="approval",
            text=f"{call.name} {arguments}",
            agent=agent,
            call_id=call.id,
        )
    )


# --- tool calls -------------------------------------------------------------------------------


def _tool_finished(story: Story, input: ToolFinished) -> None:
    run = story.run
    if run.turn is None:
        return
    for open_call in run.turn.calls:
        if open_call.status not in ("running", "stopping"):
            continue
        if call_key(run, open_call.call.id) == input.key:
            story.close_call(open_call.call.id, input.outcome, input.text)
            return


def _approved(story: Story, input: Approve) -> None:
    question = _open_question(story.run, input.question)
    if question is None or question.kind != "approval":
        return
    if story.run.suspended:
        story.tell(RunResumed())
    call = _call_of(story.run, question)
    if not input.granted:
        story.tell(QuestionAnswered(question_id=question.id, answer="no"))
        said = f" They said: {input.note}" if input.note else ""
        story.close_call(call.id, "denied", f"The user refused this call.{said}")
        return
    _approve(story, question, "yes, for this run" if input.for_run else "yes")
    if input.for_run:
        story.tell(PermissionGranted(tool=call.name))
        for other in story.run.open_questions:
            if other.kind == "approval" and _call_of(story.run, other).name == call.name:
                _approve(story, other, "yes, for this run")


def _approve(story: Story, question: Question, answer: str) -> None:
    call = _call_of(story.run, question)
    story.tell(QuestionAnswered(question_id=question.id, answer=answer))
    story.tell(
        ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=question.agent)
    )


def _call_of(run: Run, question: Question) -> ToolCall:
    assert run.turn is not None, "only a turn parks calls"
    return next(c.call for c in run.turn.calls if c.call.id == question.call_id)


def _open_question(run: Run, question_id: str) -> Question | None:
    return next((q for q in run.open_questions if q.id == question_id), None)


def _file_changing(story: Story, input: FileChanging) -> None:
    """Record a write before it happens; of a call that nobody is owed any more, nothing is written."""
    call_id = input.key[2]
    turn = story.run.turn
    for open_call in () if turn is None else turn.calls:
        is_running = open_call.status in ("running", "stopping")
        if is_running and open_call.call.id == call_id and _is_owed(story.run, input.key):
            story.tell(
                FileWritten(
                    call_id=open_call.call.id,
                    path=input.path,
                    before=input.before,
                    after=input.after,
                )
            )


def _is_owed(run: Run, key: EffectKey) -> bool:
    return key == call_key(run, str(key[2]))


CRASHES = 5
"""Times in a row a run may take its process down without progress before it is suspended."""

CRASH_LOOP = "crash_loop"


def _recovered(story: Story, input: Recovered) -> None:
    """Take up a run that another process held. Nothing that may have happened is repeated.

    A `once` call that was in flight may have happened. Where it was being stopped the model is told
    so and hears the user's words next; else a person is asked first what became of it.
    """
    definition = input.definition
    if definition is not None and not misfit_of(story.run, definition):
        story.tell(DefinitionChanged(definition=definition))
    run, turn = story.run, story.run.turn
    for open_call in () if turn is None else turn.calls:
        is_in_flight = open_call.status in ("running", "stopping")
        if not is_in_flight or open_call.effect != "once" or turn is None:
            continue
        if run.phase == "halting":
            story.close_call(open_call.call.id, "unknown", steering.UNKNOWN)
        else:
            steering.ask_outcome(story, turn.agent, open_call.call)
    story.tell(RunRecovered(was_cut=input.was_cut))
    if story.run.crashes >= CRASHES and not story.run.suspended:
        story.tell(RunSuspended(reason=CRASH_LOOP))
