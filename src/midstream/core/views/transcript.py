"""A conversation as text a person reads."""

from collections.abc import Iterable, Iterator

import msgspec

from midstream.core.conversation import SUMMARY, USER, Message

_INDENT = "    "


def transcript(messages: Iterable[Message], *, max_result: int = 500) -> str:
    """Return the messages in order, each under its speaker's name, tool calls below the words.

    A result longer than `max_result` characters is shortened, and says by how much. Foreign text
    stands as it is: sanitize before drawing.
    """
    return "\n\n".join("\n".join(_lines(message, max_result)) for message in messages)


def speaker(message: Message) -> str:
    """Return who said it: the agent's name, `you` for typed words, else the side it stands on."""
    if message.author == USER:
        return "you"
    if message.author == SUMMARY:
        return "summary"
    return message.author or message.role


def _lines(message: Message, max_result: int) -> Iterator[str]:
    cut = " (interrupted)" if message.interrupted else ""
    yield f"{speaker(message)}{cut}:"
    if message.text:
        yield from _indented(message.text)
    for call, result in zip(message.calls, message.results, strict=True):
        yield f"{_INDENT}-> {call.name} {msgspec.json.encode(call.arguments).decode()}"
        yield f"{_INDENT}<- {result.outcome}"
        yield from _indented(_shortened(result.text, max_result))


def _indented(text: str) -> Iterator[str]:
    return (f"{_INDENT}{line}".rstrip() for line in text.splitlines())


def _shortened(text: str, size: int) -> str:
    left = len(text) - size
    return text if left <= 0 else f"{text[:size]} ... (+{left} characters)"
