"""The same three states in other libraries, each transition kept on disk, or none: `midstream` among them.

Every library has an environment of its own below `.bench/`, made once from pinned versions; where one
cannot be made, its row says so. One round runs each program in a process of its own, its floor before and
after it: raw SQLite commits of 200 bytes, or, in memory, states that are tasks and nothing more. All stores
lie on the disk that holds this checkout: a temporary folder may be memory, where nothing waits for a disk.

Every library is taken at its best: SQLite in WAL mode with `synchronous=FULL`, as the raw commit, and its
synchronous door where it has one. Where its own default is another journal mode, a row of its own tells.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from benchmarks.durable_transitions import CACHE, raw_commits, stores
from benchmarks.measuring import Figure, number, on_a_loop, progress, spread
from benchmarks.programs.durable import message
from benchmarks.transitions import FLOOR, MANY, floor

ROOT = Path(__file__).parents[1]
INSTALLING_S, RUNNING_S = 600, 300
RAW = "one raw SQLite commit of the message (WAL, FULL)"


Journal: TypeAlias = Literal["wal", "delete", "memory"]


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A library's loop: the module in `benchmarks.programs` that runs it, and what that needs.

    No `requirements`: it runs in the environment of the benchmarks. `journal` is SQLite's journal mode.
    """

    name: str
    program: str
    requirements: tuple[str, ...] = ()
    journal: Journal = "wal"
    messages: int = 1
    remark: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a program measured: seconds and bytes of one transition. See `programs.durable.tell`."""

    version: str
    seconds: float
    bytes: float
    setting: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A library in the table: what it told in each round, and its floor's seconds beside it.

    With a `trouble`, such as that it is not installed, nothing was measured.
    """

    other: Other
    told: tuple[Told, ...] = ()
    floors: tuple[float, ...] = ()
    trouble: str = ""


LANGGRAPH = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2")
BURR = ("apache-burr==0.43.0",)
DBOS = ("dbos==3.4.0",)

OTHERS = (
    Other(name="midstream", program="durable_midstream", remark="every fact before what follows"),
    Other(
        name="langgraph",
        program="durable_langgraph",
        requirements=LANGGRAPH,
        remark="its SqliteSaver, durability sync",
    ),
    Other(
        name="apache-burr",
        program="durable_burr",
        requirements=BURR,
        remark="its SQLitePersister; WAL set for it",
    ),
    Other(
        name="apache-burr, as it comes",
        program="durable_burr",
        requirements=BURR,
        journal="delete",
        remark="its SQLitePersister",
    ),
    Other(
        name="dbos",
        program="durable_dbos",
        requirements=DBOS,
        remark="a step for each state; WAL set for it",
    ),
    Other(
        name="dbos, as it comes",
        program="durable_dbos",
        requirements=DBOS,
        journal="delete",
        remark="a step for each state",
    ),
    Other(
        name="pydantic-graph",
        program="durable_pydantic_graph",
        requirements=("pydantic-graph==2.68.0",),
        remark="keeps nothing itself: a row written by hand",
    ),
    Other(
        name="pydantic-graph 1",
        program="durable_pydantic_graph_file",
        requirements=("pydantic-graph==1.107.10",),
        remark="its FileStatePersistence, no SQLite: the whole file anew, never synced",
    ),
)


def _with(held: int, words: str, journal: Journal = "wal") -> tuple[Other, ...]:
    """Return those whose state is up to us, so many messages in it, kept like this."""
    return tuple(
        msgspec.structs.replace(
            other, name=f"{other.name}, {words}", messages=held, journal=journal, remark=""
        )
        for other in OTHERS
        if other.journal == "wal" and other.requirements != DBOS
    )


EVERY = (
    *OTHERS,
    *_with(MANY, f"{MANY} messages"),
    *_with(0, "an empty state, in memory", "memory"),
    *_with(MANY, f"{MANY} messages, in memory", "memory"),
)
"""In memory nothing is kept, and the time is the processor's."""


# --- environments -----------------------------------------------------------------------------


def python_of(other: Other) -> Path:
    """Return the interpreter of a library's environment, be it there or not."""
    if not other.requirements:
        return Path(sys.executable)
    inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return CACHE.joinpath(other.program.removeprefix("durable_"), *inside)


