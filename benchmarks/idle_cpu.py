"""CPU of a console that waits: a real one, its workflow parked at a question.

Both processes wait through the same seconds. The floor is a bare prompt of prompt_toolkit.
"""

import os
from pathlib import Path
from time import perf_counter

from benchmarks.measuring import Figure, alone, progress
from benchmarks.terminal import Terminal, bare_prompt, fresh_home, midstream


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used, all its threads, to the nanosecond where Linux says."""
    tasks = Path(f"/proc/{pid}/task")
    told = [path / "schedstat" for path in tasks.iterdir()]
    if all(path.exists() for path in told):
        return sum(int(path.read_text(encoding="ascii").split()[0]) for path in told) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(is_quick: bool) -> list[Figure]:
    """Return per cent of one core."""
    if not Path("/proc/self/stat").exists():
        progress("idle_cpu: left out, it reads /proc")
        return []
    seconds, rounds = (1.0, 1) if is_quick else (20.0, 3)
    own: list[float] = []
    bare: list[float] = []
    with fresh_home() as folder:
        home = Path(folder)
        parked = [*midstream(), "--mode", "workflow:code_architecture_review", "--model", "offline"]
        with Terminal(parked, home) as ours, Terminal(bare_prompt(home), home) as floor:
            floor.until_text("›")
            ours.until_text("answers #1")
            floor.rest(0.5)
            ours.rest(0.5 if is_quick else 3)
            for _ in range(rounds):
                began, first, second = (
                    perf_counter(),
                    cpu_seconds(ours.process.pid),
                    cpu_seconds(floor.process.pid),
                )
                wait(ours, floor, seconds)
                lasted = perf_counter() - began
                own.append((cpu_seconds(ours.process.pid) - first) / lasted * 100)
                bare.append((cpu_seconds(floor.process.pid) - second) / lasted * 100)
    return [
        Figure(
            name=f"CPU of a waiting console, over {seconds:g} s",
            unit="%",
            values=tuple(own),
            floor="a bare prompt_toolkit prompt that waits",
            floors=tuple(bare),
            aim=0.2,
            aim_on="value",
        )
    ]


def wait(one: Terminal, other: Terminal, seconds: float) -> None:
    """Let the time pass, reading both, each half of a time slice."""
    until = perf_counter() + seconds
    while perf_counter() < until:
        one.read(min(0.1, seconds / 10))
        other.read(min(0.1, seconds / 10))


if __name__ == "__main__":
    alone(measure)
