"""Runs are carried over into another journal whole, once, and however often that is begun."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from deadline import DEADLINE_S
from store_kit import golden
from support.postgres import LACKING
from support.store_contracts import listed, started, told

from midstream.cli.main import exit_code
from midstream.core import events as e
from midstream.core.codec import FORMAT
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.engine.journal_copy import Copied, copied, put_away
from midstream.runtime.storage import PAGE, Mail, Placement, Pool, Store
from midstream.store.memory import MemoryStore
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import facts

HERE = Placement(host="here", user="me")


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A journal with a run, a fork of it, a fork of that, an import, words, and contents."""
    store = SqliteStore.opened(tmp_path / "source.db")
    await store.append("a", 0, [*started("a"), *facts("a", 2, 3)])
    await store.append("a", 3, facts("a", 4, 4))
    inner = await store.put(b"inner")
    key = await store.put(b'["' + inner.encode() + b'"]')
    await store.append("a", 4, told("a", e.RunRenamed(name=f"see {key}"), after=4))
    assert await store.fork("a", 3, "b") == 3
    await store.append("b", 3, facts("b", 4, 5))
    assert await store.fork("b", 5, "c") == 5
    await store.adopt("d", [*started("d"), *facts("d", 2, 3)])
    for id in ("1", "2"):
        await store.post(Mail(id=id, run="a", at=1.0, text=f"words {id}"))
    await store.delivered("a", "1")
    yield store
    await store.aclose()


Open: TypeAlias = Callable[[], Awaitable[Store]]


KINDS = ("memory", "sqlite", *(() if LACKING else ("postgres",)))


@pytest.fixture(params=KINDS)
async def empty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a new, empty store of one of the kinds with each call."""
    opened: list[Store] = []
    numbers = count()

    async def open_one() -> Store:
        opened.append(await asyncio.to_thread(make))
        return opened[-1]

    def make() -> Store:
        match request.param:
            case "memory":
                return MemoryStore()
            case "sqlite":
                return SqliteStore.opened(tmp_path / f"target{next(numbers)}.db")
            case _:
                from midstream.store.postgres.store import PostgresStore

                address: str = request.getfixturevalue("database")()
                return PostgresStore.opened(address, host="there", person="them")

    yield open_one
    for store in opened:
        await store.aclose()


async def all_copied(source: Store, target: Store) -> dict[str, Copied]:
    async with asyncio.timeout(DEADLINE_S):
        return {each.run: each async for each in copied(source, target, HERE)}


async def everything(store: Store) -> Any:
    """Return all that a copy brings over."""
    found = {}
    for kept in await store.listing():
        head = msgspec.structs.replace(kept, placement=None, owner="", was_cut=False)
        waiting = await store.undelivered(kept.id)
        mails = await store.posted(kept.id)
        ends = await store.appends(kept.id)
        found[kept.id] = head, await store.read(kept.id), ends, mails, waiting
    return found


async def test_all_there_is_comes_over(source: SqliteStore, empty: Open) -> None:
    target = await empty()
    done = await all_copied(source, target)
    assert {run: each.outcome for run, each in done.items()} == dict.fromkeys("abcd", "copied")
    assert await everything(target) == await everything(source)
    assert done["a"].blobs == 2
    key = (await target.read("a"))[-1].event.name.removeprefix("see ")  # type: ignore[union-attr]
    assert (await target.get((await target.get(key))[2:-2].decode())) == b"inner"
    if isinstance(target, Pool):
        assert (await listed(target, "a")).placement == HERE


async def test_back_again_it_is_the_same(source: SqliteStore, tmp_path: Path, empty: Open) -> None:
    target = await empty()
    await all_copied(source, target)
    back = SqliteStore.opened(tmp_path / "back.db")
    await all_copied(target, back)
    assert await everything(back) == await everything(source)
    await back.aclose()


async def test_copied_again_only_what_is_new_is_added(source: SqliteStore, empty: Open) -> None:
    target = await empty()
    await all_copied(source, target)
    again = await all_copied(source, target)
    assert {each.outcome for each in again.values()} == {"same"}
    await source.append("c", 5, facts("c", 6, 7))
    await source.append("c", 7, facts("c", 8, 8))
    await source.delivered("a", "2")
    await source.post(Mail(id="3", run="b", at=2.0, text="more"))
    done = await all_copied(source, target)
    assert [done[run].outcome for run in "abcd"] == ["same", "added", "added", "same"]
    assert await everything(target) == await everything(source)


async def test_what_runs_here_or_went_on_there_is_left_as_it_is(
    source: SqliteStore, empty: Open
) -> None:
    target = await empty()
    await source.claim("a")
    done = await all_copied(source, target)
    assert {run: each.outcome for run, each in done.items()} == {
        "a": "left",
        "b": "left",
        "c": "left",
        "d": "copied",
    }
    await source.release("a")
    await all_copied(source, target)
    await target.append("b", 5, facts("b", 6, 6))
    done = await all_copied(source, target)
    assert done["b"].outcome == "left"
    assert "went on there" in done["b"].why
    assert len(await target.read("b")) == 6


class Killed(BaseException):
    """The process died here."""


class Dying:
    """A store that dies before or after one of its writing calls."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._left = at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in (
            *(
                "claim",
                "release",
                "adopt",
                "append",
                "post",
                "delivered",
                "put",
                "forget",
                "assign",
            ),
        ):
            return found

        async def call(*arguments: Any, **more: Any) -> Any:
            self._count()
            result = await found(*arguments, **more)
            self._count()
            return result

        return call

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


