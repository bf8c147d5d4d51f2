"""Runs of workflows in workflows, taken up later: what changed in the inner one is noticed, too."""

import json
from pathlib import Path
from typing import Any

import pytest
from two_processes import Place, place

from midstream.config.manager import ConfigManager
from midstream.language.errors import DefinitionDiffers, UserMistake
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import take_up
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.testing.fakes import FakeTools, ScriptedModel, fake_world

__all__ = ["place"]

STOP = {"name": "stop", "input": "common_data.said"}
INNER: dict[str, Any] = {
    "workflow_name": "inner",
    "states": [
        {"name": "start", "ask": "How?", "save_as": "how", "next": "note"},
        {"name": "note", "pre_handler": "note"},
        STOP,
    ],
}
SCRIPT = "def note(run):\n    run.common_data['said'] = 'first: ' + run.common_data['how']\n"
SECOND = SCRIPT.replace("first", "second")
OUTER: dict[str, Any] = {
    "workflow_name": "outer",
    "states": [
        {
            "name": "start",
            "parallel": [{"name": "one", "states": [{"name": "sub", "workflow": "inner"}]}],
            "save_as": "said",
        },
        STOP,
    ],
}
LATER: dict[str, Any] = {
    "workflow_name": "later",
    "states": [
        {"name": "start", "ask": "Begin?", "next": "sub"},
        {"name": "sub", "workflow": "inner", "save_as": "said"},
        STOP,
    ],
}


class Home:
    """A person's folders, and the processes that work with them."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.place = place
        self.folder = folder
        self.write("inner", INNER, SCRIPT)
        self.write("outer", OUTER)
        self.write("later", LATER)

    def write(self, name: str, flow: dict[str, Any], script: str = "") -> None:
        """Write a workflow, and its script if it has one."""
        folder = self.folder / "config" / "workflows"
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(flow), encoding="utf-8")
        if script:
            (folder / name / "script.py").write_text(script, encoding="utf-8")

    def library(self) -> WorkflowLibrary:
        """Return the library as a new process reads it."""
        environ = {"MIDSTREAM_CONFIG_HOME": str(self.folder / "config")}
        return WorkflowLibrary(ConfigManager(self.folder, environ=environ), FakeTools().specs())

    def engine(self) -> LocalEngine:
        """Return an engine as a new process has it."""
        store = self.place.open()
        world = fake_world(ScriptedModel(), journal=store, workspace=self.folder)
        return LocalEngine(world, store, sockets=self.place.sockets)

    async def left(self, name: str) -> str:
        """Return a run that asked something and was left."""
        engine = self.engine()
        definition, handlers = await self.library().load(name)
        machine = await engine.start(definition, handlers=handlers)
        await machine.settled()
        await engine.close()
        return machine.id


@pytest.fixture
def home(tmp_path: Path, place: Place) -> Home:
    return Home(tmp_path, place)


async def output(machine: WorkflowStateMachine) -> Any:
    """Return what the run came to once its questions are answered."""
    while not (await machine.settled()).is_over:
        await machine.say("well")
    return machine.run.output


async def test_a_changed_inner_script_is_asked_about(home: Home) -> None:
    id = await home.left("outer")
    home.write("inner", INNER, SECOND)
    engine = home.engine()
    with pytest.raises(DefinitionDiffers) as refused:
        await take_up(engine, home.library(), id)
    await engine.close()

    assert refused.value.changes == ("the sub-workflow inner changed",)


async def test_the_old_copy_of_the_inner_script_goes_on(home: Home) -> None:
    id = await home.left("outer")
    home.write("inner", INNER, SECOND)
    engine = home.engine()
    machine = await take_up(engine, home.library(), id, choice="old")
    said = await output(machine)
    await engine.close()

    assert said == {"one": "first: well"}


async def test_while_it_is_under_way_the_new_one_does_not_fit(home: Home) -> None:
    id = await home.left("outer")
    home.write("inner", INNER, SECOND)
    engine = home.engine()
    with pytest.raises(UserMistake, match="a sub-workflow changed"):
        await take_up(engine, home.library(), id, choice="new")
    machine = await take_up(engine, home.library(), id, choice="old")
    assert machine.run.visit.branches["one"].visit.branches["inner"].visit.phase == "asking"
    await engine.close()


async def test_before_it_has_begun_the_new_one_is_run(home: Home) -> None:
    id = await home.left("later")
    home.write("inner", INNER, SECOND)
    engine = home.engine()
    machine = await take_up(engine, home.library(), id, choice="new")
    said = await output(machine)
    await engine.close()

    assert said == "second: well"
