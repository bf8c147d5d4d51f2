"""From the user's text to the first line of the `resume` handler: the engine alone, in memory.

An agent streams; unasked words come. midstream journals them, keeps what was shown, closes the stream,
enters `resume` and calls its handler. The floor cancels the task that streams and calls the function.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from benchmarks.measuring import Figure, in_turn, on_a_loop, percentile, profiled
from midstream.language.names import Json
from midstream.language.spec import Agent, Context, Definition, StartingMessage, State, Workflow
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import define, fake_world

PIECES = ("Once ", "upon ", "a ", "time ")


class EndlessModel:
    """Streams a few pieces and then stands until it is cancelled. See the port `Model`."""

    def __init__(self) -> None:
        self.shown = asyncio.Event()

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Never reply."""
        for piece in PIECES:
            listener.text(piece)
        self.shown.set()
        await asyncio.get_running_loop().create_future()
        return ModelReply(text="")


def talk(messages: int) -> Definition:
    """Return a workflow whose conversation begins with so many messages."""
    sides = itertools.cycle(("user", "assistant"))
    said = tuple(
        StartingMessage(role=next(sides), content=f"message {number} " * 20)  # type: ignore[arg-type]
        for number in range(messages)
    )
    return define(
        Workflow(
            workflow_name="talk",
            contexts=(Context(name="talk", starting_messages=said),),
            agents=(Agent(agent_role="ada", context="talk"),),
            states=(
                State(name="start", agent="ada"),
                State(name="resume", pre_handler="listen", next="stop"),
                State(name="stop"),
            ),
        )
    )


SHORT, LONG = talk(4), talk(200)


async def ours(definition: Definition) -> float:
    """Return the seconds from the words to the handler's first line."""
    reached = 0.0

    async def listen(run: HandlerRun) -> Json:
        nonlocal reached
        reached = perf_counter()
        return None

    model = EndlessModel()
    machine = WorkflowStateMachine(
        definition,
        fake_world(model, journal=MemoryStore()),
        handlers=ScriptHandlers({"listen": listen}),
    )
    await machine.start()
    await model.shown.wait()
    began = perf_counter()
    await machine.say("no, rename it")
    await machine.wait()
    return reached - began


async def floor() -> float:
    """Return the seconds from cancelling a task to the function's first line."""
    reached = 0.0
    shown = asyncio.Event()
    data: dict[str, Any] = {"shown": []}

    async def stream() -> None:
        data["shown"].extend(PIECES)
        shown.set()
        await asyncio.get_running_loop().create_future()

    async def listen(data: dict[str, Any]) -> None:
        nonlocal reached
        reached = perf_counter()

    task = asyncio.create_task(stream())
    await shown.wait()
    began = perf_counter()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        data["resume_input"] = "no, rename it"
    await listen(data)
    return reached - began


def many(once: Callable[[], Awaitable[float]], count: int) -> list[float]:
    """Return so many samples, in seconds, after a few to warm up."""

    async def all_of_them() -> list[float]:
        for _ in range(5):
            await once()
        return [await once() for _ in range(count)]

    return on_a_loop(all_of_them)


def measure(is_quick: bool) -> list[Figure]:
    """Return microseconds from the words to the handler."""
    count, rounds = (20, 2) if is_quick else (500, 11)
    tails: list[float] = []

    def median_of(once: Callable[[], Awaitable[float]], tail: list[float] | None = None) -> float:
        samples = many(once, count)
        if tail is not None:
            tail.append(percentile(samples, 99) * 1e6)
        return percentile(samples, 50) * 1e6

    short, long, bare = in_turn(
        rounds,
        lambda: median_of(lambda: ours(SHORT), tails),
        lambda: median_of(lambda: ours(LONG)),
        lambda: median_of(floor),
    )
    return [
        Figure(
            name="from words to the `resume` handler, p50",
            unit="µs",
            values=short,
            floor=FLOOR,
            floors=bare,
            aim=10,
        ),
        Figure(
            name="the same with 200 messages in the conversation, p50",
            unit="µs",
            values=long,
            floor=FLOOR,
            floors=bare,
        ),
        Figure(name="from words to the `resume` handler, p99", unit="µs", values=tuple(tails)),
    ]


FLOOR = "cancel the task and call the function"


def explain() -> None:
    """Print where the time goes, the starts and ends of the runs included."""
    profiled(lambda: many(lambda: ours(SHORT), 3_000))
