"""Runs taken up later: the same workflow goes on, a changed one is asked about first."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from two_processes import Place, place

from midstream.config.manager import ConfigManager
from midstream.core.events import DefinitionChanged
from midstream.language.errors import DefinitionDiffers, RunOwned, UserMistake
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import cut_runs, stop_here, take_up
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import Mail
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.testing.fakes import (
    Chronicle,
    FakeTools,
    Gate,
    JumpingClock,
    ScriptedModel,
    asks,
    define,
    fake_world,
    says,
)

__all__ = ["place"]

FLOW: dict[str, Any] = {
    "workflow_name": "Ask and say",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude", "post_handler": "note"},
        {"name": "stop", "input": "common_data.said"},
    ],
}
SCRIPT = "def note(run):\n    run.common_data['said'] = 'first: ' + run.last_response.text\n"


class Home:
    """A person's folders, and the processes that work with them."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.place = place
        self.config = folder / "config"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.write(FLOW, SCRIPT)
        self.engines: list[LocalEngine] = []

    def write(self, flow: dict[str, Any], script: str) -> None:
        """Write the workflow `asking` and its script."""
        folder = self.config / "workflows"
        (folder / "asking").mkdir(parents=True, exist_ok=True)
        (folder / "asking.json").write_text(json.dumps(flow), encoding="utf-8")
        (folder / "asking" / "script.py").write_text(script, encoding="utf-8")

    def remove(self) -> None:
        """Remove the workflow."""
        (self.config / "workflows" / "asking.json").unlink()

    def role(self, words: str) -> None:
        """Write what the role dude is told."""
        folder = self.config / "roles"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "dude.json").write_text(
            json.dumps({"dude": {"systemMessage": words}}), encoding="utf-8"
        )

    def library(self) -> WorkflowLibrary:
        """Return the library as a new process reads it."""
        environ = {"MIDSTREAM_CONFIG_HOME": str(self.config)}
        config = ConfigManager(self.workspace, environ=environ)
        return WorkflowLibrary(config, FakeTools().specs())

    def engine(self, *script: Any, workspace: Path | None = None) -> LocalEngine:
        """Return an engine as a new process has it."""
        store = self.place.open()
        world = fake_world(
            ScriptedModel(*script), journal=store, workspace=workspace or self.workspace
        )
        self.engines.append(LocalEngine(world, store, sockets=self.place.sockets))
        return self.engines[-1]

    async def left(self) -> str:
        """Return a run of `asking` that asked something and was left."""
        engine = self.engine(asks("Sure?"))
        definition, handlers = await self.library().load("asking")
        machine = await engine.start(definition, handlers=handlers)
        await machine.settled()
        await engine.close()
        return machine.id


@pytest.fixture
def home(tmp_path: Path, place: Place) -> Home:
    return Home(tmp_path, place)


async def output(machine: WorkflowStateMachine) -> Any:
    """Return what the run came to once its question is answered."""
    await machine.say("yes")
    return (await machine.wait()).output


async def test_an_unchanged_workflow_goes_on(home: Home) -> None:
    id = await home.left()
    engine = home.engine("Done.")
    machine = await take_up(engine, home.library(), id)
    said = await output(machine)
    again = engine.machine(id)
    await engine.close()

    assert said == "first: Done."
    assert again is machine


async def test_a_changed_script_is_asked_about_and_nothing_is_claimed(home: Home) -> None:
    id = await home.left()
    home.write(FLOW, SCRIPT.replace("first", "second"))
    engine = home.engine()
    before = await engine.store.read(id)
    with pytest.raises(DefinitionDiffers) as refused:
        await take_up(engine, home.library(), id)
    after, owner = await engine.store.read(id), await engine.store.owner_of(id)
    await engine.close()

    assert refused.value.changes == ("script.py changed (+1 -1 lines)",)
    assert refused.value.run == id
    assert "--old" in refused.value.hint
    assert f"midstream stop {id}" in refused.value.hint
    assert after == before
    assert owner == ""


async def test_the_old_copy_goes_on_with_the_pinned_script(home: Home) -> None:
    id = await home.left()
    home.write(FLOW, SCRIPT.replace("first", "second"))
    engine = home.engine("Done.")
    machine = await take_up(engine, home.library(), id, choice="old")
    said = await output(machine)
    await engine.close()

    assert said == "first: Done."


