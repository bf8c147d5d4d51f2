"""Midstream on the systems these tests do not run on: `other_system` makes this one look like them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import DEADLINE_S

ONE_AGENT = {
    "workflow_name": "hello",
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "coder", "context": "desk"}],
    "states": [
        {"name": "start", "agent": "coder", "next": "stop"},
        {"name": "stop"},
    ],
}


def ran_on(system: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Return what came of importing all of midstream as if on that system, and of its arguments."""
    homes = {name: str(folder / name) for name in ("MIDSTREAM_STATE_HOME", "MIDSTREAM_CONFIG_HOME")}
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("other_system.py")), system, *arguments],
        env={**os.environ, **homes},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_every_module_can_be_imported_and_a_run_goes_through(system: str, tmp_path: Path) -> None:
    workflows = tmp_path / ".midstream" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "hello.json").write_text(json.dumps(ONE_AGENT), encoding="utf-8")

    ended = ran_on(
        system, tmp_path, "--trust-workspace", "run", "hello", "--model", "offline", "hi"
    )

    said = ended.stdout + ended.stderr
    assert "Error: " not in said
    assert ended.returncode == 0, said


def test_on_windows_a_program_is_not_started_and_it_is_said_why(tmp_path: Path) -> None:
    ended = ran_on(
        "win32", tmp_path, "run", "code_architecture_review", "--model", "offline", "--answer", "1"
    )

    assert ended.returncode == 1
    assert "midstream starts no programs on Windows yet; within WSL it does" in ended.stderr
