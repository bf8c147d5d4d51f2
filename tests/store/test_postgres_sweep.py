"""Contents that nothing names any more are deleted, and never any that somebody may be about to name."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from support.postgres import PostgresServer
from support.store_contracts import error_of, started, told

from midstream.cli.main import exit_code
from midstream.core import events as e
from midstream.language.errors import ContentsMissing, WorldTrouble
from midstream.runtime.storage import Mail

pytest.importorskip("psycopg")

import psycopg
from postgres_kit import opened

from midstream.store.postgres.blobs import LARGE
from midstream.store.postgres.store import PostgresStore


class Kept:
    """A store with large contents in a folder, whose contents can be made old."""

    def __init__(self, store: PostgresStore, address: str, folder: Path) -> None:
        self.store = store
        self.address = address
        self.folder = folder

    def sql(self, statement: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(statement.encode())

    def age(self, days: float = 8) -> None:
        self.sql(f"update midstream.blobs set put_at = put_at - interval '{days} days'")

    async def has(self, key: str) -> bool:
        return not isinstance(await error_of(self.store.get(key)), ContentsMissing)

    def files(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
async def kept(database: Callable[[], str], tmp_path: Path) -> AsyncIterator[Kept]:
    address = database()
    async with opened(address, blobs=str(tmp_path)) as (store,):
        yield Kept(store, address, tmp_path)


def moved(folder: Path, name: str) -> Path:
    return folder.rename(folder.with_name(name))


def large(words: str) -> bytes:
    return words.encode().ljust(LARGE)


async def test_what_nothing_names_goes_once_it_is_old_and_all_else_stays(kept: Kept) -> None:
    store = kept.store
    lost = [await store.put(data) for data in (b"small", large("lost"), b"[1]", large("[2]"))]
    inner = [await store.put(data) for data in (b"inner", large("inner"))]
    lists = [
        await store.put(json.dumps({"é": inner[0]}, ensure_ascii=False).encode()),
        await store.put(large(json.dumps([inner[1]]))),
    ]
    outer = await store.put(json.dumps(lists).encode())
    said, sent = await store.put(large("said")), await store.put(b"sent")
    await store.append("r", 0, started("r"))
    await store.append("r", 1, told("r", e.RunRenamed(name=f"é{outer}ü {said}"), after=1))
    await store.post(Mail(id="1", run="r", at=1.0, text=f"look: {sent}"))
    named = [*inner, *lists, outer, said, sent]

    assert await store.sweep() == 0
    assert [await kept.has(key) for key in lost] == [True] * 4
    kept.age()
    young = await store.put(b"young")
    assert await store.sweep() == 4
    assert [await kept.has(key) for key in lost] == [False] * 4
    assert [await kept.has(key) for key in (*named, young)] == [True] * 8
    assert kept.files() == {inner[1], lists[1], said}
    assert await store.sweep() == 0


async def test_put_again_it_is_young_again_with_all_that_it_names(kept: Kept) -> None:
    store = kept.store
    inner = await store.put(large("inner"))
    again = [large("again"), b"small"]
    for data in again:
        await store.put(data)
    kept.age()
    outer = await store.put(json.dumps([inner]).encode())
    keys = [await store.put(data) for data in again]

    assert await store.sweep() == 0
    assert [await kept.has(key) for key in (inner, outer, *keys)] == [True] * 4


async def test_whoever_puts_what_is_being_deleted_waits_and_writes_it_anew(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kept.store
    data = large("both")
    key = await store.put(data)
    kept.age()
    deleting, goes_on = threading.Event(), threading.Event()
    blobs = store._blobs
    assert blobs is not None
    delete = blobs.delete

    def slow(keys: list[str]) -> None:
        deleting.set()
        goes_on.wait(DEADLINE_S)
        delete(keys)

    monkeypatch.setattr(blobs, "delete", slow)
    sweeping = asyncio.ensure_future(store.sweep())
    await asyncio.to_thread(deleting.wait, DEADLINE_S)
    putting = asyncio.ensure_future(store.put(data))
    await asyncio.to_thread(_until_somebody_waits, kept.address)
    assert not putting.done()
    goes_on.set()

    assert await sweeping == 1
    assert await putting == key
    assert await store.get(key) == data


def _until_somebody_waits(address: str) -> None:
    query = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%midstream.blobs%'"
    with psycopg.connect(address, autocommit=True) as connection:
        while not connection.execute(query).rowcount:
            continue


async def test_contents_that_another_process_keeps_elsewhere_stay(kept: Kept) -> None:
    large_one, small = await kept.store.put(large("x")), await kept.store.put(b"x")
    kept.age()
    async with opened(kept.address) as (plain,):
        assert await plain.sweep() == 1
    assert await kept.has(large_one)
    assert not await kept.has(small)


async def test_what_nobody_goes_on_writing_is_removed_with_the_rest(kept: Kept) -> None:
    key = await kept.store.put(large("x"))
    kept.age()
    [folder] = [path.parents[1] for path in kept.folder.rglob(key)]
    drafts = [folder / f"{name}.1.tmp" for name in ("dead", "alive")]
    for draft in drafts:
        draft.write_bytes(b"half")
    os.utime(drafts[0], (0, 0))
    await kept.store.sweep()
    assert kept.files() == {"alive.1.tmp"}


async def test_a_place_that_is_away_loses_no_row(kept: Kept, tmp_path: Path) -> None:
    key = await kept.store.put(large("x"))
    kept.age()
    away = moved(tmp_path, "away")
    with pytest.raises(WorldTrouble, match="not there"):
        await kept.store.sweep()
    moved(away, tmp_path.name)
    assert await kept.has(key)
    assert await kept.store.sweep() == 1


async def test_a_database_made_of_a_backup_deletes_nothing_elsewhere(
    kept: Kept, postgres: PostgresServer, tmp_path: Path
) -> None:
    first = await kept.store.put(large("first"))
    kept.age()
    assert await kept.store.sweep() == 1
    key = await kept.store.put(large("second"))
    kept.age()
    copy = postgres.database().rpartition("/")[2]
    await asyncio.to_thread(postgres.sql, f"drop database {copy}")
    await kept.store.aclose()
    name = kept.address.rpartition("/")[2]
    await asyncio.to_thread(postgres.sql, f"create database {copy} template {name}")
    async with opened(postgres.address(copy), blobs=str(tmp_path)) as (restored,):
        with pytest.raises(WorldTrouble, match="backup"):
            await restored.sweep()
        assert await restored.get(key) == large("second")
        await asyncio.to_thread(postgres.sql, "update midstream.journal set home = null", copy)
        assert await restored.sweep() == 1
    assert first not in kept.files()


def test_prune_deletes_contents_with_the_last_run_that_named_them(
    database: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    address = database()

    async def begin() -> Kept:
        async with opened(address, blobs=str(tmp_path)) as (store,):
            key = await store.put(large("x"))
            await store.append("r", 0, started("r"))
            await store.append("r", 1, told("r", e.RunRenamed(name=key), e.RunFinished(), after=1))
            return Kept(store, address, tmp_path)

    kept = asyncio.run(begin())
    kept.age()
    monkeypatch.setenv("MIDSTREAM_JOURNAL", address)
    monkeypatch.setenv("MIDSTREAM_BLOBS", str(tmp_path))
    prune = ["journal", "prune", "--older-than", "0"]
    assert exit_code([*prune, "--dry-run"]) == 0
    assert len(kept.files()) == 1
    assert exit_code(prune) == 0
    assert "1 file that nothing names any more" in capfd.readouterr().out
    assert kept.files() == set()
