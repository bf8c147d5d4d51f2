"""Where a run goes on: a folder on its host alone, a git commit anywhere, with the files it has made."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.memory_pool import MemoryPool
from support.repositories import checkout, contents, git, head_of, url_of
from worker_kit import FLOW, Working, engine_on, offered

from midstream.config.directories import STATE_HOME
from midstream.core.events import ToolReturned
from midstream.language.errors import NotTrusted
from midstream.language.names import Json
from midstream.runtime.engine.hand_over import hand_over
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.owner import Owner
from midstream.runtime.places import folder_of, name_of, place_of
from midstream.runtime.ports import ToolContext
from midstream.runtime.storage import Mail, Placement
from midstream.testing.fakes import asks, call, calls, define
from midstream.tools.base import Tool
from midstream.tools.user_tools import as_tool
from midstream.worker.folders import Folders

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files are not written on Windows yet")

Machine = Callable[[str], Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make this process one of another machine, which keeps its state elsewhere; return where."""

    def become(name: str) -> Path:
        state = tmp_path / name / "state"
        monkeypatch.setenv(STATE_HOME, str(state))
        return state

    return become


def write_down(text: str, context: ToolContext) -> str:
    """Write a file in the folder, as a command does."""
    (context.workspace / text).write_text(text)
    (context.workspace / text).chmod(0o755)
    return f"Wrote {text}."


def writing() -> Tool:
    return as_tool(write_down)


async def handed_over(
    store: MemoryPool, state: Path, work: Path, *tools: Tool, push: str = "", input: str = "tidy"
) -> str:
    """Return the id of a run of a repository that workers are to go on with."""
    placement = Placement(repository=url_of(work), commit=head_of(work), push=push)
    folder = folder_of("begun", placement, state)
    folder.open()
    engine = engine_on(store.beside())
    place = place_of(folder, store, placement)
    engine.world = msgspec.structs.replace(engine.world, workspace=folder.path, place=place)
    plain = define(FLOW)
    specs = plain.tools | {tool.spec.name: tool.spec for tool in tools}
    definition = msgspec.structs.replace(plain, tools=specs)
    id = await hand_over(engine, definition, placement, input=input, allowed=("write_down",))
    folder.remove()
    return id


def places(state: Path) -> list[str]:
    folder = state / "places"
    return sorted(os.listdir(folder)) if folder.exists() else []


def writes(text: str) -> Any:
    arguments: dict[str, Json] = {"text": text}
    return calls(call("write_down", **arguments))


async def test_a_run_of_a_folder_goes_on_on_its_host_alone(tmp_path: Path) -> None:
    store = MemoryPool()
    engine = engine_on(store.beside())
    engine.world = msgspec.structs.replace(engine.world, workspace=tmp_path)
    id = await hand_over(engine, define(FLOW), Placement(host="a"), input="tidy")
    async with Working(store.beside(), "Done.", host="b") as other:
        assert await offered(store, host="b") == []
        async with Working(store.beside(), "Done.", host="a") as own:
            await own.log.saying("let_go", "finished")
        assert other.log.of("taken") == []
    assert (await opened(store, id)).output == "Done."


async def test_a_run_of_a_commit_goes_on_on_another_machine_with_its_files(
    tmp_path: Path, machine: Machine
) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    trusts = (url_of(work),)
    id = await handed_over(store, machine("client"), work, writing(), push="result")
    assert places(tmp_path / "client" / "state") == []
    here = machine("a")
    script = (writes("one"), asks("Which?"))
    async with Working(store.beside(), *script, tools=(writing(),), trusts=trusts, host="a") as one:
        await one.log.saying("let_go", "waits for a person")
        then = contents(here / "places" / id / "project")
        assert then["one"].startswith("program")
    assert places(here) == [id]  # for the next time it goes on here

    there = machine("b")
    await store.post(Mail(id="1", run=id, at=1.0, text="this"))
    rest = (writes("two"), "Done.")
    async with Working(store.beside(), *rest, tools=(writing(),), trusts=trusts, host="b") as two:
        await two.log.saying("let_go", "finished")
    assert places(there) == []
    run = await opened(store, id)
    placement = Placement(repository=url_of(work), commit=head_of(work))
    assert run.workspace == name_of(placement)
    git(work, "fetch", "--quiet", "origin", "result")
    git(work, "checkout", "--quiet", "FETCH_HEAD")
    assert contents(work).keys() == {*then, "two"}
    assert {name: held for name, held in contents(work).items() if name != "two"} == then


async def test_a_repository_with_files_of_its_own_is_for_workers_that_trust_it(
    tmp_path: Path, machine: Machine
) -> None:
    files = {".midstream/roles/own.json": '{"own": {"level": "base"}}'}
    work, store = checkout(tmp_path, files), MemoryPool()
    state = machine("a")
    await handed_over(store, state, work)
    async with Working(store.beside(), "Done.", trusts=("https://*",)) as one:
        await one.log.saying("refused", "own disk")
    # That files may lie on the disk is not asked of other repositories.
    async with Working(store.beside(), "Done.", trusts=("file://*",)) as two:
        await two.log.saying("let_go", "finished")
    assert two.log.of("refused") == []


def test_files_of_a_repository_that_is_not_trusted_are_not_read(tmp_path: Path) -> None:
    work = checkout(tmp_path, {".midstream/roles/own.json": '{"own": {"level": "base"}}'})
    folders = Folders(Owner(MemoryPool()), lambda engine: None)
    with pytest.raises(NotTrusted, match="not told to trust") as caught:
        folders._made(work, trusts=False)

    assert "--trust-repositories" in caught.value.hint
    assert folders._made(work, trusts=True).config.grant is not None


async def test_a_call_is_made_in_the_runs_own_folder_and_a_taken_one_is_not_made_again(
    tmp_path: Path, machine: Machine
) -> None:
    work, store = checkout(tmp_path), MemoryPool()
    state = machine("a")
    ids = [await handed_over(store, state, work, writing()) for _ in range(2)]
    script = (writes("one"), "Done.", writes("one"), "Done.")
    async with Working(
        store.beside(), *script, tools=(writing(),), trusts=("file://*",), max_runs=1
    ) as one:
        await one.log.saying("let_go", "finished", times=2)
    for id in ids:
        returned = [f.event for f in await store.read(id) if isinstance(f.event, ToolReturned)]
        assert [fact.outcome for fact in returned] == ["completed"]
    assert not (work / "one").exists()
