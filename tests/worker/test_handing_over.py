"""Runs that are begun for workers, and what a run that was let go of is owed."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.memory_pool import MemoryPool
from support.repositories import checkout, git, head_of, url_of
from worker_kit import FLOW, engine_on, offered, sleeping

import midstream
from midstream.config.directories import user_state_dir
from midstream.config.trust import TrustStore
from midstream.core.events import RunStarted
from midstream.language.errors import NotTrusted, UserMistake
from midstream.runtime.engine.hand_over import hand_over
from midstream.runtime.places import name_of
from midstream.runtime.storage import Mail, Placement
from midstream.system.workspace_paths import places_folder
from midstream.testing.fakes import Gate, JumpingClock, ScriptedModel, asks, define, says


async def test_a_run_that_is_handed_over_has_begun_and_nothing_of_it_was_done() -> None:
    store = MemoryPool()
    engine = engine_on(store)  # a model that is asked would say that it has no line for it
    place = Placement(host="there", queue="slow", user="ann")
    id = await hand_over(engine, define(FLOW), place, input="tidy")
    kept = await store.run(id)

    assert kept is not None
    assert (kept.owner, kept.placement) == ("", place)
    assert isinstance((await store.read(id))[0].event, RunStarted)
    assert engine.machines() == ()
    assert await offered(store) == []
    assert await offered(store, host="there") == [id]
    assert await offered(store, host="there", queues=("default",)) == []


async def test_a_run_that_waits_for_a_person_is_offered_once_something_is_sent_to_it() -> None:
    store = MemoryPool()
    engine = engine_on(store, asks("Which?"))
    machine = await engine.start(define(FLOW), input="tidy")
    await machine.settled()
    await engine.let_go(machine.id)
    assert await offered(store) == []

    await store.post(Mail(id="1", run=machine.id, at=1.0, text="this"))
    assert await offered(store) == [machine.id]


async def test_a_run_that_is_halted_waits_for_a_person() -> None:
    store, gate = MemoryPool(), Gate()
    engine = engine_on(store, says("one ", gate=gate))
    machine = await engine.start(define(FLOW), input="tidy")
    await gate.reached()
    await machine.halt()
    await engine.let_go(machine.id)

    assert await offered(store) == []


async def test_a_run_that_is_left_at_work_is_offered_at_once() -> None:
    store, gate = MemoryPool(), Gate()
    engine = engine_on(store, says("one ", gate=gate))
    machine = await engine.start(define(FLOW), input="tidy")
    await gate.reached()
    await engine.let_go(machine.id)

    assert await offered(store) == [machine.id]


async def test_a_run_that_waits_for_a_time_is_offered_by_then() -> None:
    clock = JumpingClock()
    store = MemoryPool(clock.now)
    engine = engine_on(store, clock=clock)
    resting = {"states": [{"name": "start", "wait": {"seconds": 3600}}, {"name": "stop"}]}
    machine = await engine.start(define(resting))
    await sleeping(clock)
    await engine.let_go(machine.id)
    assert await offered(store) == []

    clock.jump(3599)
    assert await offered(store) == []
    clock.jump(1)
    assert await offered(store) == [machine.id]


async def test_a_fork_that_nobody_has_run_is_offered_to_nobody() -> None:
    store = MemoryPool()
    engine = engine_on(store)
    id = await hand_over(engine, define(FLOW), Placement(), input="tidy")
    await store.fork(id, 9, "forked")

    assert await offered(store) == [id]


async def test_a_worker_gets_nothing_that_it_refuses() -> None:
    store = MemoryPool()
    engine = engine_on(store)
    first = await hand_over(engine, define(FLOW), Placement(), input="tidy")
    second = await hand_over(engine, define(FLOW), Placement(), input="tidy")
    workspace = str(engine.world.workspace)

    assert await offered(store, refuses={first: "damaged"}) == [second]
    assert await offered(store, refuses={workspace: "not trusted"}) == []


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers share what is kept in memory."""
    monkeypatch.setattr("midstream.store.memory.MemoryStore", MemoryPool)


