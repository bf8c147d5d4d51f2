"""Old results of tools that give way to a mark, before a summary takes the place of whole turns.

What a tool said long ago is most of a long chat, and can mostly be had again. So where a model's window is
nearly full the largest results of the older turns go first, as many as it takes, by one fact. It
says up to which message and from which length on; so whoever folds it, after a crash or in a fork, sends
the very same bytes. The facts before it hold everything: who goes back to them has it again.

Each trimming costs the provider's cache from there on. So it frees much at once, or nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from midstream.core.conversation import CHARS_PER_TOKEN, Message, ToolResult
from midstream.core.events import ResultsTrimmed
from midstream.core.pictures import LENGTH
from midstream.core.run import Run, definition_of
from midstream.core.summaries import KEPT_TURNS, tokens_of, turns_of, wanted

LEAST: Final = 1_000
"""Characters of the shortest result that gives way: a mark is hardly shorter than the others."""

_HEAD: Final = 160
"""Characters of a result's first line that stay: what it was, or how it ended."""

_MARK: Final = 2 * _HEAD
"""About how many characters stand in the place of a result."""


def trimming(run: Run, room: int) -> ResultsTrimmed | None:
    """Return the fact that frees about so many tokens, None where old results do not hold as many."""
    found = wanted(run)
    if found is None or room <= 0:
        return None
    agent, context, _ = found
    messages = run.contexts[context]
    begins = turns_of(messages, agent)
    count = begins[-KEPT_TURNS] if len(begins) > KEPT_TURNS else 0
    sizes = sorted((size for size in map(_gain, _results(messages[:count])) if size), reverse=True)
    freed, least = 0, 0
    for size in sizes:
        if freed >= room * CHARS_PER_TOKEN:
            break
        freed, least = freed + size - _MARK, size
    if freed < room * CHARS_PER_TOKEN:
        return None
    fact = ResultsTrimmed(
        agent=agent,
        context=context,
        count=count,
        least=least,
        results=sum(size >= least for size in sizes),
        room=room,
        tokens_before=tokens_of(messages),
        tokens_after=0,
    )
    return replace(fact, tokens_after=tokens_of(trimmed(run, fact)))


def trimmed(run: Run, fact: ResultsTrimmed) -> tuple[Message, ...]:
    """Return the messages of the fact's context with marks in the place of what it is about."""
    messages = run.contexts[fact.context]
    return (
        *(_with_marks(run, message, fact.least) for message in messages[: fact.count]),
        *messages[fact.count :],
    )


def _results(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in messages:
        yield from message.results


def _gain(result: ToolResult) -> int:
    """Return how many characters are taken out of a result that gives way, 0 of one that does not."""
    size = len(result.text) + LENGTH * len(result.pictures)
    return 0 if result.trimmed or size < LEAST else size


def _with_marks(run: Run, message: Message, least: int) -> Message:
    if not any(_gain(result) >= least for result in message.results):
        return message
    results = tuple(
        _marked(run, call.name, result) if _gain(result) >= least else result
        for call, result in zip(message.calls, message.results, strict=True)
    )
    return replace(message, results=results)


def _marked(run: Run, name: str, result: ToolResult) -> ToolResult:
    """Return a result as its beginning, and a mark that says how the rest can be had again."""
    spec = definition_of(run).tools.get(name)
    again = f"Call {name} again to see it as it is now."
    if spec is None or spec.effect != "read":
        again = f"The user has it in the journal; call {name} again only if that does no harm."
    first = result.text.partition("\n")[0][:_HEAD]
    left_out = len(result.text) - len(first)
    what = f"{left_out:,} characters"
    if result.pictures:
        shown = len(result.pictures)
        what += f" and {shown} picture{'' if shown == 1 else 's'}"
    mark = f"[{what} of this result were taken out to make room. {again}]"
    return replace(result, text=f"{first}\n{mark}", pictures=(), trimmed=max(left_out, 1))
