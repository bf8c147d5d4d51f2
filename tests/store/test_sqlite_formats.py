"""Journals of every released format can be read, for ever, and are brought up to today on reading."""

import asyncio
import hashlib
import json
import re
from pathlib import Path

import pytest
from store_kit import GOLDEN, edit, every, golden, opened, refusal

from midstream.core import formats
from midstream.core.background import TERMINAL
from midstream.core.codec import FORMAT
from midstream.core.events import (
    AgentResponded,
    BranchStarted,
    Fact,
    Interrupted,
    ReplyCut,
    ReplyShown,
    RunStarted,
    ToolCalled,
    usage_in,
)
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language.errors import JournalDamaged, JournalTooNew
from midstream.language.names import Json
from midstream.runtime.storage import Mail
from midstream.store import chains, encoding, schema
from midstream.store.encoding import body_of
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact, facts

CHECKSUMS = {
    "1/export.jsonl": "18e676a337a9bbc5eae6bf526b270fe584389b507931979f400f9a3dcf60d064",
    "1/journal.sql": "e64f0825ac0b278ba8e674c421982918be92e99e4e31a9c08bf54795adcb2af4",
    "2/export.jsonl": "4d08d617adce4585ff876fa54f193fb78cf8f20153b1a7933f59d7fb25373565",
    "2/journal.sql": "86a10e15ec6f5bbdd2538423bc5af133ed49453590ce984ee5bc70ae6e010e32",
    "3/export.jsonl": "5623d4e3fd16aee3ac1c855c24a8595b83fc2103ff1fff7bbcb7962e38c3c110",
    "3/journal.sql": "a41c8e317fa36a3ce6cf90aa0ee1a0ee0992bcca5a816ba0c523e5694b7fa520",
    "4/export.jsonl": "9f9864daa55d9856332496ba09547d2bb0fd97b5577f78c73af46527dbdd687f",
    "4/journal.sql": "9798e1bd7abac82c0d5b1c39ea017b1a9000da5e7fba0191ae275f2fc084de72",
    "5/export.jsonl": "eec79fc936a23527002b7aa8a35587a929ac832b946e722712b61d3bd4265f0e",
    "5/journal.sql": "f6108bcc4dc9248cd73045f703b7e34f472b25f0a72c48cae593d50801d56603",
    "6/export.jsonl": "7114603d6bf23595393bcb4b1b4fa24872773702d134210ef67a304b95ebaa1d",
    "6/journal.sql": "2480f15ddd0660fc062eae058776ae6a66f003fc3ce2954c6e17c21a687c9970",
    "7/export.jsonl": "de4d98324db1394fcb7256845a5b6398ff390153b5e641d6a028429eabd1b46b",
    "7/journal.sql": "498b1d0e2e4449172b0a0cd9a7be1fc5d22f922bc03a8c81d7db6f7a6988537b",
    "8/export.jsonl": "773e704cfb849a657a4e9f6da502ff0685079f86bfa14e8818d7ae51a4bb644b",
    "8/journal.sql": "15c6511b8d26d7a13f1fc784bd5e30233324ae883d9bc4906c8626aa27640dd2",
    "9/export.jsonl": "c61ee109e662e8d654471ccdd49613028cc566de440fe23fc49fb09fba7214e5",
    "9/journal.sql": "051a01a57e6cc5b5c2bbd8b5ab613c07cb4b0d24fbb7fe358b79c95ae71d1b26",
    "10/export.jsonl": "3ef38effb791651d17d7fbbe73c83f8c7387229279e95f4ab7ce8e8a13eeb451",
    "10/journal.sql": "8ea0c342011d12b681172cc77429bb6b9d3136eccf3fb5222af535eb62672406",
    "11/export.jsonl": "dcbd5ab11bb2eaaf73f657d0fc9a9ce6e066141464771fc3fb0f1726c081b613",
    "11/journal.sql": "1b95f16a645cf7d401625fbcddb3cb5433d4d7d918af03eca4b2149a3ce9afa6",
    "12/export.jsonl": "75bad8ec22fc5783250f2baabbb67c5e60d07a0a72c750f80eb847d40f5c103d",
    "12/journal.sql": "fa83bf65286728cd192f2e9cc8584675d3bee5b8151cea7d0e0045801e39a4a9",
    "13/export.jsonl": "f56a1e3f4005cda389c9a9808908cb0972d5cd4d540363e16b7c4e4eb619a680",
    "13/journal.sql": "9c32192b0bbdf9235b007ddd6b6e07adf655de3e410b600f1e62cd6ecc7e820e",
}
"""What was released, in SHA-256. Lines are added here and never changed: old chainss stay as they are."""


