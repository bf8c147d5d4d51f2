"""What was changed behind the journal's back is noticed at its place and never used."""

import asyncio
from pathlib import Path

import pytest
from store_kit import edit, every, opened
from support.store_contracts import started

from midstream.language.errors import JournalDamaged, MidstreamError, WorldTrouble
from midstream.runtime.storage import Mail
from midstream.testing.contracts import fact, facts

CHANGES = {
    "text": "update facts set body=replace(body, '\"3\"', '\"4\"') where seq=3 and run=1",
    "length": "update facts set body=body || ' ' where seq=3 and run=1",
    "type": "update facts set body=5 where seq=3 and run=1",
    "checksum": "update facts set checksum=x'00112233445566778899aabbccddeeff' where seq=3 and run=1",
    "time": "update facts set at=at + 1 where seq=3 and run=1",
    "end": "update facts set ends=1 - ends where seq=3 and run=1",
    "format": "update facts set format=0 where seq=3 and run=1",
    "newer": "update facts set format=99 where seq=3 and run=1",
    "gone": "delete from facts where seq=3 and run=1",
    "another's": "update facts set body=(select body from facts where seq=3 and run=2)"
    " where seq=3 and run=1",
    "moved": "update facts set seq=seq + 10 where seq=3 and run=1",
}


async def two_runs(path: Path) -> None:
    async with opened(path) as store:
        await store.append("r", 0, facts("r", 1, 5))
        await store.append(
            "other", 0, [fact("other", seq, f"of other {seq}") for seq in range(1, 6)]
        )


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_changed_fact_is_noticed(journal_path: Path, change: str) -> None:
    await two_runs(journal_path)
    edit(journal_path, change)
    async with opened(journal_path) as store:
        with pytest.raises(JournalDamaged) as caught:
            await store.read("r")

        assert (caught.value.run, caught.value.seq) == ("r", 3)
        assert caught.value.hint
        assert await store.read("r", upto=2) == facts("r", 1, 2)
        assert len(await store.read("other")) == 5


async def test_the_end_cannot_be_cut_off(journal_path: Path) -> None:
    await two_runs(journal_path)
    edit(journal_path, "delete from facts where seq>3 and run=1")
    async with opened(journal_path) as store:
        with pytest.raises(JournalDamaged) as caught:
            await store.read("r")

        assert caught.value.seq == 4
        assert await store.read("r", upto=3) == facts("r", 1, 3)


async def test_facts_beyond_the_end_are_no_facts(journal_path: Path) -> None:
    await two_runs(journal_path)
    edit(
        journal_path,
        "insert into facts select run, seq + 5, at, body, checksum, ends, format from facts",
    )
    async with opened(journal_path) as store:
        assert await store.read("r") == facts("r", 1, 5)


@pytest.mark.parametrize(
    "change",
    [
        "seq=3",
        "seq=9",
        "seq='x'",
        "head=x'00'",
        "summary='{}'",
        "parent=2, parent_seq=2",
        "parent_seq=2",
        "is_foreign=1",
        "seal=x''",
        "summary=cast(x'ff' as text)",
    ],
)
async def test_a_changed_row_of_a_run_is_noticed(journal_path: Path, change: str) -> None:
    await two_runs(journal_path)
    edit(journal_path, f"update runs set {change} where number=1")
    async with opened(journal_path) as store:
        other, damaged = await every(store)

        assert damaged.damaged
        assert (other.id, other.damaged) == ("other", "")
        with pytest.raises(JournalDamaged):
            await store.read("r")
        for expected in (3, 5, 9):
            with pytest.raises(MidstreamError):
                await store.append("r", expected, [fact("r", expected + 1)])
        assert len(await store.read("other")) == 5


