"""Limits that a company sets for a user or a database, and what it takes away for a while."""

import asyncio
from collections.abc import Callable

import pytest
from deadline import DEADLINE_S, wait_until
from support.postgres import PostgresServer

psycopg = pytest.importorskip("psycopg")

from postgres_kit import opened  # noqa: E402

from midstream.language.errors import JournalFull, WorldTrouble  # noqa: E402
from midstream.store.postgres import link  # noqa: E402
from midstream.store.postgres.link import Address, explained  # noqa: E402
from midstream.testing.contracts import fact, facts  # noqa: E402


def sessions(postgres: PostgresServer, name: str) -> int:
    """Return how many sessions of midstream a database has."""
    ((count,),) = postgres.sql(
        f"select count(*) from pg_stat_activity where datname = '{name}' and application_name = 'midstream'"
    )
    assert isinstance(count, int)
    return count


async def test_sessions_that_the_server_ends_as_idle_are_made_again(
    postgres: PostgresServer, database: Callable[[], str]
) -> None:
    address = database()
    name = address.rpartition("/")[2]
    postgres.sql(f"alter database {name} set idle_session_timeout = '50ms'")
    async with opened(address) as (store,):
        for seq in range(1, 4):
            await store.append("r", seq - 1, [fact("r", seq)])
            assert await store.read("r") == facts("r", 1, seq)
            await asyncio.to_thread(
                wait_until, lambda: sessions(postgres, name) == 0, "they are ended"
            )


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
async def test_what_takes_longer_than_the_server_lets_it_is_done_once_it_does_not(
    postgres: PostgresServer,
    database: Callable[[], str],
    limit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", DEADLINE_S)
    address = database()
    async with opened(address) as (store,):
        await store.append("r", 0, [fact("r", 1)])
    log = postgres.folder / "log"
    cut = log.read_text().count("canceling statement due to")
    with psycopg.connect(address) as other:
        postgres.sql(f"alter database {address.rpartition('/')[2]} set {limit} = '50ms'")
        other.execute("lock table midstream.runs, midstream.blobs")
        async with opened(address) as (store,):
            append = asyncio.ensure_future(store.append("r", 1, [fact("r", 2)]))
            put = asyncio.ensure_future(store.put(b"contents"))
            await asyncio.to_thread(
                wait_until,
                lambda: log.read_text().count("canceling statement due to") > cut + 4,
                "statements are cut",
            )
            assert not append.done()
            assert not put.done()
            other.rollback()
            await append
            assert await store.get(await put) == b"contents"
            assert await store.read("r") == facts("r", 1, 2)


@pytest.mark.parametrize(
    ("take", "give", "told"),
    [
        ("alter role {user} nologin", "alter role {user} login", "is not permitted to log in"),
        ("alter role {user} connection limit 0", "alter role {user} connection limit -1", "no connection"),
        (
            "revoke update on all tables in schema midstream from {user}",
            "grant update on all tables in schema midstream to {user}",
            "does not let this user do that",
        ),
        (
            "alter database {name} set default_transaction_read_only = on",
            "alter database {name} reset default_transaction_read_only",
            "takes no writes",
        ),
        (
            "alter table midstream.facts rename to gone",
            "alter table midstream.gone rename to facts",
            "lacks something it had",
        ),
    ],
)  # fmt: skip
async def test_what_a_process_is_denied_that_has_been_let_in_may_be_tried_again(
    postgres: PostgresServer,
    database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    take: str,
    give: str,
    told: str,
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.2)
    address = database()
    name = address.rpartition("/")[2]
    user = f"user_{name}"
    async with opened(address) as (store,):
        await store.append("r", 0, [fact("r", 1)])
    postgres.sql(f"create role {user} login")
    postgres.sql(f"grant usage on schema midstream to {user}", name)
    postgres.sql(f"grant all on all tables in schema midstream to {user}", name)
    async with opened(postgres.address(name, user=user)) as (store,):
        await store.append("r", 1, [fact("r", 2)])
        postgres.sql(take.format(user=user, name=name), name)
        postgres.reset(name)
        with pytest.raises(JournalFull, match=told) as caught:
            await store.append("r", 2, [fact("r", 3)])
        assert caught.value.hint
        # A database that takes no writes is given back its rights from another one.
        postgres.sql(give.format(user=user, name=name), name if " table" in give else "postgres")
        await store.append("r", 2, [fact("r", 3)])
        assert await store.read("r") == facts("r", 1, 3)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("SSL SYSCALL error: EOF detected", "cannot be reached"),
        ("SSL error: unexpected eof while reading", "cannot be reached"),
        ("SSL error: certificate verify failed", "cannot be trusted"),
        ("server does not support SSL, but SSL was required", "cannot be trusted"),
        ("FATAL:  sorry, too many clients already", "has no connection left"),
        ("FATAL:  remaining connection slots are reserved for superusers", "has no connection left"),
        ("session is read-only", "takes no writes"),
        ("server is in hot standby mode", "takes no writes"),
    ],
)  # fmt: skip
def test_a_connection_that_was_cut_is_not_taken_for_one_that_was_refused(
    said: str, told: str
) -> None:
    error = explained(psycopg.OperationalError(said), Address("postgresql://me@db/x"))

    assert isinstance(error, WorldTrouble)
    assert told in error.what
