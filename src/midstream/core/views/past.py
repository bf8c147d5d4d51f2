"""The last turns of a conversation, for a person who comes back to it. Pure."""

from collections.abc import Sequence

import msgspec

from midstream.core.conversation import SUMMARY, USER, Message
from midstream.core.run import Run
from midstream.core.views.turns import begins_turn


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent said in a turn, and how many tools it called on the way."""

    agent: str
    text: str
    calls: int = 0
    interrupted: bool = False


class PastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Words of the person and what came of them. `words` are "" where nobody asked.

    `joins`: they joined the turn before, and are none of their own.
    """

    words: str
    said: tuple[Said, ...] = ()
    joins: bool = False


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The last of `count` turns. `summary`: what stands for still older ones, "" for none."""

    turns: tuple[PastTurn, ...]
    count: int
    summary: str = ""


def past_of(run: Run, *, most: int) -> Past:
    """Return the last turns of a run's longest conversation, the oldest of them first."""
    messages: Sequence[Message] = max(run.contexts.values(), key=len, default=())
    summary = next((m.text for m in messages if m.author == SUMMARY), "")
    turns: list[PastTurn] = []
    joined = _joined(run)
    for message in messages:
        if message.role == "system" or message.author == SUMMARY:
            continue
        if message.author == USER:
            turns.append(PastTurn(words=message.text, joins=bool(turns) and message.text in joined))
            continue
        last = turns.pop() if turns else PastTurn(words="")
        turns.append(msgspec.structs.replace(last, said=_with(last.said, message)))
    begun = [number for number, turn in enumerate(turns) if not turn.joins]
    first = begun[-most] if len(begun) > most else 0
    return Past(turns=tuple(turns[first:]), count=len(begun), summary=summary)


def _joined(run: Run) -> frozenset[str]:
    """Return the words that joined a turn under way."""
    return frozenset(
        record.text
        for record in run.inbox.values()
        if record.disposition and not begins_turn(record.disposition, answers=False)
    )


def _with(said: tuple[Said, ...], message: Message) -> tuple[Said, ...]:
    """Return what was said with one message more; what only called tools counts with what follows."""
    calls = len(message.calls)
    if said and said[-1].agent == message.author and not said[-1].text.strip():
        calls, said = calls + said[-1].calls, said[:-1]
    new = Said(
        agent=message.author or message.role,
        text=message.text,
        calls=calls,
        interrupted=message.interrupted,
    )
    return (*said, new)
