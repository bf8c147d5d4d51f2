"""Facts in a database that were changed behind the journal's back are noticed at their place."""

import asyncio
from collections.abc import Callable

import psycopg
import pytest
from postgres_kit import opened

from midstream.language.errors import JournalDamaged, JournalMoved
from midstream.testing.contracts import fact, facts

CHANGES = {
    "text": "update midstream.facts set body=replace(encode(body, 'escape'), '\"3\"', '\"4\"')::bytea",
    "length": "update midstream.facts set body=body || ' '::bytea",
    "checksum": r"update midstream.facts set checksum='\x00112233445566778899aabbccddeeff'",
    "time": "update midstream.facts set at=at + 1",
    "end": "update midstream.facts set ends=not ends",
    "format": "update midstream.facts set format=0",
    "newer": "update midstream.facts set format=99",
    "gone": "delete from midstream.facts",
    "another's": "update midstream.facts set body="
    "(select body from midstream.facts where seq=3 and run=2)",
    "moved": "update midstream.facts set seq=seq + 10",
}
"""What is done to the third fact of the first run."""


async def changed(address: str, *changes: str) -> None:
    """Keep two runs of five facts, and do something to the tables."""
    async with opened(address) as (store,):
        await store.append("r", 0, facts("r", 1, 5))
        await store.append("other", 0, [fact("other", seq, f"other {seq}") for seq in range(1, 6)])
    with psycopg.connect(address, autocommit=True) as connection:
        for change in changes:
            assert connection.execute(change.encode()).rowcount > 0


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_changed_fact_is_noticed(database: Callable[[], str], change: str) -> None:
    address = database()
    await changed(address, f"{change} where seq=3 and run=1")
    async with opened(address) as (store,):
        with pytest.raises(JournalDamaged) as caught:
            await store.read("r")

        assert (caught.value.run, caught.value.seq) == ("r", 3)
        assert await store.read("r", upto=2) == facts("r", 1, 2)
        assert len(await store.read("other")) == 5


async def test_the_end_cannot_be_cut_off(database: Callable[[], str]) -> None:
    address = database()
    await changed(address, "delete from midstream.facts where seq>3 and run=1")
    async with opened(address) as (store,):
        with pytest.raises(JournalDamaged) as caught:
            await store.read("r")

        assert caught.value.seq == 4
        assert await store.read("r", upto=3) == facts("r", 1, 3)


async def test_facts_beyond_the_end_are_no_facts(database: Callable[[], str]) -> None:
    address = database()
    await changed(
        address,
        "insert into midstream.facts select run, seq + 5, at, body, checksum, ends, format"
        " from midstream.facts",
    )
    async with opened(address) as (store,):
        assert await store.read("r") == facts("r", 1, 5)


@pytest.mark.parametrize("change", ["seq=3", "seq=9", r"head='\x00'", "parent=2, parent_seq=2"])
async def test_a_changed_row_of_a_run_is_noticed(database: Callable[[], str], change: str) -> None:
    address = database()
    await changed(address, f"update midstream.runs set {change} where number=1")
    async with opened(address) as (store,):
        with pytest.raises(JournalDamaged):
            await store.read("r")
        assert len(await store.read("other")) == 5


@pytest.mark.parametrize(
    "change",
    [
        "update midstream.runs set seq=3 where number=1",
        "update midstream.runs set seq=9 where number=1",
        r"update midstream.runs set head='\x00' where number=1",
        "delete from midstream.facts where seq=5 and run=1",
    ],
)
async def test_nothing_is_added_to_a_run_that_ends_otherwise_than_its_row_says(
    database: Callable[[], str], change: str
) -> None:
    address = database()
    await changed(address, change)
    async with opened(address) as (store,):
        for at, expected in enumerate((3, 5, 9), 5):
            adding = store.append("r", expected, [fact("r", expected + 1)])
            beside = store.append("other", at, [fact("other", at + 1)])
            refused, _ = await asyncio.gather(adding, beside, return_exceptions=True)
            assert isinstance(refused, JournalDamaged | JournalMoved)
        assert len(await store.read("other")) == 8
