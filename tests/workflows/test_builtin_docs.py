"""docs/built_in_workflows.md is true: each workflow has its section, and its command runs."""

import io
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from playing import DEFAULTS, small_project
from test_docs_examples import DOCS

from midstream.cli.main import exit_code
from midstream.tools.sandbox.probes import measured

PAGE = (DOCS / "built_in_workflows.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(?:git diff HEAD~1 \| )?(midstream run .*)$", PAGE, re.MULTILINE)
WITHOUT_SANDBOX = re.findall(r"Where there is no sandbox, .* too: `(--allow '.*')`", PAGE)
"""What a command takes where it has to leave a sandbox that is not there."""


@pytest.fixture
def workspace(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = small_project(own_folder / "shop")
    monkeypatch.chdir(folder)
    return folder


def test_each_has_its_section() -> None:
    names = sorted(path.stem for path in (DEFAULTS / "workflows").glob("*.json"))

    assert sorted(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)) == names
    assert [command.split()[2] for command in COMMANDS] == re.findall(
        r"^## (\w+)$", PAGE, re.MULTILINE
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[2])
def test_its_command_runs(
    command: str,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diff = subprocess.check_output(("git", "diff", "HEAD~1"), cwd=workspace)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(diff)))
    words = shlex.split(command.split(" > ")[0])[1:]
    if "execute_terminal" in words and measured(workspace.parent / "level").level != "full":
        (more,) = WITHOUT_SANDBOX
        words += shlex.split(more)

    assert exit_code([*words, "--model", "offline"]) == 0
    assert capfd.readouterr().out.strip()