async def test_the_new_one_goes_on_with_the_new_script_and_is_pinned(home: Home) -> None:
    id = await home.left()
    home.write(FLOW, SCRIPT.replace("first", "second"))
    engine, heard = home.engine("Done."), Chronicle()
    engine.listen(heard)
    machine = await take_up(engine, home.library(), id, choice="new")
    said = await output(machine)
    await engine.close()

    assert said == "second: Done."
    [changed] = heard.of(DefinitionChanged)
    assert changed.definition.script == SCRIPT.replace("first", "second")


async def test_a_new_one_that_does_not_fit_is_refused_and_changes_nothing(home: Home) -> None:
    id = await home.left()
    home.write(
        FLOW
        | {
            "agents": [{"agent_role": "coder", "context": "talk", "name": "dude"}],
            "states": [{"name": "start", "next": "stop"}, {"name": "stop"}],
        },
        SCRIPT,
    )
    engine = home.engine("Done.")
    before = await engine.store.read(id)
    with pytest.raises(UserMistake, match="cannot go on with what the workflow is now"):
        await take_up(engine, home.library(), id, choice="new")
    after, owner = await engine.store.read(id), await engine.store.owner_of(id)
    await engine.close()

    assert after == before
    assert owner == ""


async def test_a_workflow_that_is_gone_can_go_on_as_it_was(home: Home) -> None:
    id = await home.left()
    home.remove()
    engine = home.engine("Done.")
    with pytest.raises(DefinitionDiffers, match="the workflow is gone"):
        await take_up(engine, home.library(), id)
    with pytest.raises(UserMistake, match="asking"):
        await take_up(engine, home.library(), id, choice="new")
    machine = await take_up(engine, home.library(), id, choice="old")
    said = await output(machine)
    await engine.close()

    assert said == "first: Done."


async def test_a_workflow_that_cannot_be_loaded_any_more_has_changed(home: Home) -> None:
    id = await home.left()
    home.write(FLOW, "def note(run:\n")
    engine = home.engine()
    with pytest.raises(DefinitionDiffers, match="the workflow cannot be loaded") as refused:
        await take_up(engine, home.library(), id)
    await engine.close()

    assert len(refused.value.changes) == 1


async def chat(home: Home, *script: Any) -> tuple[LocalEngine, WorkflowStateMachine]:
    """Return a chat that waits for its first line."""
    engine = home.engine(*script)
    role = home.library().roles()["dude"]
    machine = await engine.start(chat_definition("dude", role, FakeTools().specs()))
    await machine.settled()
    return engine, machine


async def test_a_chat_follows_its_role(home: Home) -> None:
    home.role("Be kind.")
    first, machine = await chat(home)
    await first.close()
    second = home.engine()
    same = await take_up(second, home.library(), machine.id)
    await second.close()
    home.role("Be brief.")
    third = home.engine()
    with pytest.raises(DefinitionDiffers) as refused:
        await take_up(third, home.library(), machine.id)
    new = await take_up(third, home.library(), machine.id, choice="new")
    await third.close()

    assert same.run.definition is not None
    assert same.run.definition.roles["dude"].systemMessage == "Be kind."
    assert refused.value.changes == ("the role dude changed",)
    assert new.run.definition is not None
    assert new.run.definition.roles["dude"].systemMessage == "Be brief."


async def test_a_run_of_another_folder_is_refused_with_its_folder(
    home: Home, tmp_path: Path
) -> None:
    id = await home.left()
    engine = home.engine(workspace=tmp_path)
    with pytest.raises(UserMistake) as refused:
        await take_up(engine, home.library(), id)
    await engine.close()

    assert f"--workspace {home.workspace}" in refused.value.hint


async def test_a_run_another_process_has_is_refused(home: Home) -> None:
    first, machine = await chat(home)
    second = home.engine()
    with pytest.raises(RunOwned) as refused:
        await take_up(second, home.library(), machine.id)
    await first.close()
    await second.close()

    assert refused.value.owner == first.store.me


