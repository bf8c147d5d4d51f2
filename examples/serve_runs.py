"""Runs over HTTP: start one, stream its events, talk to it while it streams.

    pip install fastapi uvicorn
    uvicorn serve_runs:app --timeout-graceful-shutdown 1        # or it waits for who listens
    curl localhost:8000/runs --json '"rain"'                    # {"id": "k3f..."}
    curl -N localhost:8000/runs/k3f.../events
    curl localhost:8000/runs/k3f.../words --json '"about snow, please"'

A server that was killed goes on with its runs when it starts again. The id of a server-sent event is the
number of its fact: who comes back with the last one, as a browser's `EventSource` does, misses no fact
and gets none twice. Pieces of text have no id: who comes in the middle of a reply hears it from its
beginning, and what they came to is in a fact.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

import midstream

HAIKU = {
    "workflow_name": "haiku",
    "contexts": [{"name": "page"}],
    "agents": [{"agent_role": "dude", "context": "page"}],
    "states": [
        {"name": "start", "agent": "dude", "next": "stop"},
        {"name": "resume", "agent": "dude", "next": "stop"},  # words lead here
        {"name": "stop"},
    ],
}
engine: midstream.Engine


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the engine, and go on with what the last server left, in whatever way it ended."""
    global engine
    async with midstream.open(journal="runs.db", trust=False, permissions="plan") as engine:
        for status in ("running", "waiting"):
            for left in await engine.runs(status=status, limit=None):
                await engine.take(left.id)  # with `--workers 2` another process may have it
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(midstream.UserMistake)
async def refuse(_: Request, error: Exception) -> JSONResponse:
    """Say why something cannot be done, such as that there is no such run."""
    return JSONResponse({"error": str(error)}, status_code=409)


@app.post("/runs")
async def start(topic: Annotated[str, Body()]) -> dict[str, str]:
    """Start a run."""
    return {"id": (await engine.start(HAIKU, topic)).id}


@app.post("/runs/{id}/words")
async def say(id: str, words: Annotated[str, Body()]) -> dict[str, str]:
    """Answer its question, or interrupt it."""
    receipt = await (await engine.get(id)).say(words)
    return {"handling": receipt.handling, "reason": receipt.reason}


@app.get("/runs/{id}/events", response_class=EventSourceResponse)
async def events(
    id: str, last_event_id: Annotated[int, Header()] = 0
) -> AsyncIterator[ServerSentEvent]:
    """Stream what has happened since that event, and what happens, until the run has ended."""
    run = await engine.get(id)
    async for each in run.numbered(last_event_id):
        number = None if each.seq is None else str(each.seq)
        yield ServerSentEvent(data=each.to_dict(), event=each.type, id=number)
