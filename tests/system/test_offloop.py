"""Work that may be left: how long it is waited for."""

import asyncio

from deadline import DEADLINE_S, jump

from midstream.system.offloop import still_working


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
