"""What processes come to, and what runs: as the /proc of Linux has it."""

import contextlib
import os
import signal
from pathlib import Path


def below(pid: int) -> set[int]:
    """Return a process and all below it."""
    pids = [pid]
    for one in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                pids += [int(each) for each in (task / "children").read_text("ascii").split()]
    return set(pids)


def kill(pids: set[int]) -> None:
    """End processes at once, as a crash would."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def cpu_s(pids: set[int]) -> float:
    """Return the CPU time of some processes, and of what they started that has ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = (
                Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            )
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(pids: set[int]) -> tuple[float, float]:
    """Return what some processes hold in memory, in MB: their shares (PSS), and all they see (RSS)."""
    pss = rss = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
                name, _, rest = line.partition(":")
                if name in ("Pss", "Rss"):
                    amount = int(rest.split()[0]) / 1024
                    pss, rss = (pss + amount, rss) if name == "Pss" else (pss, rss + amount)
    return pss, rss


def same_program(pids: set[int], known: set[int]) -> set[int]:
    """Return those that run a program of the same name as a known one: a server that was begun late."""
    programs = {_program(pid) for pid in known} - {""}
    return {pid for pid in pids if _program(pid) in programs}


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(os.readlink(f"/proc/{pid}/exe")).name
    return ""


def running(words: str) -> set[int]:
    """Return the processes whose command line ends so, as `sleep 31415`."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if line == words or line.endswith(f"/{words}"):
                    found.add(int(folder.name))
    return found
