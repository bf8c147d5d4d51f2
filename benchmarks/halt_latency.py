"""From Enter to the last token shown and to the `resume` handler, while many runs stream.

Enter is pressed in a thread of its own, at a time of its own: what is measured includes the wait for a
busy event loop. The floor has as many plain tasks that produce as many tokens; there Enter cancels
one and calls a function.
"""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from benchmarks.measuring import Figure, in_turn, on_a_loop, percentile
from midstream.core.notices import Envelope, TextDelta
from midstream.language.names import Json
from midstream.language.spec import Agent, Context, State, Workflow
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import define, fake_world

LOADS = ((1, 50), (200, 50), (200, 150))
"""How many runs stream, and how many tokens a second each."""

TALK = define(
    Workflow(
        workflow_name="talk",
        contexts=(Context(name="talk"),),
        agents=(Agent(agent_role="ada", context="talk"),),
        states=(
            State(name="start", agent="ada"),
            State(name="resume", pre_handler="listen", next="stop"),
            State(name="stop"),
        ),
    )
)


class Halts:
    """What halting came to: seconds from Enter to the last token, and to the handler's first line."""

    def __init__(self) -> None:
        self.last_token: list[float] = []
        self.handler: list[float] = []


class EndlessModel:
    """Streams a word again and again, so many times a second. See the port `Model`."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Never reply."""
        await asyncio.sleep(random.random() / self._rate)
        while True:
            listener.text("word ")
            await asyncio.sleep(1 / self._rate)


async def enter() -> float:
    """Return when Enter was pressed: in another thread, at a random moment soon."""
    loop = asyncio.get_running_loop()
    pressed: asyncio.Future[float] = loop.create_future()

    def press() -> None:
        loop.call_soon_threadsafe(pressed.set_result, perf_counter())

    threading.Timer(random.uniform(0.005, 0.03), press).start()
    return await pressed


async def ours(runs: int, rate: float, count: int) -> Halts:
    """Halt so many runs, one after the other, while the others stream."""
    halts = Halts()
    reached = 0.0
    shown: dict[str, float] = {}
    begun: dict[str, asyncio.Event] = {}

    async def listen(run: HandlerRun) -> Json:
        nonlocal reached
        reached = perf_counter()
        return None

    def hear(envelope: Envelope) -> None:
        if isinstance(envelope.event, TextDelta):
            shown[envelope.run] = perf_counter()
            if envelope.run in begun:
                begun[envelope.run].set()

    engine = LocalEngine(fake_world(EndlessModel(rate), journal=(kept := MemoryStore())), kept)
    engine.listen(hear)
    handlers = ScriptHandlers({"listen": listen})
    for _ in range(runs - 1):
        await engine.start(TALK, handlers=handlers)
    for _ in range(count):
        machine = await engine.start(TALK, handlers=handlers)
        begun[machine.id] = asyncio.Event()
        await begun[machine.id].wait()
        pressed = await enter()
        await machine.say("no, rename it")
        await machine.wait()
        halts.handler.append(reached - pressed)
        halts.last_token.append(max(0.0, shown[machine.id] - pressed))
    await engine.close()
    return halts


async def floor(runs: int, rate: float, count: int) -> Halts:
    """Cancel so many tasks, one after the other, while the others stream."""
    halts = Halts()
    reached = 0.0
    shown: dict[int, float] = {}

    async def stream(number: int, begun: asyncio.Event) -> None:
        words = []
        await asyncio.sleep(random.random() / rate)
        while True:
            words.append("word ")
            shown[number] = perf_counter()
            begun.set()
            await asyncio.sleep(1 / rate)

    async def listen() -> None:
        nonlocal reached
        reached = perf_counter()

    others = [asyncio.create_task(stream(n, asyncio.Event())) for n in range(runs - 1)]
    for _ in range(count):
        begun = asyncio.Event()
        task = asyncio.create_task(stream(-1, begun))
        await begun.wait()
        pressed = await enter()
        task.cancel()
        await asyncio.wait((task,))
        await listen()
        halts.handler.append(reached - pressed)
        halts.last_token.append(max(0.0, shown[-1] - pressed))
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return halts


FLOOR = "as many plain tasks that stream; cancel one and call a function"


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds from Enter, for each load."""
    count, rounds = (3, 1) if is_quick else (100, 3)
    figures = []
    for runs, rate in LOADS:
        own: list[Halts] = []
        bare: list[Halts] = []
        in_turn(
            rounds,
            partial(_keep, own, partial(ours, runs, rate, count)),
            partial(_keep, bare, partial(floor, runs, rate, count)),
        )
        load = f"{runs} streaming at {rate}/s" if runs > 1 else f"1 streaming at {rate}/s"
        figures += _figures(load, own, bare)
    return figures


def _keep(found: list[Halts], work: Callable[[], Awaitable[Halts]]) -> float:
    found.append(on_a_loop(work))
    return percentile(found[-1].handler, 50)


def _figures(load: str, own: list[Halts], bare: list[Halts]) -> list[Figure]:
    def of(halts: list[Halts], what: str, percent: float) -> tuple[float, ...]:
        return tuple(percentile(getattr(each, what), percent) * 1e3 for each in halts)

    rows: list[tuple[str, str, float, float | None]] = [
        ("last token p99", "last_token", 99, 20),
        ("`resume` handler p50", "handler", 50, None),
        ("`resume` handler p99", "handler", 99, 20),
    ]
    return [
        Figure(
            name=f"Enter to {words}, engine, {load}",
            unit="ms",
            values=of(own, what, percent),
            floor=FLOOR,
            floors=of(bare, what, percent),
            aim=aim,
            aim_on="value",
            is_compared=what != "last_token",
        )
        for words, what, percent, aim in rows
    ]
