"""Runs in a store: taking up a long one, and many that wait in one process.

Taking up: a new store on the file and an engine, until the run goes on here and that is on the disk. The
floor is what no way of it can do without: the newest snapshot read raw and decoded as plain JSON.
Waiting: each run is at a question to the person; counted is what the process occupies, and its CPU time.
"""

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.durable_transitions import stores
from benchmarks.measuring import Figure, on_a_loop
from benchmarks.parked_memory import (
    ASKING,
    CHOICES,
    Forgetful,
    finding_of,
    question_of,
    resident,
    task_of,
)
from midstream.language.names import REQUEST_USERS_INPUT
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.ports import ModelRequest
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import Scripted, ScriptedModel, call, fake_world

FACTS = 10_000


async def _chatted(path: Path, facts: int) -> str:
    """Leave a chat of so many facts in a store; return its id."""
    store = SqliteStore.opened(path)
    model = ScriptedModel(lambda request: "A reply of some length. " * 8)
    engine = LocalEngine(fake_world(model, journal=store, blobs=store), store)
    machine = await engine.start(chat_definition("dude", Role(), {}))
    while machine.run.seq < facts:
        await machine.settled()
        await machine.say(f"Line {machine.run.seq}: tell me more of the module and its tests.")
        model.asked.clear()
    await machine.settled()
    await engine.close()
    return machine.id


async def _taken_up(path: Path, id: str) -> float:
    """Return the milliseconds until a run of the store goes on here."""
    gc.collect()
    began = perf_counter()
    store = SqliteStore.opened(path)
    world = fake_world(ScriptedModel("Well."), journal=store, blobs=store)
    engine = LocalEngine(world, store)
    await engine.resume(id)
    took = perf_counter() - began
    await engine.close()
    return took * 1e3


async def _floor(path: Path, id: str) -> float:
    """Return the milliseconds of reading the snapshot and decoding it as JSON."""
    store = SqliteStore.opened(path)
    try:
        began = perf_counter()
        kept = await store.snapshot(id)
        assert kept is not None, "a long run has a snapshot"
        _, data, pages = kept
        head = data.partition(b"\n")[2]  # before it stands which version folded it
        for part in (head, *pages.values()):
            for line in part.split(b"\n"):
                json.loads(line)
        return (perf_counter() - began) * 1e3
    finally:
        await store.aclose()


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds, megabytes and per cent of one core."""
    facts, rounds, count, seconds = (600, 2, 200, 0.3) if is_quick else (FACTS, 11, 10_000, 5.0)
    taken: list[float] = []
    floor: list[float] = []
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        path = Path(folder) / "journal.db"
        id = on_a_loop(lambda: _chatted(path, facts))
        for _ in range(rounds):
            taken.append(on_a_loop(lambda: _taken_up(path, id)))
            floor.append(on_a_loop(lambda: _floor(path, id)))
    megabytes, percent = _waiting(count, seconds)
    return [
        Figure(
            name=f"taking up a chat of {facts:,} facts",
            unit="ms",
            values=tuple(taken),
            floor="its snapshot read and decoded as plain JSON",
            floors=tuple(floor),
            aim=50,
            aim_on="value",
        ),
        Figure(
            name=f"{count:,} runs that wait in one process",
            unit="MB",
            values=(megabytes,),
            aim=200,
            aim_on="value",
            note="what the process grew by; durable, with their conversations",
        ),
        Figure(
            name=f"CPU of {count:,} runs that wait, over {seconds:g} s",
            unit="%",
            values=(percent,),
            aim=1,
            aim_on="value",
        ),
    ]


def _waiting(count: int, seconds: float) -> tuple[float, float]:
    """Return megabytes and per cent of so many waiting runs, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.durable_runs", "--wait", str(count), str(seconds)],
        capture_output=True,
        text=True,
        check=True,
    )
    megabytes, percent = map(float, done.stdout.split())
    return megabytes, percent


async def _wait(count: int, seconds: float) -> None:
    """Park so many runs in a store; print the megabytes they take and the CPU they use."""

    def reply(request: ModelRequest) -> Scripted:
        mine = int(str(request.input).split("module_")[1][:5])
        if request.state == "start":
            return Scripted(pieces=(finding_of(mine),))
        asking = call(REQUEST_USERS_INPUT, question=question_of(mine), choices=list(CHOICES))
        return Scripted(pieces=("One question first.",), calls=(asking,))

    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        store = SqliteStore.opened(Path(folder) / "journal.db")
        world = fake_world(Forgetful(reply), journal=store, blobs=store)
        engine = LocalEngine(world, store, sockets=Path(folder) / "journal.db.d")

        async def park(first: int, last: int) -> None:
            machines = await asyncio.gather(
                *(engine.start(ASKING, input=task_of(n)) for n in range(first, last))
            )
            for machine in machines:
                run = await machine.settled()
                assert run.inbox.open_questions, run.error

        await park(0, 20)
        gc.collect()
        before = resident()
        for number in range(20, 20 + count, 200):
            await park(number, min(number + 200, 20 + count))
        gc.collect()
        grown = resident() - before
        await asyncio.sleep(0.5)
        used, began = process_time(), perf_counter()
        await asyncio.sleep(seconds)
        percent = (process_time() - used) / (perf_counter() - began) * 100
        print(grown / 1e6, percent)
        sys.stdout.flush()
        await engine.close()


if __name__ == "__main__":
    asyncio.run(_wait(int(sys.argv[-2]), float(sys.argv[-1])))
