"""How a database may be set up: roles with the least rights, and poolers."""

import asyncio
from collections.abc import Callable

import pytest
from support.postgres import PostgresServer

psycopg = pytest.importorskip("psycopg")

from postgres_kit import Pooler, opened  # noqa: E402
from support.store_contracts import started, worker_at  # noqa: E402

from midstream.language.errors import WorldTrouble  # noqa: E402
from midstream.runtime.storage import Mail, Placement, Rate  # noqa: E402
from midstream.store.postgres.store import PostgresStore  # noqa: E402
from midstream.testing.contracts import fact  # noqa: E402

GRANTS = """
grant usage on schema midstream to worker;
grant select, insert, update, delete on all tables in schema midstream to worker;
alter default privileges in schema midstream
    grant select, insert, update, delete on tables to worker;
"""


async def test_a_worker_needs_the_rights_on_rows_alone(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    name = address.rpartition("/")[2]
    postgres.sql("create role worker login")
    async with opened(address):
        pass
    for grant in filter(str.strip, GRANTS.split(";")):
        postgres.sql(grant, name)
    async with opened(postgres.address(name, user="worker")) as (store,):
        await store.assign("r", Placement(user="ann"))
        await store.append("r", 0, started("r"))
        await store.post(Mail(id="1", run="r", at=1.0))
        await store.announce(worker_at(store))
        (taken,) = await store.take(worker_at(store), 1)
        await store.keep_snapshot("r", 1, b"x", {"p": b"P"})
        await store.fork("r", 1, "f")
        key = await store.put(b"contents")
        await store.delivered("r", "1")

        assert taken.kept.id == "r"
        assert await store.get(key) == b"contents"
        assert await store.admit({"a": Rate(per_minute=1, burst=1)}) == 0
        assert [each.runs for each in await store.workers()] == [("r",)]
        assert await store.renew() > 0
        await store.ring(store.me)
        await store.release("r")
        await store.forget_snapshots()
    with (
        psycopg.connect(postgres.address(name, user="worker")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("alter table midstream.facts add x integer")


async def test_a_pooler_of_transactions_may_be_read_through_and_runs_nothing(
    database: Callable[[], str],
) -> None:
    async with Pooler.before(database()) as address, opened(address, address) as (store, other):
        await store.append("r", 0, [fact("r", 1)])
        assert await other.read("r") == [fact("r", 1)]
        with pytest.raises(WorldTrouble, match="pooler") as caught:
            await store.claim("r")
        assert "sessions" in caught.value.hint
        with pytest.raises(WorldTrouble, match="pooler"):
            await other.take(worker_at(other), 1)
        with pytest.raises(WorldTrouble, match="pooler"):
            await anext(other.rings())


@pytest.mark.needs("pgbouncer")
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_through_a_real_pooler_of_less_than_sessions_one_reads_and_writes_and_runs_nothing(
    postgres: PostgresServer, database: Callable[[], str], mode: str
) -> None:
    address = database()
    async with opened(address) as (there,):
        await there.append("r", 0, [fact("r", 1)])
    with postgres.pooler(mode) as port:
        near = address.replace(f":{postgres.port}/", f":{port}/")
        async with opened(near, near) as stores:
            reads = (each.read("r") for _ in range(40) for each in stores)
            assert all(found == [fact("r", 1)] for found in await asyncio.gather(*reads))
            for seq in range(1, 20):
                both = (each.append(each.me, seq - 1, [fact(each.me, seq)]) for each in stores)
                await asyncio.gather(*both)
            with pytest.raises(WorldTrouble, match="pooler that changes the session") as caught:
                await stores[0].claim("r")
            assert "pool_mode = session" in caught.value.hint


@pytest.mark.needs("pgbouncer")
async def test_a_pooler_of_statements_cannot_make_the_tables(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    with postgres.pooler("statement") as port:
        near = address.replace(f":{postgres.port}/", f":{port}/")
        with pytest.raises(WorldTrouble, match="pooler that changes the session"):
            await asyncio.to_thread(PostgresStore.opened, near)