async def test_killed_anywhere_it_goes_on_when_it_is_begun_again(source: SqliteStore) -> None:
    wanted = await everything(source)
    for at in range(1_000):
        target = MemoryStore()
        mine: Any = Dying(target, at)
        try:
            await all_copied(source, mine)
        except Killed:
            target.die()
            # No run is there in part: what is listed has all of its facts.
            after = target.beside()
            for kept in await after.listing():
                assert await after.read(kept.id) == wanted[kept.id][1]
            await all_copied(source, after)
            assert await everything(after) == wanted
            continue
        assert at > 20
        return
    raise AssertionError("it never got to the end")


@pytest.mark.parametrize("format", range(1, FORMAT + 1))
async def test_journals_of_every_format_come_over(format: int, tmp_path: Path, empty: Open) -> None:
    golden(tmp_path / "old.db", format)
    source, target = SqliteStore.opened(tmp_path / "old.db"), await empty()
    done = await all_copied(source, target)
    assert {each.outcome for each in done.values()} == {"copied"}
    # A line in a listing is made anew of the facts: older versions listed less.
    here, there = await everything(source), await everything(target)
    assert {id: kept[1:] for id, kept in there.items()} == {
        id: kept[1:] for id, kept in here.items()
    }
    await source.aclose()


def ended(run: str, after: int) -> Any:
    return told(run, e.RunFinished(), after=after)


@pytest.fixture
async def old(source: SqliteStore) -> SqliteStore:
    """The same journal, in which all but the first run have ended: their last facts are at 6, 7, 3."""
    await source.append("b", 5, ended("b", 5))
    await source.append("c", 5, ended("c", 5))
    return source


async def all_put_away(
    store: Store, archive: Store | None, before: float = 100.0
) -> dict[str, Copied]:
    async with asyncio.timeout(DEADLINE_S):
        return {each.run: each async for each in put_away(store, archive, before, HERE)}


async def test_what_has_ended_goes_to_the_archive_and_can_be_brought_back(
    old: SqliteStore, empty: Open
) -> None:
    archive, before = await empty(), await everything(old)
    done = await all_put_away(old, archive)
    assert {run: each.outcome for run, each in done.items()} == {"b": "deleted", "c": "deleted"}
    assert {*await everything(old)} == {"a", "d"}
    assert not await old.posted("b")
    assert not await old.read("c")
    back = await all_copied(archive, old)
    assert [back[run].outcome for run in "abc"] == ["same", "copied", "copied"]
    assert await everything(old) == before


async def test_what_others_begin_with_or_is_younger_stays(old: SqliteStore, empty: Open) -> None:
    store = await empty()
    await all_copied(old, store)
    assert await all_put_away(store, None, before=6.0) == {}
    await store.fork("b", 5, "f")
    done = await all_put_away(store, None)
    assert {run: each.outcome for run, each in done.items()} == {"b": "left", "c": "deleted"}
    assert "forked" in done["b"].why
    assert {*await everything(store)} == {"a", "b", "d", "f"}
    assert not await store.read("c")
    with pytest.raises(UserMistake, match="has not ended"):
        await store.forget("a")
    with pytest.raises(UserMistake, match="no run"):
        await store.forget("c")


