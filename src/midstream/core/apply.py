"""apply(run, fact): how things stand after one more fact. Live and on replay, the only way a run changes.

Nothing is judged here: a fact is true. What follows from it (the next fact) is `decide`'s to say;
what is owed because of it is `pending`'s.
"""

from typing import Literal, assert_never

from msgspec.structs import replace

from midstream.core.conversation import USER, Message, ToolCall, ToolResult, trimmed
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    AnswerRefused,
    AnyFact,
    ContextChange,
    DefinitionChanged,
    FileWritten,
    HandlerRan,
    InputDisposed,
    InputReceived,
    Interrupted,
    PermissionGranted,
    QuestionAnswered,
    QuestionAsked,
    QuestionSuperseded,
    ReplyCut,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunResumed,
    RunStarted,
    RunStopped,
    RunSuspended,
    StateTransition,
    ToolCalled,
    ToolReturned,
    WordsJoined,
    WorkflowOutput,
)
from midstream.core.names import REQUEST_USERS_INPUT, RESUME, START, STOP, Json, Phase
from midstream.core.question import Question
from midstream.core.run import (
    Correction,
    Cut,
    InputRecord,
    OpenCall,
    Response,
    Run,
    Turn,
    definition_of,
    plan_for,
)
from midstream.core.spec import Context, plan_of

RECEIVED = "received"
"""What the model is told of a parsing tool's call, should it see its own reply again."""

TURN_OVER = "Not run: the reply ended your turn."
"""What the model is told of a call it made beside a parsing tool's."""


def apply(run: Run, fact: AnyFact) -> Run:
    """Return the run after the fact. Total: every fact of the union has a case."""
    # The two facts of every transition count themselves in: a copy less on the path all runs take.
    if type(fact) is HandlerRan:
        return _handler_ran(run, fact)
    if type(fact) is StateTransition:
        return _entered(run, fact)
    if run.crashes and isinstance(fact, AgentResponded | ToolReturned | InputReceived):
        run = replace(run, crashes=0)
    return replace(_folded(run, fact), seq=run.seq + 1)


def _folded(run: Run, fact: AnyFact) -> Run:
    match fact:
        case HandlerRan() | StateTransition():
            return apply(run, fact)
        case AgentResponded():
            return _responded(run, fact)
        case ToolCalled():
            return _with_call(run, fact.call_id, status="running")
        case ToolReturned():
            return _returned(run, fact)
        case InputReceived():
            return _received(run, fact)
        case Interrupted():
            return _interrupted(run, fact)
        case InputDisposed():
            return _disposed(run, fact)
        case QuestionAsked():
            return _asked(run, fact)
        case QuestionAnswered():
            return _answered(run, fact)
        case QuestionSuperseded():
            return _closed(run, fact.question_id, "superseded")
        case WordsJoined():
            words = Message(role="user", text=fact.text, author=USER)
            return replace(run, contexts=_added(run, fact.context, words), is_heard=True)
        case ReplyCut():
            return _reply_cut(run, fact)
        case AgentFailed():
            return replace(_kept(run, fact.agent, fact.partial), turn=None, error=fact.error)
        case PermissionGranted():
            return replace(run, allowed=(*run.allowed, fact.tool))
        case AnswerRefused() | WorkflowOutput() | FileWritten():
            return run
        case RunRecovered():
            return replace(run, crashes=run.crashes + 1 if fact.was_cut else 0)
        case RunSuspended():
            return replace(run, suspended=fact.reason)
        case RunResumed():
            return replace(run, suspended="", crashes=0)
        case DefinitionChanged():
            return _redefined(run, fact)
        case RunStarted():
            return _started(run, fact)
        case RunFinished():
            return replace(run, status="finished", phase="ended", turn=None, output=fact.output)
        case RunFailed():
            return replace(run, status="failed", phase="ended", turn=None, error=fact.error)
        case RunStopped():
            return replace(run, status="stopped", phase="ended", turn=None)
        case _:
            assert_never(fact)


# --- states -----------------------------------------------------------------------------------


def _started(run: Run, fact: RunStarted) -> Run:
    workflow = fact.definition.workflow
    waits = workflow.start_condition == "on_user_input" and fact.input is None
    return replace(
        run,
        definition=fact.definition,
        plan=plan_of(workflow),
        phase="waiting" if waits else "leaving",
        chosen=START,
        contexts={context.name: starting_messages(context) for context in workflow.contexts},
        variables={**workflow.variables, **fact.variables},
        input=fact.input,
        allowed=fact.allowed,
        approvals=fact.approvals,
        workspace=fact.workspace,
    )


