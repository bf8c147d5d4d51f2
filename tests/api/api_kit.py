"""Engines on one journal: what a program, and another one beside it, hold of the same run."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import midstream
from midstream.config.directories import JOURNAL_VARIABLE
from midstream.testing import ScriptedModel

TALK: dict[str, Any] = {
    "workflow_name": "talk",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude"},
        {"name": "resume", "agent": "dude"},
        {"name": "stop"},
    ],
}


class Place:
    """Where a run lives, and where it is held: `here`, in memory, or from another engine."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        kept = os.environ.get(JOURNAL_VARIABLE, str(folder / "journal.db"))
        self.journal = ":memory:" if kind == "memory" else kept
        self.workspace = folder / "work"
        self.workspace.mkdir(parents=True)
        self.engines: list[midstream.Engine] = []
        self.models: list[ScriptedModel] = []

    async def engine(self, *script: Any, **settings: Any) -> midstream.Engine:
        """Return one more engine on the journal."""
        self.models.append(ScriptedModel(*script))
        opening = midstream.open(
            self.workspace, model=self.models[-1], journal=self.journal, **settings
        )
        self.engines.append(await opening)
        return self.engines[-1]

    async def held(self, run: midstream.RunHandle, *script: Any) -> midstream.RunHandle:
        """Return a run that was started here as its program holds it. The script is of that engine."""
        if self.kind != "elsewhere":
            return run
        return await (await self.engine(*script)).get(run.id)

    async def at_rest(self, engine: midstream.Engine) -> midstream.RunHandle:
        """Return a talk that was started there, as its program holds it, once it waits for somebody."""
        run = await self.held(await engine.start(TALK))
        await run.settled()
        return run

    async def close(self) -> None:
        """Close every engine, the watching ones first."""
        for engine in reversed(self.engines):
            await engine.close()


@pytest.fixture(params=["memory", "here", "elsewhere"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(request.param, tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place("here", tmp_path)
    yield made
    await made.close()


async def until(run: midstream.RunHandle, fits: Callable[[Any], bool]) -> Any:
    """Return the first event of a run that fits."""
    async for event in run.events():
        if fits(event):
            return event
    raise AssertionError(f"{run} ended before")


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file of a workspace."""
    path = folder / name
    os.makedirs(path.parent, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
