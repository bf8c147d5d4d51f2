"""From launching a console, and from the first Enter in it, to its first request at a model's server.

The consoles are those of `consoles`, each started in a pty with a model at a server of our own. Enter is
pressed at once when the prompt stands there, as a person who types ahead would, and in another start once
the console has rested. CPU is that of all its processes. The floor is a program that imports `httpx2` and
sends one request. After the reply the console rests, and its memory is that with a provider in use.
"""

import re
import statistics
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import perf_counter

import msgspec
from support.openai_server import OpenAIServer, Reply

from benchmarks.durable_others import install
from benchmarks.measuring import Figure, number, progress, spread
from benchmarks.processes import below, cpu_s
from benchmarks.prompts import BARE, CONSOLES, Console, memory_of
from benchmarks.terminal import HANGS_S, PROGRAMS, Terminal, fresh_home

REQUEST = "one request with httpx2 from a fresh Python"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One start: milliseconds of wall clock and of CPU, and the memory after the reply in MB (PSS)."""

    launch_ms: float
    launch_cpu_ms: float
    enter_ms: float
    enter_cpu_ms: float
    memory: float


class Row(msgspec.Struct, kw_only=True):
    """A program, what it came to when it was typed to at once and after a rest, or why it did not."""

    console: Console
    at_once: list[Sample] = []
    rested: list[Sample] = []
    trouble: str = ""


FLOOR = Console(
    name=REQUEST,
    argv=lambda home: [sys.executable, PROGRAMS / "bare_request.py"],
    prompt="›".encode(),
)


def sampled(console: Console, *, rest_s: float, after_s: float) -> Sample:
    """Start a console, ask something once its prompt stands there, and return what that took.

    It rests for `rest_s` before it is asked, and for `after_s` before its memory is looked at.
    """
    with fresh_home() as folder, OpenAIServer(default=Reply(text="hello")) as server:
        home = Path(folder)
        at_server = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "bench",
            "MIDSTREAM_MODEL": "openai:bench",
        }
        env = console.env(home, at_server)
        for is_measured in (False, True):
            # What is made once, such as a database or compiled files, is not what is measured.
            with Terminal(console.argv(home), home, env) as terminal:
                sample = _asked(terminal, console, server, rest_s, after_s)
            if is_measured:
                return sample
    raise AssertionError


def _asked(
    terminal: Terminal, console: Console, server: OpenAIServer, rest_s: float, after_s: float
) -> Sample:
    before, pid = len(server.exchanges), terminal.process.pid
    prompt = re.compile(console.prompt, re.DOTALL)
    terminal.until(lambda found: prompt.search(found) is not None)
    if rest_s:
        terminal.rest(rest_s)
    cpu = cpu_ms(pid)
    enter = terminal.type("go\r")
    while len(server.exchanges) == before:
        terminal.read(0.001)
        if perf_counter() > enter + HANGS_S:
            raise TimeoutError(f"no request came; the program wrote: {terminal.words()[-500:]}")
    asked, asked_cpu = perf_counter(), cpu_ms(pid)
    terminal.rest(after_s)
    memory = memory_of(pid)
    return Sample(
        launch_ms=(asked - terminal.began) * 1e3,
        launch_cpu_ms=asked_cpu,
        enter_ms=(asked - enter) * 1e3,
        enter_cpu_ms=asked_cpu - cpu,
        memory=0.0 if memory is None else memory[0],
    )


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process and all below it, in steps of mostly 10 ms."""
    return cpu_s(below(pid)) * 1e3


@cache
def compare(is_quick: bool) -> tuple[Row, ...]:
    """Return a row for each program; measured once a process. A quick round installs nothing."""
    rows = [Row(console=FLOOR)]
    for console in CONSOLES:
        if console.name != BARE:
            trouble = "" if console.other is None else install(console.other, may_make=not is_quick)
            rows.append(Row(console=console, trouble=trouble))
    rounds = 1 if is_quick else 5
    for number_ in range(rounds):
        progress(f"    round {number_ + 1} of {rounds}")
        for row in rows if number_ % 2 == 0 else reversed(rows):
            _one_more(row, is_quick=is_quick)
    return tuple(rows)


def _one_more(row: Row, *, is_quick: bool) -> None:
    if row.trouble:
        return
    try:
        rest_s, after_s = (0.1, 0.1) if is_quick else (2.0, 1.5)
        row.at_once.append(sampled(row.console, rest_s=0.0, after_s=after_s))
        row.rested.append(sampled(row.console, rest_s=rest_s, after_s=after_s))
    except (OSError, EOFError) as error:
        if row.console.other is None:
            raise
        row.trouble = f"failed: {str(error).strip()[:120]!r}"


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds of CPU until the first request."""
    if not Path("/proc/self/stat").exists():
        progress("first_request: left out, it reads /proc")
        return []
    floor, ours, *_ = compare(is_quick)

    def of(rows: Sequence[Sample], name: str) -> tuple[float, ...]:
        return tuple(getattr(each, name) for each in rows)

    return [
        Figure(
            name="launch to first request, CPU",
            unit="ms",
            values=of(ours.at_once, "launch_cpu_ms"),
            floor=REQUEST,
            floors=of(floor.at_once, "launch_cpu_ms"),
            aim=1_000,
            aim_on="value",
        ),
        Figure(
            name="Enter to first request, fresh process, CPU",
            unit="ms",
            values=of(ours.at_once, "enter_cpu_ms"),
            aim=300,
            aim_on="value",
        ),
        Figure(
            name="memory with a provider in use",
            unit="MB",
            values=of(ours.rested, "memory"),
            floor=REQUEST,
            floors=of(floor.rested, "memory"),
        ),
    ]


def comparison(is_quick: bool) -> str:
    """Return the consoles side by side, as a markdown table."""
    lines = [
        "| console | launch to request, ms | CPU, ms | Enter to request at once, ms | CPU, ms "
        "| Enter to request after a rest, ms | memory after the reply, MB (PSS) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in compare(is_quick):
        if row.trouble or not row.rested:
            lines.append(f"| {row.console.name} | {row.trouble} | | | | | |")
            continue
        cells = [
            row.console.name,
            spread([each.launch_ms for each in row.at_once]),
            spread([each.launch_cpu_ms for each in row.at_once]),
            spread([each.enter_ms for each in row.at_once]),
            spread([each.enter_cpu_ms for each in row.at_once]),
            spread([each.enter_ms for each in row.rested]),
            number(statistics.median(each.memory for each in row.rested)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
