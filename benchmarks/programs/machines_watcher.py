"""A process in which so many tasks wait for runs of a database to change: `ADDRESS COUNT RUN...`.

It says a line once all of them wait, and ends with stdin.
"""

import asyncio
import sys

from midstream.store.postgres.store import PostgresStore


async def main(address: str, count: int, runs: list[str]) -> None:
    """Watch until stdin ends."""
    store = await asyncio.to_thread(PostgresStore.opened, address)

    async def watch(run: str) -> None:
        while True:
            await store.changed(1.0, (run,))

    watching = [asyncio.create_task(watch(runs[each % len(runs)])) for each in range(count)]
    await asyncio.sleep(0.1)
    print(flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for each in watching:
        each.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
