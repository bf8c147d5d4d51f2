"""A test waits for a thing. How long it waits before it says that something hangs: none comes near it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

DEADLINE_S = 300.0
"""Many times what the slowest test takes on a machine with eight times as much to do as it has cores."""

PROGRAM_S = 840.0
"""The same for a program that does the work of many tests; pyproject.toml ends any test a little later."""


def jump(seconds: float) -> None:
    """Let the running loop's clock jump ahead: what waits for so long there has waited."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


def wait_until(holds: Callable[[], object], what: object = "") -> None:
    """Return once something holds that nobody tells of."""
    ends_at = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < ends_at, f"waited for ever: {what or holds}"
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
