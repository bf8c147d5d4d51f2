"""A process that runs a run and says when its handler hears words: `JOURNAL SOCKET`.

Its first line is the run's id; then comes a line for each time the handler was called, in nanoseconds of
the machine's monotonic clock, which all processes share. On the Unix socket it echoes, for the floor.
"""

import asyncio
import socket
import sys
import threading
import time
from pathlib import Path

from midstream.language.names import Json
from midstream.language.spec import State, Workflow
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import define, fake_world

LISTENING = define(
    Workflow(
        workflow_name="listening",
        states=(
            State(name="start", awaits_input=True, post_handler="hear", next="start"),
            State(name="stop"),
        ),
    )
)


async def hear(run: HandlerRun) -> Json:
    """Say that words have come."""
    say(str(time.monotonic_ns()))
    return None


def say(text: str) -> None:
    """Write a line for the other process."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def echo(address: str) -> None:
    """Send back every byte that comes over the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen(1)
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(16):
                connection.sendall(data)


async def main(journal: Path, address: str) -> None:
    """Run until stdin ends."""
    threading.Thread(target=echo, args=(address,), daemon=True).start()
    store = SqliteStore.opened(journal)
    engine = LocalEngine(fake_world(journal=store), store, sockets=Path(f"{journal}.d"))
    try:
        machine = await engine.start(LISTENING, handlers=ScriptHandlers({"hear": hear}))
        await machine.settled()
        say(machine.id)
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
