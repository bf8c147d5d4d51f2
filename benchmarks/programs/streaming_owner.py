"""A process whose run streams a reply of so many tokens; its pieces say when they were shown.

Arguments: the journal, the tokens. It says the run's id, begins when a line comes on stdin, and says at the
end how many seconds of CPU it used meanwhile.
"""

import asyncio
import sys
import time

import midstream

TALK = {
    "workflow_name": "talk",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude", "awaits_input": True}, {"name": "stop"}],
}


async def main(journal: str, workspace: str) -> None:
    """Stream one reply."""
    async with midstream.open(workspace, model="openai:gpt-4o-mini", journal=journal) as engine:
        run = await engine.start(TALK)
        await run.settled()
        print(run.id, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        shown: list[str] = []
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_shown(run, shown))
            began = time.process_time()
            await run.say("go on")
            await run.wait()
            used = time.process_time() - began
            await watching
        print(used, *shown, flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def _shown(run: midstream.RunHandle, shown: list[str]) -> None:
    """Note when each piece was shown here, in monotonic nanoseconds, and how many characters it has."""
    async for event in run.events():
        if isinstance(event, midstream.TextDelta):
            shown.append(f"{time.monotonic_ns()}:{len(event.text)}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
