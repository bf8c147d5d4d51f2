"""Connections that are cut, servers that go away and come back: nothing is lost, doubled or denied."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, cast

import pytest
from deadline import DEADLINE_S, wait_until
from support.postgres import LACKING, PostgresServer

pytest.importorskip("psycopg")

from postgres_kit import Network, lives, opened
from support.store_contracts import started, worker_at

import midstream
from midstream.core.notices import Envelope
from midstream.language.errors import (
    JournalFull,
    JournalMoved,
    MidstreamError,
    RunOwned,
    WorldTrouble,
)
from midstream.runtime.storage import Mail, Taken
from midstream.store.postgres import link
from midstream.store.postgres import store as store_module
from midstream.store.postgres.life import Life, ServerTime
from midstream.store.postgres.store import PostgresStore
from midstream.testing.contracts import fact, facts

LOSSES: tuple[Literal["request", "answer"], ...] = ("request", "answer")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a database as long as a busy machine takes to start it."""
    monkeypatch.setattr(link, "PATIENCE_S", DEADLINE_S)


def living(address: str) -> tuple[Life, link.Link]:
    """Return the life of `me`, of which was said that it lives, and its connection."""
    PostgresStore.opened(address).close()
    life, connection = Life("me", "here", ServerTime()), link.Link(link.Address(address))
    life.renew(connection)
    return life, connection


async def end_soon(postgres: PostgresServer, address: str, run: str) -> None:
    """Have the time of a run's owner be over soon. A later time than it was would be a sign of life."""
    soon = "expires_at = least(expires_at, clock_timestamp() + interval '0.3 s')"
    owner = f"(select owner from midstream.runs where id = '{run}')"
    ends = f"update midstream.owners set {soon} where name = {owner}"
    await asyncio.to_thread(postgres.sql, ends, address.rpartition("/")[2])


