"""From words sent in one process to the first line of a handler in another, which runs the run.

The sender keeps the words in the journal and rings; the owner reads them, journals that they came, and
calls the handler. The floor is one raw SQLite commit at the same setting (WAL, `synchronous=FULL`) and one
round trip over a Unix socket to the same process.
"""

import asyncio
import contextlib
import random
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import perf_counter

import apsw

from benchmarks.durable_transitions import stores
from benchmarks.measuring import Figure, percentile
from benchmarks.processes import begun, line_of
from midstream.runtime.engine.remote import RemoteMachine
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import JumpingClock

WORDS = "No: keep the old name, and leave the tests as they are."
FLOOR = "a commit and a round trip over a socket"


class Owner:
    """The other process."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal.db"
        self.address = str(folder / "echo")
        self._process = begun("listening_owner", self.journal, self.address)
        self.run = self.line()

    def line(self) -> str:
        """Return the next line it says."""
        return line_of(self._process)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@contextlib.contextmanager
def owner() -> Iterator[Owner]:
    """Give an owner with a fresh journal on the disk."""
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        made = Owner(Path(folder))
        try:
            yield made
        finally:
            made.close()


@contextlib.asynccontextmanager
async def attached(other: Owner) -> AsyncIterator[RemoteMachine]:
    """Give the run of the other process."""
    store = SqliteStore.opened(other.journal)
    try:
        sockets = Path(f"{other.journal}.d")
        machine = await RemoteMachine.attached(
            store, other.run, sockets=sockets, clock=JumpingClock(time.time())
        )
        yield machine
        await machine.aclose()
    finally:
        await store.aclose()


async def sent(other: Owner, count: int) -> list[float]:
    """Return milliseconds from the call to the handler, at times of their own."""
    samples: list[float] = []
    async with attached(other) as machine:
        for number in range(count + 5):
            await asyncio.sleep(random.random() * 0.03)
            began = time.monotonic_ns()
            await machine.say(WORDS, id=f"{began}")
            heard = int(await asyncio.to_thread(other.line))
            if number >= 5:
                samples.append((heard - began) / 1e6)
    return samples


def bare(other: Owner, count: int) -> list[float]:
    """Return milliseconds of a raw commit and a round trip."""
    samples: list[float] = []
    connection = apsw.Connection(f"{other.journal}.raw")
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute("create table kept (seq integer primary key, words text)")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.connect(other.address)
        for number in range(count + 5):
            began = perf_counter()
            connection.execute("insert into kept values (?, ?)", (number, WORDS))
            wire.sendall(b"!")
            wire.recv(16)
            if number >= 5:
                samples.append((perf_counter() - began) * 1e3)
    connection.close()
    return samples


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds from `send` to the handler."""
    count, rounds = (20, 1) if is_quick else (300, 5)
    ours: list[list[float]] = []
    floors: list[list[float]] = []
    for _ in range(rounds):
        with owner() as other:
            floors.append(bare(other, count))
            ours.append(asyncio.run(sent(other, count)))

    def figure(percent: float, **aim: float) -> Figure:
        return Figure(
            name=f"from words sent to the handler in another process, p{percent:.0f}",
            unit="ms",
            values=tuple(percentile(samples, percent) for samples in ours),
            floor=FLOOR,
            floors=tuple(percentile(samples, percent) for samples in floors),
            aim=aim.get("aim"),
            aim_on="value",
        )

    return [figure(50), figure(99, aim=50)]
