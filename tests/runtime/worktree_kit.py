"""A run in a git repository of its own, with the real tools and a scripted model."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from machine_kit import DEADLINE_S

from midstream.config.directories import STATE_HOME
from midstream.core import events as e
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.plan import with_delegates
from midstream.language.spec import Role
from midstream.runtime import in_flight
from midstream.runtime.ports import ModelRequest
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.policy import Policy
from midstream.store.memory import MemoryStore
from midstream.system.workspace_paths import worktrees_folder
from midstream.testing.fakes import Chronicle, Line, ScriptedModel, define, fake_world
from midstream.tools.manager import ToolManager
from midstream.tools.validation import validate

CHAT: dict[str, Json] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}
ROLES = {"dude": Role(), "coder": Role(excludedTools=("delegate",))}
CALC = "def add(a, b):\n    return a + b\n\n\n# middle\n\n\ndef sub(a, b):\n    return a - b\n"


def git(folder: Path, *arguments: str) -> str:
    """Return what a git command prints."""
    ours = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ("git", *ours, *arguments), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def repository(folder: Path) -> Path:
    """Return a folder with a repository: `calc.py` in a commit."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    (folder / "calc.py").write_text(CALC)
    git(folder, "add", "calc.py")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have worktrees stand in a folder of the test's own: runs of other tests have the same ids.

    They are put away before a run is over, however long that takes.
    """
    monkeypatch.setenv(STATE_HOME, str(tmp_path / "state"))
    monkeypatch.setattr(in_flight, "CLOSING_S", DEADLINE_S)


class Here:
    """A machine that works in a repository; `told` is all it told."""

    def __init__(self, workspace: Path, model: Any, mode: str, workflow: dict[str, Json]) -> None:
        policy = Policy(mode=mode, sandbox="full")  # type: ignore[arg-type]
        self.workspace = workspace
        self.tools = ToolManager(policy=lambda: policy)
        self.store = MemoryStore()
        self.told = Chronicle()
        self.model = model
        self.definition = with_delegates(
            define(workflow, roles=ROLES, tools=self.tools), {"coder": ROLES["coder"]}
        )
        self.machine = self.made()

    def made(self, id: str | None = None) -> WorkflowStateMachine:
        """Return another machine for the same store."""
        world = fake_world(
            self.model,
            tools=self.tools,
            journal=self.store,
            blobs=self.store,
            validate=validate,
            workspace=self.workspace,
            has_worktrees=True,
        )
        return WorkflowStateMachine(self.definition, world, id=id, tap=self.told)

    @property
    def run(self) -> Run:
        return self.machine.run

    def results(self, name: str) -> list[str]:
        """Return what calls of a tool came to."""
        return [fact.result for fact in self.told.of(e.ToolReturned) if fact.name == name]

    def branches(self) -> list[str]:
        """Return the git branches of ours."""
        return git(
            self.workspace, "branch", "--list", "--format=%(refname:short)", "midstream/*"
        ).split()

    def standing(self) -> list[str]:
        """Return the worktrees that stand."""
        folder = worktrees_folder()
        return sorted(str(each.relative_to(folder)) for each in folder.glob("*/*") if each.is_dir())


@asynccontextmanager
async def here(
    workspace: Path,
    *script: Line | Callable[[ModelRequest], Line],
    mode: Literal["ask", "auto", "plan"] = "auto",
    workflow: dict[str, Json] | None = None,
) -> AsyncIterator[Here]:
    """Yield a machine that has not begun."""
    async with asyncio.timeout(DEADLINE_S):
        made = Here(workspace, ScriptedModel(*script), mode, workflow or CHAT)
        yield made
        if made.run.visit.phase != "new":
            await made.machine.stop()
