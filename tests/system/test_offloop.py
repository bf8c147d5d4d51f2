"""Work that may be left: how long it is waited for."""

import asyncio
import time

import pytest
from deadline import DEADLINE_S, Ahead, jump

from midstream.system import offloop
from midstream.system.offloop import Timeout, still_working


async def passes() -> None:
    """Let all that is due happen."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_machine_that_stood_still_leaves_time_for_what_is_waited_for() -> None:
    may_end = asyncio.Event()
    work = asyncio.create_task(may_end.wait())
    waiting = asyncio.create_task(still_working({work}, DEADLINE_S))
    await passes()
    jump(DEADLINE_S)
    await passes()
    assert not waiting.done()

    may_end.set()

    assert await waiting == set()


async def test_what_goes_on_for_too_long_is_named() -> None:
    endless = asyncio.create_task(asyncio.Event().wait())
    quick = asyncio.create_task(asyncio.sleep(0))

    assert await still_working({endless, quick}, 0.1) == {endless}
    assert await still_working((), DEADLINE_S) == set()
    endless.cancel()


def test_a_timeout_hardly_counts_what_the_machine_stands_still_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = Ahead()
    monkeypatch.setattr(offloop, "time", ahead)
    timeout = Timeout(DEADLINE_S)
    before = timeout.wait_s()
    ahead.by_s = 10 * DEADLINE_S

    assert timeout.wait_s() == before > 0


def test_a_timeout_is_over_in_its_time() -> None:
    timeout, began = Timeout(0.1), time.monotonic()
    while wait_s := timeout.wait_s():
        time.sleep(wait_s)

    assert time.monotonic() >= began + 0.1
    assert timeout.wait_s() == 0
