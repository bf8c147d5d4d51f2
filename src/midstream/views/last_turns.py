"""The last turns of a conversation, for a person who comes back to it. Pure."""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from midstream.core.append_only import latest
from midstream.core.conversation import SUMMARY, USER, Message
from midstream.core.run import Run
from midstream.views.user_turns import begins_turn


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
    """The last turns, `count` that words began. `is_all`: there are none before them.

    `summary`: what stands for still older ones, "" for none.
    """

    turns: tuple[PastTurn, ...]
    count: int
    is_all: bool = True
    summary: str = ""


LINES_LOOKED_AT = 250
"""Of the last lines of the person it is known whether they joined a turn: more than a few turns have."""


def past_of(run: Run, *, most: int) -> Past:
    """Return the last turns of a run's longest conversation, the oldest of them first.

    It is looked through from its end: what they cost does not grow with it.
    """
    messages: Sequence[Message] = max(run.contexts.values(), key=len, default=())
    spoken = (m for m in reversed(messages) if m.role != "system" and m.author != SUMMARY)
    joined = _joined(run)
    turns: list[PastTurn] = []
    said: list[Message] = []
    count = 0
    for message in spoken:
        if message.author != USER:
            said.insert(0, message)
            continue
        turns.insert(0, _turn(message.text, said, joins=message.text in joined))
        said, count = [], count + (not turns[0].joins)
        if count == most:
            break
    if said:
        turns.insert(0, _turn("", said))
    elif turns and turns[0].joins:
        turns[0] = msgspec.structs.replace(turns[0], joins=False)  # there is none before it to join
    first = next((m for m in messages if m.role != "system"), None)
    return Past(
        turns=tuple(turns),
        count=sum(not turn.joins for turn in turns),
        is_all=next(spoken, None) is None,
        summary=first.text if first is not None and first.author == SUMMARY else "",
    )


def _joined(run: Run) -> frozenset[str]:
    """Return the words that joined a turn under way."""
    return frozenset(
        record.text
        for record in islice(latest(run.inbox.lines), LINES_LOOKED_AT)
        if record.disposition and not begins_turn(record.disposition, answers=False)
    )


def _turn(words: str, messages: Iterable[Message], *, joins: bool = False) -> PastTurn:
    said: tuple[Said, ...] = ()
    for message in messages:
        said = _with(said, message)
    return PastTurn(words=words, said=said, joins=joins)


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
