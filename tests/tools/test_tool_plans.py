"""What the file tools say they would do, before they do it."""

from pathlib import Path

import msgspec
import pytest
from toolbench import Bench, a_tool, files_in

from midstream.language.names import Json
from midstream.runtime.ports import Review, ToolContext
from midstream.safety.policy import Policy
from midstream.tools import manager, validation
from midstream.tools.base import Planned
from midstream.tools.manager import ToolManager, built_in_tools

POEM = "Roses are red,\nviolets are blue.\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "poem.txt").write_text(POEM)
    (tmp_path / "docs").mkdir()
    (tmp_path / "link.txt").symlink_to("poem.txt")
    return Bench(tmp_path)


def plan(bench: Bench, name: str, **arguments: Json) -> Planned:
    tool = next(tool for tool in built_in_tools() if tool.spec.name == name)
    assert tool.plan is not None
    return tool.plan(arguments, bench.context)


def asked(bench: Bench, name: str, **arguments: Json) -> list[str]:
    return list(map(str, plan(bench, name, **arguments).requests))


async def reviewed(bench: Bench, policy: Policy, name: str, **arguments: Json) -> Review:
    bench.manager = ToolManager(policy=lambda: policy)
    return await bench.manager.review(name, arguments, bench.context)


def test_a_plan_names_what_is_read_and_written(bench: Bench) -> None:
    edits: Json = [{"old_text": "red", "new_text": "white"}]

    assert asked(bench, "read_files", paths=["poem.txt:1-1", "docs", "../x"]) == [
        "read: poem.txt",
        "read: docs",
    ]
    assert asked(bench, "list_directory") == ["read: ."]
    assert asked(bench, "find_files", glob="*.md", path="docs") == ["read: docs"]
    assert asked(bench, "exact_search", text="x", path="docs") == ["read: docs"]
    assert asked(bench, "write_file", path="./docs//new.md", content="") == ["write: docs/new.md"]
    assert asked(bench, "edit_file", path="poem.txt", edits=edits) == [
        "write: poem.txt",
        "read: poem.txt",
    ]
    assert asked(bench, "write_file", path="AGENTS.md", content="") == [
        "write_protected: AGENTS.md"
    ]
    assert asked(bench, "write_file", path="link.txt", content="") == [
        "write: poem.txt",
        "write: link.txt",
    ]


def test_a_plan_shows_the_change_and_makes_none(bench: Bench) -> None:
    edits: Json = [{"old_text": "red", "new_text": "white"}]

    shows = plan(bench, "edit_file", path="poem.txt", edits=edits).shows

    assert "-Roses are red,\n+Roses are white,\n" in shows
    assert (bench.context.workspace / "poem.txt").read_text() == POEM
    assert "+one" in plan(bench, "write_file", path="new/a.md", content="one\n").shows
    assert files_in(bench.context.workspace) == ["link.txt", "poem.txt"]


def test_a_plan_is_bound_to_what_the_file_holds_and_is_to_hold(bench: Bench) -> None:
    def binds(content: str, path: str = "poem.txt") -> str:
        return plan(bench, "write_file", path=path, content=content).binds

    first = binds("new")
    assert binds("new") == first
    assert len({first, binds("newer"), binds("new", "other.txt"), binds("new", "link.txt")}) == 4
    (bench.context.workspace / "poem.txt").write_text("theirs")
    assert binds("new") != first


async def test_plain_files_are_written_unasked_in_auto_and_asked_about_in_ask(bench: Bench) -> None:
    write: dict[str, Json] = {"path": "poem.txt", "content": "new\n"}

    assert (await reviewed(bench, Policy(mode="auto"), "write_file", **write)).kind == "allow"
    assert (await reviewed(bench, Policy(mode="ask"), "write_file", **write)).kind == "ask"
    assert (await reviewed(bench, Policy(mode="plan"), "write_file", **write)).kind == "deny"


async def test_a_rule_against_reading_holds_for_every_tool_that_looks(bench: Bench) -> None:
    private = bench.context.workspace / "private" / "diary.md"
    private.parent.mkdir()
    private.write_text("violets are my favourite\n")
    (bench.context.workspace / "way-in").symlink_to("private")
    policy = Policy(mode="full", deny=("read: private/**",))
    bench.manager = ToolManager(policy=lambda: policy)
    edits: Json = [{"old_text": "violets are mine", "new_text": "x"}]

    texts = [
        (await bench.call("read_files", paths=["private/diary.md"])).text,
        (await bench.call("read_files", paths=["way-in/diary.md"])).text,
        (await bench.call("exact_search", text="violets")).text,
        (await bench.call("exact_search", text="violets", path="private")).text,
        (await bench.call("edit_file", path="private/diary.md", edits=edits)).text,
    ]

    listed = await bench.text("list_directory", depth=3)

    assert not any("favourite" in text for text in texts)
    assert "diary" not in listed
    assert "poem.txt" in listed
    assert "poem.txt:2: violets" in texts[2]
    assert 'deny rule "read: private/**"' in texts[0]


async def test_a_rule_that_names_a_secret_opens_that_one(bench: Bench) -> None:
    for name in (".env", ".env.local"):
        (bench.context.workspace / name).write_text("TOKEN=violets\n")
    policy = Policy(mode="full", allow=("read: .env",))
    bench.manager = ToolManager(policy=lambda: policy)

    assert "TOKEN" in await bench.text("read_files", paths=[".env"])
    assert "TOKEN" not in await bench.failure("read_files", paths=[".env.local"])
    found = await bench.text("exact_search", text="TOKEN", include_ignored=True)
    assert found.splitlines()[0] == ".env:1: TOKEN=violets"


