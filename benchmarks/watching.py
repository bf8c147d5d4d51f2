"""From a piece of text on the screen of the process that runs a run, to a watcher in another process.

A real server streams 200 tokens a second to the owner; the watchers read `RunHandle.events`. The floor
of the time is a datagram over a Unix socket between two processes; that of the CPU is the owner of the same
run with nobody watching.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from support.model_server import Reply

from benchmarks.durable_transitions import stores
from benchmarks.measuring import Figure, percentile
from benchmarks.processes import begun, line_of, model_server

RATE = 200
WATCHERS = 20
FLOOR = "a datagram over a Unix socket"
ECHO = """
import socket, sys, time
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind(sys.argv[1])
print(flush=True)
while sent := heard.recv(64):
    print(time.monotonic_ns() - int(sent), flush=True)
"""


def streamed(watchers: int, tokens: int) -> tuple[float, list[float]]:
    """Return the owner's seconds of CPU, and how many ms each piece took to each watcher."""
    pieces = tuple(f"{number:03d} " for number in range(tokens))
    script = [Reply(chunks=pieces, delay_s=1 / RATE)]
    with model_server(script) as url, tempfile.TemporaryDirectory(dir=stores()) as folder:
        work = Path(folder) / "work"
        work.mkdir()
        journal = str(Path(folder) / "journal.db")
        owner = begun(
            "streaming_owner", journal, str(work), OPENAI_BASE_URL=url, OPENAI_API_KEY="sk-none"
        )
        run = line_of(owner)
        watching = [begun("watcher", journal, str(work), run) for _ in range(watchers)]
        for each in watching:
            assert line_of(each) == "ready"
        time.sleep(0.5)  # they have joined: what is measured is streaming
        assert owner.stdin is not None
        print(file=owner.stdin, flush=True)
        used, *shown = line_of(owner).split()
        there = list(_added_up(shown))
        late: list[float] = []
        for each in watching:
            for at, chars in _added_up(line_of(each).split()):
                # A piece here may be several there: the last of them is what it waited for.
                late.append((at - next(then for then, upto in there if upto >= chars)) / 1e6)
            each.communicate()
        owner.communicate("\n")
        return float(used), late


def _added_up(pieces: list[str]) -> Iterator[tuple[int, int]]:
    """Yield when each piece came, and how many characters there were by then."""
    upto = 0
    for piece in pieces:
        at, chars = map(int, piece.split(":"))
        upto += chars
        yield at, upto


def bare(count: int) -> list[float]:
    """Return milliseconds of a datagram from one process to another."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "echo")
        with (
            subprocess.Popen(
                [sys.executable, "-c", ECHO, address], stdout=subprocess.PIPE, text=True
            ) as other,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire,
        ):
            line_of(other)
            samples = []
            for _ in range(count):
                time.sleep(1 / RATE)
                wire.sendto(str(time.monotonic_ns()).encode(), address)
                samples.append(int(line_of(other)) / 1e6)
            other.terminate()
        return samples


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds from the owner to a watcher, and what watchers cost the owner."""
    tokens, rounds, crowd = (20, 1, 2) if is_quick else (1_000, 3, WATCHERS)
    floors, one, crowded, unwatched = [], [], [], []
    for _ in range(rounds):
        floors.append(bare(tokens))
        one.append(streamed(1, tokens)[1])
        unwatched.append(streamed(0, tokens)[0])
        crowded.append(streamed(crowd, tokens)[0])

    def figure(percent: float, aim: float | None = None) -> Figure:
        return Figure(
            name=f"a piece of text, from its owner to a watcher elsewhere, p{percent:.0f}",
            unit="ms",
            values=tuple(max(percentile(samples, percent), 0.0) for samples in one),
            floor=FLOOR,
            floors=tuple(percentile(samples, percent) for samples in floors),
            aim=aim,
            aim_on="value",
        )

    cost = Figure(
        name=f"the owner's CPU while {WATCHERS} watch a run that streams {RATE} tokens/s",
        unit="s",
        values=tuple(crowded),
        floor="nobody watches",
        floors=tuple(unwatched),
        aim=1.3,
    )
    return [figure(50), figure(99, 20), cost]