async def test_an_import_never_goes_on_and_its_own_script_is_never_run(home: Home) -> None:
    id = await home.left()
    engine = home.engine("Done.")
    facts = [msgspec.structs.replace(fact, run="imported") for fact in await engine.store.read(id)]
    await engine.store.adopt("imported", facts)
    with pytest.raises(UserMistake, match="was imported") as refused:
        await take_up(engine, home.library(), "imported")
    await engine.store.fork("imported", len(facts), "fork")
    home.write(FLOW, SCRIPT.replace("first", "second"))
    with pytest.raises(UserMistake, match="a fork of an import"):
        await take_up(engine, home.library(), "fork", choice="old")
    machine = await take_up(engine, home.library(), "fork", choice="new")
    said = await output(machine)
    await engine.close()

    assert f"midstream fork imported --at {len(facts)}" in refused.value.hint
    assert said == "second: Done."


async def test_a_run_that_has_ended_is_refused(home: Home) -> None:
    id = await home.left()
    engine = home.engine("Done.")
    await output(await take_up(engine, home.library(), id))
    await engine.close()
    later = home.engine()
    with pytest.raises(UserMistake, match="has ended") as refused:
        await take_up(later, home.library(), id)
    await later.close()

    assert "midstream fork" in refused.value.hint


async def test_a_workflow_built_in_code_goes_on_unless_its_handlers_were(home: Home) -> None:
    plain = define({**FLOW, "states": [{"name": "start", "agent": "dude"}]})
    handled = define(FLOW)
    ids = [await _left(home, definition) for definition in (plain, handled)]
    engine = home.engine("Done.")
    machine = await take_up(engine, home.library(), ids[0])
    said = await output(machine)
    with pytest.raises(UserMistake, match="was built in code"):
        await take_up(engine, home.library(), ids[1])
    await engine.close()

    assert said == "Done."


async def _left(home: Home, definition: Definition) -> str:
    engine = home.engine(asks("Sure?"))
    machine = await engine.start(definition)
    await machine.settled()
    await engine.close()
    return machine.id


# --- what was cut -----------------------------------------------------------------------------


async def test_only_what_is_owed_something_here_and_by_nobody_is_told(
    home: Home, tmp_path: Path
) -> None:
    asking = await home.left()
    idle, idle_chat = await chat(home)
    await idle.close()
    written, written_chat = await chat(home)
    await written.close()
    gate = Gate()
    busy, busy_chat = await chat(home, says("Well", gate=gate))
    await busy_chat.say("Hello")
    await gate.reached()
    await busy.close()
    living, _ = await chat(home)
    await living.store.post(_mail(written_chat.id))
    here = await cut_runs(living.store, home.workspace)
    there = await cut_runs(living.store, tmp_path)
    await living.close()

    assert {kept.id for kept in here} == {asking, written_chat.id, busy_chat.id}
    assert idle_chat.id not in [kept.id for kept in here]
    assert there == []


def _mail(run: str) -> Mail:
    return Mail(id="one", run=run, at=0.0, text="Are you there?")


class Work:
    """Counts what is read of a store."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listings = 0
        self.facts: list[int] = []
        listing, read = store.listing, store.read

        async def counted_listing(**wanted: Any) -> Any:
            self.listings += 1
            return await listing(**wanted)

        async def counted_read(*about: Any) -> Any:
            found = await read(*about)
            self.facts.append(len(found))
            return found

        monkeypatch.setattr(store, "listing", counted_listing)
        monkeypatch.setattr(store, "read", counted_read)


async def test_taking_up_a_run_lists_no_others_and_reads_it_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.left()
    id = await home.left()
    engine = home.engine("Done.")
    await engine.store.forget_snapshots()
    facts = len(await engine.store.read(id))
    work = Work(engine.store, monkeypatch)
    await take_up(engine, home.library(), id)
    await engine.close()

    assert work.listings == 0
    assert sorted(work.facts) == [0, facts]


# --- stopping what nobody runs ------------------------------------------------------------------


async def test_a_run_nobody_runs_is_stopped_where_it_stands(home: Home) -> None:
    id = await home.left()
    store = home.place.open()
    run = await stop_here(store, JumpingClock(), id, reason="enough")
    [kept] = await store.listing()

    assert (run.status, run.halt.reason) == ("stopped", "enough")
    assert kept.summary.status == "stopped"
    assert kept.owner == ""


async def test_a_run_somebody_runs_is_not_stopped_behind_their_back(home: Home) -> None:
    engine, machine = await chat(home)
    with pytest.raises(RunOwned):
        await stop_here(home.place.open(), JumpingClock(), machine.id, reason="enough")
    is_over = machine.run.is_over
    await engine.close()

    assert not is_over
