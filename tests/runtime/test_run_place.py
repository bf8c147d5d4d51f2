"""A run of a repository goes on on another machine with the files its journal says it has made."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deadline import DEADLINE_S
from support.memory_pool import MemoryPool
from support.repositories import checkout, contents, git, head_of, url_of

from midstream.core.events import AnyFact, FileWritten, RunFinished, ToolReturned, WorkflowOutput
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import take_up
from midstream.runtime.engine.run_files import changed_files
from midstream.runtime.engine.time_travel import fork
from midstream.runtime.places import opened_place, placement_of
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.runtime.run_place import RunPlace
from midstream.runtime.storage import Placement
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    Gate,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
    says,
)
from midstream.views.side_effects import TREE, side_effects

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files are not written on Windows yet")

FLOW: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "stop"}],
}


class WritingTools(FakeTools):
    """`write` writes a file as the file tools do, `run` one as a command does; `look` reads."""

    def __init__(self, gate: Gate | None = None) -> None:
        super().__init__(
            FakeTool(name="write", effect="idempotent"),
            FakeTool(name="run", effect="once"),
            FakeTool(name="look", effect="read"),
        )
        self.gate = gate

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Write the file, and wait at the gate before the call ends."""
        if name not in ("write", "run"):
            return await super().call(name, arguments, context)
        path = context.workspace / str(arguments["path"])
        data = str(arguments["text"]).encode()
        if name == "write":
            before = path.read_bytes() if path.exists() else None
            await context.changing(path, before, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if self.gate is not None:
            await self.gate.passed()
        return ToolOutcome(outcome="completed", text="done")


def placement(work: Path, push: str = "") -> Placement:
    return Placement(repository=url_of(work), commit=head_of(work), push=push)


async def engine_at(
    state: Path, store: MemoryPool, work: Path, run: str, *script: Any, **how: Any
) -> tuple[LocalEngine, RunPlace]:
    """Return an engine of a machine that keeps its state there, for the run alone."""
    push = how.pop("push", "")
    place = await opened_place(
        *(store, store, run, placement(work, push), state), allows_files=True
    )
    tools = how.pop("tools", None) or WritingTools()
    world = fake_world(
        ScriptedModel(*script), tools=tools, journal=store, blobs=store, workspace=place.path
    )
    return LocalEngine(msgspec.structs.replace(world, place=place), store), place


def definition() -> Any:
    return define(FLOW, tools=WritingTools())


async def facts_of(store: MemoryPool, run: str, kind: Callable[[Any], bool]) -> list[AnyFact]:
    return [each.event for each in await store.read(run) if kind(each.event)]  # type: ignore[misc]


def is_tree(event: object) -> bool:
    return isinstance(event, FileWritten) and event.call_id == TREE


async def test_a_run_goes_on_elsewhere_with_the_same_files(tmp_path: Path) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    write = call("write", path="src/new.py", text="a\r\n")
    command = call("run", path="made", text="\0\1")
    here, place = await engine_at(
        tmp_path / "a", store, work, "r1", calls(write), calls(command), asks("Which?")
    )
    machine = await here.start(definition(), input="tidy", id="r1")
    await machine.settled()
    then = contents(place.path)
    (place.path / "half done").write_text("by what is cut off")
    store.die()

    beside = store.beside()
    there, elsewhere = await engine_at(tmp_path / "b", beside, work, "r1", says("done"))
    assert contents(elsewhere.path) == then
    assert "src/new.py" in then
    assert "made" in then
    taken = await there.resume("r1")
    await taken.say("this")
    assert (await taken.wait()).status == "finished"

    trees = await facts_of(beside, "r1", is_tree)
    assert [fact.path for fact in trees if isinstance(fact, FileWritten)] == [place.name] * 2
    written = side_effects(await beside.read("r1"), 0).files
    assert [each.path for each in written] == [f"{place.name}/src/new.py"]


async def test_a_call_that_was_cut_left_nothing_elsewhere_and_the_run_knows(tmp_path: Path) -> None:
    work, store, gate = checkout(tmp_path), MemoryPool(), Gate()
    command = call("run", path="made", text="1")
    here, place = await engine_at(
        *(tmp_path / "a", store, work, "r1", calls(command)), tools=WritingTools(gate)
    )
    await here.start(definition(), input="tidy", id="r1")
    await gate.reached()
    assert (place.path / "made").exists()
    store.die()

    beside = store.beside()
    there, elsewhere = await engine_at(tmp_path / "b", beside, work, "r1", says("I look"))
    assert contents(elsewhere.path) == contents(work)
    machine = await there.resume("r1")
    run = await machine.settled()
    assert [question.kind for question in run.inbox.open_questions] == ["question"]
    assert not (elsewhere.path / "made").exists()
    said = await facts_of(beside, "r1", lambda event: isinstance(event, WorkflowOutput))
    assert "what was written since is not here" in str(said)


async def test_what_only_reads_keeps_nothing(tmp_path: Path) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    here, place = await engine_at(
        tmp_path / "a", store, work, "r1", calls(call("look")), says("seen")
    )
    machine = await here.start(definition(), input="tidy", id="r1")
    await machine.wait()

    assert await facts_of(store, "r1", is_tree) == []
    assert machine.run.workspace == place.name == f"{url_of(work)}#{head_of(work)}"


async def test_what_is_written_in_the_background_is_kept_when_the_run_is_let_go_of(
    tmp_path: Path,
) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    here, place = await engine_at(tmp_path / "a", store, work, "r1", asks("Which?"))
    machine = await here.start(definition(), input="tidy", id="r1")
    await machine.settled()
    (place.path / "late").write_text("1")
    await here.let_go("r1")
    await place.let_go()
    _, elsewhere = await engine_at(tmp_path / "b", store.beside(), work, "r1")

    assert (elsewhere.path / "late").read_text() == "1"


async def test_a_fork_has_the_files_of_its_point(tmp_path: Path) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    one, two = (call("run", path=name, text=name) for name in ("one", "two"))
    here, place = await engine_at(
        tmp_path / "a", store, work, "r1", calls(one), calls(two), asks("Which?")
    )
    machine = await here.start(definition(), input="tidy", id="r1")
    await store.assign("r1", placement(work))
    await machine.settled()
    first = next(f.seq for f in await store.read("r1") if isinstance(f.event, ToolReturned))
    made = await fork(store, "r1", first)
    kept = await store.run(made.id)
    assert kept is not None
    assert kept.placement == placement(work)
    _, elsewhere = await engine_at(tmp_path / "b", store, work, made.id)

    assert contents(elsewhere.path).keys() == contents(place.path).keys() - {"two"}


async def test_a_result_is_pushed_before_the_run_ends(tmp_path: Path) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    command = call("run", path="made", text="1")
    here, _ = await engine_at(
        *(tmp_path / "a", store, work, "r1", calls(command), says("done")), push="result"
    )
    machine = await here.start(definition(), input="tidy the parser", id="r1")
    await machine.wait()
    git(work, "fetch", "--quiet", "origin", "result")

    assert git(work, "log", "--format=%s %an", "HEAD..FETCH_HEAD") == "tidy the parser midstream"
    assert git(work, "diff", "--name-status", "HEAD", "FETCH_HEAD") == "A\tmade"
    said = await facts_of(store, "r1", lambda e: isinstance(e, WorkflowOutput | RunFinished))
    assert isinstance(said[0], WorkflowOutput)
    assert "Pushed to the branch result" in said[0].text
    assert isinstance(said[-1], RunFinished)


async def test_a_push_that_fails_is_told_in_the_run_which_ends_all_the_same(tmp_path: Path) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    git(work, "commit", "--quiet", "--allow-empty", "--message", "Another")
    git(work, "push", "--quiet", "origin", "main:result")
    git(work, "reset", "--quiet", "--hard", "HEAD~1")
    here, _ = await engine_at(
        *(tmp_path / "a", store, work, "r1", calls(call("run", path="made", text="1"))),
        says("done"),
        push="result",
    )
    machine = await here.start(definition(), input="tidy", id="r1")
    run = await machine.wait()

    assert run.status == "finished"
    said = await facts_of(store, "r1", lambda event: isinstance(event, WorkflowOutput))
    assert "was not pushed to result" in str(said[0])
    assert "midstream fetch r1" in str(said[0])
    assert len(await facts_of(store, "r1", is_tree)) == 1


async def test_a_run_is_stopped_while_a_call_works_on_files(tmp_path: Path) -> None:
    work, store, gate = checkout(tmp_path), MemoryPool(), Gate()
    here, _ = await engine_at(
        *(tmp_path / "a", store, work, "r1", calls(call("write", path="x", text="1"))),
        tools=WritingTools(gate),
    )
    machine = await here.start(definition(), input="tidy", id="r1")
    await gate.reached()
    await machine.stop()

    assert machine.run.status == "stopped"
    assert len(await facts_of(store, "r1", is_tree)) == 1


async def test_a_repository_on_the_disk_takes_a_word_of_its_own(tmp_path: Path) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    with pytest.raises(UserMistake, match="own disk"):
        await opened_place(store, store, "r1", placement(work), tmp_path / "a")


async def test_what_a_run_of_a_repository_changed_is_not_looked_for_on_this_machine(
    tmp_path: Path,
) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    here, _ = await engine_at(
        tmp_path / "a",
        store,
        work,
        "r1",
        calls(call("write", path="x", text="1")),
        says("done"),
    )
    machine = await here.start(definition(), input="tidy", id="r1")
    await machine.wait()

    with pytest.raises(UserMistake, match="not on this machine"):
        await changed_files(store, await store.read("r1"))


async def test_a_store_that_does_not_say_where_a_run_belongs_is_told_by_the_run(
    tmp_path: Path,
) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    write = call("write", path="x", text="1")
    here, _ = await engine_at(tmp_path / "a", store, work, "r1", calls(write), asks("Which?"))
    machine = await here.start(definition(), input="tidy", id="r1")
    await machine.settled()
    kept = await store.run("r1")
    assert kept is not None
    assert kept.placement == Placement()
    assert placement_of(kept) == placement(work)

    store.die()
    elsewhere = fake_world(journal=store, blobs=store, workspace=tmp_path)
    with pytest.raises(UserMistake, match="workers go on with it"):
        await take_up(LocalEngine(elsewhere, store.beside()), None, "r1")  # type: ignore[arg-type]


class Mortal(MemoryPool):
    """A store whose process dies with so many appends: before the last of them is kept."""

    lives = 1_000

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Append, unless it is dead."""
        self.lives -= 1
        if self.lives > 0:
            await super().append(run, expected, facts)
            return
        if self.lives == 0:
            self.die()
        await asyncio.Event().wait()


async def test_killed_at_any_append_a_run_ends_elsewhere_with_the_same_files(
    tmp_path: Path,
) -> None:
    def step(name: str, path: str, to: str) -> dict[str, Json]:
        arguments: dict[str, Json] = {"path": path, "text": f"{path}\r\n"}
        return {"name": name, "tool": "write", "arguments": arguments, "next": to}

    states: list[Json] = [step("start", "a", "two"), step("two", "src/parse.py", "three")]
    flow = define({"states": [*states, step("three", "b", "stop")]}, tools=WritingTools())
    work = checkout(tmp_path)
    names = ("a", "src/parse.py", "b")
    for at in range(2, 40):
        async with asyncio.timeout(DEADLINE_S):
            store = Mortal()
            store.lives = at
            id = f"r{at}"
            here, _ = await engine_at(tmp_path / "a", store, work, id)
            machine = await here.start(flow, id=id)
            await asyncio.wait(
                [asyncio.ensure_future(machine.wait()), asyncio.ensure_future(dead(store))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            beside = store.beside()
            facts = [each.event for each in await beside.read(id)]
            if isinstance(facts[-1], RunFinished):
                assert at > 8
                return
            done = sum(isinstance(fact, ToolReturned) for fact in facts)
            there, place = await engine_at(tmp_path / "b", beside, work, id)
            # What the journal says was done is there, before anything is done anew.
            assert all(holds(place.path, name) for name in names[:done])
            await (await there.resume(id)).wait()
            assert all(holds(place.path, name) for name in names)
    raise AssertionError("it never ended by itself")


def holds(folder: Path, name: str) -> bool:
    """Return whether a file is as the call that writes it leaves it."""
    path = folder / name
    return path.exists() and path.read_bytes() == f"{name}\r\n".encode()


async def dead(store: Mortal) -> None:
    while store.lives > 0:  # noqa: ASYNC110  # whoever appends tells nobody
        await asyncio.sleep(0.001)
