"""A process that takes runs of a database, as a worker does, and does nothing with them: `ADDRESS`.

It says `ready`, then `begun RUN` and the nanoseconds of the machine's monotonic clock for each it took.
"""

import asyncio
import contextlib
import sys
import time

from support.store_contracts import worker_at

from midstream.runtime.engine.owner import Owner
from midstream.store.postgres.store import PostgresStore


async def main(address: str) -> None:
    """Take runs until stdin ends."""
    store = await asyncio.to_thread(PostgresStore.opened, address)
    owner = Owner(store)
    owner.begin()
    me = worker_at(store, host="bench")

    async def take() -> None:
        while True:
            for taken in await store.take(me, 100):
                print(f"begun {taken.kept.id} {time.monotonic_ns()}", flush=True)
            await store.offered(60.0)

    taking = asyncio.create_task(take())
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    taking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await taking
    await owner.close()
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
