"""A workflow in a Python file is found, pinned and taken up as one with a script is."""

import json
from pathlib import Path

import pytest

from midstream.config.manager import ConfigManager
from midstream.core.run import Run
from midstream.language.errors import AuthorMistake, NotTrusted, UserMistake
from midstream.language.names import Mode, python_file
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.testing.fakes import FakeTools

OUTER = '''"""Runs another one."""
import midstream

inner = midstream.Workflow("inner", input=str)
flow = midstream.Workflow("outer", input=str)


@inner.start
def shout(run):
    return midstream.stop("shouted")


@flow.start(workflow=inner, input="${input}")
def begin(run):
    return named


@flow.state(workflow="plain", input="${input}")
def named(run):
    return midstream.stop("first")
'''

PLAIN = {"workflow_name": "plain", "states": [{"name": "start"}, {"name": "stop"}]}


def library(home: Path, **files: str) -> WorkflowLibrary:
    """Return a library with the user's own workflows of these names, in JSON or in Python."""
    folder = home / "config" / "workflows"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        suffix = ".json" if text.startswith("{") else ".py"
        (folder / f"{name}{suffix}").write_text(text, encoding="utf-8")
    return WorkflowLibrary(config(home), FakeTools().specs())


def config(home: Path) -> ConfigManager:
    return ConfigManager(home, environ={"MIDSTREAM_CONFIG_HOME": str(home / "config")})


async def test_one_that_runs_others_has_the_functions_of_its_own_file_and_theirs(
    tmp_path: Path,
) -> None:
    found = library(tmp_path, outer=OUTER, plain=json.dumps(PLAIN))
    definition, handlers = await found.load("outer")

    assert definition == found.read("outer")
    assert (definition.found_as, definition.script) == ("outer", OUTER)
    assert [*definition.workflows] == ["inner", "plain"]
    chosen = await handlers.call("begin", Run(id="one"), print)
    assert chosen.chosen == "named"


async def test_a_pinned_copy_runs_whatever_the_file_is_now(tmp_path: Path) -> None:
    found = library(tmp_path, outer=OUTER, plain=json.dumps(PLAIN))
    definition, _ = await found.load("outer")
    assert found.changed_file(definition) == ""
    library(tmp_path, outer=OUTER.replace("first", "second") + "\n1 / 0\n")

    assert "outer.py changed (+3 -1 lines)" in found.changed_file(definition)
    handlers = await found.pinned(definition)
    (tmp_path / "config" / "workflows" / "outer.py").unlink()
    again = await found.pinned(definition)
    for each in (handlers, again):
        done = await each.call("named", Run(id="one"), print)
        assert done.changed == {"output": "first"}


async def test_a_file_outside_is_found_from_the_workspace_and_known_by_that(tmp_path: Path) -> None:
    found = library(tmp_path, plain=json.dumps(PLAIN))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text(OUTER, encoding="utf-8")
    for name in ("sub/a.py:flow", "./sub/a.py:flow", f"{tmp_path}/sub/a.py:flow"):
        definition, _ = await found.load(name)
        assert definition.found_as == "sub/a.py:flow"
    assert (await found.load("sub/a.py"))[0].found_as == "sub/a.py"


async def test_no_state_runs_a_file_by_its_path(tmp_path: Path) -> None:
    plain = {**PLAIN, "states": [{"name": "start", "workflow": "a.py:flow"}, {"name": "stop"}]}
    (tmp_path / "a.py").write_text(OUTER, encoding="utf-8")
    with pytest.raises(AuthorMistake, match=r"a\.py:flow"):
        await library(tmp_path, plain=json.dumps(plain)).load("plain")


def test_those_that_run_each_other_without_end_are_told(tmp_path: Path) -> None:
    plain = {**PLAIN, "states": [{"name": "start", "workflow": "outer"}, {"name": "stop"}]}
    with pytest.raises(AuthorMistake, match="outer -> plain -> outer"):
        library(tmp_path, outer=OUTER, plain=json.dumps(plain)).read("outer")