def install(other: Other, *, may_make: bool) -> str:
    """Return why a library cannot be run, "" if it can. Its environment is made, unless it is there.

    A file in it holds what it was made from, written last: after a break or with other versions it is
    made anew.
    """
    if not other.requirements:
        return ""
    folder = python_of(other).parents[1]
    made_from, wanted = folder / "made-from.txt", "\n".join(other.requirements)
    if made_from.exists() and made_from.read_text(encoding="utf-8") == wanted:
        return ""
    if not may_make:
        return "not installed"
    progress(f"    installing {' '.join(other.requirements)} (once)")
    pip = [str(python_of(other)), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--retries=1", "--timeout=10", *other.requirements]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        try:
            _run(command, INSTALLING_S)
        except (OSError, subprocess.SubprocessError) as error:
            return f"not installed: {_last_line(error)}"
    made_from.write_text(wanted, encoding="utf-8")
    return ""


def _run(command: Sequence[str], timeout_s: float, home: str | None = None) -> str:
    """Return what a program writes to stdout."""
    ended = subprocess.run(
        command,
        env=environment(home),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=True,
    )
    return ended.stdout


def environment(home: str | None = None) -> dict[str, str]:
    """Return the variables a library's program has: nothing of our own environment, no tracing."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env["LANGSMITH_TRACING"] = "false"
    return env if home is None else env | {"HOME": home}


def _last_line(error: Exception) -> str:
    """Return the line of a failed program that says most: the last one it wrote."""
    words = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return (words or str(error)).strip().splitlines()[-1][:120]


# --- measuring --------------------------------------------------------------------------------


def told_by(other: Other, count: int) -> Told:
    """Return what a library's program measured, in a process and a store of its own."""
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        command = [str(python_of(other)), "-m", f"benchmarks.programs.{other.program}"]
        command += [folder, str(count), other.journal, str(other.messages)]
        return msgspec.json.decode(_run(command, RUNNING_S, home=folder), type=Told)


def bare(other: Other, count: int) -> float:
    """Return the seconds of a raw commit; in memory, of a state that is a task and nothing more."""
    if other.journal == "memory":
        return on_a_loop(lambda: floor(count))
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        return raw_commits(Path(folder) / "raw.db", message(0).encode(), count) / count


@cache
def compare(is_quick: bool, others: tuple[Other, ...] = EVERY) -> tuple[Row, ...]:
    """Return a row for each library; measured once a process, however often it is asked for.

    A quick round installs nothing: it takes what is there.
    """
    count, rounds = (15, 1) if is_quick else (200, 7)
    rows = []
    for other in others:
        trouble = install(other, may_make=not is_quick)
        rows.append(Row(other=other, trouble=trouble))
    for round_number in range(rounds):
        progress(f"    round {round_number + 1} of {rounds}")
        indices = range(len(rows))
        for index in indices if round_number % 2 == 0 else reversed(indices):
            if not rows[index].trouble:
                rows[index] = _one_more(rows[index], count)
    return tuple(rows)


def _one_more(row: Row, count: int) -> Row:
    """Return the row with one more round, half of its floor before it and half after."""
    if row.other.journal == "memory":
        count *= 10
    before = bare(row.other, count)
    try:
        told = told_by(row.other, count)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        return Row(other=row.other, trouble=f"failed: {_last_line(error)}")
    beside = (before + bare(row.other, count)) / 2
    return msgspec.structs.replace(row, told=(*row.told, told), floors=(*row.floors, beside))


def comparison(is_quick: bool) -> str:
    """Return a durable transition in other libraries as a markdown table."""
    lines = [
        "| library | version | µs a transition | floor, µs | ratio | bytes a transition | kept how |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in compare(is_quick):
        if not row.told:
            lines.append(f"| {row.other.name} | {row.trouble} | | | | | |")
            continue
        figure = figure_of(row)
        size = statistics.median(each.bytes for each in row.told)
        kept = "; ".join(filter(None, (row.told[0].setting, row.other.remark)))
        lines.append(
            f"| {row.other.name} | {row.told[0].version} | {spread(figure.values)} "
            f"| {spread(figure.floors)} | {spread(figure.ratios)}× | {number(size)} | {kept} |"
        )
    return "\n".join(lines)


def figure_of(row: Row) -> Figure:
    """Return a measured row as a figure, in microseconds a transition."""
    told, is_durable = row.told[0], row.other.journal != "memory"
    return Figure(
        name=f"context: a {'durable ' if is_durable else ''}transition in {row.other.name}",
        unit="µs",
        values=tuple(each.seconds * 1e6 for each in row.told),
        floor=RAW if is_durable else FLOOR,
        floors=tuple(each * 1e6 for each in row.floors),
        note=f"{told.version}, {told.bytes:.0f} bytes a transition, {told.setting}",
    )


def measure(is_quick: bool) -> list[Figure]:
    """Return microseconds a transition of each library there is. `comparison` shows them all."""
    return [figure_of(row) for row in compare(is_quick) if row.told]