def in_older_words(envelope: Envelope) -> bytes:
    """Return a fact as format 0 would have it, had there been one: it said `words` for `text`."""
    return body_of(envelope).replace(b'"text":', b'"words":')


def in_todays_words(fact: dict[str, object]) -> dict[str, object]:
    return {("text" if name == "words" else name): value for name, value in fact.items()}


async def older(path: Path) -> None:
    """Make a journal of format 0, which never was, of three facts."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (chains, schema, formats):
            patch.setattr(module, "FORMAT", 0)
        patch.setattr(encoding, "body_of", in_older_words)
        async with opened(path) as store:
            await store.append("r", 0, facts("r", 1, 3))


async def read_golden(folder: Path, format: int, id: str) -> tuple[Run, list[Envelope]]:
    """Return the run that is new in a released journal, folded and as its facts; the others are listed."""
    path = folder / "journal.db"
    await asyncio.to_thread(golden, path, format)
    async with opened(path) as store:
        told = await store.read(id)
        run = Run(id=id)
        for each in told:
            assert isinstance(each.event, Fact)
            run = apply(run, each.event)
        others = [] if format == 7 else [("f", 3, ""), ("r", 5, "")]
        listed = [(kept.id, kept.seq, kept.damaged) for kept in await every(store)]
        assert listed == sorted([*others, (id, len(told), "")])
    return run, told


def test_released_journals_are_never_edited() -> None:
    found = {
        path.relative_to(GOLDEN).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in GOLDEN.rglob("*")
        if path.is_file()
    }

    assert found == CHECKSUMS


async def test_the_journal_of_the_first_format_is_read_whole(journal_path: Path) -> None:
    await asyncio.to_thread(golden, journal_path)
    async with opened(journal_path) as store:
        runs = {kept.id: kept for kept in await every(store)}

        assert [(kept.id, kept.seq, kept.damaged) for kept in runs.values()] == [
            ("f", 3, ""),
            ("g", 4, ""),
            ("golden22", 23, ""),
            ("r", 5, ""),
        ]
        assert (runs["golden22"].is_foreign, runs["golden22"].summary.status) == (True, "finished")
        assert runs["r"].was_cut
        assert [(kept.parent, kept.parent_seq) for kept in (runs["f"], runs["g"])] == [("r", 3)] * 2
        assert await store.read("r") == facts("r", 1, 5)
        assert await store.read("f") == facts("f", 1, 3)
        assert await store.read("g") == [*facts("g", 1, 3), fact("g", 4, "of the fork")]
        assert len(await store.read("golden22")) == 23
        assert await store.mail("") == [Mail(id="2", run="r", at=2.5, text="wörds")]
        assert await store.snapshot("r") == (3, b"folded", {})


@pytest.mark.parametrize("format", range(1, FORMAT + 1))
async def test_the_runs_of_a_journal_of_any_format_are_listed_in_pages(
    journal_path: Path, format: int
) -> None:
    await asyncio.to_thread(golden, journal_path, format)
    async with opened(journal_path) as store:
        kept_runs = await store.matching("")
        pages = [await store.listing(limit=2)]
        while pages[-1]:
            pages.append(await store.listing(limit=2, after=pages[-1][-1].place))
        found = [kept for page in pages for kept in page]

    assert kept_runs
    assert found == sorted(kept_runs, key=lambda kept: kept.place, reverse=True)


async def test_the_journal_of_the_second_format_is_read_whole(tmp_path: Path) -> None:
    _, told = await read_golden(tmp_path, 2, "golden33")
    assert {"left", "right", "1", "2", "inner"} == {e.event.branch for e in told} - {""}

    async with opened(tmp_path / "journal.db") as store:
        assert await store.read("f") == facts("f", 1, 3)
        assert await store.mail("") == [Mail(id="1", run="r", at=2.5, text="wörds")]


def test_a_yes_to_a_tool_becomes_a_review_of_each_call() -> None:
    """A run of format 2 is pinned to tools that are approved as a whole; today each call is judged."""
    tool: dict[str, Json] = {"description": "", "parameters": {}, "needs_approval": True}
    inner: dict[str, Json] = {"tools": {"write_file": {**tool, "name": "write_file"}}, "roles": {}}
    outer: dict[str, Json] = {
        "tools": {name: {**tool, "name": name} for name in ("execute_terminal", "own_tool")},
        "roles": {},
        "workflows": {"inner": inner},
    }
    for part, name in ((inner, "inner"), (outer, "outer")):
        part["workflow"] = {"workflow_name": name, "states": [{"name": "start"}]}
    fact: dict[str, Json] = {"type": "run_started", "workflow": "outer", "definition": outer}

    read = formats.fact_of(json.dumps(fact).encode(), 2)

    assert isinstance(read, RunStarted)
    tools = {**read.definition.tools, **read.definition.workflows["inner"].tools}
    assert {name: (spec.reviewed, spec.needs_approval) for name, spec in tools.items()} == {
        "execute_terminal": (True, False),
        "write_file": (True, False),
        "own_tool": (False, True),
    }


async def test_the_journal_of_the_third_format_is_read_whole(tmp_path: Path) -> None:
    _, told = await read_golden(tmp_path, 3, "golden44")

    kinds = {envelope.type for envelope in told}
    assert kinds >= {"call_edited", "permission_granted", "permission_revoked"}
    assert kinds >= {"budget_reached", "time_spent"}


async def test_the_journal_of_the_fourth_format_is_read_whole(tmp_path: Path) -> None:
    _, told = await read_golden(tmp_path, 4, "golden55")

    kinds = {envelope.type for envelope in told}
    assert kinds >= {"run_renamed", "compaction_began", "conversation_compacted"}


async def test_the_journal_of_the_fifth_format_is_read_whole(tmp_path: Path) -> None:
    _, told = await read_golden(tmp_path, 5, "golden66")

    shown = [each.event for each in told if isinstance(each.event, ReplyShown)]
    assert "".join(fact.text for fact in shown if not fact.branch) == "One and a halfand more"


async def test_the_journal_of_the_seventh_format_is_read_whole(tmp_path: Path) -> None:
    _, told = await read_golden(tmp_path, 7, "golden88")

    (begun,) = (each.event for each in told if isinstance(each.event, BranchStarted))
    assert (begun.role, begun.call_id) == ("coder", "call_1")


async def test_the_journal_of_the_sixth_format_is_read_whole(tmp_path: Path) -> None:
    run, _ = await read_golden(tmp_path, 6, "golden77")

    talk, report = run.common_data["talk"], run.common_data["report"]
    words = [each["text"].strip("x ") for each in talk]
    assert words == ["1", "2", "3", "corrected", "5", "9", "10", "11", "round 1"]
    assert report.endswith(
        "yyy Round 1: wörds. Round 2: wörds. Round 3: wörds. Round 4: wörds. Round 5: wörds."
    )


async def test_the_journal_of_the_eighth_format_is_read_whole(tmp_path: Path) -> None:
    run, _ = await read_golden(tmp_path, 8, "golden99")

    assert [(item.status, item.text) for item in run.todo.items] == [
        ("done", "Write the pärser"),
        ("pending", "Say it in the docs"),
    ]


async def test_the_journal_of_the_ninth_format_is_read_whole(tmp_path: Path) -> None:
    _, told = await read_golden(tmp_path, 9, "goldenaa")
    first, *_, replied, _, _, _ = [each.event for each in told]

    assert isinstance(first, RunStarted)
    assert {name: role.effort for name, role in first.definition.roles.items()} == {
        "dude": "high",
        "judge": None,
    }
    assert isinstance(replied, AgentResponded)
    assert replied.usage is not None
    assert (replied.usage.input_tokens, replied.usage.cached_tokens) == (1200, 1024)


async def test_the_journal_of_the_tenth_format_is_read_whole(tmp_path: Path) -> None:
    run, told = await read_golden(tmp_path, 10, "goldenbb")

    kinds = {envelope.type for envelope in told}
    assert kinds >= {"hook_ran", "tool_ended", "mode_told", "results_trimmed"}
    (begun,) = (each.event for each in told if isinstance(each.event, BranchStarted))
    assert begun.worktree == "coder-30"
    assert [item.text for item in run.todo.items] == ["Read", "Write"]
    assert [picture.width for picture in run.pictures.values()] == [640]
    checked = next(result for message in run.contexts["chat"] for result in message.results)
    assert checked.trimmed
    assert run.hooked == ("run",)


async def test_the_journal_of_the_eleventh_format_is_read_whole(tmp_path: Path) -> None:
    run, told = await read_golden(tmp_path, 11, "goldencc")

    first = told[0].event
    assert isinstance(first, RunStarted)
    assert first.source == "web"
    kinds = {envelope.type for envelope in told}
    assert kinds >= {"agent_prompted", "agent_stopped", "workspace_seen"}
    calls = [each.event for each in told if isinstance(each.event, ToolCalled)]
    assert [call.external for call in calls] == ["once", "read"]
    assert run.sessions["claude"].id == "s1"


async def test_the_journal_of_the_twelfth_format_is_read_whole(tmp_path: Path) -> None:
    run, told = await read_golden(tmp_path, 12, "goldendd")

    cut = {each.type for each in told if usage_in(each.event) is not None}
    assert cut == {"interrupted", "reply_cut", "agent_failed"}
    used = [(usage.input_tokens, usage.is_estimate) for _, usage in run.usage.requests]
    assert used == [(900, True), (950, True), (990, False), (1000, True), (1010, True)]


async def test_the_journal_of_the_thirteenth_format_is_read_whole(tmp_path: Path) -> None:
    run, told = await read_golden(tmp_path, 13, "goldenee")

    cut = [each.event for each in told if isinstance(each.event, Interrupted | ReplyCut)]
    assert [fact.calling for fact in cut] == ["write_file", "write_file, look", "look", TERMINAL]
    said = [(m.text, m.calling) for m in run.contexts["talk"] if m.interrupted]
    assert said == [
        ("Ein Wört zu viel", "write_file"),
        ("Short", "write_file, look"),
        ("", "look"),
        ("", TERMINAL),
        ("More", "todo"),
    ]


async def test_the_journal_of_the_first_format_goes_on(journal_path: Path) -> None:
    await asyncio.to_thread(golden, journal_path)
    async with opened(journal_path) as store:
        assert (await store.claim("r")).was_cut
        await store.append("r", 5, [fact("r", 6)])
        assert await store.fork("golden22", 19, "again") == 19
    async with opened(journal_path) as store:
        assert await store.read("r") == facts("r", 1, 6)


async def test_what_an_older_version_wrote_reads_as_todays(
    journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await older(journal_path)
    before = edit(journal_path, "select * from facts")
    assert all(re.search(rb'"words":"\d"', row[3]) and row[-1] == 0 for row in before)
    monkeypatch.setitem(formats.UPGRADES, 0, in_todays_words)
    async with opened(journal_path) as store:
        assert await store.read("r") == facts("r", 1, 3)
        await store.append("r", 3, [fact("r", 4)])
        assert await store.fork("r", 4, "f") == 4
        assert await store.read("f") == facts("f", 1, 4)

    assert edit(journal_path, "select * from facts where seq<4") == before
    assert edit(journal_path, "select format from facts where seq=4") == [(FORMAT,)]
    assert edit(journal_path, "select value from meta") == [(FORMAT,)]


async def test_an_older_format_of_which_nothing_is_known_is_used_for_nothing(
    journal_path: Path,
) -> None:
    await older(journal_path)
    async with opened(journal_path) as store:
        with pytest.raises(JournalDamaged, match="its format is unknown, 0"):
            await store.read("r")


async def test_an_upgrade_that_makes_no_fact_is_noticed(
    journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await older(journal_path)
    monkeypatch.setitem(formats.UPGRADES, 0, lambda fact: fact)
    async with opened(journal_path) as store:
        with pytest.raises(JournalDamaged) as caught:
            await store.read("r")
        assert caught.value.seq == 1


async def test_the_older_version_refuses_what_was_upgraded(journal_path: Path) -> None:
    await older(journal_path)
    async with opened(journal_path):
        pass
    before = journal_path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "FORMAT", 0)
        error = refusal(lambda: SqliteStore.opened(journal_path))

    assert isinstance(error, JournalTooNew)
    assert journal_path.read_bytes() == before