async def test_a_call_is_held_to_the_plan_it_was_judged_by(bench: Bench) -> None:
    seen: list[str] = []
    tools = {tool.spec.name: tool for tool in built_in_tools()}

    async def write(arguments: dict[str, Json], context: object) -> str:
        seen.append(getattr(context, "binds", ""))
        return "Done."

    tool = msgspec.structs.replace(tools["write_file"], function=write)
    bench.manager = ToolManager(built_in=[tool], policy=lambda: Policy(mode="full"))
    wanted = plan(bench, "write_file", path="poem.txt", content="new").binds

    await bench.text("write_file", path="poem.txt", content="new")

    assert seen == [wanted]


async def test_a_rule_that_asks_about_reading_asks_and_is_satisfied_by_a_yes(bench: Bench) -> None:
    policy = Policy(mode="auto", ask=("read: poem.txt",))
    edits: Json = [{"old_text": "red", "new_text": "white"}]

    looked = await reviewed(bench, policy, "read_files", paths=["poem.txt"])
    changed = await reviewed(bench, policy, "edit_file", path="poem.txt", edits=edits)

    assert bench.manager.specs()["read_files"].reviewed
    assert (looked.kind, looked.asks[0], looked.shows) == ("ask", "read: poem.txt", "poem.txt")
    assert (changed.kind, changed.asks[0]) == ("ask", "read: poem.txt")
    context = msgspec.structs.replace(bench.context, granted=changed.asks)
    arguments: dict[str, Json] = {"path": "poem.txt", "edits": edits}
    refused = await bench.manager.call("edit_file", arguments, bench.context)
    done = await bench.manager.call("edit_file", arguments, context)
    assert (refused.outcome, done.outcome) == ("failed", "completed")
    assert 'The ask rule "read: poem.txt"' in refused.text


def test_without_such_a_rule_reading_is_not_even_looked_at(bench: Bench) -> None:
    assert not bench.manager.specs()["read_files"].reviewed


async def test_what_runs_is_what_was_checked_whatever_a_plan_does_to_it(tmp_path: Path) -> None:
    seen: list[Json] = []
    given: dict[str, Json] = {"names": ["a"]}

    def plan_and_change(arguments: dict[str, Json], context: ToolContext) -> Planned:
        names = arguments["names"]
        assert isinstance(names, list)
        names.append("b")
        given["names"] = ["c"]
        return Planned(requests=())

    def work(arguments: dict[str, Json], context: ToolContext) -> str:
        seen.append(arguments["names"])
        return ""

    tool = msgspec.structs.replace(a_tool(work), plan=plan_and_change)
    bench = Bench(tmp_path, ToolManager([tool], policy=lambda: Policy(mode="full")))
    await bench.manager.call("thing", given, bench.context)

    assert seen == [["a"]]


async def test_arguments_are_checked_once_for_a_review_and_once_for_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Json] = []

    def counted(value: Json, schema: dict[str, Json]) -> str:
        checked.append(value)
        return validation.validate(value, schema)

    monkeypatch.setattr(manager, "validate", counted)
    bench = Bench(tmp_path)
    arguments: dict[str, Json] = {"path": "a.txt", "content": "x"}
    await bench.manager.review("write_file", arguments, bench.context)
    await bench.manager.call("write_file", arguments, bench.context)

    assert checked == [arguments, arguments]


async def test_arguments_that_no_longer_fit_after_their_review_are_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    def work(arguments: dict[str, Json], context: ToolContext) -> str:
        ran.append("yes")
        return ""

    loose = a_tool(work, effect="once")
    strict = a_tool(
        work,
        effect="once",
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
    )
    bench = Bench(tmp_path, ToolManager([loose], policy=lambda: Policy(mode="full")))
    review = await bench.manager.review("thing", {"n": "one"}, bench.context)
    bench.manager.put([strict], instead_of=["thing"])

    assert review.kind == "allow"
    assert "'one' is not of type 'integer'" in await bench.failure("thing", n="one")
    assert ran == []


# --- changes that change nothing ------------------------------------------------------------------


def stamp_of(place: Path) -> tuple[int, ...]:
    """What differs once a file was written; that it was read may show in its other times."""
    about = place.stat()
    return (about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


async def test_a_change_that_changes_nothing_asks_nobody_and_writes_nothing(bench: Bench) -> None:
    place = bench.context.workspace / "same.txt"
    place.write_bytes(b"one\n")
    before = stamp_of(place)
    same: dict[str, Json] = {"path": "same.txt", "content": "one\n"}

    assert (await reviewed(bench, Policy(), "write_file", **same)).kind == "allow"
    said = await bench.text("write_file", **same)
    assert said == "No change: same.txt holds exactly this already."
    assert stamp_of(place) == before


async def test_that_nothing_would_change_is_not_said_of_a_file_that_may_not_be_read(
    bench: Bench,
) -> None:
    (bench.context.workspace / ".env").write_bytes(b"KEY=1\n")

    review = await reviewed(bench, Policy(), "write_file", path=".env", content="KEY=1\n")
    assert review.kind == "deny"
