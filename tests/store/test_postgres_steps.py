"""How the tables grow: beside processes of the version before, and with what an append costs them."""

import asyncio
from collections.abc import Callable

import pytest
from deadline import wait_until
from msgspec.structs import replace
from support.postgres import PostgresServer

psycopg = pytest.importorskip("psycopg")

from postgres_kit import opened  # noqa: E402
from support.store_contracts import started  # noqa: E402

from midstream.core.notices import Envelope  # noqa: E402
from midstream.language.errors import WorldTrouble  # noqa: E402
from midstream.store.postgres import tables  # noqa: E402
from midstream.store.postgres.store import PostgresStore  # noqa: E402
from midstream.testing.contracts import fact  # noqa: E402


def at(seconds: float, facts: list[Envelope]) -> list[Envelope]:
    """Return the same facts, at another time."""
    return [replace(each, at=seconds) for each in facts]


async def listed(store: PostgresStore, limit: int = 100) -> list[str]:
    """Return the ids of all runs, read in pages."""
    found: list[str] = []
    page = await store.listing(limit=limit)
    while page:
        found += [each.id for each in page]
        page = await store.listing(after=(page[-1].summary.updated_at, page[-1].id), limit=limit)
    return found


async def opened_before(address: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """Return a store of the version before the third step."""
    with monkeypatch.context() as before:
        before.setattr(tables, "_STEPS", tables._STEPS[:2])
        before.setattr(tables, "VERSION", 2)
        return await asyncio.to_thread(PostgresStore.opened, address)


async def test_runs_of_the_tables_before_are_listed_and_written_by_old_and_new_alike(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    old = await opened_before(address, monkeypatch)
    for number, seconds in enumerate((40.0, 7.5, 40.0, 1000.0, 39.0)):
        await old.append(f"r{number}", 0, at(seconds, started(f"r{number}")))
    await old.claim("r1")
    await old.claim("begun-by-nobody-yet")

    async with opened(address) as (new,):
        assert await listed(new) == await listed(new, 1) == ["r3", "r2", "r0", "r4", "r1"]
        await old.append("r1", 1, at(2000.0, [fact("r1", 2)]))
        await new.append("r4", 1, at(40.0, [fact("r4", 2)]))
        assert await listed(new) == await listed(new, 2) == ["r1", "r3", "r4", "r2", "r0"]
        await old.aclose()


async def test_tables_somebody_reads_for_long_are_left_as_they_are(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    old = await opened_before(address, monkeypatch)
    await old.append("r", 0, started("r"))
    with psycopg.connect(address) as backup:
        backup.execute("select from midstream.runs")
        with pytest.raises(WorldTrouble, match="held by somebody else") as caught:
            await asyncio.to_thread(PostgresStore.opened, address)
        assert "backup" in caught.value.hint
        await old.append("r", 1, [fact("r", 2)])
    async with opened(address) as (new,):
        assert await listed(new) == ["r"]
    await old.aclose()


async def test_an_append_changes_nothing_that_an_index_has(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    async with opened(address) as (store,):
        await store.append("r", 0, at(32.0, started("r")))
        for seq in range(2, 12):
            await store.append("r", seq - 1, at(32.0 + seq, [fact("r", seq)]))
    query = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'runs'"
    name = address.rpartition("/")[2]
    wait_until(lambda: postgres.sql(query, name) == [(10, 10)], "every change of the row was HOT")
