"""midstream beside LangGraph, Burr and pydantic-graph: the tasks in `benchmarks.peers`, and two tables.

Each library has an environment of its own (see `durable_others`), and each step of a task a process of its
own, so that it can be killed and another one goes on. Nothing that happens is written down beforehand: what
the table says of a library is what it did. A quick round takes midstream alone.
"""

import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Final

from benchmarks.durable_others import (
    EVERY,
    OTHERS,
    ROOT,
    Journal,
    Other,
    compare,
    environment,
    figure_of,
    install,
    python_of,
)
from benchmarks.durable_transitions import stores
from benchmarks.measuring import Figure, in_turn, number
from benchmarks.peers.driver import HELD, PIECES, effects
from benchmarks.transitions import MANY

PEERS = tuple(each for each in OTHERS if each.journal == "wal" and each.name != "dbos")
PATIENCE_S, SHOWN = 60, 64
IMPORT, TASK = "the import, fresh process, CPU", "the tool's task, fresh process, CPU"
TIMED: Final[dict[tuple[Journal, int], str]] = {
    ("memory", 0): "a transition in memory, an empty state, CPU",
    ("memory", MANY): f"a transition in memory, {MANY} messages, CPU",
    ("wal", 1): "a durable transition, one message",
    ("wal", MANY): f"a durable transition, {MANY} messages",
}


def tasks_of(other: Other) -> Path:
    """Return the module with the tasks. There is none of a library that keeps nothing."""
    return ROOT / "benchmarks" / "peers" / f"{other.program.removeprefix('durable_')}.py"


def has_tasks(other: Other) -> bool:
    """Return whether the tasks are written with a library."""
    return tasks_of(other).exists()


@cache
def left_out(is_quick: bool) -> dict[Other, str]:
    """Return each library and why it is left out, "" if it is not."""
    if is_quick:
        others = [each for each in PEERS if each.requirements]
        return {PEERS[0]: ""} | dict.fromkeys(others, "a quick round takes midstream alone")
    return {each: install(each, may_make=True) for each in PEERS}


def there(is_quick: bool) -> list[Other]:
    """Return the libraries that are there."""
    return [each for each, why in left_out(is_quick).items() if not why]


# --- one step, in a process ---------------------------------------------------------------------


