"""Runs that are dispatched by their own rows, beside jobs of procrastinate in the same database.

How long it takes from there being something to do until somebody does it, also after `kill -9`; what an
idle worker asks of the database; and what appends cost where every tenth has a job made. procrastinate has
an environment of its own below `.bench/`, made once; without it only ours is measured.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from support.postgres import PostgresServer
from support.store_contracts import started

from benchmarks.durable_others import Other, install, python_of
from benchmarks.many_machines import (
    RUNS,
    append_to_all,
    environment_of,
    filled,
    is_lacking,
    open_store,
    transactions,
    worker,
)
from benchmarks.measuring import Figure, in_turn, on_a_loop, progress
from benchmarks.processes import ROOT, line_of
from midstream.runtime.storage import Placement

if TYPE_CHECKING:
    from midstream.store.postgres.store import PostgresStore

JOBS = Other(
    name="procrastinate",
    program="dispatch_procrastinate",
    requirements=("procrastinate==3.10.0", "psycopg[binary]>=3.2.13,<4"),
)
WAITING, IDLE_S, EVERY = 10_000, 20, 10
_PAUSES = cycle((0.5, 0.9, 1.3, 1.7, 2.1, 2.5))
"""Seconds before a kill: heartbeats have a rhythm of their own."""

TAKER = (sys.executable, "-m", "benchmarks.programs.machines_taker")


def measure(is_quick: bool) -> list[Figure]:
    """Return what dispatching comes to."""
    if is_lacking("dispatch"):
        return []
    trouble = install(JOBS, may_make=not is_quick)
    if trouble:
        progress(f"dispatch is measured without procrastinate: {trouble}")
    with PostgresServer.made(is_durable=True, max_connections=200) as server:
        return [
            *_begun(server, is_quick, has_jobs=not trouble),
            *_idle(server, is_quick, has_jobs=not trouble),
            *([] if trouble else _appends(server, is_quick)),
        ]


def _figure(name: str, unit: str, ours: tuple[float, ...], jobs: tuple[float, ...]) -> Figure:
    floor = "the same by procrastinate" if jobs else ""
    return Figure(
        name=f"dispatch: {name}",
        unit=unit,
        values=ours,
        floor=floor,
        floors=jobs,
        is_compared=bool(jobs),
    )


@contextlib.contextmanager
def _process(*command: str) -> Iterator["subprocess.Popen[str]"]:
    """Give a program of ours that has said that it is ready."""
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert line_of(process) == "ready"
        try:
            yield process
        finally:
            process.kill()


def _jobs(role: str, address: str, *more: str) -> tuple[str, ...]:
    program = ROOT / "benchmarks" / "programs" / "dispatch_procrastinate.py"
    return (str(python_of(JOBS)), str(program), role, address, *more)


def _set_up(address: str, waiting: int = 0) -> None:
    subprocess.run(_jobs("setup", address, str(waiting)), check=True)


# --- until it begins ------------------------------------------------------------------------------


def _begun(server: PostgresServer, is_quick: bool, *, has_jobs: bool) -> list[Figure]:
    count, kills = (2, 1) if is_quick else (30, 5)
    jobs = server.database()
    begins = [lambda: _begin_runs(server.database(), count)]
    dies = [lambda: _retaken_run(server.database())]
    if has_jobs:
        _set_up(jobs)
        begins.append(lambda: _begin_jobs(jobs, count))
        dies.append(lambda: _retaken_job(jobs))
    begun = in_turn(1 if is_quick else 5, *begins)
    retaken = in_turn(kills, *dies)
    return [
        _figure("from offered to begun", "ms", *_both(begun)),
        _figure("from `kill -9` of its process to begun elsewhere", "s", *_both(retaken)),
    ]


def _both(values: Sequence[tuple[float, ...]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return values[0], values[1] if len(values) > 1 else ()


async def _offer(store: "PostgresStore", id: str) -> int:
    """Have a run begun for workers; return when the last statement of that began."""
    await store.claim(id)
    await store.append(id, 0, started(id))
    await store.assign(id, Placement(host="bench"))
    began = time.monotonic_ns()
    await store.release(id, 0.0)
    return began


def _begin_runs(address: str, count: int) -> float:
    """Return the milliseconds until another process has taken a run: the median of so many."""

    async def all_of_them() -> float:
        took: list[float] = []
        async with open_store(address) as (store, _):
            with _process(*TAKER, address) as taker:
                for number in range(count + 2):
                    began = await _offer(store, f"r{number}-{time.monotonic_ns()}")
                    begun = int((await asyncio.to_thread(line_of, taker)).split()[-1])
                    took.append((begun - began) / 1e6)
                    await asyncio.sleep(0.05)
        return sorted(took[2:])[count // 2]

    return on_a_loop(all_of_them)


def _begin_jobs(address: str, count: int) -> float:
    """Return the same of jobs."""
    took: list[float] = []
    with _process(*_jobs("worker", address)) as taker, _process(*_jobs("defer", address)) as by:
        for _ in range(count + 2):
            began = _defer(by, 2)
            begun = int(line_of(taker).split()[-1])
            took.append((begun - began) / 1e6)
            time.sleep(0.05)
    return sorted(took[2:])[count // 2]


def _defer(by: "subprocess.Popen[str]", number: int) -> int:
    """Have a job made; return when that was asked for."""
    assert by.stdin is not None
    began = time.monotonic_ns()
    by.stdin.write(f"{number}\n")
    by.stdin.flush()
    assert line_of(by) == "deferred"
    return began


def _retaken_run(address: str) -> float:
    """Return the seconds from the kill of a run's process until another has it."""

    async def kill() -> float:
        async with open_store(address) as (store, _):
            with _process(*TAKER, address) as first:
                await _offer(store, "r")
                await asyncio.to_thread(line_of, first)
                with _process(*TAKER, address) as second:
                    await asyncio.sleep(next(_PAUSES))
                    began = time.monotonic_ns()
                    first.kill()
                    begun = int((await asyncio.to_thread(line_of, second)).split()[-1])
        return (begun - began) / 1e9

    return on_a_loop(kill)


