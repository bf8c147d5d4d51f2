"""Whatever is damaged in a journal, what is whole comes out of it, and nothing else."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from store_kit import edit, every, opened, refusal

from midstream.core.codec import FIRST, chained
from midstream.core.notices import Envelope
from midstream.language.errors import JournalDamaged, UserMistake, WorldTrouble
from midstream.runtime.storage import Mail
from midstream.store.encoding import marked
from midstream.store.salvage import salvage
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact

PAGE = 4096


async def made(path: Path) -> dict[str, list[Envelope]]:
    """Make a journal with runs, a fork, large facts, messages and contents; return what is in it."""
    chance = random.Random(7)
    kept: dict[str, list[Envelope]] = {}
    async with opened(path) as store:
        for turn in range(12):
            for run in ("a", "b", "c"):
                known = kept.setdefault(run, [])
                sizes = [chance.choice([10, 80, 400, 9_000]) for _ in range(chance.randint(1, 6))]
                more = [
                    fact(run, len(known) + n, f"{turn}" + "x" * size)
                    for n, size in enumerate(sizes, 1)
                ]
                await store.append(run, len(known), more)
                known += more
        count = await store.fork("a", 20, "fork")
        kept["fork"] = await store.read("fork")
        more = [fact("fork", count + 1, "y" * 5_000)]
        await store.append("fork", count, more)
        kept["fork"] += more
        await store.post(Mail(id="1", run="a", at=1.0, text="hello"))
        await store.put(b"content")
    return kept


async def read(path: Path) -> dict[str, list[Envelope]]:
    async with opened(path) as store:
        return {run: await store.read(run) for run in [each.id for each in await every(store)]}


def still_readable(path: Path) -> set[Any]:
    """Return the places of the facts SQLite itself still finds, by key or walking through."""
    copy = path.with_name("oracle.db")
    shutil.copy(path, copy)
    found: set[Any] = set()
    try:
        connection = apsw.Connection(str(copy))
        for run in range(1, 5):
            for seq in range(1, 80):
                try:
                    found.update(
                        connection.execute(
                            "select run, seq from facts where run=? and seq=? and length(body)>=0",
                            (run, seq),
                        ).fetchall()
                    )
                except apsw.Error:
                    continue
    except apsw.Error:
        return found
    return found


@pytest.mark.parametrize("seed", range(25))
async def test_all_that_is_whole_comes_out_and_nothing_is_altered(
    journal_path: Path, seed: int
) -> None:
    kept = await made(journal_path)
    names = dict(edit(journal_path, "select number, id from runs"))
    chance = random.Random(seed)
    content = bytearray(journal_path.read_bytes())
    for _ in range(chance.randint(1, 4)):
        page = chance.randrange(len(content) // PAGE)
        begin = page * PAGE + chance.choice([0, chance.randrange(PAGE)])
        end = min(begin + chance.choice([1, 30, PAGE]), (page + 1) * PAGE)
        content[begin:end] = chance.randbytes(end - begin)
    journal_path.write_bytes(content)
    readable = still_readable(journal_path)
    done = salvage(journal_path)
    out = await read(journal_path)

    for name, facts in out.items():
        original = kept.get(name) or kept[names[int(name.removeprefix("salvaged"))]]
        assert [(f.seq, f.at, f.event) for f in facts] == [
            (f.seq, f.at, f.event) for f in original[: len(facts)]
        ]
    told = {run.id: run.facts for run in done.runs}
    assert {name: len(facts) for name, facts in out.items()} == {
        name: count for name, count in told.items() if count
    }
    for number, name in names.items():
        if name == "fork" or name not in told:
            continue
        whole = 0
        while (number, whole + 1) in readable:
            whole += 1
        assert told[name] >= _chaining(journal_path, number, whole)


def _chaining(path: Path, run: int, whole: int) -> int:
    """Return how many facts of a run chain, as SQLite reads them."""
    copy = path.with_name("oracle.db")
    connection = apsw.Connection(str(copy))
    before = FIRST
    for seq in range(1, whole + 1):
        row: Any
        (row,) = connection.execute(
            "select at, body, checksum, ends, format from facts where run=? and seq=?", (run, seq)
        ).fetchall()
        at, body, checksum, ends, format = row
        try:
            if chained(before, seq, at, marked(body, ends=ends, format=format)) != checksum:
                return seq - 1
        except TypeError:
            return seq - 1
        before = checksum
    return whole


def broken_index(path: Path) -> None:
    ((page,),) = edit(path, "select rootpage from sqlite_schema where name like '%autoindex_runs%'")
    _overwrite(path, page)


def _overwrite(path: Path, page: int) -> None:
    content = bytearray(path.read_bytes())
    content[(page - 1) * PAGE : page * PAGE] = b"\x5a" * PAGE
    path.write_bytes(content)


def wrong_header(path: Path) -> None:
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])


WHOLE: dict[str, Callable[[Path], None]] = {
    "an index": broken_index,
    "the header": wrong_header,
    "the first page": lambda path: _overwrite(path, 1),
}


@pytest.mark.parametrize("damage", WHOLE.values(), ids=WHOLE.keys())
async def test_where_no_fact_is_damaged_none_is_lost(
    journal_path: Path, damage: Callable[[Path], None]
) -> None:
    kept = await made(journal_path)
    damage(journal_path)
    done = salvage(journal_path)

    assert done.damaged is not None
    assert done.damaged.exists()
    assert await read(journal_path) == kept
    async with opened(journal_path) as store:
        assert [mail.text for mail in await store.mail("")] == ["hello"]
        for listed in await every(store):
            assert (listed.damaged, listed.seq) == ("", len(kept[listed.id]))
        key = await store.put(b"content")
        assert await store.get(key) == b"content"
        await store.append("a", len(kept["a"]), [fact("a", len(kept["a"]) + 1)])


async def test_what_only_the_log_has_is_salvaged(tmp_path: Path) -> None:
    path, log = tmp_path / "journal.db", tmp_path / "journal.db-wal"
    async with opened(path) as store:
        facts = [fact("r", seq, "x" * 3_000) for seq in range(1, 9)]
        await store.append("r", 0, facts)
        content = log.read_bytes()
    path.unlink()
    log.write_bytes(content)
    refusal(lambda: _open(path))
    done = salvage(path)

    assert done.damaged is not None
    assert await read(path) == {"r": facts}


def _open(path: Path) -> None:
    SqliteStore.opened(path).close()


async def test_a_run_is_usable_up_to_the_damage(journal_path: Path) -> None:
    kept = await made(journal_path)
    edit(journal_path, "update facts set body=x'00' where run=2 and seq=5")
    done = salvage(journal_path)

    assert [(run.id, run.facts, run.had) for run in done.runs][1] == ("b", 4, len(kept["b"]))
    assert (await read(journal_path)) == {**kept, "b": kept["b"][:4]}
    assert done.damaged is not None
    with pytest.raises(JournalDamaged):
        await read(done.damaged)


async def test_a_whole_journal_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    kept = await made(path)
    before = (os.stat(path).st_ino, path.read_bytes())

    assert salvage(path).damaged is None
    assert (os.stat(path).st_ino, path.read_bytes()) == before
    assert sorted(os.listdir(tmp_path)) == ["journal.db", "journal.db.d"]
    assert await read(path) == kept


async def test_a_journal_in_use_is_not_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path):
        assert isinstance(refusal(lambda: salvage(path)), UserMistake)
    assert isinstance(refusal(lambda: salvage(tmp_path / "none.db")), UserMistake)


async def test_garbage_gives_an_empty_journal(journal_path: Path) -> None:
    journal_path.write_bytes(random.Random(1).randbytes(50_000))
    assert isinstance(refusal(lambda: _open(journal_path)), WorldTrouble)
    done = salvage(journal_path)

    assert done.runs == ()
    assert await read(journal_path) == {}
