"""Summaries under way, and in the place of what they were made of."""

from msgspec.structs import replace

from midstream.core.append_only import logged
from midstream.core.events import CompactionBegan, CompactionEnded, ConversationCompacted
from midstream.core.run import Compacting, Run, with_usage
from midstream.core.summaries import compacted

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
    requests = run.usage.requests
    if fact.usage is not None:
        requests = logged(requests, (BY_SUMMARY, fact.usage))
    run = replace(with_usage(run, requests=requests), compacting=None)
    if isinstance(fact, CompactionEnded):
        return run
    messages = compacted(run.contexts[fact.context], fact.count, fact.summary)
    return replace(run, contexts={**run.contexts, fact.context: messages})
