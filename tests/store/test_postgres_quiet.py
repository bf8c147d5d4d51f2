"""What a store in PostgreSQL asks while nothing happens: as little as it can."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

import pytest
from deadline import until

pytest.importorskip("psycopg")

from postgres_kit import opened
from support.store_contracts import started

from midstream.runtime.storage import Mail
from midstream.store.postgres.catalogue import Looking
from midstream.store.postgres.link import Address, Link, Row
from midstream.store.postgres.store import PostgresStore
from midstream.testing.contracts import fact


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the queries that are made from now on."""
    asked: list[str] = []
    real = Link.rows

    def rows(link: Link, query: str, values: Mapping[str, object] | None = None) -> list[Row]:
        asked.append(query)
        return real(link, query, values)

    monkeypatch.setattr(Link, "rows", rows)
    return asked


@contextlib.asynccontextmanager
async def listening(
    address: str,
) -> AsyncIterator[tuple[PostgresStore, PostgresStore, AsyncGenerator[None, None]]]:
    """Give a store that has a run and hears who rings, another, and its rings."""
    async with opened(address, address) as (store, other):
        await store.append("r", 0, started("r"))
        await store.claim("r")
        async with contextlib.aclosing(store.rings()) as rings:
            await anext(rings)  # it has begun to listen
            assert await store.mail(store.me) == []
            yield store, other, rings


async def test_an_owner_that_listens_is_not_asked_for_messages_nobody_sent(
    database: Callable[[], str], asked: list[str]
) -> None:
    async with listening(database()) as (store, other, rings):
        asked.clear()
        for _ in range(10):
            assert await store.mail(store.me) == []
        assert asked == []

        mail = await other.post(Mail(id="1", run="r", at=1.0))
        await other.ring(store.me)
        await anext(rings)
        assert await store.mail(store.me) == await store.mail(store.me) == [mail]
        await store.delivered("r", "1")
        assert await store.mail(store.me) == []

        unrung = await other.post(Mail(id="2", run="r", at=2.0))
        await store.renew()
        assert await store.mail(store.me) == [unrung]


async def test_words_come_with_the_call_and_are_brought_until_one_is_delivered(
    database: Callable[[], str], asked: list[str]
) -> None:
    async with listening(database()) as (store, other, rings):
        first = await other.post(Mail(id="1", run="r", at=1.0))
        await anext(rings)
        asked.clear()
        assert await store.mail(store.me) == [first]
        assert asked == [], "the ear has read it"
        await store.delivered("r", "1")
        assert await store.mail(store.me) == []

        second = await other.post(Mail(id="2", run="r", at=2.0))
        await anext(rings)
        third = await other.post(Mail(id="3", run="r", at=3.0))
        await anext(rings)
        assert await store.mail(store.me) == [second, third]
        for mail in (second, third):
            await store.delivered("r", mail.id)
        assert await store.mail(store.me) == []

        await other.post(Mail(id="4", run="r", at=4.0))
        await anext(rings)
        await store.delivered("r", "4")
        assert await store.mail(store.me) == [], "what was brought is not handed out again"


async def test_what_came_before_anybody_listened_is_heard_then(database: Callable[[], str]) -> None:
    address = database()
    async with opened(address, address) as (store, other):
        await store.append("r", 0, started("r"))
        await store.claim("r")
        mail = await other.post(Mail(id="1", run="r", at=1.0))

        async def is_brought() -> bool:
            return store._brought is not None

        await until(is_brought)
        async with contextlib.aclosing(store.rings()) as rings:
            await anext(rings)
            assert await store.mail(store.me) == [mail]


async def test_however_many_runs_are_watched_one_look_sees_them_all(
    database: Callable[[], str], asked: list[str]
) -> None:
    address = database()
    async with opened(address) as (store,):
        for number in range(50):
            await store.append(f"r{number}", 0, [fact(f"r{number}", 1)])
        link = Link(Address(address))
        asked.clear()
        look, runs = Looking(link), [f"r{number}" for number in range(50)]
        before = look(runs)
        assert len(asked) == 2
        assert look(runs) == {}
        assert len(asked) == 3

        await store.append("r7", 1, [fact("r7", 2)])
        await store.post(Mail(id="1", run="r8", at=1.0))
        await store.claim("r9")
        asked.clear()
        after = look(runs)
        assert [run for run in runs if after[run] != before[run]] == ["r7", "r8", "r9"]
        assert len(asked) == 2
        link.close()
