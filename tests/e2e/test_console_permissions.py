"""What may happen unasked, as a person at the console sees it, changes it and takes it back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scene_kit import Scene

from midstream.core.question import Decision
from midstream.language.names import Json
from midstream.runtime.ports import Review, ToolContext
from midstream.safety.capability import SHOWN
from midstream.safety.policy import Policy
from midstream.testing.fakes import FakeTool, FakeTools, call


def asking(arguments: dict[str, Json], context: ToolContext) -> Review:
    asks = f"exec: {arguments['command']}"
    if asks in context.granted:
        return Review()
    return Review(kind="ask", asks=(asks, f"{SHOWN}1"), shows=f"$ {arguments['command']}")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    tool = FakeTool(name="run", effect="once", review=asking, answer="ran")
    made = Scene(
        tmp_path,
        call("run", command="make"),
        call("run", command="make"),
        "Done.",
        tools=FakeTools(tool),
    )
    await made.equip()
    yield made
    await made.console.close()


async def test_the_bottom_line_says_how_much_happens_unasked(scene: Scene) -> None:
    assert scene.console.status().permission == "asks, no sandbox"
    await scene.type("/permissions auto")
    assert scene.console.status().permission == "auto, no sandbox"
    assert "changes plain files of the workspace unasked" in scene.ui.said[-1]
    await scene.type("/permissions plan")
    assert scene.console.status().permission == "plan, no sandbox"
    assert scene.session.parts.permissions.mode == "plan"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/permissions full", "--permission-mode full"),
        ("/permissions autoo", "ask, auto or plan"),
        ("/mode plan", "/permissions plan"),
        ("/mode autoo", "role:"),
    ],
)
async def test_a_mode_nobody_may_switch_to_changes_nothing(
    scene: Scene, line: str, said: str
) -> None:
    told = await scene.type(line)

    assert scene.session.parts.permissions.mode == "ask"
    assert said in f"{told.reason} {scene.ui.said}"


async def test_a_grant_is_listed_and_can_be_taken_back(scene: Scene) -> None:
    await scene.type("hello")
    machine = scene.session.runs.all()[0]
    await machine.settled()
    [question] = scene.console.open_questions()
    await scene.console.approve(question.id, Decision(granted=True, for_run=True))
    await machine.settled()
    await scene.type("/permissions")
    listing = scene.ui.said[-1]
    assert (
        "permission mode ask: midstream asks before it changes a file or runs a command" in listing
    )
    assert f"1  exec: make  (run {machine.run.id[:4]}" in listing
    await scene.type("/permissions revoke 1")

    assert machine.run.allowed == ()
    assert len(scene.tools.calls) == 2
    await scene.type("/permissions")
    assert "nothing is granted for a run" in scene.ui.said[-1]


@pytest.mark.parametrize("line", ["/permissions revoke 9", "/permissions revoke exec: rm"])
async def test_what_was_not_granted_cannot_be_taken_back(scene: Scene, line: str) -> None:
    told = await scene.type(line)

    assert "There is no grant" in f"{told.reason} {scene.ui.said}"


async def test_a_changed_command_is_the_one_that_runs(scene: Scene) -> None:
    await scene.type("hello")
    machine = scene.session.runs.all()[0]
    await machine.settled()
    [question] = scene.console.open_questions()
    assert question.command == "make"
    await scene.console.approve(
        question.id, Decision(granted=True, edited={"command": "make test"})
    )
    await machine.settled()

    assert [called.arguments for called in scene.tools.calls] == [{"command": "make test"}]


async def test_a_rule_that_is_none_is_listed_with_what_follows(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "hi", rules=Policy(deny=("foo: bar",)))
    await scene.equip()
    await scene.type("/permissions")
    listing = scene.ui.said[-1]
    await scene.console.close()

    assert "deny  foo: bar" in listing
    assert "cannot be read: until you fix it, midstream asks about everything" in listing
