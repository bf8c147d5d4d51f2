"""Contexts: what joins a conversation, and from whose side."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from midstream.core.append_only import logged
from midstream.core.conversation import Message, ToolCall, ToolResult, trimmed
from midstream.core.events import (
    CompactionBegan,
    CompactionEnded,
    ContextChange,
    ConversationCompacted,
    Usage,
)
from midstream.core.pictures import pictures_in
from midstream.core.run import Compacting, Run, with_usage
from midstream.core.summaries import compacted
from midstream.language.spec import Context


@lru_cache(maxsize=64)
def starting_messages(context: Context) -> tuple[Message, ...]:
    """Return the messages a context begins with: the same in all runs of a workflow."""
    return tuple(Message(role=m.role, text=m.content) for m in context.starting_messages)


def with_changes(run: Run, changes: tuple[ContextChange, ...]) -> dict[str, Sequence[Message]]:
    """Return the contexts after what a handler did to them."""
    contexts = run.contexts
    for change in changes:
        if change.action == "clear":
            cleared = starting_messages(run.plan.contexts[change.context])
            contexts = {**contexts, change.context: cleared}
        else:
            shown = pictures_in(change.text, run.pictures)
            message = Message(role=change.role, text=change.text, pictures=shown)
            contexts = added(replace(run, contexts=contexts), change.context, message)
    return contexts


def with_shown(run: Run, agent: str, partial: str, calling: str = "") -> Run:
    """Return the run with the words an agent had shown kept in its context, marked interrupted."""
    calls, results = own_calls(run)
    if not agent or not (partial or calls or calling):
        return run
    spec = run.plan.agents[agent]
    words = Message(
        role=spec.role,
        text=partial,
        author=agent,
        calls=calls,
        results=results,
        interrupted=True,
        calling=calling,
    )
    return replace(run, contexts=added(run, spec.context, words))


def with_used(run: Run, agent: str, usage: Usage | None) -> Run:
    """Return the run with what a request used, if that is known."""
    if usage is None:
        return run
    return with_usage(run, requests=logged(run.usage.requests, (agent, usage)))


def own_calls(run: Run) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
    """Return the calls that an external agent has made itself in its turn, and what became of them."""
    made = () if run.visit.turn is None else run.visit.turn.external
    if not made:
        return (), ()
    results = (
        ToolResult(call_id=call.call.id, outcome=call.outcome, text=call.result) for call in made
    )
    return tuple(call.call for call in made), tuple(results)


def spoken(
    run: Run,
    agent: str,
    text: str,
    *,
    calls: tuple[ToolCall, ...] = (),
    results: tuple[ToolResult, ...] = (),
) -> Message:
    """Return what an agent said as a message of its side."""
    side = run.plan.agents[agent].role
    return Message(role=side, text=text, author=agent, calls=calls, results=results)


def context_of(run: Run, agent: str) -> str:
    """Return the name of the context an agent speaks in."""
    return run.plan.agents[agent].context


def added(run: Run, context: str, message: Message) -> dict[str, Sequence[Message]]:
    """Return the contexts with one more message in one of them, its oldest trimmed."""
    spec = run.plan.contexts[context]
    return {
        **run.contexts,
        context: trimmed(logged(run.contexts[context], message), spec.max_length),
    }


# --- summaries under way, and in the place of what they were made of -------------------------


BY_SUMMARY = "(summary)"
"""Whom the cost of a summary is told of: it is no request of the agent's turns."""


def summary_began(run: Run, fact: CompactionBegan) -> Run:
    """Return the run with a summary owed."""
    under_way = Compacting(
        number=run.compactions + 1,
        agent=fact.agent,
        context=fact.context,
        replaced=tuple(run.contexts[fact.context][: fact.count]),
        note=fact.note,
    )
    return replace(run, compacting=under_way, compactions=run.compactions + 1)


def summary_ended(run: Run, fact: CompactionEnded | ConversationCompacted) -> Run:
    """Return the run after a summary, with it in the conversation if there is one."""
    run = replace(with_used(run, BY_SUMMARY, fact.usage), compacting=None)
    if isinstance(fact, CompactionEnded):
        return run
    messages = compacted(run.contexts[fact.context], fact.count, fact.summary)
    # What the summary was made of may have been all that told the agent of the mode, and of folders.
    modes = {context: mode for context, mode in run.modes.items() if context != fact.context}
    below = {context: told for context, told in run.below.items() if context != fact.context}
    return replace(run, contexts={**run.contexts, fact.context: messages}, modes=modes, below=below)
