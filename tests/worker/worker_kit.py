"""Runs in a store that workers share, and what its pool offers of them."""

import asyncio
from typing import Any

from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.storage import WorkerInfo
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTools, JumpingClock, ScriptedModel, fake_world

FLOW: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "stop"}],
}


def engine_on(
    store: MemoryStore,
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


async def offered(store: MemoryStore, **how: Any) -> list[str]:
    """Return the ids of the runs that a worker beside would get now. It gives them back as it got them."""
    beside = store.beside()
    host = how.pop("host", "here")
    info = WorkerInfo(owner=beside.me, host=host, pid=1, version="", since=0.0, max_runs=9, **how)
    taken = await beside.take(info, 9)
    await beside.aclose()
    return [each.kept.id for each in taken]