def _redefined(run: Run, fact: DefinitionChanged) -> Run:
    """Return the run under another definition; contexts it had keep their messages."""
    workflow = fact.definition.workflow
    fresh = {context.name: starting_messages(context) for context in workflow.contexts}
    return replace(
        run,
        definition=fact.definition,
        plan=plan_of(workflow),
        contexts={name: run.contexts.get(name, messages) for name, messages in fresh.items()},
        variables={**workflow.variables, **run.variables},
    )


def starting_messages(context: Context) -> tuple[Message, ...]:
    """Return the messages a context begins with."""
    return tuple(Message(role=m.role, text=m.content) for m in context.starting_messages)


def _entered(run: Run, fact: StateTransition) -> Run:
    target, plan = fact.target, plan_for(run)
    is_back = fact.resumes and bool(run.cuts)
    if is_back and run.cuts[-1].phase is not None:
        return _back_in(_at(run, target), run.cuts[-1], run.cuts[-1].phase)
    phase = "leaving" if target == STOP else plan.flow[target][""]
    state = plan.states[target]
    leaves_for = state.next if phase == "leaving" and target != STOP else None
    return replace(
        run,
        seq=run.seq + 1,
        step=run.step + 1,
        state=target,
        phase=phase,
        turn=Turn(agent=state.agent) if phase == "turn" and state.agent is not None else None,
        chosen=leaves_for,
        chosen_by="next" if leaves_for else "",
        halting_for="",
        visits={**run.visits, target: run.visits.get(target, 0) + 1},
        cuts=run.cuts[:-1] if is_back else run.cuts,
        crashes=0,
    )


def _at(run: Run, state: str) -> Run:
    """Return the run back in a state it was cut in, which is no new visit."""
    return replace(
        run,
        seq=run.seq + 1,
        step=run.step + 1,
        state=state,
        turn=None,
        chosen=None,
        chosen_by="",
        halting_for="",
        cuts=run.cuts[:-1],
    )


def _back_in(run: Run, cut: Cut, phase: Phase) -> Run:
    """Return the run where it was cut. It is the same visit to the state, and the same turn."""
    run = _in_phase(replace(run, last_response=cut.last_response), phase)
    return run if run.turn is None else replace(run, turn=replace(run.turn, request=cut.request))


def _in_phase(run: Run, phase: Phase) -> Run:
    state = plan_for(run).states[run.state]
    if phase == "turn":
        assert state.agent is not None
        return replace(run, phase=phase, turn=Turn(agent=state.agent))
    if phase == "leaving" and run.chosen is None:
        return replace(run, phase=phase, chosen=state.next, chosen_by="next" if state.next else "")
    return replace(run, phase=phase)


def _after(run: Run, phase: Phase) -> Run:
    """Return the run in the phase that follows `phase` in its state."""
    return _in_phase(run, plan_for(run).flow[run.state][phase])


def _handler_ran(run: Run, fact: HandlerRan) -> Run:
    common_data = run.common_data
    if fact.changed or fact.removed:
        common_data = {**common_data, **fact.changed}
        for key in fact.removed:
            common_data.pop(key, None)
    plan = plan_for(run)
    phase, state = plan.flow[run.state][run.phase], plan.states[run.state]
    chosen, chosen_by = fact.chosen, "" if fact.chosen is None else fact.handler
    if phase == "leaving" and chosen is None and state.next is not None:
        chosen, chosen_by = state.next, "next"
    return replace(
        run,
        seq=run.seq + 1,
        phase=phase,
        turn=Turn(agent=state.agent) if phase == "turn" and state.agent is not None else None,
        common_data=common_data,
        variables={**run.variables, **fact.variables} if fact.variables else run.variables,
        contexts=_changed_contexts(run, fact.contexts) if fact.contexts else run.contexts,
        is_heard=True,
        chosen=chosen,
        chosen_by=chosen_by,
        crashes=0,
    )


def _changed_contexts(
    run: Run, changes: tuple[ContextChange, ...]
) -> dict[str, tuple[Message, ...]]:
    contexts = run.contexts
    for change in changes:
        if change.action == "clear":
            cleared = starting_messages(plan_for(run).contexts[change.context])
            contexts = {**contexts, change.context: cleared}
        else:
            message = Message(role=change.role, text=change.text)
            contexts = _added(replace(run, contexts=contexts), change.context, message)
    return contexts


# --- the agent's turn -------------------------------------------------------------------------


