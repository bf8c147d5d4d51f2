"""Processes beside ours: programs of the benchmarks, a model's server, and what they come to.

What they come to is as the /proc of Linux has it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from support.model_server import Reply

ROOT = Path(__file__).parents[1]


def begun(name: str, *words: str | Path, **env: str) -> "subprocess.Popen[str]":
    """Return a program of `benchmarks.programs`, which is talked to in lines."""
    return subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.programs.{name}", *words],
        cwd=ROOT,
        env=os.environ | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def program(name: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Give a program of ours that ends with its stdin."""
    with begun(name, *words) as process:
        yield process
        process.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    """Return the next line a program writes."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def model_server(script: Sequence[Reply]) -> Iterator[str]:
    """Give the address of a model's server in a process of its own, which gives these replies in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.json"
        path.write_bytes(msgspec.json.encode(script))
        command = [sys.executable, "-m", "support.openai_server", "--script", str(path)]
        with subprocess.Popen(
            command, cwd=ROOT / "tests", stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                yield line_of(server)
            finally:
                server.terminate()


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
