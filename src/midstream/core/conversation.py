"""A conversation as values: who said what, with which tool calls, and how an agent sees it.

One `Message` holds an assistant's words *and* its tool calls *and* their results. That makes two
promises structural instead of careful: trimming can never separate a call from its result, and a
history sent to a model always holds exactly one result for each call, in call order (providers
answer 400 to anything else, and the conversation would be broken for ever).

A context is shared by agents. `role` is the side of the conversation a message stands on; an agent
whose own side is `user` sees the two sides swapped (`seen_by`). Tool calls belong to their author:
the others see the words only.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core.append_only import Log, gathered
from midstream.core.pictures import LENGTH, Picture
from midstream.language.names import Json, Outcome

Side: TypeAlias = Literal["system", "user", "assistant"]

USER: Final = "@user"
"""The author of what a person typed. Every agent sees those words as the user's, on either side."""

SUMMARY: Final = "@summary"
"""The author of a message that stands for older turns. Every agent sees it as the user's words."""

NOTE: Final = "@note"
"""The author of what agents are told that nobody typed. Every agent sees it as the user's words."""

CHARS_PER_TOKEN: Final = 4
"""What an estimate takes for a token where no provider has counted: good within a third or so."""

GO_ON: Final = "Go on."
"""Said for the user before a reply that nobody asked for in words."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """What a model asked for: a tool and its arguments (a JSON object)."""

    id: str
    name: str
    arguments: dict[str, Json]


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What became of one call; `text` is what the model is told, and `pictures` it is shown.

    `trimmed` counts the characters that gave way to a mark in `text`.
    """

    call_id: str
    outcome: Outcome
    text: str
    pictures: tuple[Picture, ...] = ()
    trimmed: int = 0


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One turn of speech. `results` stand in the order of `calls`, one for each.

    `author` is the agent's name, `USER` for words a person typed while the workflow ran, "" for the
    workflow file and handlers.
    `interrupted` marks words that were cut while they streamed, `calling` names the tools that were just
    being asked for then. `pictures` are those its words mean.
    """

    role: Side
    text: str
    author: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    interrupted: bool = False
    calling: str = ""
    pictures: tuple[Picture, ...] = ()

    @property
    def all_pictures(self) -> tuple[Picture, ...]:
        """Return the pictures of its words and of its results."""
        return (*self.pictures, *(each for result in self.results for each in result.pictures))


def cut_words(calling: str) -> str:
    """Return how a reply that was cut has ended, in words: which tools it was asking for."""
    return f"interrupted while calling {calling}: not made" if calling else "interrupted"


def length(message: Message) -> int:
    """Return the size of a message in characters, calls, results and pictures included."""
    size = len(message.text) + LENGTH * len(message.all_pictures)
    for call in message.calls:
        size += len(call.name) + len(msgspec.json.encode(call.arguments))
    for result in message.results:
        size += len(result.text)
    return size


def tokens_in(characters: int) -> int:
    """Return how many tokens a text of so many characters has, as an estimate."""
    return -(-characters // CHARS_PER_TOKEN)


def trimmed(messages: Sequence[Message], max_length: int | None) -> Sequence[Message]:
    """Return the messages without the oldest non-system ones that exceed `max_length` characters.

    The newest message always stays, however long it is.
    """
    if max_length is None:
        return messages
    size = gathered(messages, length, _longer, 0)
    excess = size - max_length
    if excess <= 0:
        return messages
    kept: list[Message] = []
    for position, message in enumerate(messages):
        is_last = position == len(messages) - 1
        if excess > 0 and message.role != "system" and not is_last:
            excess -= length(message)
        else:
            kept.append(message)
    rest = Log(kept)
    # What is left is known: it need not be measured when the next message comes.
    rest.gathered(length, lambda *_: max_length + excess, 0)
    return rest


def _longer(size: int, messages: Sequence[Message]) -> int:
    """Return a size in characters with that of more messages."""
    return size + sum(map(length, messages))


_SWAPPED: dict[Side, Side] = {"user": "assistant", "assistant": "user", "system": "system"}


def seen_by(messages: Iterable[Message], *, agent: str, side: Side) -> tuple[Message, ...]:
    """Return the conversation as one agent sees it: its own words as `assistant`.

    Other agents' tool calls are left out; a message of theirs that held nothing else is left out
    whole. System messages stay as they are.
    """
    more = partial(_seen_too, agent=agent, side=side)
    return (*gathered(messages, (agent, side), more, Log[Message]()),)


def _seen_too(
    seen: Log[Message], messages: Sequence[Message], *, agent: str, side: Side
) -> Log[Message]:
    """Return what an agent sees of a conversation, with what it sees of more messages."""
    more = _seen(messages, agent, side)
    if not seen:
        return Log(more)
    for message in more:
        seen = seen.and_also(message)
    return seen


def _seen(messages: Iterable[Message], agent: str, side: Side) -> Iterator[Message]:
    for message in messages:
        is_swapped = side == "user" and message.author not in (USER, SUMMARY, NOTE)
        role = _SWAPPED[message.role] if is_swapped else message.role
        is_own = message.author == agent
        if not message.text and not (is_own and (message.calls or message.calling)):
            continue
        if is_own and message.calls:
            yield msgspec.structs.replace(message, role="assistant")
        elif message.calls or role != message.role:
            yield msgspec.structs.replace(message, role=role, calls=(), results=())
        else:
            yield message


def ends_open(messages: Sequence[Message]) -> bool:
    """Return whether the conversation ends with the assistant's plain words (nobody asked it on).

    Some providers refuse such a request, others complete the words instead of answering.
    """
    return bool(messages) and messages[-1].role == "assistant" and not messages[-1].calls
