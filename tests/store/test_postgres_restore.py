"""A backup of the database is restored: runs go on, and who worked with what was before is refused."""

import asyncio
from pathlib import Path

import pytest
from api_kit import TALK
from support.postgres import PostgresServer
from support.store_contracts import started, worker_at

import midstream
from midstream.language.errors import JournalMoved
from midstream.runtime.storage import Mail
from midstream.testing import ScriptedModel, asks, says
from midstream.testing.contracts import facts

pytest.importorskip("psycopg")

from postgres_kit import opened

from midstream.store.postgres.blobs import LARGE


class Backup:
    """A database, and a backup of it as docs/many_machines.md says."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.address = server.database()
        self._dump = server.folder / f"{self._name}.dump"

    @property
    def _name(self) -> str:
        return self.address.rpartition("/")[2]

    def make(self) -> None:
        self._server.run(
            *("pg_dump", "--format=custom", "--schema=midstream"),
            *(f"--file={self._dump}", self.address),
        )

    def restored(self) -> str:
        """Return the address of a new database that has what the backup has."""
        beside = self._server.database()
        self._server.run(
            *("pg_restore", "--exit-on-error", "--single-transaction"),
            *(f"--dbname={beside}", self._dump),
        )
        return beside

    def restore(self) -> None:
        """Put what the backup has in the place of what is there, under those who work with it."""
        beside = self.restored().rpartition("/")[2]
        for statement in (
            f"alter database {self._name} with allow_connections false",
            f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{self._name}'",
            f"alter database {self._name} rename to {self._name}_before",
            f"alter database {beside} rename to {self._name}",
        ):
            self._server.sql(statement)


@pytest.fixture
def backup(postgres: PostgresServer) -> Backup:
    return Backup(postgres)


async def test_a_run_goes_on_from_a_backup_with_its_contents(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDSTREAM_BLOBS", str(tmp_path))
    work = tmp_path / "work"
    await asyncio.to_thread(work.mkdir)
    model = ScriptedModel(asks("What is your name?"))
    async with midstream.open(work, model=model, journal=backup.address) as engine:
        run = await engine.start(TALK, "greet")
        assert await run.settled() == "waiting"
    async with opened(backup.address, blobs=str(tmp_path)) as (store,):
        key = await store.put(b"x" * LARGE)
    await asyncio.to_thread(backup.make)
    restored = await asyncio.to_thread(backup.restored)

    model = ScriptedModel(says("Welcome, Ada."))
    async with midstream.open(work, model=model, journal=restored) as engine:
        again = await engine.resume(run.id)
        assert await again.wait(["Ada"]) == "Welcome, Ada."
    async with opened(backup.address, restored, blobs=str(tmp_path)) as (before, after):
        assert await after.get(key) == b"x" * LARGE
        begun = await before.read(run.id)
        assert (await after.read(run.id))[: len(begun)] == begun


async def test_who_outlives_a_restore_is_refused_and_its_runs_go_on_elsewhere(
    backup: Backup,
) -> None:
    async with opened(backup.address) as (late,):
        before = {}
        for run in ("ahead", "let go", "as it was"):
            await late.append(run, 0, started(run))
            before[run] = (await late.claim(run)).epoch
        assert await late.renew() > 0
        await asyncio.to_thread(backup.make)
        await late.append("ahead", 1, facts("ahead", 2, 3))
        await late.release("let go")
        # So much later that what was said of its life since is no beat that a crash may take.
        late._life._seen_at += 60.0
        await asyncio.to_thread(backup.restore)

        with pytest.raises(JournalMoved, match="restored"):
            await late.renew()
        with pytest.raises(JournalMoved):
            await late.append("ahead", 3, facts("ahead", 4, 4))
        # It has let go of what it had by now, and lives on; of one of these it did not know any more.
        assert await late.renew() > 0
        async with opened(backup.address) as (other,):
            taken = await other.take(worker_at(other), 9)
            epochs = {each.kept.id: each.claim.epoch for each in taken}
            assert epochs.keys() == before.keys()
            assert all(epochs[run] > before[run] for run in before)
            await other.append("ahead", 1, facts("ahead", 2, 2))
            with pytest.raises(JournalMoved):
                await late.append("as it was", 1, facts("as it was", 2, 2))


async def test_who_is_as_far_as_another_history_is_refused(backup: Backup) -> None:
    async with opened(backup.address) as (late,):
        await late.append("r", 0, started("r"))
        await asyncio.to_thread(backup.make)
        await late.claim("r")
        await late.append("r", 1, facts("r", 2, 3))
        await asyncio.to_thread(backup.restore)
        async with opened(backup.address) as (other,):
            await other.append("r", 1, facts("r", 2, 2))
            await other.append("r", 2, facts("r", 3, 3))
            theirs = await other.read("r")

            # Nobody has it now, and it is at the same place.
            with pytest.raises(JournalMoved, match="other facts"):
                await late.append("r", 3, facts("r", 4, 4))
            assert await other.read("r") == theirs


async def test_words_that_waited_in_a_backup_wait_in_what_is_restored(backup: Backup) -> None:
    async with opened(backup.address) as (store,):
        await store.append("r", 0, started("r"))
        await store.post(Mail(id="1", run="r", at=1.0, text="words"))
        await asyncio.to_thread(backup.make)
        await store.delivered("r", "1")
        await asyncio.to_thread(backup.restore)
        assert [mail.id for mail in await store.undelivered("r")] == ["1"]


async def test_a_crash_of_the_server_that_takes_the_last_beat_is_no_restore(
    backup: Backup,
) -> None:
    async with opened(backup.address) as (store,):
        await store.append("r", 0, started("r"))
        await store.claim("r")
        store._life._seen_at += 2.0
        assert await store.renew() > 0
        assert await store.owner_of("r") == store.me