def _responded(run: Run, fact: AgentResponded) -> Run:
    assert run.turn is not None
    usages = run.usages if fact.usage is None else (*run.usages, (fact.agent, fact.usage))
    run = replace(run, usages=usages, calls_made=run.calls_made + len(fact.calls))
    if fact.is_final:
        return _turn_ended(run, fact)
    turn = replace(run.turn or Turn(agent=fact.agent), text=fact.text)
    if fact.problem:
        turn = replace(turn, misses=turn.misses + 1)
    if fact.problem and not fact.calls:
        context = run.contexts[_context_of(run, fact.agent)]
        correction = Correction(
            text=fact.text, problem=fact.problem, after=context[-1] if context else None
        )
        corrections = (*turn.corrections, correction)
        turn = replace(turn, request=turn.request + 1, text="", corrections=corrections)
    tools = definition_of(run).tools
    calls = tuple(
        OpenCall(call=call, effect=tools[call.name].effect if call.name in tools else "read")
        for call in fact.calls
    )
    return replace(run, turn=replace(turn, calls=calls))


def _turn_ended(run: Run, fact: AgentResponded) -> Run:
    """Return the run after a turn's last reply; beside a parsing tool's call no other call runs."""
    role = definition_of(run).roles[plan_for(run).agents[fact.agent].agent_role]
    parsed = tuple(c for c in fact.calls if any(c.name == tool.name for tool in role.parsingTools))
    if plan_for(run).states[run.state].post_handler is None:
        results = tuple(
            ToolResult(call_id=call.id, outcome="completed", text=RECEIVED)
            if call in parsed
            else ToolResult(call_id=call.id, outcome="not_run", text=TURN_OVER)
            for call in fact.calls
        )
        message = _spoken(run, fact.agent, fact.text, calls=fact.calls, results=results)
        run = replace(run, contexts=_added(run, _context_of(run, fact.agent), message))
    response = Response(agent=fact.agent, text=fact.text, calls=parsed)
    return _after(replace(run, turn=None, last_response=response), "turn")


def _returned(run: Run, fact: ToolReturned) -> Run:
    run = _with_call(run, fact.call_id, status="done", outcome=fact.outcome, result=fact.result)
    turn = run.turn
    assert turn is not None
    if any(call.status != "done" for call in turn.calls):
        return run
    message = _spoken(
        run,
        turn.agent,
        turn.text,
        calls=tuple(call.call for call in turn.calls),
        results=tuple(
            ToolResult(call_id=call.call.id, outcome=call.outcome, text=call.result)
            for call in turn.calls
        ),
    )
    run = replace(
        run,
        contexts=_added(run, _context_of(run, turn.agent), message),
        turn=replace(turn, request=turn.request + 1, text="", calls=()),
    )
    return _held_if_due(run)


def _reply_cut(run: Run, fact: ReplyCut) -> Run:
    assert run.turn is not None
    kept = _kept(run, fact.agent, fact.partial)
    return replace(kept, turn=replace(run.turn, request=run.turn.request + 1))


def _with_call(run: Run, call_id: str, **changes: Json) -> Run:
    assert run.turn is not None
    calls = tuple(
        replace(call, **changes) if call.call.id == call_id else call for call in run.turn.calls
    )
    return replace(run, turn=replace(run.turn, calls=calls))


# --- questions --------------------------------------------------------------------------------


def _asked(run: Run, fact: QuestionAsked) -> Run:
    question = Question(
        id=fact.question_id,
        number=fact.number,
        kind=fact.kind,
        text=fact.text,
        agent=fact.agent,
        call_id=fact.call_id,
        choices=fact.choices,
        schema=fact.schema,
    )
    run = replace(
        run,
        questions=(*run.questions, question),
        open_questions=(*run.open_questions, question),
        last_number=max(run.last_number, fact.number),
    )
    return _with_call(run, fact.call_id, status="parked") if fact.call_id else run


def _answered(run: Run, fact: QuestionAnswered) -> Run:
    question = next(q for q in run.open_questions if q.id == fact.question_id)
    run = _closed(run, fact.question_id, "answered")
    if question.kind != "input":
        return run
    if run.state == "":
        return replace(run, input=fact.answer, phase="leaving", chosen=START)
    return _after(run, "waiting")


def _closed(run: Run, question_id: str, status: Literal["answered", "superseded"]) -> Run:
    # Open questions are near the end: looking from there keeps long chats cheap.
    questions = list(run.questions)
    place = next(n for n in reversed(range(len(questions))) if questions[n].id == question_id)
    questions[place] = replace(questions[place], status=status)
    still_open = tuple(q for q in run.open_questions if q.id != question_id)
    return replace(run, questions=tuple(questions), open_questions=still_open)


