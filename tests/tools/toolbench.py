"""What the tool tests share: a call in a workspace, and its progress."""

import asyncio
import os
from pathlib import Path

import pytest
from deadline import DEADLINE_S

from midstream.language.names import Effect, Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import SandboxLevel
from midstream.safety.policy import Policy
from midstream.system import supervisor
from midstream.system.offloop import call_soon
from midstream.system.process_tree import processes
from midstream.tools import manager
from midstream.tools.base import Tool, ToolFunction
from midstream.tools.manager import ToolManager
from midstream.tools.sandbox.probes import Measured
from midstream.tools.sandbox.sandbox import Sandbox


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands take the time a busy machine takes to end, told to or killed."""
    monkeypatch.setattr(supervisor, "KILL_S", DEADLINE_S)
    monkeypatch.setattr(manager, "SOFT_STOP_S", DEADLINE_S)


class Said(Sandbox):
    """A sandbox of which only is said how good it is."""

    def __init__(self, level: SandboxLevel) -> None:
        super().__init__(Path("/nonexistent"))
        self._known = (Measured(level=level, why="no bubblewrap"), None)


class Bench:
    """A workspace and a manager; `told` is what the calls said while they ran.

    Whatever is not denied or protected runs unasked, unless the manager says otherwise.
    """

    def __init__(self, workspace: Path, manager: ToolManager | None = None) -> None:
        free = Policy(mode="full")
        self.manager = ToolManager(policy=lambda: free) if manager is None else manager
        self.told: list[str] = []
        self.stop = asyncio.Event()
        self._more = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.context = ToolContext(
            workspace=workspace,
            run="r1",
            agent="coder",
            stop=self.stop,
            progress=self._hear,
        )

    def _hear(self, text: str) -> None:
        self.told.append(text)
        if self._loop is not None:
            call_soon(self._loop, self._more.set)

    async def call(self, name: str, **arguments: Json) -> ToolOutcome:
        self._loop = asyncio.get_running_loop()
        return await self.manager.call(name, arguments, self.context)

    async def text(self, name: str, **arguments: Json) -> str:
        ended = await self.call(name, **arguments)
        assert ended.outcome == "completed", ended.text
        return ended.text

    async def failure(self, name: str, **arguments: Json) -> str:
        ended = await self.call(name, **arguments)
        assert ended.outcome in ("failed", "denied"), ended.text
        return ended.text

    async def until_told(self, word: str) -> None:
        """Return once a running call has said the word."""
        while word not in "".join(self.told):
            self._more.clear()
            await self._more.wait()


def a_tool(
    function: ToolFunction,
    *,
    name: str = "thing",
    effect: Effect = "read",
    timeout_s: float = DEADLINE_S,
    parameters: dict[str, Json] | None = None,
    needs_approval: bool = False,
) -> Tool:
    spec = ToolSpec(
        name=name,
        description="A thing.",
        parameters={"type": "object"} if parameters is None else parameters,
        effect=effect,
        timeout_s=timeout_s,
        needs_approval=needs_approval,
    )
    return Tool(spec=spec, function=function)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def alive_in(folder: Path) -> list[int]:
    """Return the processes that work in a folder: what a command there has left behind."""
    found = []
    for process in processes():
        try:
            if os.readlink(f"/proc/{process.pid}/cwd") == str(folder):
                found.append(process.pid)
        except OSError:
            continue
    return found