async def test_a_changed_length_leaves_what_is_before_usable(journal_path: Path) -> None:
    await two_runs(journal_path)
    edit(journal_path, "update runs set seq=9 where number=1")
    async with opened(journal_path) as store:
        assert await store.read("r", upto=5) == facts("r", 1, 5)
        with pytest.raises(JournalDamaged) as caught:
            await store.read("r")
        assert caught.value.seq == 6


@pytest.mark.parametrize("bytes", ["72ff", "7280"])
async def test_a_name_that_is_no_text_any_more_hides_nothing_else(
    journal_path: Path, bytes: str
) -> None:
    await two_runs(journal_path)
    edit(journal_path, f"update runs set id=cast(x'{bytes}' as text) where number=1")
    async with opened(journal_path) as store:
        other, damaged = await every(store)

        assert damaged.damaged
        assert (other.id, other.damaged) == ("other", "")


async def test_a_damaged_index_hides_no_run(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        for run in ("before", "wanted"):
            await store.append(run, 0, facts(run, 1, 3))
    ((page,),) = edit(
        journal_path, "select rootpage from sqlite_schema where name='sqlite_autoindex_runs_1'"
    )
    content = bytearray(journal_path.read_bytes())
    place = content.index(b"wanted", (page - 1) * 4096, page * 4096)
    content[place] ^= 0x01
    journal_path.write_bytes(content)
    found = "select number from runs where id='wanted'"
    assert edit(journal_path, found) == []
    async with opened(journal_path) as store:
        assert await store.read("wanted") == facts("wanted", 1, 3)
        await store.append("wanted", 3, [fact("wanted", 4)])
        assert await store.fork("wanted", 4, "fork") == 4
        assert await store.read("wanted") == facts("wanted", 1, 4)
        assert [run.id for run in await every(store)] == ["before", "fork", "wanted"]
        with pytest.raises(MidstreamError):
            await store.append("unknown", 3, [fact("unknown", 4)])

    assert edit(journal_path, found) == []


async def test_runs_are_listed_though_the_index_of_the_listing_cannot_be_read(
    journal_path: Path,
) -> None:
    async with opened(journal_path) as store:
        for run in ("a", "b"):
            await store.append(run, 0, started(run))
    ((page,),) = edit(journal_path, "select rootpage from sqlite_schema where name='runs_here'")
    content = bytearray(journal_path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = bytes(4096)
    journal_path.write_bytes(content)
    async with opened(journal_path) as store:
        assert [run.id for run in await store.listing(workspace="/home/me")] == ["b", "a"]
        assert [run.id for run in await store.listing()] == ["b", "a"]


async def test_a_fork_notices_what_is_wrong_in_its_source(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        for seq in range(1, 6):
            await store.append("r", seq - 1, [fact("r", seq)])
        await store.fork("r", 4, "f")
        await store.append("f", 4, [fact("f", 5)])
    edit(journal_path, CHANGES["text"])
    async with opened(journal_path) as store:
        with pytest.raises(JournalDamaged) as caught:
            await store.read("f")
        assert (caught.value.run, caught.value.seq) == ("f", 3)
        assert await store.read("f", upto=2) == facts("f", 1, 2)
        with pytest.raises(JournalDamaged):
            await store.fork("r", 4, "g")
        assert await store.fork("r", 2, "h") == 2
        assert await store.read("h") == facts("h", 1, 2)


async def test_a_fork_whose_source_is_gone_is_damaged(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        await store.append("r", 0, facts("r", 1, 2))
        await store.fork("r", 2, "f")
    edit(journal_path, "delete from runs where number=1")
    edit(journal_path, "delete from facts where run=1")
    async with opened(journal_path) as store:
        with pytest.raises(JournalDamaged) as caught:
            await store.read("f")

        assert caught.value.seq == 1


@pytest.mark.parametrize(
    "change",
    [
        "body=replace(body, 'rm', 'ls')",
        "body=cast(x'ff' as text)",
        "id='9'",
        "run='other'",
        "run=cast(x'ff' as text)",
        "delivered=1",
        "seal=x'00'",
    ],
)
async def test_a_changed_message_is_never_handed_out(journal_path: Path, change: str) -> None:
    whole = Mail(id="2", run="r", at=2.0, text="whole")
    async with opened(journal_path) as store:
        for run in ("r", "other"):
            await store.append(run, 0, [fact(run, 1)])
        await store.post(Mail(id="1", run="r", at=1.0, text="rm -r build"))
        await store.post(whole)
    edit(journal_path, f"update inbox set {change} where number=1")
    async with opened(journal_path) as store:
        assert await store.mail("") == [whole]
        if "ff' as text) where" not in change and not change.startswith("run=cast"):
            assert any(run.damaged for run in await every(store))


async def test_the_id_of_a_damaged_message_is_not_taken_for_kept(journal_path: Path) -> None:
    mail = Mail(id="1", run="r", at=1.0, text="words")
    async with opened(journal_path) as store:
        await store.post(mail)
    edit(journal_path, "update inbox set body=replace(body, 'words', 'other')")
    async with opened(journal_path) as store:
        with pytest.raises(WorldTrouble):
            await store.post(mail)


@pytest.mark.parametrize("change", ["data=x'00'", "seq=2", "seal=x''", "run='other'", "seq='x'"])
async def test_a_changed_snapshot_is_none(journal_path: Path, change: str) -> None:
    async with opened(journal_path) as store:
        await store.keep_snapshot("r", 1, b"data")
    edit(journal_path, f"update snapshots set {change}")
    async with opened(journal_path) as store:
        assert await store.snapshot("r") is None
        assert await store.snapshot("other") is None


@pytest.mark.parametrize("change", ["data=x'00'", "name=x'00'", "checksum=1", "data='text'"])
async def test_a_snapshot_of_which_a_page_was_changed_is_none(
    journal_path: Path, change: str
) -> None:
    async with opened(journal_path) as store:
        await store.keep_snapshot("r", 1, b"data", {"a": b"A", "b": b"B"})
    edit(journal_path, f"update pages set {change} where name='a'")
    async with opened(journal_path) as store:
        assert await store.snapshot("r") is None
        await store.keep_snapshot("r", 2, b"more", {"a": b"A", "b": b"B"})
        assert await store.snapshot("r") == (2, b"more", {"a": b"A", "b": b"B"})


async def test_torn_pages_are_told_and_harm_no_other_file(journal_path: Path) -> None:
    async with opened(journal_path) as store:
        for batch in range(20):
            await store.append("r", batch * 50, facts("r", batch * 50 + 1, batch * 50 + 50))
    ((page,),) = edit(journal_path, "select rootpage from sqlite_schema where name='facts'")
    content = bytearray(journal_path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\x5a" * 4096
    journal_path.write_bytes(content)
    async with opened(journal_path) as store:
        with pytest.raises(WorldTrouble) as caught:
            await store.read("r")

        assert caught.value.hint
        assert [run.id for run in await store.listing()] == ["r"]
        with pytest.raises(WorldTrouble):
            await store.append("r", 1000, [fact("r", 1001)])
        await store.post(Mail(id="1", run="r", at=1.0))


async def test_a_file_cut_in_half_is_told(journal_path: Path) -> None:
    await two_runs(journal_path)
    content = journal_path.read_bytes()
    journal_path.write_bytes(content[: len(content) // 8192 * 4096])
    with pytest.raises(WorldTrouble):
        async with opened(journal_path) as store:
            await store.read("r")


async def test_a_damaged_content_in_the_blob_store_is_trouble_until_it_is_put_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "journal.db") as store:
        key = await store.put(b"content")
        kept = tmp_path / "journal.db.d" / "shelf" / key[:2] / key
        await asyncio.to_thread(kept.write_bytes, b"c0ntent")
        with pytest.raises(WorldTrouble):
            await store.get(key)
        await store.put(b"content")

        assert await store.get(key) == b"content"