# --- the user's words, and halting --------------------------------------------------------------


def _received(run: Run, fact: InputReceived) -> Run:
    record = InputRecord(
        id=fact.input_id, text=fact.text, handling=fact.handling, reason=fact.reason
    )
    times = run.interrupted_at if fact.at is None else (*run.interrupted_at[-9:], fact.at)
    return replace(
        run,
        inbox={**run.inbox, fact.input_id: record},
        undelivered=(*run.undelivered, record),
        interrupted_at=times,
    )


def _disposed(run: Run, fact: InputDisposed) -> Run:
    known = run.inbox[fact.input_id]
    record = replace(known, disposition=fact.disposition, reason=fact.reason or known.reason)
    return replace(
        run,
        inbox={**run.inbox, fact.input_id: record},
        undelivered=tuple(r for r in run.undelivered if r.id != fact.input_id),
    )


def _interrupted(run: Run, fact: Interrupted) -> Run:
    common_data, cuts, state = dict(run.common_data), run.cuts, run.interrupted_state
    if fact.epoch != run.epoch:
        cuts = _cuts_after(run, fact)
        state = cuts[-1].state if cuts else fact.state
        run = _stopping(_kept(run, fact.agent, fact.partial))
        common_data["interrupted_state"] = state
        common_data["interrupted_text"] = fact.partial
    if fact.text is not None:
        common_data["resume_input"] = fact.text
    run = replace(
        run,
        common_data=common_data,
        cuts=cuts,
        interrupted_state=state,
        resume_input=run.resume_input if fact.text is None else fact.text,
        is_heard=run.is_heard and fact.text is None,
        epoch=fact.epoch,
        phase="halting",
        halting_for=fact.leads_to,
        stop_reason=fact.reason,
    )
    return _held_if_due(run)


def _cuts_after(run: Run, fact: Interrupted) -> tuple[Cut, ...]:
    """Return the cuts with this halt's on top.

    A halt of `resume` adds none: the halt enters `resume` anew with the new words, and going back
    into it afterwards would do its work twice.
    """
    if fact.state == RESUME or (fact.resumes and run.cuts):
        return run.cuts
    phase = run.phase if fact.state == run.state and run.phase != "leaving" else None
    turn = run.turn or Turn(agent="")
    cut = Cut(
        state=fact.state,
        phase=phase,
        request=turn.request + bool(turn.calls),
        last_response=run.last_response,
    )
    if not run.cuts:
        return (cut,)
    known = [earlier.state for earlier in run.cuts]
    below = run.cuts[: known.index(fact.state)] if fact.state in known else run.cuts
    return (*below, cut)


def _stopping(run: Run) -> Run:
    """Return the run with its running `once` calls marked as being stopped."""
    if run.turn is None or not run.turn.calls:
        return run
    calls = tuple(
        replace(call, status="stopping")
        if call.status == "running" and call.effect == "once"
        else call
        for call in run.turn.calls
    )
    return replace(run, turn=replace(run.turn, calls=calls))


def _held_if_due(run: Run) -> Run:
    if run.phase != "halting" or run.halting_for != "hold":
        return run
    if run.turn is not None and run.turn.calls:
        return run
    return replace(run, phase="held", turn=None)


def _kept(run: Run, agent: str, partial: str) -> Run:
    """Return the run with the words an agent had shown kept in its context, marked interrupted."""
    if not agent or not partial:
        return run
    spec = plan_for(run).agents[agent]
    words = Message(role=spec.role, text=partial, author=agent, interrupted=True)
    return replace(run, contexts=_added(run, spec.context, words))


# --- contexts ---------------------------------------------------------------------------------


def _spoken(
    run: Run,
    agent: str,
    text: str,
    *,
    calls: tuple[ToolCall, ...] = (),
    results: tuple[ToolResult, ...] = (),
) -> Message:
    side = plan_for(run).agents[agent].role
    return Message(role=side, text=text, author=agent, calls=calls, results=results)


def _context_of(run: Run, agent: str) -> str:
    return plan_for(run).agents[agent].context


def _added(run: Run, context: str, message: Message) -> dict[str, tuple[Message, ...]]:
    spec = plan_for(run).contexts[context]
    return {**run.contexts, context: trimmed((*run.contexts[context], message), spec.max_length)}


def resume_target(run: Run) -> str:
    """Return the state a halt leads to: `resume` where the workflow has one, else `start`."""
    return RESUME if RESUME in plan_for(run).states else START


def is_question_call(call: OpenCall) -> bool:
    """Return whether the call is the one tool that a person answers."""
    return call.call.name == REQUEST_USERS_INPUT
