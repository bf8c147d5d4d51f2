"""The time of runs is the database's: a machine whose clock is wrong tells no wrong times."""

import asyncio
import time
from collections.abc import Callable

import pytest

from midstream.app.assembly import clock_of
from midstream.store.postgres.store import PostgresStore

HOUR_S = 3_600.0


async def test_a_clock_that_is_an_hour_ahead_is_not_asked(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda was=time.time: was() + HOUR_S)
    store = await asyncio.to_thread(PostgresStore.opened, database())
    try:
        for _ in range(2):
            assert time.time() - clock_of(store).now() > HOUR_S / 2
            await store.renew()
    finally:
        await store.aclose()
