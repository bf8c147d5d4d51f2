"""What a request of a long conversation costs, and how long it holds the event loop.

A client asks a server in a process of its own, again and again, each time with one more message, as a
chat does; agents' calls and their results are in it. Every callback of the loop is timed: the longest is
what a key would have waited for. The floor is the same for a conversation of one message.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

from benchmarks.halt_in_terminal import serving
from benchmarks.measuring import Figure, on_a_loop
from midstream.core.conversation import Message, ToolCall, ToolResult, seen_by
from midstream.core.events import Usage
from midstream.models.api_client import AIAPIClient
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import JumpingClock

MESSAGES = 2_000


class Quiet:
    """A listener that hears nothing."""

    def text(self, delta: str) -> None:
        """Hear nothing."""

    thinking = status = text

    def calling(self, name: str) -> None:
        """Hear nothing."""

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear nothing."""


def conversation(messages: int) -> tuple[Message, ...]:
    """Return a chat of about two kilobytes a turn of four messages."""
    found: list[Message] = []
    for number in range(messages // 4):
        call = ToolCall(id=f"call_{number}", name="read_files", arguments={"paths": ["a.py"]})
        told = ToolResult(call_id=call.id, outcome="completed", text="x = 1\n" * 60)
        found += [
            Message(role="user", text=f"question {number} " + "words " * 40, author="@user"),
            Message(role="assistant", text="", author="dude", calls=(call,), results=(told,)),
            Message(role="assistant", text=f"answer {number} " + "words " * 150, author="dude"),
            Message(role="user", text=f"thanks {number}", author="@user"),
        ]
    return tuple(found)


@contextmanager
def timed_callbacks() -> Iterator[list[float]]:
    """Give a list to which each callback of an event loop adds its seconds."""
    took: list[float] = []
    handle: Any = asyncio.events.Handle
    run = handle._run

    def timed(self: Any) -> None:
        began = perf_counter()
        run(self)
        took.append(perf_counter() - began)

    handle._run = timed
    try:
        yield took
    finally:
        handle._run = run


async def asked(environ: dict[str, str], messages: int, times: int) -> list[tuple[float, float]]:
    """Return (the longest callback, all CPU) in milliseconds of requests, the first left out."""
    client = AIAPIClient(
        {"base": "openai:bench"},
        clock=JumpingClock(),
        validator=lambda _value, _schema: "",
        environ=environ,
    )
    chat, found = conversation(messages), list[tuple[float, float]]()
    try:
        for number in range(times + 1):
            chat = (*chat, Message(role="user", text=f"more {number}", author="@user"))
            cpu = process_time()
            with timed_callbacks() as took:
                request = ModelRequest(
                    agent="dude",
                    system="Be brief.",
                    messages=seen_by(chat, agent="dude", side="assistant"),
                )
                await client.request(request, Quiet())
            found.append((max(took) * 1e3, (process_time() - cpu) * 1e3))
    finally:
        await client.aclose()
    return found[1:]


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds."""
    times, messages = (1, 100) if is_quick else (15, MESSAGES)
    with serving(1_000, tokens=1) as server:
        short = on_a_loop(lambda: asked(server, 0, times))
        long = on_a_loop(lambda: asked(server, messages, times))
    figures = []
    for at, name, aim in ((0, "longest hold of the event loop", 5.0), (1, "CPU", None)):
        figures.append(
            Figure(
                name=f"a request of {messages:,} messages, {name}",
                unit="ms",
                values=tuple(each[at] for each in long),
                floor="the same of one message",
                floors=tuple(each[at] for each in short),
                aim=aim,
                aim_on="value",
            )
        )
    return figures
