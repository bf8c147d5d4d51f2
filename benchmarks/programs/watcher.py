"""A process that watches a run from elsewhere, and at its end says when each piece of text came.

Arguments: the journal, the workspace, the run's id. It says "ready" once it watches.
"""

import asyncio
import sys
import time

import midstream


async def main(journal: str, workspace: str, id: str) -> None:
    """Watch one run."""
    async with midstream.open(workspace, model="offline", journal=journal) as engine:
        run = await engine.get(id)
        print("ready", flush=True)
        came: list[str] = []
        async for event in run.events():
            if isinstance(event, midstream.TextDelta):
                came.append(f"{time.monotonic_ns()}:{len(event.text)}")
        print(*came, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
