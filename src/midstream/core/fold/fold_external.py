"""External agents: the sessions they keep, what they have yet to hear there, and the calls they make.

Such an agent remembers its conversation itself, so a prompt holds only what is new since. That is counted
from the end of the context, so that what is trimmed at its beginning changes nothing; where it cannot be
known exactly it is too much: told twice is better than not told.
"""

from msgspec.structs import replace

from midstream.core.conversation import ToolCall
from midstream.core.events import (
    AgentPrompted,
    AgentResponded,
    AgentStopped,
    AnyFact,
    ConversationCompacted,
    HandlerRan,
    ResultsTrimmed,
    ToolCalled,
)
from midstream.core.fold.fold_contexts import context_of, with_shown
from midstream.core.fold.fold_halts import held_if_due
from midstream.core.run import OpenCall, Run, Session, with_usage, with_visit


def session_began(run: Run, fact: AgentPrompted) -> Run:
    """Return the run with an external agent at work on a prompt."""
    known = run.sessions.get(fact.agent)
    messages = run.contexts[context_of(run, fact.agent)]
    unheard = len(messages) if fact.is_new or known is None else known.unheard
    session = Session(id=fact.session, run=fact.run, unheard=unheard, told=fact.told)
    assert run.visit.turn is not None
    turn = replace(run.visit.turn, prompted=True)
    return replace(with_visit(run, turn=turn), sessions={**run.sessions, fact.agent: session})


def called_itself(run: Run, fact: ToolCalled) -> Run:
    """Return the run with one more call that its external agent makes."""
    turn = run.visit.turn
    assert turn is not None
    assert fact.external is not None
    made = ToolCall(id=fact.call_id, name=fact.name, arguments=fact.arguments)
    call = OpenCall(call=made, effect=fact.external, status="running")
    run = with_usage(run, tool_calls=run.usage.tool_calls + 1)
    return with_visit(run, turn=replace(turn, external=(*turn.external, call)))


def stopped(run: Run, _: AgentStopped) -> Run:
    """Return the run that was halted with what its external agent had shown and done kept."""
    turn = run.visit.turn
    assert turn is not None
    run = with_shown(run, turn.agent, turn.text)
    run = with_visit(run, turn=replace(turn, prompted=False, external=(), text=""))
    return held_if_due(run)


def with_unheard(before: Run, after: Run, fact: AnyFact) -> Run:
    """Return the run after a fact with what that left its external agents to hear."""
    sessions = dict(after.sessions)
    for agent, session in after.sessions.items():
        spec = after.plan.agents.get(agent)
        context = "" if spec is None else spec.context
        messages = after.contexts.get(context)
        if messages is None:
            continue
        if _is_cleared(fact, context):
            del sessions[agent]
            continue
        unheard = session.unheard
        if isinstance(fact, AgentResponded) and fact.agent == agent and not fact.branch:
            turn = before.visit.turn
            if turn is not None and turn.prompted:
                unheard -= session.told
        elif messages is not before.contexts.get(context):
            unheard += _count(fact, context)
        unheard = min(max(unheard, 0), len(messages))
        if unheard != session.unheard:
            sessions[agent] = replace(session, unheard=unheard)
    return after if sessions == after.sessions else replace(after, sessions=sessions)


def _is_cleared(fact: AnyFact, context: str) -> bool:
    """Return whether a handler began the conversation anew: so does the agent."""
    changes = fact.contexts if isinstance(fact, HandlerRan) else ()
    return any(change.context == context and change.action == "clear" for change in changes)


def _count(fact: AnyFact, context: str) -> int:
    """Return how many messages a fact added to a context that it changed."""
    match fact:
        case HandlerRan(contexts=changes):
            return sum(change.context == context for change in changes)
        case ConversationCompacted() | ResultsTrimmed():
            return 0
        case _:
            return 1
