"""A process with runs that stream, and the page's server over them. What it used is its last line.

It is told the journal, the folder and how many runs; it prints an address that lets a page in, and the
runs. A line on stdin says `go` to each run, whose reply streams; the next has it say what it used: seconds
of CPU since the last, and megabytes of memory at most.
"""

import asyncio
import os
import resource
import sys
import time

import midstream
from midstream.server.access import Access
from midstream.server.host import Door, served
from midstream.testing import ScriptedModel, says
from midstream.web.routes import Web

PIECES = 200


async def main(journal: str, folder: str, count: int) -> None:
    """Serve until stdin ends."""
    hello = [says("hello") for _ in range(count)]
    streams = [says(*["a few words "] * PIECES) for _ in range(count)]
    model = ScriptedModel(*hello, *streams)
    async with midstream.open(folder, model=model, journal=journal) as engine:
        runs = [await engine.start("role:dude", f"run {n}") for n in range(count)]
        for run in runs:
            await run.settled()
        web, access = Web(engine), Access()
        door = Door(routes=web.routes(), life=web.life())
        async with served([door], access, port=0):
            print(access.invitation(), *(run.id for run in runs), flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            before = time.process_time()
            await asyncio.gather(*(run.say("go") for run in runs))
            await asyncio.gather(*(run.settled() for run in runs))
            print("settled", *(run.run.seq for run in runs), flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            used = time.process_time() - before
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(used, size, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    sys.stdout.flush()
    os._exit(0)
