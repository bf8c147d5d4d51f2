"""Programs a stranger's workspace has put where midstream looks for its own: none of them is started."""

import os
import shutil
from pathlib import Path

import pytest
from tables import table

from midstream.cli.doctor import _programs
from midstream.config.mcp_servers import McpServer
from midstream.language.errors import UserMistake
from midstream.system.git import git_output
from midstream.tools.mcp.server_process import start_server

HARM = "#!/bin/sh\ntouch {}\n"


@pytest.fixture
def harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that exists once a program of the workspace ran."""
    workspace, harm = tmp_path / "workspace", tmp_path / "harm"
    (workspace / "bin").mkdir(parents=True)
    for name in ("git", "rg", "bwrap", "bash", "npx"):
        for folder in (workspace, workspace / "bin"):
            (folder / name).write_text(HARM.format(harm))
            (folder / name).chmod(0o755)
    monkeypatch.chdir(workspace)
    return harm


PATHS = {
    "the folder midstream stands in": ".",
    "the same, by an empty part": "",
    "a folder of the workspace": "bin",
    "a way around": "../workspace/bin",
}
ABSOLUTE = {"the workspace's own bin, by its whole path": "{}/bin"}


@table("tries", [*PATHS, *ABSOLUTE])
def test_neither_doctor_nor_git_is_the_workspaces(
    harm: Path, monkeypatch: pytest.MonkeyPatch, tries: str
) -> None:
    first = {**PATHS, **ABSOLUTE}[tries].format(Path.cwd())
    monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")

    found = list(_programs(Path.cwd()))
    git_output(Path.cwd(), "status")

    assert shutil.which("git") is not None
    assert [each.about for each in found] == ["git", "rg", "bwrap", "bash"]
    assert not harm.exists()


@table("tries", PATHS)
def test_an_mcp_server_is_no_program_of_the_workspace(harm: Path, tries: str) -> None:
    server = McpServer(name="evil", command=("npx", "x"))
    with pytest.raises(UserMistake, match="no program 'npx'"):
        start_server(server, Path.cwd(), {"PATH": f"{PATHS[tries]}{os.pathsep}/nowhere"})

    assert not harm.exists()
