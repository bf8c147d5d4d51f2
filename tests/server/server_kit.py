"""Doors over HTTP, served on a port of this machine in the loop of the test."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.routing import Route

import midstream
from midstream.config.directories import JOURNAL_VARIABLE
from midstream.testing import ScriptedModel

WORKFLOWS: dict[str, str] = {
    "haiku": """{"workflow_name": "haiku", "contexts": [{"name": "page"}],
      "agents": [{"agent_role": "dude", "context": "page"}],
      "states": [{"name": "start", "agent": "dude"}, {"name": "resume", "agent": "dude"},
                 {"name": "stop"}]}""",
    "poor": """{"workflow_name": "poor", "contexts": [{"name": "page"}], "budget": {"tokens": 5},
      "agents": [{"agent_role": "dude", "context": "page"}],
      "states": [{"name": "start", "agent": "dude", "next": "more"},
                 {"name": "more", "agent": "dude"}, {"name": "stop"}]}""",
    "kept": """{"workflow_name": "kept", "contexts": [{"name": "page"}],
      "agents": [{"agent_role": "dude", "context": "page"}],
      "states": [{"name": "start", "agent": "dude", "post_handler": "keep"}, {"name": "stop"}]}""",
}

SCRIPT = """
def keep(run):
    run.common_data["a/b"] = run.last_response.text
"""


@contextlib.asynccontextmanager
async def engine_of(folder: Path, *script: Any, **settings: Any) -> AsyncIterator[midstream.Engine]:
    """Give an engine in a folder with workflows, and a model that says what it is told to."""
    for name, text in WORKFLOWS.items():
        path = folder / "work" / ".midstream" / "workflows" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (path.parent / "kept").mkdir(exist_ok=True)
    (path.parent / "kept" / "script.py").write_text(SCRIPT, encoding="utf-8")
    model = ScriptedModel(*script)
    journal = os.environ.get(JOURNAL_VARIABLE, str(folder / "journal.db"))
    async with midstream.open(
        folder / "work", model=model, journal=journal, trust=True, **settings
    ) as engine:
        yield engine


@contextlib.asynccontextmanager
async def served(routes: list[Route]) -> AsyncIterator[str]:
    """Give the address of routes that are served."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="error", timeout_graceful_shutdown=1, lifespan="off"
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


def client_of(address: str, **settings: Any) -> AsyncOpenAI:
    """Return OpenAI's own client for an address."""
    return AsyncOpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0, **settings)


async def settled(run: midstream.RunHandle, is_so: Callable[[midstream.RunHandle], bool]) -> None:
    """Return once a run is as wanted."""
    if is_so(run):
        return
    async for _ in run.events(run.run.seq):
        if is_so(run):
            return
