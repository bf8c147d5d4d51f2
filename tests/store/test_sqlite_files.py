"""The journal's files: how they are made, whose they are, and what is refused."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import apsw
import pytest
from store_kit import edit, opened, refusal

from midstream.core.codec import FORMAT
from midstream.core.errors import JournalTooNew, MidstreamError, WorldTrouble
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_everything_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.db"
    async with opened(path) as store:
        await store.append("r", 0, [fact("r", 1)])
        await store.put(b"x" * 100)

        found = list((tmp_path / "new").rglob("*"))
        assert {mode_of(file) for file in found if file.is_file()} == {0o600}
        assert {mode_of(folder) for folder in found if folder.is_dir()} == {0o700}
        assert {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db.d"} <= {
            file.name for file in found
        }


async def test_a_journal_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path):
        pass
    path.chmod(0o644)
    async with opened(path):
        assert mode_of(path) == 0o600


async def test_a_closed_journal_leaves_one_file_and_its_folder(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:
        await store.append("r", 0, [fact("r", 1)])

    assert sorted(os.listdir(tmp_path)) == ["journal.db", "journal.db.d"]
    assert os.listdir(tmp_path / "journal.db.d") == []


async def test_a_newer_journal_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append("r", 0, [fact("r", 1)])
    edit(path, "update meta set value=? where key='format'", FORMAT + 1)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    error = refusal(lambda: SqliteStore.opened(path))

    assert isinstance(error, JournalTooNew)
    assert str(path) in error.what
    assert error.hint
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


async def test_a_newer_journal_is_refused_also_while_its_log_is_full(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    newer = apsw.Connection(str(path))
    newer.execute("pragma journal_mode=wal").fetchall()
    for table in ("runs", "facts", "inbox", "leases", "snapshots"):
        newer.execute(f"create table {table}(x)")
    newer.execute("create table meta(key, value)")
    newer.execute("insert into meta values('format', 99)")
    log = tmp_path / "journal.db-wal"
    before = (path.read_bytes(), log.read_bytes())

    assert isinstance(refusal(lambda: SqliteStore.opened(path)), JournalTooNew)
    assert (path.read_bytes(), log.read_bytes()) == before
    newer.close()


async def test_a_journal_that_turns_newer_while_it_is_open_is_written_no_more(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append("r", 0, [fact("r", 1)])
        edit(path, "update meta set value=? where key='format'", FORMAT + 1)
        with pytest.raises(JournalTooNew):
            await store.append("r", 1, [fact("r", 2)])

    assert edit(path, "select count(*) from facts") == [(1,)]


@pytest.mark.parametrize(
    "content",
    [b"hello, this is no database\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000],
    ids=["text", "zeros", "header"],
)
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    error = refusal(lambda: SqliteStore.opened(path))

    assert isinstance(error, WorldTrouble)
    assert str(path) in error.what
    assert "mv" in error.hint
    assert path.read_bytes() == content


async def test_the_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    edit(path, "create table cookies(name, value)")
    before = path.read_bytes()

    assert isinstance(refusal(lambda: SqliteStore.opened(path)), WorldTrouble)
    assert path.read_bytes() == before


async def test_a_journal_without_its_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path):
        pass
    edit(path, "delete from meta")

    assert isinstance(refusal(lambda: SqliteStore.opened(path)), WorldTrouble)


async def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "journal.db"):
        error = refusal(lambda path=path: SqliteStore.opened(path))  # type: ignore[misc]

        assert isinstance(error, WorldTrouble)
        assert error.hint


async def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    async with opened(path) as store:
        await store.append("r", 0, [fact("r", 1)])

        assert await store.read("r") == [fact("r", 1)]


async def test_many_may_make_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    stores: list[SqliteStore] = []
    errors: list[MidstreamError] = []

    def make() -> None:
        try:
            stores.append(SqliteStore.opened(path))
        except MidstreamError as error:
            errors.append(error)

    makers = [threading.Thread(target=make) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    async with asyncio.timeout(10):
        for number, store in enumerate(stores):
            await store.append(f"r{number}", 0, [fact(f"r{number}", 1)])
        for store in stores:
            assert len(await store.runs()) == 8
            await store.aclose()

    assert errors == []
