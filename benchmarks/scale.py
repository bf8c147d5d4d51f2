"""How many machines a database carries, and what comes past it: a simulation of what waits for what.

A run alternates: it waits for its model, then the core of its worker works at the turn, then its facts are
appended, one append after the other. A database appends for one run at a time, at the rate measured for
group commits. Runs are spread over databases by chance, as by a hash of their ids. `python -m
benchmarks scale` measures what a turn takes, and prints the table of docs/scale.md.
"""

import heapq
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from itertools import count
from pathlib import Path

import msgspec
from support.postgres import PostgresServer

from benchmarks.many_machines import (
    STARTER,
    TALK,
    environment_of,
    is_lacking,
    model_of,
    until_finished,
    worker,
)
from benchmarks.measuring import Figure, progress

MODEL_S = 2.0
"""Mean seconds that a turn waits for its model; where a turn is measured, its reply streams for as long."""

TURN_S = 0.020
"""CPU of a worker for a turn. Measured: see docs/scale.md."""

APPENDS = 3
"""Appends of a turn. Measured."""

APPEND_S = 1 / 3_500
"""Seconds of the database for each append of a group. Measured: 32 runs at once, `many_machines`."""

PIECES, TURNS = 100, 4
"""Of a reply that is measured, and replies of a run."""

SIMULATED_S = 60.0
CASES = (
    (80, 1, 1),
    (640, 8, 1),
    (1_280, 16, 1),
    (2_560, 32, 1),
    (2_560, 32, 2),
    (5_120, 64, 2),
    (5_120, 64, 4),
)
"""Runs, workers' cores, databases."""


class Spent(msgspec.Struct, frozen=True):
    """What runs took of their worker: each a value for one run, but for the connections."""

    cpu_s: float
    appends: float
    memory_mb: float
    connections: int


