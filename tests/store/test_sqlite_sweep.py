"""Contents beside a journal in a file that nothing names any more are deleted, and no others."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from store_kit import opened
from support.store_contracts import error_of, started, told

from midstream.cli.main import exit_code
from midstream.config.portable import try_lock_file
from midstream.core import events as e
from midstream.language.errors import ContentsMissing, JournalLost
from midstream.runtime.storage import Mail
from midstream.store import blob_store
from midstream.store.sqlite import SqliteStore


class Kept:
    """A store whose contents can be made old."""

    def __init__(self, store: SqliteStore, path: Path) -> None:
        self.store = store
        self.folder = Path(f"{path}.d") / "shelf"

    def age(self, days: float = 8) -> None:
        for path in self.folder.rglob("*"):
            then = path.stat().st_mtime - days * 86_400
            os.utime(path, (then, then))

    async def has(self, key: str) -> bool:
        return not isinstance(await error_of(self.store.get(key)), ContentsMissing)


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        yield Kept(store, path)


async def test_what_nothing_names_goes_once_it_is_old_and_all_else_stays(kept: Kept) -> None:
    store = kept.store
    lost = [await store.put(data) for data in (b"lost", b"[1]", b"")]
    inner = await store.put(b"inner")
    named = await store.put(json.dumps({"é": inner}, ensure_ascii=False).encode())
    outer = await store.put(json.dumps([named]).encode())
    said, sent = await store.put(b"said"), await store.put(b"sent")
    await store.append("r", 0, started("r"))
    await store.append("r", 1, told("r", e.RunRenamed(name=f"é{outer}ü {said}"), after=1))
    await store.post(Mail(id="1", run="r", at=1.0, text=f"look: {sent}"))

    assert await store.sweep() == 0
    kept.age()
    young = await store.put(json.dumps([lost[0]]).encode())
    assert await store.sweep() == 2
    assert [await kept.has(key) for key in lost] == [True, False, False]
    assert [await kept.has(key) for key in (inner, named, outer, said, sent, young)] == [True] * 6
    kept.age()
    assert await store.sweep() == 2
    assert [await kept.has(key) for key in (lost[0], young)] == [False] * 2


async def test_what_is_put_again_is_young(kept: Kept) -> None:
    key = await kept.store.put(b"old")
    kept.age()
    assert await kept.store.put(b"old") == key
    assert await kept.store.sweep() == 0
    assert await kept.has(key)


async def test_nothing_is_deleted_while_it_is_put(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept.store.put(b"[1]")
    whole, is_old = blob_store.FileBlobStore._whole, blob_store._is_old
    free: list[bool] = []

    def is_free() -> bool:
        with (kept.folder / "lock").open("rb+") as lock:
            return try_lock_file(lock.fileno())

    def looked(store: blob_store.FileBlobStore, key: str) -> bytes | None:
        free.append(is_free())
        return whole(store, key)

    def judged(path: Path) -> bool:
        free.append(is_free())
        return is_old(path)

    monkeypatch.setattr(blob_store.FileBlobStore, "_whole", looked)
    await kept.store.put(b"[1]")
    kept.age()
    monkeypatch.setattr(blob_store, "_is_old", judged)
    assert await kept.store.sweep() == 1

    # While it is put; as old ones, and such as name others, are looked for; as it goes.
    assert free == [False, True, True, False]
    assert is_free()


async def test_a_file_in_the_journals_place_has_nothing_deleted(kept: Kept, tmp_path: Path) -> None:
    key = await kept.store.put(b"old")
    await kept.store.append("r", 0, started("r"))
    kept.age()
    (tmp_path / "journal.db").rename(tmp_path / "away.db")
    (tmp_path / "journal.db").write_bytes(b"")

    assert isinstance(await error_of(kept.store.sweep()), JournalLost)
    assert await kept.has(key)


def test_prune_deletes_contents_with_the_last_run_that_named_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal.db"

    async def begin() -> Kept:
        async with opened(path) as store:
            key = await store.put(b"x")
            await store.append("r", 0, started("r"))
            await store.append("r", 1, told("r", e.RunRenamed(name=key), e.RunFinished(), after=1))
            return Kept(store, path)

    kept = asyncio.run(begin())
    kept.age()
    monkeypatch.setenv("MIDSTREAM_JOURNAL", str(path))
    prune = ["journal", "prune", "--older-than", "0"]
    assert exit_code([*prune, "--dry-run"]) == 0
    assert [*kept.folder.glob("??/*")] != []
    assert exit_code(prune) == 0
    assert "1 file that nothing names any more" in capfd.readouterr().out
    assert [*kept.folder.glob("??/*")] == []
