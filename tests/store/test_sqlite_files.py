"""The journal's files: how they are made, whose they are, and what is refused."""

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from store_kit import edit, every, opened, refusal
from support.store_contracts import started

from midstream.core.codec import FORMAT
from midstream.language.errors import JournalTooNew, MidstreamError, WorldTrouble
from midstream.runtime.storage import Mail
from midstream.store import facts, rows
from midstream.store.owners import Owners
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_sockets_of_a_dead_owner_go_and_those_of_a_living_one_stay(
    journal_path: Path,
) -> None:
    async with opened(journal_path) as living:
        folder = Path(f"{journal_path}.d")
        names = [f"{owner}.{kind}" for owner in ("dead", living.me) for kind in ("bell", "live")]
        for name in names:
            (folder / name).touch(mode=0o600)
        async with opened(journal_path):
            assert [name for name in names if (folder / name).exists()] == names[2:]


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


async def test_a_journal_that_others_could_read_is_made_private(journal_path: Path) -> None:
    async with opened(journal_path):
        pass
    journal_path.chmod(0o644)
    async with opened(journal_path):
        assert mode_of(journal_path) == 0o600


async def test_a_closed_journal_leaves_one_file_and_its_folder(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:
        await store.append("r", 0, [fact("r", 1)])

    assert sorted(os.listdir(tmp_path)) == ["journal.db", "journal.db.d"]
    assert os.listdir(tmp_path / "journal.db.d") == []


async def test_a_newer_journal_is_refused_and_not_touched(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        await store.append("r", 0, [fact("r", 1)])
    edit(journal_path, "update meta set value=? where key='format'", FORMAT + 1)
    before = (journal_path.read_bytes(), journal_path.stat().st_mtime_ns)
    error = refusal(lambda: SqliteStore.opened(journal_path))

    assert isinstance(error, JournalTooNew)
    assert str(journal_path) in error.what
    assert error.hint
    assert (journal_path.read_bytes(), journal_path.stat().st_mtime_ns) == before


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
    journal_path: Path,
) -> None:
    async with opened(journal_path) as store:
        await store.append("r", 0, [fact("r", 1)])
        edit(journal_path, "update meta set value=? where key='format'", FORMAT + 1)
        with pytest.raises(JournalTooNew):
            await store.append("r", 1, [fact("r", 2)])

    assert edit(journal_path, "select count(*) from facts") == [(1,)]


@pytest.mark.parametrize(
    "content",
    [b"hello, this is no database\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000],
    ids=["text", "zeros", "header"],
)
async def test_a_file_that_is_no_database_is_refused(journal_path: Path, content: bytes) -> None:
    journal_path.write_bytes(content)
    error = refusal(lambda: SqliteStore.opened(journal_path))

    assert isinstance(error, WorldTrouble)
    assert str(journal_path) in error.what
    assert "mv" in error.hint
    assert journal_path.read_bytes() == content


async def test_the_database_of_something_else_is_refused(journal_path: Path) -> None:
    edit(journal_path, "create table cookies(name, value)")
    before = journal_path.read_bytes()

    assert isinstance(refusal(lambda: SqliteStore.opened(journal_path)), WorldTrouble)
    assert journal_path.read_bytes() == before


async def test_a_journal_without_its_format_is_refused(journal_path: Path) -> None:
    async with opened(journal_path):
        pass
    edit(journal_path, "delete from meta")

    assert isinstance(refusal(lambda: SqliteStore.opened(journal_path)), WorldTrouble)


async def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "journal.db"):
        error = refusal(lambda path=path: SqliteStore.opened(path))  # type: ignore[misc]

        assert isinstance(error, WorldTrouble)
        assert error.hint


async def test_an_empty_file_becomes_a_journal(journal_path: Path) -> None:
    journal_path.touch()
    async with opened(journal_path) as store:
        await store.append("r", 0, [fact("r", 1)])

        assert await store.read("r") == [fact("r", 1)]


async def test_many_may_make_it_at_once(journal_path: Path) -> None:
    stores: list[SqliteStore] = []
    errors: list[MidstreamError] = []

    def make() -> None:
        try:
            stores.append(SqliteStore.opened(journal_path))
        except MidstreamError as error:
            errors.append(error)

    makers = [threading.Thread(target=make) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    for number, store in enumerate(stores):
        await store.append(f"r{number}", 0, [fact(f"r{number}", 1)])
    for store in stores:
        assert len(await every(store)) == 8
        await store.aclose()

    assert errors == []


async def test_one_run_is_looked_up_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    look = facts.head_in

    def looked(row: Sequence[object]) -> facts.Head:
        seen.append(row[0])
        return look(row)

    async with opened(tmp_path / "journal.db") as store:
        for run in ("a", "b", "c", "d"):
            await store.append(run, 0, [fact(run, 1)])
        await store.fork("b", 1, "f")
        for module in (facts, rows):
            monkeypatch.setattr(module, "head_in", looked)
        await store.lineage("f")
        await store.run("c")
        await store.matching("d")
        await store.listing(limit=1, after=(1.0, "b"))

    assert seen == [5, 2, 3, 4, 1]


async def grown(path: Path) -> None:
    """Make a journal of several pages."""
    async with opened(path) as store:
        for seq in range(1, 60):
            await store.append("r", seq - 1, [fact("r", seq, "x" * 500)])


@pytest.mark.parametrize("left", [1, 100, 4096, 20_000])
async def test_a_file_that_was_cut_short_is_told_as_that(journal_path: Path, left: int) -> None:
    await grown(journal_path)
    size = os.stat(journal_path).st_size
    os.truncate(journal_path, left)
    error = refusal(lambda: SqliteStore.opened(journal_path))

    assert f"it was cut short, {left} of {size} bytes" in error.what or left < 512
    assert "locked" not in str(error)
    assert "--salvage" in error.hint
    assert os.stat(journal_path).st_size == left


@pytest.mark.parametrize("change", [lambda path: os.truncate(path, 0), os.unlink])
async def test_a_log_whose_journal_is_gone_is_not_thrown_away(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path, log = tmp_path / "journal.db", tmp_path / "journal.db-wal"
    async with opened(path) as store:
        await store.append("r", 0, [fact("r", 1)])
        kept = log.read_bytes()
        change(path)
    log.write_bytes(kept)

    for _ in range(2):
        error = refusal(lambda: SqliteStore.opened(path))
        assert "--salvage" in error.hint
        assert log.read_bytes() == kept


async def test_an_emptied_journal_is_no_new_one(journal_path: Path) -> None:
    await grown(journal_path)
    os.truncate(journal_path, 0)

    assert "emptied" in refusal(lambda: SqliteStore.opened(journal_path)).what


def test_an_empty_file_is_where_a_journal_begins(journal_path: Path) -> None:
    journal_path.touch()
    SqliteStore.opened(journal_path).close()

    assert journal_path.stat().st_size > 0


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "journal.db").mkdir()

    assert "no regular file" in refusal(lambda: SqliteStore.opened(tmp_path / "journal.db")).what
    error = refusal(lambda: SqliteStore.opened(tmp_path / "file" / "journal.db"))
    assert str(tmp_path / "file") in error.what


async def test_an_owner_without_a_socket_hears_of_what_is_written(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 40)  # no socket has a path that long
    folder.mkdir()
    async with opened(folder / "journal.db") as store, opened(folder / "journal.db") as other:
        async with contextlib.aclosing(store.rings()) as rings:
            await anext(rings)
            await other.post(Mail(id="1", run="r", at=1.0))
            await anext(rings)

        assert not list(folder.glob("journal.db.d/*.bell"))
        assert len(await store.mail("")) == 1


def _note_steps(taken: list[int], told: dict[str, Any]) -> None:
    taken.append(told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])


async def test_a_page_costs_the_same_among_few_runs_and_many(tmp_path: Path) -> None:
    path, steps = tmp_path / "journal.db", list[int]()
    async with opened(path) as store:
        for count in (40, 400):
            for number in range(count):
                id = f"{count}-{number}"
                (first,) = started(id)
                begun = msgspec.structs.replace(first, at=float(count + number))
                await store.append(id, 0, [begun])
            taken: list[int] = []
            reading = apsw.Connection(str(path))
            reading.trace_v2(apsw.SQLITE_TRACE_PROFILE, partial(_note_steps, taken))
            owners = Owners(tmp_path / "journal.db.d")
            of_ten = partial(rows.listing, workspace="/home/me", kind=None, status=None, limit=10)
            first_page = of_ten(reading, owners, after=None)
            second_page = of_ten(reading, owners, after=first_page[-1].place)
            reading.close()
            owners.close()
            assert len({kept.id for kept in first_page + second_page}) == 20
            steps.append(sum(taken))

    assert steps[1] < steps[0] * 1.1