async def test_a_store_whose_connections_are_cut_goes_on(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    async with opened(address, address) as (store, other):
        await store.claim("r")
        hearing = asyncio.ensure_future(anext(store.rings()))
        for seq in range(1, 6):
            await store.append("r", seq - 1, [fact("r", seq)])
            await asyncio.to_thread(postgres.reset, address.rpartition("/")[2])
            assert len(await store.read("r")) == seq
            assert await asyncio.to_thread(lives, address, store.me)
        with pytest.raises(RunOwned):
            await other.claim("r")
        while not hearing.done():
            await other.ring(store.me)
            await asyncio.sleep(0)
        assert await store.read("r") == facts("r", 1, 5)


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_server_that_comes_back_finds_everybody_alive(end: str) -> None:
    with PostgresServer.made() as server:
        address = server.database()
        async with opened(address, address) as (store, other):
            await store.claim("r")
            kept: list[Envelope] = []
            is_busy = asyncio.Event()

            async def write() -> None:
                for seq in range(1, 201):
                    await store.append("r", seq - 1, [fact("r", seq)])
                    kept.append(fact("r", seq))
                    if seq == 20:
                        is_busy.set()

            writing = asyncio.create_task(write())
            await is_busy.wait()
            await asyncio.to_thread(getattr(server, end))
            await asyncio.to_thread(server.start)
            with pytest.raises(RunOwned):
                await other.claim("r")
            await writing

            assert await other.read("r") == kept == facts("r", 1, 200)
            await store.renew()
            assert await asyncio.to_thread(lives, address, store.me)
            await store.release("r")
            assert (await other.claim("r")).deaths == 0


@pytest.mark.parametrize("losing", LOSSES)
async def test_an_append_of_which_no_answer_came_is_kept_once(
    database: Callable[[], str], losing: Literal["request", "answer"]
) -> None:
    async with Network.before(database()) as (network, address), opened(address) as (store,):
        await store.append("r", 0, [fact("r", 1)])
        network.lose("the second", losing)
        both = (
            store.append("r", 1, [fact("r", 2, "the second")]),
            store.append("s", 0, [fact("s", 1)]),
        )
        await asyncio.gather(*both)
        await store.append("r", 2, [fact("r", 3)])

        await network.lost.acquire()
        assert await store.read("r") == [fact("r", 1), fact("r", 2, "the second"), fact("r", 3)]
        assert await store.read("s") == [fact("s", 1)]


@pytest.mark.parametrize("losing", LOSSES)
async def test_an_append_that_is_refused_is_not_taken_for_one_that_was_lost(
    database: Callable[[], str], losing: Literal["request", "answer"]
) -> None:
    there = database()
    async with Network.before(there) as (network, address), opened(address, there) as stores:
        store, other = stores
        await store.append("r", 0, [fact("r", 1)])
        await other.append("r", 1, [fact("r", 2, "the second")])
        network.lose("the second", losing)
        with pytest.raises(JournalMoved):
            await store.append("r", 1, [fact("r", 2), fact("r", 3, "the second")])

        await network.lost.acquire()
        assert len(await store.read("r")) == 2


@pytest.mark.parametrize("again", ["the same", "another"])
async def test_what_was_given_up_in_doubt_is_known_when_it_is_tried_again(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    async with Network.before(database()) as (network, address), opened(address) as (store,):
        await store.append("r", 0, [fact("r", 1)])
        network.lose("the same", "answer")
        appending = asyncio.ensure_future(store.append("r", 1, [fact("r", 2, "the same")]))
        monkeypatch.setattr(link, "PATIENCE_S", 0.2)
        await network.lost.acquire()
        network.is_down = True
        with pytest.raises(JournalFull, match="cannot be reached"):
            await appending
        network.cut()
        with pytest.raises(WorldTrouble, match="cannot be reached"):
            await store.read("r")
        monkeypatch.setattr(link, "PATIENCE_S", DEADLINE_S)
        network.is_down = False

        repeated = store.append("r", 1, [fact("r", 2, again)])
        assert isinstance(await error_of(repeated), JournalMoved) == (again == "another")
        assert await store.read("r") == [fact("r", 1), fact("r", 2, "the same")]


async def error_of(doing: Awaitable[object]) -> MidstreamError | None:
    try:
        await doing
    except MidstreamError as error:
        return error
    return None


async def test_what_a_late_owner_acknowledges_is_handed_out_to_the_next_one(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    async with opened(address, address) as (late, other):
        await late.claim("r")
        await late.append("r", 0, started("r"))
        mail = await other.post(Mail(id="m", run="r", at=1.0))
        over = "update midstream.owners set expires_at = clock_timestamp()"
        await asyncio.to_thread(postgres.sql, over, address.rpartition("/")[2])
        await other.claim("r")

        await late.delivered("r", "m")
        assert await other.mail(other.me) == [mail]
        await other.delivered("r", "m")
        assert await other.mail(other.me) == []


@pytest.mark.parametrize("losing", LOSSES)
async def test_whatever_no_answer_came_of_comes_to_the_same(
    database: Callable[[], str], losing: Literal["request", "answer"]
) -> None:
    async with Network.before(database()) as (network, address), opened(address) as (store,):
        await store.append("r", 0, started("r"))
        mail = Mail(id="lost", run="r", at=1.0)
        doings: dict[str, Callable[[], Awaitable[object]]] = {
            "insert into midstream.inbox": lambda: store.post(mail),
            "skip locked": lambda: store.take(worker_at(store), 1),
            "set is_delivered": lambda: store.delivered("r", "lost"),
            "due_at = ": lambda: store.release("r", 0.0),
            "returning cut_at is not null": lambda: store.claim("r"),
            "parent, parent_seq, host": lambda: store.fork("r", 1, "f"),
            "an imported one": lambda: store.adopt("i", [fact("i", 1, "an imported one")]),
            "insert into midstream.snapshots": lambda: store.keep_snapshot(
                "r", 1, b"x", {"p": b""}
            ),
            "insert into midstream.blobs": lambda: store.put(b"contents"),
            "midstream.admit": lambda: store.admit({}),
        }
        came: dict[str, object] = {}
        for marker, doing in doings.items():
            network.lose(marker, losing)
            came[marker] = await doing()
            await network.lost.acquire()
        (taken,) = cast("list[Taken]", came["skip locked"])

        assert taken.kept.id == "r"
        assert await store.owner_of("r") == store.me
        assert (await store.claim("r")).epoch > taken.claim.epoch
        assert await store.undelivered("r") == []
        assert await store.snapshot("r") == (1, b"x", {"p": b""})
        assert [len(await store.read(run)) for run in ("f", "i")] == [1, 1]


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
async def test_a_store_is_closed_soon_though_its_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "CLOSING_PATIENCE_S", 0.2)
    with PostgresServer.made() as server:
        async with opened(server.database()) as (store,):
            await store.claim("r")
            await asyncio.to_thread(server.stop)
            doing = [asyncio.ensure_future(error_of(store.append("r", 0, [fact("r", 1)])))]
            doing += [asyncio.ensure_future(error_of(store.read("r"))) for _ in range(50)]
            await asyncio.sleep(0)
            await store.aclose()

            assert all(isinstance(each, WorldTrouble) for each in await asyncio.gather(*doing))


def test_whose_sessions_end_is_not_taken_for_dead_by_anybody(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    _, connection = living(address)

    connection.close()
    wait_until(lambda: sessions(postgres, address) == 0, "its session has ended")
    assert lives(address, "me")


def test_a_death_that_is_said_after_the_time_is_over_is_no_sign_of_life(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    life, connection = living(address)
    over = "update midstream.owners set expires_at = clock_timestamp() - interval '1 s'"
    postgres.sql(over, address.rpartition("/")[2])
    until = "select expires_at from midstream.owners"
    before = connection.rows(until)

    life.expire(connection)
    assert connection.rows(until) == before
    connection.close()


KILLED = """
import asyncio, os, sys

from midstream.store.postgres import tables

tables.TTL_S = 10_000.0

from midstream.store.postgres.store import PostgresStore

async def main():
    store = await asyncio.to_thread(PostgresStore.opened, sys.argv[1])
    await store.claim("r")
    print(store.me, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing watches over a process there")
def test_a_kill_shows_though_the_time_is_not_over(database: Callable[[], str]) -> None:
    address = database()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, address], capture_output=True, text=True, check=False
    )

    me = killed.stdout.strip()
    assert me
    wait_until(lambda: not lives(address, me), "it is dead")


async def test_who_has_a_run_and_is_silent_is_waited_for_until_its_time_is_over(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    async with (
        Network.before(address) as (network, near),
        opened(near, address) as (silent, other),
    ):
        await silent.claim("r")
        network.is_down = True
        network.cut()
        claiming = asyncio.ensure_future(other.claim("r"))
        await end_soon(postgres, address, "r")

        assert (await claiming).was_cut


async def test_a_run_whose_engine_is_silent_goes_on_in_the_one_that_takes_it(
    postgres: PostgresServer, database: Callable[[], str], tmp_path: Path
) -> None:
    address = database()
    async with (
        Network.before(address) as (network, near),
        midstream.open(tmp_path, model="offline", journal=near) as silent,
        midstream.open(tmp_path, model="offline", journal=address) as other,
    ):
        run = await silent.start("role:dude", "Hello.")
        assert not (await other.take(run.id)).is_here
        network.is_down = True
        network.cut()
        taking = asyncio.ensure_future(other.take(run.id))
        await end_soon(postgres, address, run.id)

        assert (await taking).is_here


def sessions(postgres: PostgresServer, address: str) -> int:
    """Return how many sessions of a database there are."""
    query = f"select count(*) from pg_stat_activity where datname = '{address.rpartition('/')[2]}'"
    [(count,)] = postgres.sql(query)
    return int(str(count))