@pytest.mark.usefixtures("shared")
async def test_a_program_begins_a_run_for_workers_and_follows_it(tmp_path: Any) -> None:
    opening = midstream.open(tmp_path, model=ScriptedModel(), journal=":memory:")
    async with opening as engine:
        run = await engine.start(FLOW | {"workflow_name": "talk"}, "tidy", queue="slow", key="k")
        again = await engine.start(FLOW | {"workflow_name": "talk"}, queue="slow", key="k")
        kept = await engine.local.store.run(run.id)

        assert kept is not None
        assert kept.placement is not None
        assert (kept.owner, kept.placement.queue) == ("", "slow")
        assert (run.is_here, again.id, run.status) == (False, run.id, "running")


@pytest.mark.parametrize("journal", ["journal.db", ":memory:"])
async def test_what_is_of_one_machine_has_no_workers(tmp_path: Any, journal: str) -> None:
    if journal != ":memory:":
        journal = str(tmp_path / journal)
    opening = midstream.open(tmp_path, model=ScriptedModel(), journal=journal)
    async with opening as engine:
        with pytest.raises(UserMistake, match="of this machine alone"):
            await engine.start(FLOW | {"workflow_name": "talk"}, "tidy", queue="default")
        assert await engine.runs() == []


@pytest.mark.usefixtures("shared")
async def test_functions_of_a_program_are_in_no_worker(tmp_path: Any) -> None:
    flow = {
        "workflow_name": "own",
        "states": [{"name": "start", "transition_handler": "go"}, {"name": "stop"}],
    }
    opening = midstream.open(tmp_path, model=ScriptedModel(), journal=":memory:")
    async with opening as engine:
        with pytest.raises(UserMistake, match="built in code"):
            await engine.start(flow, handlers={"go": lambda _: "stop"}, queue="default")


async def test_a_repository_needs_a_journal_that_workers_share(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    async with midstream.open(work, model="offline", journal=tmp_path / "journal.db") as engine:
        with pytest.raises(UserMistake, match="of this machine alone"):
            await engine.start(FLOW | {"workflow_name": "talk"}, "tidy", repository=".")


@pytest.mark.usefixtures("shared")
async def test_a_run_of_a_repository_begins_with_a_commit_that_others_can_get(
    tmp_path: Path,
) -> None:
    work = checkout(tmp_path)
    flow = FLOW | {"workflow_name": "talk"}
    async with midstream.open(work, model=ScriptedModel(), journal=":memory:") as engine:
        run = await engine.start(flow, "tidy", repository=".", queue="slow", key="k")
        again = await engine.start(flow, "tidy", repository=".", queue="slow", key="k")
        kept = await engine.local.store.run(run.id)
        assert kept is not None
        assert kept.placement is not None
        assert (kept.owner, kept.placement.host, kept.placement.queue) == ("", "", "slow")
        placed = Placement(repository=url_of(work), commit=head_of(work))
        assert kept.summary.workspace == name_of(placed) == run.run.workspace
        assert (run.is_here, again.id) == (False, run.id)

        git(work, "commit", "--quiet", "--allow-empty", "--message", "Not pushed")
        with pytest.raises(UserMistake, match="Push it first"):
            await engine.start(flow, "tidy", repository=".")
        with pytest.raises(UserMistake, match="nowhere"):
            await engine.start(flow, "tidy", repository=f"{url_of(work)}@nowhere")
        assert len(await engine.runs(everywhere=True)) == 1
    assert list(places_folder(user_state_dir(os.environ)).iterdir()) == []


@pytest.mark.usefixtures("shared")
async def test_what_a_commit_brings_is_used_where_a_person_has_trusted_it(tmp_path: Path) -> None:
    flow = FLOW | {"workflow_name": "talk", "description": "Talks"}
    work = checkout(tmp_path, {".midstream/workflows/talk.json": json.dumps(flow)})
    shutil.rmtree(work / ".midstream")
    async with midstream.open(work, model=ScriptedModel(), journal=":memory:") as engine:
        with pytest.raises(NotTrusted):
            await engine.start("talk", "tidy", repository=".")

    git(work, "checkout", "--quiet", ".midstream")
    store = TrustStore(user_state_dir(os.environ))
    store.grant(store.status(work))
    async with midstream.open(work, model=ScriptedModel(), journal=":memory:") as engine:
        run = await engine.start("talk", "tidy", repository=".")
        assert run.run.workflow_name == "talk"
