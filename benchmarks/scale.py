"""How many machines a database carries, and what comes past it: a simulation of what waits for what.

A run alternates: it waits for its model, then the core of its worker works at the turn, then its facts are
appended, one append after the other. A database appends for one run at a time, at the rate measured for
group commits. Runs are spread over databases by chance, as by a hash of their ids. `python -m
benchmarks.scale` prints the table of docs/scale.md. It measures nothing: see there for its inputs.
"""

import heapq
import random
from collections import deque
from itertools import count

MODEL_S = 2.0
"""Mean seconds that a turn waits for its model."""

TURN_S = 0.010
"""CPU of a worker for a turn: its reply streamed, its tools called, its facts made. Assumed, generously."""

APPENDS = 5
"""Appends of a turn."""

APPEND_S = 1 / 3_500
"""Seconds of the database for each append of a group. Measured: 32 runs at once."""

SIMULATED_S = 60.0
CASES = (
    (160, 1, 1),
    (640, 4, 1),
    (1_280, 8, 1),
    (2_560, 16, 1),
    (2_560, 16, 2),
    (2_560, 16, 4),
    (5_120, 32, 4),
    (5_120, 32, 8),
)
"""Runs, workers' cores, databases."""


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


def main() -> None:
    """Print the table."""
    print(
        "| runs | workers | databases | turns/s | p99 beside the model | workers busy | databases busy |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for runs, cores, databases in CASES:
        turns, late, core, base = simulated(runs, cores, databases)
        print(
            f"| {runs:,} | {cores} | {databases} | {turns:.0f} | {late:.0f} ms | {core:.0%} | {base:.0%} |"
        )


if __name__ == "__main__":
    main()