def measure(is_quick: bool) -> list[Figure]:
    """Return what a turn, a piece of a reply and a run take of a worker."""
    if is_lacking("scale"):
        return []
    if not Path("/proc/self/stat").exists():
        progress("scale is left out: there is no /proc")
        return []
    runs, turns, pieces, rounds = (2, 2, 4, 1) if is_quick else (16, TURNS, PIECES, 3)
    cpu, piece, run, appends, memory, connections = [list[float]() for _ in range(6)]
    with PostgresServer.made(is_durable=True, max_connections=200) as server:
        for _ in range(rounds):
            one = _spent(server, runs, 1, pieces)
            many = _spent(server, runs, turns, pieces)
            short = _spent(server, runs, turns, pieces // 4)
            cpu.append((many.cpu_s - one.cpu_s) / (turns - 1) * 1e3)
            piece.append((many.cpu_s - short.cpu_s) / turns / (pieces - pieces // 4) * 1e6)
            run.append(one.cpu_s * 1e3)
            appends.append((many.appends - one.appends) / (turns - 1))
            memory.append(many.memory_mb)
            connections.append(float(many.connections))
    figures = (
        (f"CPU of a turn whose reply has {pieces} pieces", "ms", cpu),
        ("CPU of one of these pieces more", "µs", piece),
        ("CPU of a run of one turn, from being taken to its end", "ms", run),
        ("appends of a turn", "", appends),
        ("memory of a run under way", "MB", memory),
        ("connections", "", connections),
    )
    return [
        # Under load a difference of the two may come out below nothing.
        Figure(name=f"a worker: {name}", unit=unit, values=tuple(max(0.0, each) for each in values))
        for name, unit, values in figures
    ]


def _spent(server: PostgresServer, runs: int, turns: int, pieces: int) -> Spent:
    """Return what so many runs at once took of one worker, each of so many replies of so many pieces."""
    address = server.database()
    name = address.rpartition("/")[2]
    states = [{"name": f"s{n}", "agent": "dude", "next": f"s{n + 1}"} for n in range(1, turns)]
    states = [
        {"name": "start", "agent": "dude", "next": "s1" if turns > 1 else "stop"},
        *states[:-1],
        *([states[-1] | {"next": "stop"}] if states else []),
        {"name": "stop"},
    ]
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        with model_of(runs * turns, pieces, MODEL_S / PIECES) as model:
            env = environment_of(folder, address, model)
            workflow = msgspec.json.encode(TALK | {"states": states}).decode()
            command = [sys.executable, "-c", STARTER, workflow, str(runs)]
            subprocess.run(command, cwd=folder, env=env, check=True)
            with worker(folder, env, runs) as process:
                time.sleep(1.0)
                cpu_s, memory_mb = _of_process(process.pid)
                most_mb, most = 0.0, 0
                for _ in until_finished(server, address, runs, folder):
                    most_mb = max(most_mb, _of_process(process.pid)[1])
                    most = max(most, int(str(server.sql(_CONNECTED)[0][0])))
                    time.sleep(0.2)
                used_s = _of_process(process.pid)[0] - cpu_s
            appends = int(
                str(server.sql("select count(*) from midstream.facts where ends", name)[0][0])
            )
    return Spent(used_s / runs, appends / runs, (most_mb - memory_mb) / runs, most)


_CONNECTED = "select count(*) from pg_stat_activity where application_name = 'midstream'"


def _of_process(pid: int) -> tuple[float, float]:
    """Return the seconds of CPU a process has used, and its memory in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def simulated(
    runs: int, cores: int, databases: int, seed: int = 1
) -> tuple[float, float, float, float]:
    """Return turns a second, the p99 of what a turn waits beside its model in ms, and how busy both are."""
    chance = random.Random(seed)
    numbers = count()
    events: list[tuple[float, int, str, int]] = []
    since: dict[int, float] = {}
    left: dict[int, int] = {}
    queues = {("core", n): deque[int]() for n in range(cores)}
    queues |= {("base", n): deque[int]() for n in range(databases)}
    busy = dict.fromkeys(queues, False)
    worked = dict.fromkeys(("core", "base"), 0.0)
    waits: list[float] = []
    home = [(run % cores, chance.randrange(databases)) for run in range(runs)]

    def at(when: float, what: str, run: int) -> None:
        heapq.heappush(events, (when, next(numbers), what, run))

    def serve(kind: str, place: int, now: float) -> None:
        queue = queues[kind, place]
        if busy[kind, place] or not queue:
            return
        busy[kind, place] = True
        run = queue.popleft()
        took = TURN_S if kind == "core" else APPEND_S
        worked[kind] += took
        at(now + took, kind, run)

    for run in range(runs):
        at(chance.uniform(0.0, MODEL_S), "asked", run)
    while events and events[0][0] < SIMULATED_S:
        now, _, what, run = heapq.heappop(events)
        core, base = home[run]
        match what:
            case "asked":
                since[run], left[run] = now, APPENDS
                queues["core", core].append(run)
            case "core":
                busy["core", core] = False
                queues["base", base].append(run)
            case _:
                busy["base", base] = False
                left[run] -= 1
                if left[run]:
                    queues["base", base].append(run)
                else:
                    waits.append(now - since[run])
                    at(now + chance.expovariate(1 / MODEL_S), "asked", run)
        serve("core", core, now)
        serve("base", base, now)
    waits.sort()
    late = waits[len(waits) * 99 // 100] * 1e3
    used = worked["core"] / cores / SIMULATED_S, worked["base"] / databases / SIMULATED_S
    return len(waits) / SIMULATED_S, late, *used


def comparison(is_quick: bool) -> str:
    """Return what a database carries, simulated, as the table of docs/scale.md."""
    lines = [
        f"Simulated with {TURN_S * 1e3:g} ms and {APPENDS} appends a turn:\n",
        "| runs | workers | databases | turns/s | p99 beside the model | workers busy | databases busy |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for runs, cores, databases in CASES[:1] if is_quick else CASES:
        turns, late, core, base = simulated(runs, cores, databases)
        lines.append(
            f"| {runs:,} | {cores} | {databases} | {turns:.0f} | {late:.0f} ms | {core:.0%} | {base:.0%} |"
        )
    return "\n".join(lines)
