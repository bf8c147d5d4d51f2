"""Every example in the pages on workflows is a file that loads, and the workflows run."""

import ast
import json
import re
from pathlib import Path

import pytest
from playing import Play, builtin_roles, ready

from midstream.core.events import WorkflowOutput
from midstream.core.run import Run
from midstream.language.lint_roles import lint_roles
from midstream.language.offline_replies import Scene

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"^`([^`\n]+)`:\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> dict[str, str]:
    """Return the files the pages show, by path."""
    text = "".join((DOCS / page).read_text() for page in ("workflows.md", "offline.md"))
    return {path: body for path, _, body in EXAMPLE.findall(text)}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for path, body in examples().items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body)
    return tmp_path


async def made(workspace: Path, name: str) -> Play:
    path = workspace / ".midstream" / "workflows" / f"{name}.json"
    part = path.with_suffix("") / "offline.json"
    return await ready(path, workspace, json.loads(part.read_text()) if part.exists() else {})


def test_every_block_of_the_pages_is_an_example_with_a_path() -> None:
    blocks = sum(
        (DOCS / page).read_text().count("\n```") for page in ("workflows.md", "offline.md")
    )

    assert len(examples()) == blocks // 2 == 8
    assert len(examples()[".midstream/workflows/haiku.json"].splitlines()) <= 20


async def test_the_first_workflow_runs(workspace: Path) -> None:
    play = await made(workspace, "haiku")
    await play.machine.start("rain")
    run = await play.machine.wait()

    assert play.states() == ["start", "look", "again", "look", "again", "look", "stop"]
    assert run.output.startswith("[offline]")
    assert run.contexts["talk"][0].text == "A haiku about rain."


def test_the_readme_shows_the_same_first_workflow() -> None:
    readme = (DOCS.parent / "README.md").read_text()

    assert examples()[".midstream/workflows/haiku.json"] in readme


async def test_the_longer_one_runs_its_script_and_offline_part(workspace: Path) -> None:
    play = await made(workspace, "short_plan")
    await play.machine.start("a release")
    run = await play.machine.wait()

    assert run.status == "finished", run.error
    assert play.states() == ["start", "shorten", "keep", "stop"]
    assert run.output == "[offline] For a release: read .midstream/ first."
    logged = [e.event.text for e in play.events if isinstance(e.event, WorkflowOutput)]
    assert logged[0].endswith(" characters: too long.")


async def test_the_longer_one_folds_in_what_is_said(workspace: Path) -> None:
    play = await made(workspace, "short_plan")
    await play.machine.start("a release")
    await play.machine.say("on Friday")
    run = await play.machine.wait()

    assert play.states()[:3] == ["start", "resume", "shorten"]
    assert "Also: on Friday" in words(run)


def words(run: Run) -> list[str]:
    return [message.text for message in run.contexts["talk"]]


def test_the_role_is_sound() -> None:
    roles, problems = lint_roles(examples()[".midstream/roles/judge.json"], file="judge.json")

    assert problems == ()
    assert "judge" in roles
    assert "judge" not in builtin_roles()


def test_what_the_pages_name_is_there() -> None:
    text = (DOCS / "offline.md").read_text()

    fields = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert set(Scene.__struct_fields__) <= fields


def test_the_script_is_python() -> None:
    source = examples()[".midstream/workflows/short_plan/script.py"]

    functions = [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    assert functions == ["brief", "check", "keep", "fold_in"]
