"""What a folder with many runs costs whoever looks at it: fresh processes, as a person starts them.

The runs are workflows that were left. The console is timed until it has told of the last of them, `/runs`
from Enter on. Beside each stands the same in a folder of a few runs; beside a page of the store, in this
process, a query that a table with such an index answers.
"""

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import perf_counter

import apsw
import msgspec
from support.store_contracts import started

from benchmarks.measuring import Figure, in_turn
from benchmarks.terminal import Terminal, fresh_home, midstream
from midstream.runtime.storage import PAGE
from midstream.store.sqlite import SqliteStore
from midstream.views.listing import Summary

FEW = 2 * PAGE
OLDER = "older ones"
"""The end of what the console tells."""

TOGETHER = 500


def measure(is_quick: bool) -> list[Figure]:
    """Return the milliseconds it takes to look at many runs."""
    rounds, runs = (1, FEW + 1) if is_quick else (9, 10_000)
    with fresh_home() as little, fresh_home() as crowded:
        few, many = Path(little).resolve(), Path(crowded).resolve()
        for home, count in ((few, FEW), (many, runs)):
            asyncio.run(_fill(home, count))
        with closing(_table(many)) as table:
            values = in_turn(
                rounds,
                *(_of(look, home) for look in (_runs, _start, _lines) for home in (many, few)),
                lambda: _page(many),
                lambda: _query(table),
            )
    beside, page = (
        f"the same in a folder of {FEW}",
        "the same rows by a bare indexed query, decoded",
    )
    looks = (f"`midstream runs` among {runs:,}", "start among them, until told", "/runs among them")
    return [
        *(
            Figure(name=name, unit="ms", values=ours, floor=beside, floors=floor)
            for name, ours, floor in zip(looks, values[0:6:2], values[1:6:2], strict=True)
        ),
        Figure(
            name=f"the newest {PAGE} of {runs:,} runs",
            unit="ms",
            values=values[6],
            floor=page,
            floors=values[7],
        ),
    ]


def _of(look: Callable[[Path], float], home: Path) -> Callable[[], float]:
    return lambda: look(home)


async def _fill(home: Path, runs: int) -> None:
    path = _journal(home)
    path.parent.mkdir(parents=True)
    store = SqliteStore.opened(path)
    for start in range(0, runs, TOGETHER):
        async with asyncio.TaskGroup() as group:
            for number in range(start, min(start + TOGETHER, runs)):
                id = f"r{number}"
                group.create_task(store.append(id, 0, started(id, workspace=str(home))))
    await store.aclose()


def _journal(home: Path) -> Path:
    return home / ".local/state/midstream/journal.db"


def _runs(home: Path) -> float:
    began = perf_counter()
    env = {"HOME": str(home), "PATH": "", "LANG": "C.UTF-8"}
    told = subprocess.run(
        [*midstream(), "runs"], cwd=home, env=env, capture_output=True, check=True, text=True
    )
    took = (perf_counter() - began) * 1e3
    assert len(told.stdout.splitlines()) == PAGE + 1
    return took


def _start(home: Path) -> float:
    with Terminal([*midstream(), "--model", "offline"], home) as terminal:
        return (terminal.until_text(OLDER) - terminal.began) * 1e3


def _lines(home: Path) -> float:
    with Terminal([*midstream(), "--model", "offline"], home) as terminal:
        terminal.until_text(OLDER)
        terminal.rest()
        terminal.type("/runs")
        terminal.rest()
        began = terminal.type("\r")
        return (terminal.until_text(OLDER) - began) * 1e3


def _page(home: Path) -> float:
    async def once() -> float:
        store = SqliteStore.opened(_journal(home))
        await store.listing(workspace=str(home))  # once for the file's sake
        began = perf_counter()
        page = await store.listing(workspace=str(home))
        took = (perf_counter() - began) * 1e3
        await store.aclose()
        assert len(page) == PAGE
        return took

    return asyncio.run(once())


def _table(home: Path) -> apsw.Connection:
    """Return a table of the same lines with the index that the page wants, in memory."""
    table = apsw.Connection(":memory:")
    table.execute("create table lines(at real, id text, line blob)")
    with closing(apsw.Connection(str(_journal(home)))) as journal, table:
        rows = journal.execute("select summary ->> '$.updated_at', id, summary from runs")
        table.executemany("insert into lines values(?,?,?)", rows)
    table.execute("create index newest on lines(at, id)")
    return table


def _query(table: apsw.Connection) -> float:
    began = perf_counter()
    rows = table.execute("select line from lines order by at desc, id desc limit ?", (PAGE,))
    page = [msgspec.json.decode(line, type=Summary) for (line,) in rows]
    took = (perf_counter() - began) * 1e3
    assert len(page) == PAGE
    return took
