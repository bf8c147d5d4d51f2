"""Runs in a store that workers share, and what its pool offers of them."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from support.memory_pool import MemoryPool

from midstream.app.assembly import parts
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.storage import WorkerInfo
from midstream.testing.fakes import FakeTools, JumpingClock, ScriptedModel, fake_world
from midstream.worker.worker import Leaving, Worker

FLOW: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "stop"}],
}


def engine_on(
    store: MemoryPool,
    *script: Any,
    tools: FakeTools | None = None,
    clock: JumpingClock | None = None,
) -> LocalEngine:
    """Return an engine whose model says what is scripted."""
    world = fake_world(ScriptedModel(*script), tools=tools, journal=store, blobs=store, clock=clock)
    return LocalEngine(world, store)


async def sleeping(clock: JumpingClock) -> None:
    """Return once something waits for a time."""
    while not clock.sleepers():  # noqa: ASYNC110  # the clock is one that jumps
        await asyncio.sleep(0)


async def offered(store: MemoryPool, **how: Any) -> list[str]:
    """Return the ids of the runs that a worker beside would get now. It gives them back as it got them."""
    beside = store.beside()
    host = how.pop("host", "here")
    info = WorkerInfo(owner=beside.me, host=host, pid=1, version="", since=0.0, max_runs=9, **how)
    taken = await beside.take(info, 9)
    await beside.aclose()
    return [each.kept.id for each in taken]


class Logged:
    """What a worker said it did."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._news = asyncio.Event()

    def __call__(self, kind: str, text: str, /, **_: object) -> None:
        """Hear one event."""
        self.lines.append((kind, text))
        self._news.set()

    def of(self, kind: str) -> list[str]:
        """Return what was said of a kind."""
        return [text for each, text in self.lines if each == kind]

    async def saying(self, kind: str, words: str = "", times: int = 1) -> None:
        """Return once it was said so often."""
        while sum(words in text for text in self.of(kind)) < times:
            self._news.clear()
            await self._news.wait()


class Working:
    """A worker under way over a store in memory, its model scripted."""

    def __init__(
        self,
        store: MemoryPool,
        *script: Any,
        tools: Sequence[Any] = (),
        clock: JumpingClock | None = None,
        linger_s: float = 0.0,
        trusts: Sequence[str] = (),
        **info: Any,
    ) -> None:
        self.store = store
        self.log = Logged()
        self.leaving = Leaving()
        given: dict[str, Any] = {"host": "here", "max_runs": 9, **info}
        self.worker = Worker(
            store,
            WorkerInfo(owner=store.me, pid=1, version="", since=0.0, **given),
            self.leaving,
            self.log,
            make=partial(parts, model=ScriptedModel(*script), tools=tools, clock=clock),
            linger_s=linger_s,
            trusts=trusts,
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Working":
        self._task = asyncio.create_task(self.worker.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leaving.ask(0)
        await self.ended()

    async def ended(self) -> None:
        """Return once it has left."""
        assert self._task is not None
        await self._task

    async def die(self) -> None:
        """Die as a killed process does: nothing is let go of."""
        self.store.die()
        await self.__aexit__()
