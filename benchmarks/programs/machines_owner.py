"""A process whose runs stream without end, in a database: `ADDRESS COUNT`.

It says `run` and their ids once all stream; then `streams` when another reply does, and `closed` when one
was cut, with the nanoseconds of the machine's monotonic clock, which all processes share; and, when the
channel `floor` is rung, `rung` and when its connection was woken.
"""

import asyncio
import sys
import threading
import time

import psycopg

from midstream.app.assembly import SystemClock
from midstream.language.spec import Agent, Context, State, Workflow
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.store.postgres.store import PostgresStore
from midstream.testing.fakes import define, fake_world

TALK = define(
    Workflow(
        workflow_name="talk",
        contexts=(Context(name="talk"),),
        agents=(Agent(agent_role="ada", context="talk"),),
        states=(
            State(name="start", agent="ada"),
            State(name="resume", agent="ada", next="stop"),
            State(name="stop"),
        ),
    )
)


class EndlessModel:
    """Streams five words a second. See the port `Model`."""

    def __init__(self) -> None:
        self.began = asyncio.Semaphore(0)

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Never reply."""
        say("streams")
        self.began.release()
        try:
            while True:
                listener.text("word ")
                await asyncio.sleep(0.2)
        finally:
            say(f"closed {time.monotonic_ns()}")


def say(text: str) -> None:
    """Write a line for the other process."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def hear(address: str) -> None:
    """Say when the channel of the floor is rung."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("listen floor")
        for _ in connection.notifies():
            say(f"rung {time.monotonic_ns()}")


async def main(address: str, count: int) -> None:
    """Run until stdin ends."""
    store = await asyncio.to_thread(PostgresStore.opened, address)
    model = EndlessModel()
    world = fake_world(model, journal=store, clock=SystemClock())
    engine = LocalEngine(world, store)
    try:
        ids = [(await engine.start(TALK)).id for _ in range(count)]
        for _ in ids:
            await model.began.acquire()
        say(f"run {' '.join(ids)}")
        threading.Thread(target=hear, args=(address,), daemon=True).start()
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