async def test_more_runs_than_a_page_has_go_with_forks_that_are_listed_behind_their_source(
    empty: Open,
) -> None:
    store, archive = await empty(), MemoryStore()
    for number in range(PAGE + 20):
        id = f"r{number:03}"
        await store.append(
            id, 0, [*started(id), *facts(id, 2, 2 + number % 7), *ended(id, 2 + number % 7)]
        )
    # Written last it is listed first, and what was forked from it on the second page.
    await store.append("source", 0, started("source"))
    await store.append("source", 1, facts("source", 2, 20))
    await store.fork("source", 1, "fork")
    await store.append("fork", 1, ended("fork", 1))
    await store.append("source", 20, ended("source", 20))
    assert await all_copied(store, MemoryStore())
    done = await all_put_away(store, archive)

    assert {each.outcome for each in done.values()} == {"deleted"}
    assert len(done) == PAGE + 22
    assert await store.listing() == []
    assert len(await everything(archive)) == PAGE
    assert len((await all_copied(archive, store)).keys()) == PAGE + 22


async def test_killed_while_putting_away_nothing_is_lost_and_nothing_half(old: SqliteStore) -> None:
    before = await everything(old)
    memory = MemoryStore()
    await all_copied(old, memory)
    for at in range(1_000):
        here, archive = MemoryStore(), MemoryStore()
        await all_copied(memory, here)
        try:
            await all_put_away(Dying(here, at), Dying(archive, at))
        except Killed:
            left = await everything(here) | {
                id: kept for id, kept in (await everything(archive)).items() if id not in "a"
            }
            assert left.keys() == before.keys()
            assert {*await everything(here)} - {"b", "c"} == {"a", "d"}
            continue
        assert at > 10
        return
    raise AssertionError("it never got to the end")


async def test_nothing_is_put_away_into_the_journal_itself(
    old: SqliteStore, tmp_path: Path
) -> None:
    before = await everything(old)
    same = await asyncio.to_thread(SqliteStore.opened, tmp_path / "source.db")
    done = await all_put_away(old, same)
    await same.aclose()
    assert {each.outcome for each in done.values()} == {"left"}
    assert all("the same journal" in each.why for each in done.values())
    assert await everything(old) == before


class Unreadable:
    """A store whose contents cannot be read for now."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str) -> bytes:
        raise WorldTrouble("The disk is away.", hint="Mount it.")


async def test_a_run_whose_contents_cannot_be_read_is_left_until_they_can(
    source: SqliteStore, empty: Open
) -> None:
    target, ill = await empty(), Unreadable(source)
    done = await all_copied(ill, target)
    assert done["a"].outcome == "left"
    assert "The disk is away" in done["a"].why
    assert await target.run("a") is None
    await all_copied(source, target)
    assert await everything(target) == await everything(source)


@pytest.mark.parametrize("way", ["same", "link"])
def test_the_command_refuses_an_archive_that_is_the_journal(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "j.db"
    SqliteStore.opened(journal).close()
    named = journal
    if way == "link":
        named = tmp_path / "link.db"
        named.symlink_to(journal)
    monkeypatch.setenv("MIDSTREAM_JOURNAL", str(journal))
    assert exit_code(["journal", "prune", "--older-than", "0", "--archive", str(named)]) == 2
    assert "is the journal itself" in capfd.readouterr().err
    assert exit_code(["journal", "copy", str(journal), str(named)]) == 2


def test_a_new_file_is_not_opened_before_all_of_the_copy_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "j.db", tmp_path / "new" / "j.db"
    SqliteStore.opened(source).close()
    monkeypatch.setenv("MIDSTREAM_JOURNAL", str(target))
    with monkeypatch.context() as broken:
        # A process that is killed does nothing more, either.
        broken.setattr("midstream.cli.journals._told", killed)
        assert exit_code(["journal", "copy", str(source), str(target)]) != 0

    assert exit_code(["runs"]) != 0
    assert "is not complete: a copy into it has not ended" in capfd.readouterr().err
    assert exit_code(["journal", "copy", str(source), str(target)]) == 0
    assert exit_code(["runs"]) == 0


async def killed(*_: Any) -> Any:
    raise WorldTrouble("It was killed.")