def python(other: Other, *words: str, home: Path | None = None) -> subprocess.Popen[str]:
    """Return a library's Python at work, by itself."""
    return subprocess.Popen(
        [str(python_of(other)), "-W", "ignore", *words],
        env=environment(None if home is None else str(home)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def begun(other: Other, folder: Path, what: str, *words: str) -> subprocess.Popen[str]:
    """Return a library's function at work."""
    command = ("-m", "benchmarks.peers.driver", tasks_of(other).stem, what, str(folder), *words)
    return python(other, *command, home=folder)


def ended(process: subprocess.Popen[str]) -> str:
    """Return what it returned or raised."""
    try:
        text = process.communicate(timeout=PATIENCE_S)[0].strip()
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        text = f"nothing within {PATIENCE_S} s"
    text = text.replace("`", "'").replace("|", "/")  # what would break a table
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def until_in_tool(process: subprocess.Popen[str], folder: Path) -> None:
    """Return once the tool had its effect, or the process has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while not effects(folder) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


# --- what happens: each is given a library and an empty folder -------------------------------------


def with_effects(folder: Path, told: str) -> str:
    """Return what was told, and what the tool did."""
    return f"{told}; **effect {len(effects(folder))}×** ({', '.join(effects(folder))})"


def halted_reply(other: Other, folder: Path) -> str:
    """Return whether what had come of a reply before a halt is in the files of the run."""
    ended(begun(other, folder, "halt_loop"))
    words = "".join(PIECES[:2]).strip().encode()
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "kept" if any(words in path.read_bytes() for path in files) else "lost"


def halted_tool(other: Other, folder: Path) -> str:
    """Return what going on does after a halt in the middle of a tool."""
    (folder / HELD).touch()
    ended(begun(other, folder, "halt_act"))
    (folder / HELD).unlink()
    return with_effects(folder, ended(begun(other, folder, "go_on")))


def crashed_tool(other: Other, folder: Path) -> str:
    """Return what going on does after a crash in the middle of a tool."""
    (folder / HELD).touch()
    process = begun(other, folder, "act")
    until_in_tool(process, folder)
    process.kill()
    process.communicate()
    (folder / HELD).unlink()
    return with_effects(folder, ended(begun(other, folder, "go_on")))


def answered_twice(other: Other, folder: Path) -> str:
    """Return what a second answer does once the first has been worked off."""
    asked = ended(begun(other, folder, "ask"))
    ended(begun(other, folder, "answer", asked, "red"))
    return with_effects(folder, ended(begun(other, folder, "answer", asked, "blue")))


def answered_at_once(other: Other, folder: Path) -> str:
    """Return what a second answer does while another process works on the first."""
    asked = ended(begun(other, folder, "ask"))
    (folder / HELD).touch()
    first = begun(other, folder, "answer", asked, "red")
    until_in_tool(first, folder)
    second = ended(begun(other, folder, "answer", asked, "blue"))
    (folder / HELD).unlink()
    return with_effects(folder, f"{second}; the first: {ended(first)}")


HAPPENS: Final[dict[str, Callable[[Other, Path], str]]] = {
    "a writer and a critic: the last draft": lambda other, folder: ended(
        begun(other, folder, "loop")
    ),
    "a halt in the middle of a reply: its text": halted_reply,
    "a halt in the middle of a tool, then going on": halted_tool,
    "`kill -9` in the middle of a tool, then going on": crashed_tool,
    "a second answer, once the run has ended": answered_twice,
    "a second answer, while another process works on the first": answered_at_once,
}


@contextmanager
def place() -> Iterator[Path]:
    """Give a folder for one run, gone afterwards."""
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        yield Path(folder)


def observed(happens: Callable[[Other, Path], str], other: Other) -> str:
    """Return what happens with a library."""
    if not has_tasks(other):
        return ""
    with place() as folder:
        return happens(other, folder)


# --- what it costs --------------------------------------------------------------------------------


def lines(other: Other) -> str:
    """Return the lines of code all tasks share, and those of each; no blank ones, no docstrings."""
    if not has_tasks(other):
        return ""
    parts = re.split(r"^# --- .*\n", tasks_of(other).read_text(encoding="utf-8"), flags=re.M)
    counts = [
        sum(not line.strip().startswith(("#", '"""')) for line in part.splitlines() if line.strip())
        for part in parts[:4]
    ]
    return f"{sum(counts)} = {' + '.join(map(str, counts))}"


def cpu_ms(begin: Callable[[], subprocess.Popen[str]]) -> float:
    """Return the milliseconds of CPU a process uses until it has ended."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended(begin())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def task_ms(other: Other) -> float:
    """Return the milliseconds of CPU the tool's task takes."""
    with place() as folder:
        return cpu_ms(lambda: begun(other, folder, "act"))


@cache
def costs(is_quick: bool) -> dict[tuple[str, Other], Figure]:
    """Return what it takes to import each library, and to do the tool's task with it."""
    found = {}
    for other in filter(has_tasks, there(is_quick)):
        module = f"benchmarks.peers.{tasks_of(other).stem}"
        task_ms(other)  # compiles it
        *own, bare = in_turn(
            1 if is_quick else 9,
            partial(cpu_ms, partial(python, other, "-c", f"import {module}")),
            partial(task_ms, other),
            partial(cpu_ms, partial(python, other, "-c", "pass")),
        )
        for what, values in zip((IMPORT, TASK), own, strict=True):
            found[what, other] = Figure(
                name=f"context: {what}, {other.name}",
                unit="ms",
                values=values,
                floor="the same Python, importing nothing",
                floors=bare,
            )
    return found


def measure(is_quick: bool) -> list[Figure]:
    """Return what `costs` does. `comparison` shows the rest, too."""
    return list(costs(is_quick).values())


def cell(figure: Figure | None) -> str:
    """Return the medians of a figure: its value, and how many times its floor."""
    if figure is None:
        return ""
    value, ratio = statistics.median(figure.values), statistics.median(figure.ratios)
    return f"{number(value)} {figure.unit}, {number(ratio)}×"


# --- the table ------------------------------------------------------------------------------------


def comparison(is_quick: bool) -> str:
    """Return one table, a column for each library and a row for each fact; then who is left out."""
    others = there(is_quick)
    rows = compare(is_quick, tuple(each for each in EVERY if not (is_quick and each.requirements)))
    told = {(row.other.journal, row.other.messages, row.other.program): row for row in rows}
    cells = {"lines = shared + loop + question + tool": [lines(each) for each in others]}
    with ThreadPoolExecutor(2) as pool:
        doing = {
            name: [pool.submit(observed, happens, each) for each in others]
            for name, happens in HAPPENS.items()
            # A tool that does not listen has six seconds to end: too long for a quick round.
            if not (is_quick and happens is halted_tool)
        }
    cells |= {name: [each.result() for each in done] for name, done in doing.items()}
    for what in (IMPORT, TASK):
        cells[what] = [cell(costs(is_quick).get((what, each))) for each in others]
    for (journal, held), name in TIMED.items():
        found = [told[journal, held, each.program] for each in others]
        cells[name] = [cell(figure_of(row)) if row.told else row.trouble for row in found]
    versions = [told["wal", 1, each.program].told for each in others]
    names = [
        f"{each.name.partition(' ')[0]} {known[0].version if known else ''}"
        for each, known in zip(others, versions, strict=True)
    ]
    return "\n".join(
        [
            f"| | {' | '.join(names)} |",
            "| --- |" + " --- |" * len(others),
            *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items()),
            *(f"\n{each.name}: {why}" for each, why in left_out(is_quick).items() if why),
        ]
    )
