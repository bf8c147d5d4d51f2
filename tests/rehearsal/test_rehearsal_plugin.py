"""The pytest plugin: rehearsals are tests of a user's own project."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from deadline import DEADLINE_S

WORKFLOW = {
    "workflow_name": "shout",
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "dude", "context": "desk"}],
    "states": [{"name": "start", "agent": "dude", "pre_handler": "keep"}, {"name": "stop"}],
}
REHEARSAL = {
    "rehearsal": 1,
    "workflow": "shout",
    "steps": [{"what": "model_replied", "agent": "dude", "state": "start", "text": "Hi!"}],
    "expected": {"status": "finished", "states": ["start", "stop"], "output": "Hi!"},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    beside = tmp_path / "project" / ".midstream" / "workflows" / "shout"
    (beside / "rehearsals").mkdir(parents=True)
    (beside.parent / "shout.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    (beside / "script.py").write_text("def keep(run):\n    pass\n", encoding="utf-8")
    (beside / "rehearsals" / "hi.json").write_text(json.dumps(REHEARSAL), encoding="utf-8")
    (beside / "rehearsals" / "notes.txt").write_text("no rehearsal", encoding="utf-8")
    (beside / "data.json").write_text("{}", encoding="utf-8")
    return tmp_path / "project"


PLUGIN = "midstream.testing.plugin"


def pytest_in(
    project: Path, plugins: Sequence[str] = (PLUGIN,)
) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {
        "MIDSTREAM_CONFIG_HOME": str(project.parent / "config"),
        "MIDSTREAM_STATE_HOME": str(project.parent / "state"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    asked = [word for plugin in ("no:cacheprovider", *plugins) for word in ("-p", plugin)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *asked, "-q"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_pytest_in_a_workspace_plays_its_rehearsals(project: Path) -> None:
    done = pytest_in(project)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_difference_fails_and_is_told_without_a_traceback(project: Path) -> None:
    file = project / ".midstream" / "workflows" / "shout" / "rehearsals" / "hi.json"
    changed = REHEARSAL | {"expected": REHEARSAL["expected"] | {"output": "Ho!"}}  # type: ignore[operator]
    file.write_text(json.dumps(changed), encoding="utf-8")
    done = pytest_in(project)
    assert done.returncode == 1
    assert "expected: Ho!\n  got:      Hi!" in done.stdout
    assert "Traceback" not in done.stdout
    assert "plugin.py" not in done.stdout


def test_a_file_that_is_no_rehearsal_fails_with_the_reason(project: Path) -> None:
    file = project / ".midstream" / "workflows" / "shout" / "rehearsals" / "hi.json"
    file.write_text("{}", encoding="utf-8")
    done = pytest_in(project)
    assert done.returncode == 1
    assert "is no rehearsal" in done.stdout


def test_other_peoples_rehearsals_are_none_of_ours(project: Path) -> None:
    (project / "rehearsals").mkdir()
    (project / "rehearsals" / "hamlet.json").write_text('{"act": 1}', encoding="utf-8")
    done = pytest_in(project)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_rehearsal_outside_a_workspace_is_played_too(project: Path) -> None:
    (project / "rehearsals").mkdir()
    (project / "rehearsals" / "hi.json").write_text(json.dumps(REHEARSAL), encoding="utf-8")
    done = pytest_in(project)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_conftest_asks_for_it(project: Path) -> None:
    (project / "conftest.py").write_text(f"pytest_plugins = [{PLUGIN!r}]\n", encoding="utf-8")
    done = pytest_in(project, plugins=())
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_nothing_is_collected_where_nobody_asked_for_it(project: Path) -> None:
    done = pytest_in(project, plugins=())
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr


def test_it_is_loaded_in_no_project_by_itself() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "entry-points" not in project
