"""Durable transitions: the loop of three states, each fact on the disk before the next state begins.

The floor is one raw SQLite commit of the same message at the same setting, WAL and `synchronous=FULL`, on
the same disk: what waits for the disk once and does nothing else. Time is the clock's, not the
processor's: the wait for the disk is what this is about.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import apsw

from benchmarks.measuring import Figure, in_turn, on_a_loop, profiled
from benchmarks.programs.durable import MESSAGE_BYTES, WARM_UP, message
from benchmarks.programs.durable import messages as new_messages
from midstream.language.names import Json
from midstream.language.spec import Definition, State, Workflow
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Journal
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.sqlite import SqliteStore
from midstream.system.offloop import in_thread
from midstream.testing.fakes import fake_world

CACHE = Path(__file__).parents[1] / ".bench"
"""Where benchmarks keep what lasts: on the disk of the checkout, and out of its history."""

AT_ONCE = 100
FLOOR = "one raw SQLite commit of the message"
FOLLOWING = {"start": "second", "second": "third", "third": "start"}
LOOP = Definition(
    workflow=Workflow(
        workflow_name="loop",
        states=(
            *(State(name=name, transition_handler=f"leave_{name}") for name in FOLLOWING),
            State(name="stop"),
        ),
    ),
    roles={},
)


def stores() -> str:
    """Return the folder for stores that are measured. A temporary folder may be memory."""
    folder = CACHE / "stores"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def raw_commits(path: Path, payload: bytes, count: int) -> float:
    """Return the seconds that `count` commits take, each of one row with this payload.

    The database is made at `path`, where none may be, and left there.
    """
    connection = apsw.Connection(str(path))
    try:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.execute("CREATE TABLE kept (seq INTEGER PRIMARY KEY, payload BLOB)")
        keep = "INSERT INTO kept VALUES (?, ?)"
        for seq in range(WARM_UP):
            connection.execute(keep, (seq, payload))
        began = perf_counter()
        for seq in range(WARM_UP, WARM_UP + count):
            connection.execute(keep, (seq, payload))
        return perf_counter() - began
    finally:
        connection.close()


def handlers(count: int, messages: int = 1) -> ScriptHandlers:
    """Return the handlers of one run, which ends after so many transitions.

    Its state are so many messages; each transition appends one and drops the oldest.
    """
    done = 0

    def leaving(following: str) -> Callable[[HandlerRun], Awaitable[Json]]:
        async def leave(run: HandlerRun) -> Json:
            nonlocal done
            done += 1
            if messages:
                if "messages" not in run.common_data:
                    run.common_data["messages"] = new_messages(messages)
                talk = run.common_data["messages"]
                talk.append(message(done))
                del talk[0]
            return "stop" if done >= count else following

        return leave

    return ScriptHandlers({f"leave_{name}": leaving(to) for name, to in FOLLOWING.items()})


async def transit(store: Journal, count: int, messages: int = 1) -> None:
    """Run the loop, so many transitions, every one kept."""
    machine = WorkflowStateMachine(
        LOOP, fake_world(journal=store), handlers=handlers(count, messages)
    )
    await machine.start()
    run = await machine.wait()
    assert run.status == "finished", run.error


def size(path: Path) -> int:
    """Return the bytes a journal takes, what still stands in its WAL included.

    Asked through apsw, as the store is open: another copy of SQLite in the process, such as that of the
    standard library, would drop the store's locks by closing the file, and damage it.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    finally:
        connection.close()


@asynccontextmanager
async def warm_store(path: Path) -> AsyncIterator[SqliteStore]:
    """Give a new store in which a run nobody times has ended; it is closed in the end."""
    store = await in_thread(lambda: SqliteStore.opened(path))
    try:
        await transit(store, WARM_UP)
        yield store
    finally:
        await store.aclose()


async def timed(path: Path, count: int, runs: int = 1, *, messages: int = 1) -> tuple[float, float]:
    """Return the seconds and the journal's bytes a transition takes, in so many runs at once.

    Each run makes `count` transitions in a new store at `path`. The starts and ends of the runs are
    in it too.
    """
    async with warm_store(path) as store:
        before = size(path)
        began = perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(runs):
                group.create_task(transit(store, count, messages))
        took = perf_counter() - began
        return took / (runs * count), (size(path) - before) / (runs * count)


def in_a_folder(work: Callable[[Path], float]) -> float:
    """Return what work returns that is given a path for a store, which is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        return work(Path(folder) / "journal.db")


def measure(is_quick: bool) -> list[Figure]:
    """Return microseconds and bytes a transition."""
    count, rounds = (15, 2) if is_quick else (300, 11)
    each = 2 if is_quick else 15
    kept: list[float] = []

    def one(path: Path) -> float:
        seconds, grown = on_a_loop(lambda: timed(path, count))
        kept.append(grown)
        return seconds * 1e6

    def together(path: Path) -> float:
        return on_a_loop(lambda: timed(path, each, AT_ONCE))[0] * 1e6

    def bare(path: Path) -> float:
        return raw_commits(path, message(0).encode(), count) / count * 1e6

    own, shared, raw = in_turn(
        rounds,
        lambda: in_a_folder(one),
        lambda: in_a_folder(together),
        lambda: in_a_folder(bare),
    )
    return [
        Figure(
            name="one durable transition",
            unit="µs",
            values=own,
            floor=FLOOR,
            floors=raw,
            aim=2,
            note=f"a message of {MESSAGE_BYTES} bytes, WAL, synchronous=FULL",
        ),
        Figure(
            name=f"one durable transition, {AT_ONCE} runs at once",
            unit="µs",
            values=shared,
            floor="the same in one run",
            floors=own,
            aim=0.2,
            note="of all runs together: they share commits",
        ),
        Figure(
            name=f"the journal's bytes a transition, {MESSAGE_BYTES} of them a message",
            unit="bytes",
            values=tuple(kept),
            aim=600,
            aim_on="value",
        ),
    ]


def explain() -> None:
    """Print where the time of a transition goes, on the event loop."""
    profiled(lambda: in_a_folder(lambda path: on_a_loop(lambda: timed(path, 3_000))[0]))
