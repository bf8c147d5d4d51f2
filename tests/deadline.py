"""A test waits for a thing. How long it waits before it says that something hangs: none comes near it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count

DEADLINE_S = 300.0
"""Many times what the slowest test takes on a machine with eight times as much to do as it has cores."""

PROGRAM_S = 840.0
"""The same for a program that does the work of many tests; pyproject.toml ends any test a little later."""


_test: ContextVar[asyncio.Timeout] = ContextVar("the deadline of the test that runs")


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """Fail, and show where the test waits, once it has for so long; jumps of its clock do not count."""
    async with asyncio.timeout(seconds) as deadline:
        _test.set(deadline)
        yield


def jump(seconds: float) -> None:
    """Let the running loop's clock jump ahead: all but the test has waited for so long."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
    deadline = _test.get()
    deadline.reschedule((deadline.when() or now()) + seconds)


def wait_until(holds: Callable[[], object], what: str | Callable[[], str] = "") -> None:
    """Return once something holds that nobody tells of; `what` is told, or tells how all stands."""
    ends_at = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < ends_at, (
            f"waited for ever: {what() if callable(what) else what or holds}"
        )
        time.sleep(0.01)


class Ahead:
    """Stands in for the module `time` where something waits: a clock that a test puts forward."""

    def __init__(self) -> None:
        self.by_s = 0.0

    def monotonic(self) -> float:
        """Return the machine's time and what it was put forward by."""
        return time.monotonic() + self.by_s


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Return once something holds that nobody tells of; whoever waits has a deadline around it."""
    for _ in count():
        if await holds():
            return
        await asyncio.sleep(0.001)
