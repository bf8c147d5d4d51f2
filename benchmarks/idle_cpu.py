"""CPU of a console that waits: a real one, its workflow parked at a question.

Both processes wait through the same seconds. The floor is a bare prompt of prompt_toolkit.
"""

import os
from pathlib import Path
from time import perf_counter

from benchmarks.measuring import Figure, progress
from benchmarks.terminal import Terminal, bare_prompt, fresh_home, midstream


class Used:
    """What CPU time a process has used, told in two ways that each miss something."""

    def __init__(self, pid: int) -> None:
        self.when = perf_counter()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        # In ticks of mostly 10 ms; counts threads that have ended.
        self._coarse = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        told = [task / "schedstat" for task in Path(f"/proc/{pid}/task").iterdir()]
        # To the nanosecond, where the kernel keeps it; counts living threads only.
        self._fine = sum(
            int(path.read_text(encoding="ascii").split()[0]) / 1e9 for path in told if path.exists()
        )

    def percent_since(self, before: "Used") -> float:
        """Return the CPU time since then in per cent of one core; of the two ways the greater."""
        used = max(self._coarse - before._coarse, self._fine - before._fine)
        return used / (self.when - before.when) * 100


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
                before = Used(ours.process.pid), Used(floor.process.pid)
                wait(ours, floor, seconds)
                own.append(Used(ours.process.pid).percent_since(before[0]))
                bare.append(Used(floor.process.pid).percent_since(before[1]))
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