def test_of_two_of_one_name_in_one_folder_the_json_one_counts_and_it_is_said(
    tmp_path: Path,
) -> None:
    library(tmp_path, same=json.dumps(PLAIN))
    library(tmp_path, same=OUTER)
    found = config(tmp_path)

    assert found.workflows()["same"].path.suffix == ".json"
    assert any("'same' stands in" in notice for notice in found.notices)


def test_no_setting_starts_a_file_by_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    setting = {"currentMode": "workflow:evil.py:flow"}
    (folder / "application.json").write_text(json.dumps(setting), encoding="utf-8")
    found = config(tmp_path)

    assert found.mode.kind == "role"
    assert any("evil.py:flow is a file" in notice for notice in found.notices)


def test_nothing_of_an_untrusted_workspace_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1 / 0\n", encoding="utf-8")
    found = config(tmp_path)
    found.is_untrusted = True
    with pytest.raises(NotTrusted):
        WorkflowLibrary(found, {}).read("a.py:flow")


def test_the_user_s_own_stay_usable_where_the_workspace_is_not_trusted(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    workspace.mkdir()
    library(home, plain=json.dumps(PLAIN), own=OUTER)
    (workspace / "evil.py").write_text("1 / 0\n", encoding="utf-8")
    (home / "link.py").symlink_to(workspace / "evil.py")
    found = ConfigManager(workspace, environ={"MIDSTREAM_CONFIG_HOME": str(home / "config")})
    found.is_untrusted = True
    known = WorkflowLibrary(found, FakeTools().specs())

    assert known.read("own").workflow.workflow_name == "outer"
    for name in ("evil.py", f"{home}/link.py", f"{home}/../work/evil.py"):
        with pytest.raises(NotTrusted):
            known.read(name)


def test_a_workflow_may_have_several_names_in_its_file(tmp_path: Path) -> None:
    text = OUTER + "\nmain = also = flow\n"
    found = library(tmp_path, outer=text, plain=json.dumps(PLAIN))
    (tmp_path / "a.py").write_text(text, encoding="utf-8")

    read = [found.read(name).digest for name in ("a.py", "a.py:flow", "a.py:main", "outer")]
    assert len(set(read)) == 1
    unnamed = text.replace("@flow", "@loud").replace("also = flow", "also = loud")
    unnamed = unnamed.replace("\nflow = ", "\nloud = ")
    (tmp_path / "b.py").write_text(unnamed, encoding="utf-8")
    assert found.read("b.py").workflow.workflow_name == "outer", "the one that no other runs"


async def test_a_changed_file_that_another_workflow_runs_is_not_imported(tmp_path: Path) -> None:
    around = {**PLAIN, "states": [{"name": "start", "workflow": "outer"}, {"name": "stop"}]}
    around["workflow_name"] = "around"
    files = {"plain": json.dumps(PLAIN), "around": json.dumps(around)}
    found = library(tmp_path, outer=OUTER, **files)
    definition, _ = await found.load("around")
    assert found.changed_file(definition) == ""

    library(tmp_path, outer=OUTER + "\n1 / 0\n")
    assert "outer.py changed (+2 -0 lines)" in found.changed_file(definition)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            OUTER + "\n\n@inner.state(workflow=flow)\ndef back(run): ...\n",
            r"a\.py:23: The workflows inner and outer run each other without end",
        ),
        (
            OUTER + "\n\n@flow.state(workflow=midstream.Workflow('inner'))\ndef two(run): ...\n",
            r"a\.py:23: The workflow outer runs two that are called inner",
        ),
        ("import beside\n", r"No module named 'beside'.*Only installed modules are found"),
    ],
)
def test_a_file_that_cannot_work_is_told_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    (tmp_path / "beside.py").touch()
    with pytest.raises(AuthorMistake, match=words):
        library(tmp_path, plain=json.dumps(PLAIN)).read("a.py:flow")


def test_a_mode_may_be_a_file_and_a_name_may_still_not_be_a_path() -> None:
    assert Mode.parse("workflow:sub/a.py:flow").name == "sub/a.py:flow"
    assert python_file("sub/a.py:flow") == ("sub/a.py", "flow")
    assert python_file("a.py") == ("a.py", "")
    assert python_file("a.json") is None
    for text in ("workflow:sub/a", "role:sub/a.py"):
        with pytest.raises(UserMistake):
            Mode.parse(text)
