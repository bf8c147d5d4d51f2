"""A journal that is removed, moved, replaced or cut short while it is in use takes nothing more."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from store_kit import child, edit, line_of, opened

from midstream.language.errors import JournalFull, JournalLost
from midstream.runtime.storage import Mail
from midstream.testing.contracts import fact, facts


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def another(path: Path) -> None:
    """Write another journal over this one, in place, as `cp` does."""
    shutil.copyfile(path.parent.with_name("another") / path.name, path)


def other_log(path: Path) -> None:
    log = beside(path, "-wal")
    log.write_bytes(os.urandom(log.stat().st_size))


CHANGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "moved away": lambda path: path.rename(beside(path, ".old")),
    "log removed": lambda path: beside(path, "-wal").unlink(),
    "log moved": lambda path: beside(path, "-wal").rename(beside(path, ".log")),
    "index removed": lambda path: beside(path, "-shm").unlink(),
    "emptied": lambda path: os.truncate(path, 0),
    "cut short": lambda path: os.truncate(path, 4096),
    "log emptied": lambda path: os.truncate(beside(path, "-wal"), 0),
    "log cut short": lambda path: os.truncate(beside(path, "-wal"), 5000),
    "log written over": other_log,
    "written over": another,
    "replaced": lambda path: os.replace(shutil.copy(path, beside(path, ".copy")), path),
    "folder removed": lambda path: shutil.rmtree(path.parent),
    "folder moved": lambda path: path.parent.rename(path.parent.with_name("moved")),
}


async def prepared(path: Path) -> None:
    """Make a journal of some pages, and another one of as many."""
    for file, run in ((path, "before"), (path.parent.with_name("another") / path.name, "other")):
        async with opened(file) as store:
            for seq in range(1, 40):
                await store.append(run, seq - 1, [fact(run, seq, "x" * 900)])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_nothing_is_kept_in_a_journal_that_is_another_now(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path = tmp_path / "here" / "journal.db"
    await prepared(path)
    async with opened(path) as store:
        await store.append("r", 0, facts("r", 1, 3))
        await store.append("r", 3, facts("r", 4, 6))
        change(path)

        with pytest.raises(JournalLost) as caught:
            await store.append("r", 6, [fact("r", 7)])
        with pytest.raises(JournalLost):
            await store.post(Mail(id="1", run="r", at=1.0, text="hello"))
        with pytest.raises(JournalLost):
            await store.claim("r")

        assert str(path) in caught.value.what
        assert "/export" in caught.value.hint
        assert await store.read("r") == facts("r", 1, 6)
        assert await store.read("r", after=2, upto=4) == facts("r", 3, 4)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_it_is_noticed_by_a_store_that_has_written_nothing_yet(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path = tmp_path / "here" / "journal.db"
    await prepared(path)
    async with opened(path) as other:
        await other.append("other", 0, facts("other", 1, 3))
        async with opened(path) as store:
            change(path)

            with pytest.raises(JournalLost):
                await store.append("r", 0, [fact("r", 1)])


async def test_a_journal_that_is_put_back_takes_facts_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append("r", 0, facts("r", 1, 3))
        path.rename(tmp_path / "away")
        with pytest.raises(JournalFull):
            await store.append("r", 3, [fact("r", 4)])
        (tmp_path / "away").rename(path)

        await store.append("r", 3, [fact("r", 4)])
    async with opened(path) as store:
        assert await store.read("r") == facts("r", 1, 4)


async def test_what_was_put_in_its_place_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "here" / "journal.db"
    await prepared(path)
    backup = path.parent.with_name("another") / path.name
    async with opened(path) as store:
        await store.append("r", 0, facts("r", 1, 3))
        another(path)

    assert path.read_bytes() == backup.read_bytes()


async def test_others_that_write_check_and_shorten_the_log_are_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        seq = 0
        for pragma in ("passive", "restart", "truncate", "full") * 3:
            for _ in range(3):
                seq += 1
                await store.append("r", seq - 1, [fact("r", seq)])
            (tmp_path / f"{seq}.txt").touch()
            edit(path, f"pragma wal_checkpoint({pragma})")
            edit(path, "insert or replace into leases values('someone', ?)", str(seq))
        edit(path, "vacuum")
        edit(path, "pragma wal_checkpoint(truncate)")
        await store.append("r", seq, [fact("r", seq + 1)])

        assert len(await store.read("r")) == seq + 1


async def test_processes_that_share_a_journal_never_take_each_other_for_a_loss(
    journal_path: Path,
) -> None:
    script = """
        async def main():
            store = SqliteStore.opened(path)
            run, = arguments
            for seq in range(1, 401):
                await store.append(run, seq - 1, [fact(run, seq, "x" * 30_000)])
            await store.aclose()
        asyncio.run(main())
        print("done")
    """
    children = [await child(script, journal_path, run) for run in "abc"]
    for process in children:
        assert await line_of(process) == "done"
        await process.wait()
    async with opened(journal_path) as store:
        assert [len(await store.read(run)) for run in "abc"] == [400] * 3
