"""Turns: an agent's replies, its tool calls and how they end."""

from msgspec.structs import replace

from midstream.core.background import TASKS, TERMINAL, after_call
from midstream.core.call_notes import added_words
from midstream.core.conversation import Message, Side, ToolResult
from midstream.core.events import (
    AgentResponded,
    HookRan,
    Prompted,
    ReplyCut,
    ReplyShown,
    ToolEnded,
    ToolReturned,
)
from midstream.core.fold.fold_contexts import (
    added,
    context_of,
    own_calls,
    spoken,
    with_shown,
    with_used,
)
from midstream.core.fold.fold_halts import held_if_due
from midstream.core.fold.fold_states import after_phase, saved
from midstream.core.pictures import Picture, pictures_in
from midstream.core.proposal import steps_to_do
from midstream.core.run import (
    Correction,
    OpenCall,
    Response,
    Run,
    Turn,
    definition_of,
    with_halt,
    with_usage,
    with_visit,
)
from midstream.core.todo import LIST_TOOL, Todo, kept_items
from midstream.language.names import PROPOSE_PLAN, REQUEST_USERS_INPUT, Json
from midstream.language.plan import parsing_tools

RECEIVED = "received"
"""What the model is told of a parsing tool's call, should it see its own reply again."""

TURN_OVER = "Not run: the reply ended your turn."
"""What the model is told of a call it made beside a parsing tool's."""


def responded(run: Run, fact: AgentResponded) -> Run:
    """Return the run after a model's reply."""
    turn = run.visit.turn
    assert turn is not None
    run = with_used(run, fact.agent, fact.usage)
    run = with_usage(run, calls_made=run.usage.calls_made + len(fact.calls))
    if fact.is_final:
        return _turn_ended(run, fact)
    turn = replace(
        turn,
        text=fact.text,
        shown="",
        so_far=None,
        calling="",
        breaks=0,
        prompted=False,
        external=(),
    )
    if fact.problem:
        turn = replace(turn, misses=turn.misses + 1)
    if fact.problem and not fact.calls:
        context = run.contexts[context_of(run, fact.agent)]
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
    return with_visit(run, turn=replace(turn, calls=calls))


def _turn_ended(run: Run, fact: AgentResponded) -> Run:
    """Return the run after a turn's last reply; beside a parsing tool's call no other call runs."""
    role = definition_of(run).roles[run.plan.agents[fact.agent].agent_role]
    state = run.plan.states[run.visit.state]
    names = [tool.name for tool in parsing_tools(role, state)]
    parsed = tuple(call for call in fact.calls if call.name in names)
    done, ended = own_calls(run)
    if state.post_handler is None:
        results = tuple(
            ToolResult(call_id=call.id, outcome="completed", text=RECEIVED)
            if call in parsed
            else ToolResult(call_id=call.id, outcome="not_run", text=TURN_OVER)
            for call in fact.calls
        )
        message = spoken(
            run, fact.agent, fact.text, calls=(*done, *fact.calls), results=(*ended, *results)
        )
        run = replace(run, contexts=added(run, context_of(run, fact.agent), message))
    value: Json = parsed[0].arguments if parsed else fact.text
    if parsed and state.output_schema is not None and state.output_schema.get("type") != "object":
        value = parsed[0].arguments.get("value")
    response = Response(agent=fact.agent, text=fact.text, calls=parsed, value=value)
    run = replace(with_visit(run, turn=None, last_response=response), error="")
    run = saved(run, value)
    return after_phase(run, "turn")


def prompted(run: Run, fact: Prompted) -> Run:
    """Return the run with the prompt put to the agent, from the other side of its conversation."""
    spec = run.plan.agents[fact.agent]
    side: Side = "user" if spec.role == "assistant" else "assistant"
    words = Message(role=side, text=fact.text, pictures=pictures_in(fact.text, run.pictures))
    run = replace(run, contexts=added(run, spec.context, words))
    return run if run.visit.turn is None else _with_turn(run, is_prompted=True)


