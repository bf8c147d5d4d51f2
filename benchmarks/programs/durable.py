"""What the durable loops of other libraries share. The standard library only: each has its own environment.

A loop has three states, first, second and third. A run's state are its last messages of 200 bytes, none,
one or many; each transition appends one and drops the oldest. A program is run as
`python -m benchmarks.programs.NAME FOLDER COUNT JOURNAL MESSAGES`, warms up, makes COUNT transitions in a
run kept below FOLDER, and prints one JSON object, see `tell`. JOURNAL is what SQLite's `journal_mode` is to
be; `memory` keeps nothing, and then the time is the processor's.
"""

import argparse
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

MESSAGE_BYTES = 200
WARM_UP = 15
"""Transitions of a run nobody times: imports, schemas and caches are not what a transition costs."""


def message(number: int) -> str:
    """Return the message transition number so many carries."""
    return f"{number:08} ".ljust(MESSAGE_BYTES, "m")


def messages(number: int) -> list[str]:
    """Return so many messages, those a run begins with."""
    return [message(each) for each in range(number)]


@dataclass(frozen=True)
class Asked:
    """What a program is asked for: where, how many transitions, kept how, with how many messages."""

    folder: Path
    count: int
    journal: str
    messages: int

    @property
    def is_durable(self) -> bool:
        """Return whether each transition is to be kept."""
        return self.journal != "memory"

    def clock(self) -> float:
        """Return seconds: the clock's where a disk is waited for, else the processor's."""
        return perf_counter() if self.is_durable else process_time()


def asked() -> Asked:
    """Return what the program is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("journal", choices=("wal", "delete", "memory"))
    parser.add_argument("messages", type=int)
    told = parser.parse_args()
    return Asked(told.folder, told.count, told.journal, told.messages)


def new_database(folder: Path, journal: str) -> Path:
    """Return a database in this journal mode. WAL stays with the file, whoever opens it later."""
    path = folder / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
    return path


def size(path: Path | None) -> int:
    """Return the bytes a database takes, what still stands in its WAL included; none where there is none.

    Only for libraries that use `sqlite3` themselves: two copies of SQLite in one process drop each
    other's locks.
    """
    if path is None:
        return 0
    with closing(sqlite3.connect(path)) as connection:
        pages, each = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "page_size")
        )
    return int(pages) * int(each)


def setting(connection: sqlite3.Connection) -> str:
    """Return how this connection of the library's own commits, in words, as SQLite says."""
    mode, level = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    )
    return f"{str(mode).upper()}, {('OFF', 'NORMAL', 'FULL', 'EXTRA')[level]}"


def moved_on(kept: list[str], done: int) -> list[str]:
    """Return a state's messages after a transition: one appended, the oldest dropped; none of none."""
    return [*kept[1:], message(done)] if kept else kept


def time_loop(
    distribution: str,
    wanted: Asked,
    run: Callable[[str, int], int],
    *,
    path: Path | None,
    setting: Callable[[], str],
) -> None:
    """Print what the loop takes that `run` makes in a run of that name; it returns its transitions.

    `path` is its database, `setting` how that commits.
    """
    run("warm", WARM_UP)
    before = size(path)
    began = wanted.clock()
    done = run("timed", wanted.count)
    took = wanted.clock() - began
    grown = size(path) - before
    tell(distribution, seconds=took, count=done, grown=grown, setting=setting() if path else "")


def tell(distribution: str, *, seconds: float, count: int, grown: int, setting: str) -> None:
    """Print what was measured: seconds and bytes a transition, and how durable each one was."""
    found = {
        "version": version(distribution),
        "seconds": seconds / count,
        "bytes": grown / count,
        "setting": setting,
    }
    print(json.dumps(found))