def _retaken_job(address: str) -> float:
    """Return the same of a job."""
    with _process(*_jobs("worker", address)) as first:
        with _process(*_jobs("defer", address)) as by:
            _defer(by, 1)
        line_of(first)
        with _process(*_jobs("worker", address)) as second:
            time.sleep(1.0 + next(_PAUSES))  # it has said that it lives
            began = time.monotonic_ns()
            first.kill()
            begun = int(line_of(second).split()[-1])
    return (begun - began) / 1e9


# --- while nothing is to do -----------------------------------------------------------------------


def _idle(server: PostgresServer, is_quick: bool, *, has_jobs: bool) -> list[Figure]:
    waiting, seconds = (10, 1) if is_quick else (WAITING, IDLE_S)
    runs, jobs = filled(server, waiting), server.database()
    addresses = [runs, *([jobs] if has_jobs else [])]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(worker(folder, environment_of(folder, runs)))
        if has_jobs:
            _set_up(jobs, waiting)
            stack.enter_context(_process(*_jobs("worker", jobs)))
        time.sleep(seconds / 4)
        before = [transactions(server, each) for each in addresses]
        time.sleep(seconds)
        after = [transactions(server, each) for each in addresses]
    a_minute = [((last - first) * 60 / seconds,) for first, last in zip(before, after, strict=True)]
    name = f"transactions a minute of an idle worker where {waiting:,} wait"
    return [_figure(name, "", *_both(a_minute))]


# --- with a job for every tenth append ------------------------------------------------------------


def _appends(server: PostgresServer, is_quick: bool) -> list[Figure]:
    each, rounds = (EVERY, 1) if is_quick else (10 * EVERY, 7)
    address = server.database()
    _set_up(address)
    with _process(*_jobs("defer", address)) as by:
        deferring, bare = in_turn(
            rounds, lambda: _appended(address, each, by), lambda: _appended(address, each, None)
        )
    return [
        Figure(
            name=f"dispatch: an append, {RUNS} runs at once, a job of procrastinate for each tenth",
            unit="µs",
            values=deferring,
            floor="without jobs: the row that an append moves on is what dispatches",
            floors=bare,
        )
    ]


def _appended(address: str, each: int, by: "subprocess.Popen[str] | None") -> float:
    """Return the microseconds an append takes, until the jobs are made, too."""
    deferred = 0

    def defer(seq: int) -> None:
        nonlocal deferred
        if by is not None and seq % EVERY == 0:
            assert by.stdin is not None
            by.stdin.write("2\n")
            by.stdin.flush()
            deferred += 1

    async def all_of_them() -> float:
        async with open_store(address, RUNS) as (store, ids):
            began = perf_counter()
            await append_to_all(store, ids, range(2, each + 2), defer)
            for _ in range(deferred):
                assert by is not None
                await asyncio.to_thread(line_of, by)
            return (perf_counter() - began) / (RUNS * each) * 1e6

    return on_a_loop(all_of_them)