def returned(run: Run, fact: ToolReturned) -> Run:
    """Return the run after a tool call ended; after the last of a reply the turn goes on."""
    run = with_call(
        run,
        fact.call_id,
        status="done",
        outcome=fact.outcome,
        result=fact.result,
        pictures=fact.pictures,
    )
    turn = run.visit.turn
    assert turn is not None
    if not any(call.call.id == fact.call_id for call in turn.calls):
        return run  # an external agent's own: it goes on itself
    if fact.name in (TERMINAL, TASKS) and fact.outcome == "completed":
        made = next(call for call in turn.calls if call.call.id == fact.call_id)
        begun = after_call(run.background, made, turn.agent, fact.result)
        run = run if begun is run.background else replace(run, background=begun)
    if fact.below:
        context = context_of(run, turn.agent)
        told = {**run.below.get(context, {}), **fact.below}
        run = replace(run, below={**run.below, context: told})
    if fact.name in (LIST_TOOL, PROPOSE_PLAN) and fact.outcome == "completed":
        run = _with_todo(run, turn, fact.call_id)
    if not turn.agent or any(call.status != "done" for call in turn.calls):
        return _call_ended(run) if not turn.agent else run
    message = spoken(
        run,
        turn.agent,
        turn.text,
        calls=tuple(call.call for call in turn.calls),
        results=tuple(
            ToolResult(
                call_id=call.call.id,
                outcome=call.outcome,
                text=call.result,
                pictures=call.pictures,
            )
            for call in turn.calls
        ),
    )
    run = replace(run, contexts=added(run, context_of(run, turn.agent), message))
    return held_if_due(_with_turn(run, request=turn.request + 1, text="", calls=()))


def _with_todo(run: Run, turn: Turn, call_id: str) -> Run:
    """Return the run with the list that a call of `todo` kept, or the steps of an approved plan."""
    made = next(call for call in turn.calls if call.call.id == call_id)
    if made.call.name == LIST_TOOL:
        items = kept_items(made.arguments)
    else:
        items = steps_to_do(made.arguments)
        # What it was told last says which mode it is now.
        modes = {c: mode for c, mode in run.modes.items() if c != context_of(run, turn.agent)}
        run = replace(run, modes=modes)
    return run if items is None else replace(run, todo=Todo(items=items, agent=turn.agent))


def _call_ended(run: Run) -> Run:
    """Return the run after its state's own call ended. What it came to is judged by `decide`."""
    assert run.visit.turn is not None
    call = run.visit.turn.calls[0]
    if run.visit.phase != "halting" or call.status != "done" or call.outcome == "completed":
        return run
    is_unsure = call.effect == "once" and call.outcome in ("unknown", "stopped")
    if is_unsure and run.halt.leads_to == "trouble" and run.visit.trouble is not None:
        run = with_visit(run, trouble=replace(run.visit.trouble, is_unsure=True))
    elif is_unsure and run.halt.cuts and run.halt.cuts[-1].state == run.visit.state:
        # It may have had its effect: going back there, a person is asked first.
        *below, cut = run.halt.cuts
        run = with_halt(run, cuts=(*below, replace(cut, turn=run.visit.turn)))
    return held_if_due(with_visit(run, turn=None))


def reply_cut(run: Run, fact: ReplyCut) -> Run:
    """Return the run with the reply cut, and the next request owed."""
    assert run.visit.turn is not None
    kept = with_shown(run, fact.agent, fact.partial, fact.calling)
    kept = with_used(kept, fact.agent, fact.usage)
    request = run.visit.turn.request if fact.recovered else run.visit.turn.request + 1
    breaks = run.visit.turn.breaks + bool(fact.reason)
    return _with_turn(
        kept,
        request=request,
        shown="",
        so_far=None,
        calling="",
        breaks=breaks,
        prompted=False,
        external=(),
    )


def reply_shown(run: Run, fact: ReplyShown) -> Run:
    """Return the run with more of the reply that streams known to have been seen."""
    assert run.visit.turn is not None
    turn = run.visit.turn
    so_far, calling = fact.so_far or turn.so_far, fact.calling or turn.calling
    return _with_turn(run, shown=turn.shown + fact.text, so_far=so_far, calling=calling)


def hooked(run: Run, fact: HookRan) -> Run:
    """Return the run with what a hook had to say of one of its calls."""
    turn = run.visit.turn
    calls = () if turn is None else turn.calls
    call = next((each for each in calls if each.call.id == fact.call_id), None)
    if call is None:
        return run
    arguments = call.hooked if fact.arguments is None else fact.arguments
    words = (added_words(fact),) if fact.added else ()
    return with_call(run, fact.call_id, hooked=arguments, added=(*call.added, *words))


def with_call(
    run: Run, call_id: str, **changes: Json | tuple[str | Picture, ...] | ToolEnded
) -> Run:
    """Return the run with something changed of one of its open calls."""
    turn = run.visit.turn
    assert turn is not None
    for name, calls in (("calls", turn.calls), ("external", turn.external)):
        if any(call.call.id == call_id for call in calls):
            changed = (
                replace(call, **changes) if call.call.id == call_id else call for call in calls
            )
            return _with_turn(run, **{name: tuple(changed)})
    return run


def _with_turn(run: Run, **changes: object) -> Run:
    """Return the run with something changed of the turn under way."""
    assert run.visit.turn is not None
    return with_visit(run, turn=replace(run.visit.turn, **changes))


def is_question_call(call: OpenCall) -> bool:
    """Return whether the call is the one tool that a person answers."""
    return call.call.name == REQUEST_USERS_INPUT
