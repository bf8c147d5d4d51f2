"""Journals that somebody else has written or changed: nothing of them acts, waits or is believed.

Each case prepares what stands where the journal is. It is refused in words, or what is read of it is
what had been written, to the fact: never something else, and never without an end.
"""

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from deadline import DEADLINE_S as DEADLINE_S
from store_kit import edit, opened
from tables import table

from midstream.core.codec import FORMAT
from midstream.language.errors import JournalTooNew, MidstreamError, WorldTrouble
from midstream.runtime.storage import Mail
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact, facts

MAIL = Mail(id="l1", run="r", at=1.0, text="go on")
KEPT = {"r": facts("r", 1, 5), "other": [fact("other", seq, f"o{seq}") for seq in range(1, 6)]}
ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select"
PAGES = {"p": b"page"}


async def made(path: Path) -> None:
    async with opened(path) as store:
        for run, kept in KEPT.items():
            await store.append(run, 0, kept)
        await store.post(MAIL)
        await store.keep_snapshot("r", 5, b"folded", PAGES)


async def is_held(path: Path) -> None:
    """Read all there is, and add to it: refused, or exactly what was written."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            store = await asyncio.to_thread(SqliteStore.opened, path)
        except MidstreamError:
            return
        try:
            for run, kept in KEPT.items():
                for upto in (3, None):
                    with contextlib.suppress(MidstreamError):
                        told = await store.read(run, upto=upto)
                        assert told in (kept[:upto], []), "it tells what nobody wrote"
                with contextlib.suppress(MidstreamError):
                    await store.append(run, 5, [fact(run, 6)])
                    assert await store.read(run, after=5) == [fact(run, 6)]
            with contextlib.suppress(MidstreamError):
                for one in await store.listing():
                    assert one.id in KEPT or one.damaged
                    assert not one.owner
            with contextlib.suppress(MidstreamError):
                assert all(mail == MAIL for mail in await store.mail(""))
            with contextlib.suppress(MidstreamError):
                assert await store.snapshot("r") in (None, (5, b"folded", PAGES))
        finally:
            await store.aclose()


SQL: dict[str, str] = {
    "a trigger that takes away what is written": "create trigger t after insert on facts begin "
    "delete from facts where run=new.run and seq=new.seq; end",
    "a trigger that writes something else": "create trigger t after insert on facts begin "
    "update facts set body=x'7b7d' where seq=new.seq; end",
    "a trigger that makes runs of others": "create trigger t after update on runs begin "
    "update runs set is_foreign=0, parent=1, parent_seq=3; end",
    "a trigger that answers every message": "create trigger t after insert on inbox begin "
    "update inbox set body=replace(body, 'say', 'approve'); end",
    "a trigger without an end": "create trigger t after insert on facts begin "
    f"{ENDLESS} count(*) from c; end",
    "a view for the snapshots": "drop table snapshots; create view snapshots as select 'r' as run, "
    "5 as seq, x'00' as data, x'00' as seal",
    "a view without an end for the format": "drop table meta; create view meta as "
    f"{ENDLESS} 'format' as key, x as value from c",
    "a view without an end for the runs": "alter table runs rename to was; "
    f"create view runs as {ENDLESS} x from c",
    "a view beside the tables": "create view nice as select * from facts",
    "a virtual table": "create virtual table v using fts5(a)",
    "an index that fails at every write": "create index i on facts(abs(-9223372036854775808 + seq))",
    "an index that needs much memory": "create index i on facts(length(zeroblob(1000000000)))",
    "a forged fact in the place of another": "update facts set "
    "body=replace(body, 'text', 'txet') where seq=2",
    "a fact that is no text and no blob": "update facts set body=42 where seq=2",
    "a fact of thirty million bytes": "update facts set body=zeroblob(30000000) where seq=2",
    "a fact that is JSON nested without end": "update facts set body=cast(replace("
    "hex(zeroblob(50000)), '0', '[') as blob) where seq=2",
    "a fact of nothing": "update facts set body=x'' where seq=2",
    "a fact before the first": "insert into facts select run, 0, at, body, checksum, ends, format "
    "from facts where seq=1",
    "a fact behind the last, well sealed": "insert into facts select run, 6, at, body, checksum, "
    "ends, format from facts where seq=5",
    "a time that is no number": "update facts set at='then' where seq=2",
    "a time without end": "update facts set at=9e999 where seq=2",
    "a time before all times": "update facts set at=-9e999 where seq=2",
    "a run that is its own parent": "update runs set parent=number, parent_seq=3 where number=1",
    "two runs that are each other's parents": "update runs set parent=3 - number, parent_seq=3",
    "a run as long as numbers go": "update runs set seq=9223372036854775807",
    "a run shorter than nothing": "update runs set seq=-1",
    "a run whose name is a path": "update runs set id='../../x' where number=1",
    "a run whose name draws on the terminal": "update runs set id=char(27) || '[2J' where number=1",
    "a run whose name is a million characters": "update runs set id=hex(zeroblob(500000)) where number=1",
    "a run whose name is no text": "update runs set id=x'ff00' where number=1",
    "a run without a summary": "update runs set summary=x'' where number=1",
    "a summary that says it is finished": "update runs set summary="
    "replace(cast(summary as text), 'waiting', 'finished')",
    "an import that is none any more": "update runs set is_foreign=1 - is_foreign",
    "a message that approves, not sealed": "insert into inbox select null, run, 'x', "
    "replace(body, 'say', 'approve'), 0, seal from inbox",
    "a message to another run, a copied seal": "insert into inbox select null, 'other', id, body, 0, seal "
    "from inbox",
    "a message in other words": "update inbox set body=replace(body, 'go on', 'go ON')",
    "a message that was delivered, again": "update inbox set delivered=1",
    "an owner that never was": "insert into leases values('r', '../../etc/passwd')",
    "an owner whose name is a million characters": "insert into leases values('r', hex(zeroblob(500000)))",
    "another snapshot": "update snapshots set data=x'80'",
    "another page": "update pages set data=x'80'",
    "a page that is none": "update pages set data='text', checksum='x'",
    "a table of other pages": "drop table pages; create table pages(x)",
    "a snapshot of the future": "update snapshots set seq=99",
    "a format of tomorrow": f"update meta set value={FORMAT + 1}",
    "a format that is no number": "drop table meta; create table meta(key, value); "
    "insert into meta values('format', 'x')",
    "a format below all": "update meta set value=-1",
    "two formats": "drop table meta; create table meta(key, value); "
    f"insert into meta values('format', {FORMAT}), ('format', 0)",
    "a table without its columns": "drop table facts; create table facts(x)",
    "a column that is worked out": "drop table snapshots; create table snapshots(run text primary key, "
    "seq integer, data blob, seal blob as (hex(data)))",
    "a schema that does not fit": "pragma writable_schema=1; update sqlite_schema set sql="
    "'create table facts(run, seq, at, body, checksum, ends)' where name='facts'",
    "a root page that is another's": "pragma writable_schema=1; update sqlite_schema set rootpage="
    "(select rootpage from sqlite_schema where name='runs') where name='facts'",
    "a root page beyond the file": "pragma writable_schema=1; update sqlite_schema set rootpage=99999 "
    "where name='facts'",
}


@table("tries", SQL)
async def test_what_stands_in_a_journal_is_what_was_written_or_nothing(
    journal_path: Path, tries: str
) -> None:
    await made(journal_path)
    connection = apsw.Connection(str(journal_path))
    try:
        connection.execute(SQL[tries]).fetchall()
    finally:
        connection.close()

    await is_held(journal_path)


@table("tries", [name for name in SQL if "trigger" in name or "view" in name])
async def test_what_acts_by_itself_is_refused_before_it_can(journal_path: Path, tries: str) -> None:
    await made(journal_path)
    edit(journal_path, SQL[tries])
    before = journal_path.read_bytes()

    with pytest.raises(WorldTrouble, match=r"not a readable journal"):
        await asyncio.to_thread(SqliteStore.opened, journal_path)

    assert journal_path.read_bytes() == before


# --- the files ------------------------------------------------------------------------------------


def by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def by_a_link(target: str) -> Callable[[Path], None]:
    def swap(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return swap


def by_a_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def beside(suffix: str, data: bytes) -> Callable[[Path], object]:
    return lambda path: Path(f"{path}{suffix}").write_bytes(data)


def pipe_beside(suffix: str) -> Callable[[Path], object]:
    return lambda path: os.mkfifo(f"{path}{suffix}")


def folder_beside(suffix: str) -> Callable[[Path], object]:
    return lambda path: Path(f"{path}{suffix}").mkdir()


def without_its_folder(path: Path) -> None:
    shutil.rmtree(f"{path}.d")
    Path(f"{path}.d").write_text("a file")


def a_folder_that_leads_away(path: Path) -> None:
    shutil.rmtree(f"{path}.d")
    (path.parent / "elsewhere").mkdir()
    Path(f"{path}.d").symlink_to("elsewhere")


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def longer(path: Path) -> None:
    os.truncate(path, 2**33)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(100, len(data), 997):
        data[place] ^= 0xFF
    path.write_bytes(data)


def of_another_page_size(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[16:18] = b"\x02\x00"
    path.write_bytes(data)


FILES: dict[str, Callable[[Path], object]] = {
    "the journal is a folder": by_a_folder,
    "the journal is a named pipe": by_a_pipe,
    "the journal is a link to itself": by_a_link_to_itself,
    "the journal is a link to a device without end": by_a_link("/dev/zero"),
    "the journal is a link to a full device": by_a_link("/dev/full"),
    "the journal is a link into the kernel": by_a_link("/proc/self/environ"),
    "the journal is cut in half": half,
    "the journal is eight gigabytes of nothing more": longer,
    "bits of it are flipped everywhere": flipped,
    "it says that its pages are of another size": of_another_page_size,
    "garbage as its write-ahead log": beside("-wal", b"\x37\x7f\x06\x82" + b"\xff" * 9_000),
    "garbage as its shared memory": beside("-shm", b"\xff" * 32_768),
    "a rollback journal of somebody else's": beside(
        "-journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\xff" * 9_000
    ),
    "its write-ahead log is a folder": folder_beside("-wal"),
    "its rollback journal is a folder": folder_beside("-journal"),
    "its write-ahead log is a pipe": pipe_beside("-wal"),
    "its folder of locks is a file": without_its_folder,
    "its folder of locks leads away": a_folder_that_leads_away,
}


@table("tries", FILES)
async def test_what_stands_in_the_journals_place_is_refused_or_whole(
    journal_path: Path, tries: str
) -> None:
    await made(journal_path)
    FILES[tries](journal_path)
    devices = {place: stat.S_IMODE(os.stat(place).st_mode) for place in ("/dev/zero", "/dev/full")}

    await is_held(journal_path)
    assert devices == {place: stat.S_IMODE(os.stat(place).st_mode) for place in devices}


async def test_a_journal_everybody_could_write_is_nobody_elses_any_more(journal_path: Path) -> None:
    await made(journal_path)
    journal_path.chmod(0o666)

    async with opened(journal_path) as store:
        assert await store.read("r") == KEPT["r"]
        assert stat.S_IMODE(journal_path.stat().st_mode) == 0o600


async def test_a_journal_of_tomorrow_is_not_touched(journal_path: Path) -> None:
    await made(journal_path)
    edit(journal_path, SQL["a format of tomorrow"])
    before = journal_path.read_bytes()

    with pytest.raises(JournalTooNew):
        await asyncio.to_thread(SqliteStore.opened, journal_path)

    assert journal_path.read_bytes() == before
