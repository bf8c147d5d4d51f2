"""A replica takes over: what was acknowledged is there, and the primary before it acknowledges no more."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from deadline import until, wait_until
from support.postgres import LACKING, PostgresServer

pytest.importorskip("psycopg")

from postgres_kit import lives, opened

from midstream.core.notices import Envelope
from midstream.language.errors import JournalFull, JournalMoved, RunOwned, WorldTrouble
from midstream.runtime.storage import Mail
from midstream.store.postgres import link, store
from midstream.store.postgres.blobs import LARGE
from midstream.testing.contracts import fact, facts

pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)


@contextlib.contextmanager
def pair() -> Iterator[tuple[PostgresServer, PostgresServer, str]]:
    """Give a primary, its synchronous replica, and the name of a database that both have."""
    with PostgresServer.made() as primary, primary.replica() as replica:
        try:
            name = primary.database().rpartition("/")[2]
            # What is acknowledged is on the replica's disk; what it answers with comes a moment later.
            known = f"select from pg_database where datname = '{name}'"
            wait_until(lambda: bool(replica.sql(known)), "the replica has no such database")
            yield primary, replica, name
        finally:
            primary.kill()  # it may be frozen, or wait for a replica for ever


async def renewed(mine: store.PostgresStore) -> bool:
    """Say that an owner lives; return whether that was heard. It tells soon, and is asked again."""
    with contextlib.suppress(WorldTrouble):
        return await mine.renew() > 0
    return False


@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_runs_go_on_with_the_replica_and_nothing_acknowledged_is_lost(how: str) -> None:
    with pair() as (primary, replica, name):
        there = replica.address(name)
        ports = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
        both = f"postgresql://midstream@{ports}/{name}"
        async with opened(both, both) as (mine, other):
            await mine.claim("r")
            kept: list[Envelope] = []
            is_busy = asyncio.Event()

            async def write() -> None:
                for seq in range(1, 201):
                    await mine.append("r", seq - 1, [fact("r", seq)])
                    kept.append(fact("r", seq))
                    if seq == 20:
                        is_busy.set()

            writing = asyncio.create_task(write())
            await is_busy.wait()
            await asyncio.to_thread(getattr(primary, how))
            await asyncio.to_thread(replica.promote)
            await until(lambda: renewed(mine))
            assert await asyncio.to_thread(lives, there, mine.me)
            with pytest.raises(RunOwned):
                await other.claim("r")
            if how == "freeze":
                await asyncio.to_thread(primary.thaw)
            await writing

            assert await other.read("r") == kept == facts("r", 1, 200)
            await mine.release("r")
            assert (await other.claim("r")).deaths == 0
            assert replica.sql("select seq from midstream.runs where id = 'r'", name) == [(200,)]


async def test_a_primary_whose_replica_took_over_acknowledges_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "CLOSING_PATIENCE_S", 0.5)
    with pair() as (primary, replica, name):
        async with opened(primary.address(name)) as (late,):
            await late.claim("r")
            await late.append("r", 0, facts("r", 1, 3))
            await asyncio.to_thread(replica.promote)
            monkeypatch.setattr(link, "ANSWER_S", 0.5)
            monkeypatch.setattr(link, "PATIENCE_S", 1.0)
            with pytest.raises(JournalFull, match="the server gives no answer"):
                await late.append("r", 3, [fact("r", 4)])
            with pytest.raises(WorldTrouble, match="the server gives no answer"):
                await late.post(Mail(id="m", run="r", at=1.0))
            with pytest.raises(WorldTrouble, match="the server gives no answer"):
                await late.renew()

            there = replica.address(name)
            async with opened(there) as (new,):
                # It has as long as after a restart to come back.
                assert await asyncio.to_thread(lives, there, late.me)
                assert (await new.claim("r")).was_cut
                await new.append("r", 3, [fact("r", 4, "of the new one")])
                assert await new.undelivered("r") == []
            with pytest.raises((JournalFull, JournalMoved)):
                await late.append("r", 3, [fact("r", 4)])
            assert primary.sql("select seq from midstream.runs where id = 'r'", name) == [(3,)]


async def test_what_took_over_or_was_recovered_deletes_no_contents_that_are_kept_elsewhere(
    tmp_path: Path,
) -> None:
    contents = b"x" * LARGE
    with pair() as (primary, replica, name):
        async with opened(primary.address(name), blobs=str(tmp_path)) as (first,):
            key = await first.put(contents)
        await asyncio.to_thread(replica.promote)
        await asyncio.to_thread(
            replica.sql, "update midstream.blobs set put_at = put_at - interval '8 days'", name
        )
        async with opened(replica.address(name), blobs=str(tmp_path)) as (second,):
            with pytest.raises(WorldTrouble, match="took over"):
                await second.sweep()
            assert await second.get(key) == contents
