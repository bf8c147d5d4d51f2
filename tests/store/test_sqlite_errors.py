"""A full disk, a locked file, more than one loop: the store goes on when it can."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from deadline import DEADLINE_S
from store_kit import every, opened

from midstream.core.notices import Envelope
from midstream.language.errors import JournalFull
from midstream.runtime.storage import Mail
from midstream.store import encoding, schema
from midstream.store import facts as journal
from midstream.store.encoding import body_of
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact, facts

LARGE = "x" * 50_000


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what is set once somebody waits for a lock of another program, for as long as it takes."""
    monkeypatch.setattr(schema, "BUSY_MS", 1_000 * DEADLINE_S)
    waits, patience = threading.Event(), schema._Patience.__call__

    def noted(self: schema._Patience, count: int) -> bool:
        waits.set()
        return patience(self, count)

    monkeypatch.setattr(schema._Patience, "__call__", noted)
    return waits


async def grows_to(store: SqliteStore, pages: int) -> None:
    """Let the journal grow to so many pages; it keeps what it has."""
    await store._writer.submit(lambda it: it.execute(f"pragma max_page_count={pages}").fetchall())


async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        await store.append("r", 0, [fact("r", 1)])
        await grows_to(store, 1)
        with pytest.raises(JournalFull) as caught:
            await store.append("r", 1, [fact("r", 2), fact("r", 3, LARGE)])
        with pytest.raises(JournalFull):
            await store.post(Mail(id="1", run="r", at=1.0, text=LARGE))

        assert str(journal_path) in caught.value.what
        assert caught.value.hint
        assert await store.read("r") == [fact("r", 1)]
        assert await store.mail("") == []
        await grows_to(store, 2**18)
        await store.append("r", 1, [fact("r", 2), fact("r", 3, LARGE)])
        assert len(await store.read("r")) == 3


async def test_on_a_full_disk_the_small_ones_of_a_group_are_kept(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:
        await grows_to(store, 1)
        small = [store.append(f"r{n}", 0, [fact(f"r{n}", 1)]) for n in range(5)]
        large = [store.append(f"l{n}", 0, [fact(f"l{n}", 1, LARGE)]) for n in range(5)]
        both = [doing for pair in zip(small, large, strict=True) for doing in pair]
        errors = await asyncio.gather(*both, return_exceptions=True)

        assert [type(error) for error in errors] == [type(None), JournalFull] * 5
        assert [run.id for run in await every(store)] == [f"r{n}" for n in range(5)]


async def test_a_journal_locked_for_too_long_is_told(
    journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_MS", 20)
    async with opened(journal_path) as store:
        holder = apsw.Connection(str(journal_path))
        holder.execute("begin immediate")
        with pytest.raises(JournalFull) as caught:  # it may be tried again
            await store.append("r", 0, [fact("r", 1)])
        holder.execute("rollback")
        holder.close()

        assert "locked" in caught.value.what
        assert await every(store) == []
        await store.append("r", 0, [fact("r", 1)])


async def test_who_waits_for_a_lock_gets_it(journal_path: Path, waits: threading.Event) -> None:
    async with opened(journal_path) as store:
        holder = apsw.Connection(str(journal_path))
        holder.execute("begin immediate")
        appending = asyncio.ensure_future(store.append("r", 0, [fact("r", 1)]))
        await asyncio.to_thread(waits.wait)
        holder.execute("rollback")
        holder.close()
        await appending

        assert [run.id for run in await every(store)] == ["r"]


async def test_appends_that_wait_share_a_commit(journal_path: Path, waits: threading.Event) -> None:
    async with opened(journal_path) as store:
        holder = apsw.Connection(str(journal_path))
        holder.execute("begin immediate")
        watcher = apsw.Connection(str(journal_path))
        seen: set[object] = set()
        appending = [
            asyncio.ensure_future(store.append(f"r{n}", 0, [fact(f"r{n}", 1)])) for n in range(50)
        ]
        await asyncio.to_thread(waits.wait)
        holder.execute("rollback")
        holder.close()
        while not all(append.done() for append in appending):
            seen.add(watcher.execute("pragma data_version").fetchall()[0][0])
            await asyncio.sleep(0)
        watcher.close()

        assert len(await every(store)) == 50
        # One for the append that was first, one for all that waited meanwhile.
        assert len(seen) <= 4


async def test_a_store_serves_more_than_one_loop(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:

        async def write(run: str) -> None:
            async with asyncio.timeout(DEADLINE_S):
                for seq in range(1, 11):
                    await store.append(run, seq - 1, [fact(run, seq)])
                    assert len(await store.read(run)) == seq

        threads = [threading.Thread(target=asyncio.run, args=(write(f"r{n}"),)) for n in range(3)]
        for thread in threads:
            thread.start()
        await write("here")
        for thread in threads:
            await asyncio.to_thread(thread.join)

        assert {len(await store.read(run.id)) for run in await every(store)} == {10}
        assert len(await every(store)) == 4


async def test_a_loop_that_ended_while_it_waited_harms_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:

        def leave() -> None:
            loop = asyncio.new_event_loop()

            async def begin() -> None:
                appending = asyncio.ensure_future(store.append("gone", 0, [fact("gone", 1)]))
                await asyncio.sleep(0)
                appending.cancel()

            loop.run_until_complete(begin())
            loop.close()

        await asyncio.to_thread(leave)
        await store.append("r", 0, [fact("r", 1)])

        assert await store.run("r") is not None


async def test_what_waits_when_it_is_closed_is_still_done(journal_path: Path) -> None:
    store = SqliteStore.opened(journal_path)
    appending = [
        asyncio.ensure_future(store.append(f"r{n}", 0, facts(f"r{n}", 1, 3))) for n in range(30)
    ]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*appending)
    async with opened(journal_path) as store:
        assert len(await every(store)) == 30


async def test_facts_become_bytes_and_are_kept_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = journal.keep_head
    threads: list[str] = []

    def encoded(envelope: Envelope) -> bytes:
        threads.append(threading.current_thread().name)
        return body_of(envelope)

    def kept(*given: Any, **named: Any) -> None:
        threads.append(threading.current_thread().name)
        keeping(*given, **named)

    monkeypatch.setattr(encoding, "body_of", encoded)
    monkeypatch.setattr(journal, "keep_head", kept)
    async with opened(tmp_path / "journal.db") as store:
        await store.append("r", 0, facts("r", 1, 2))
        await store.adopt("imported", facts("imported", 1, 1))

    assert threads == ["midstream-journal"] * 5


async def test_a_reader_reads_while_another_writes(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        await store.append("r", 0, facts("r", 1, 3))
        holder = apsw.Connection(str(journal_path))
        holder.execute("begin immediate")

        assert await store.read("r") == facts("r", 1, 3)
        holder.execute("rollback")
        holder.close()


async def test_facts_stay_small_on_the_disk(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        empty = journal_path.stat().st_size
        for run in map(str, range(4)):
            await store.append(run, 0, [fact(run, seq, "x" * 200) for seq in range(1, 251)])

    assert (journal_path.stat().st_size - empty) / 1000 < 500
