"""What the tests of the SQLite store share."""

import asyncio
import contextlib
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
from deadline import DEADLINE_S

from midstream.language.errors import MidstreamError
from midstream.runtime.storage import KeptRun, walk
from midstream.store.sqlite import SqliteStore

GOLDEN = Path(__file__).parents[1] / "journals"
"""Of each format what was released: a journal as SQL, and a run as it was exported."""


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    """Give a store in a file, with a deadline on all that is done with it."""
    async with asyncio.timeout(DEADLINE_S):
        store = SqliteStore.opened(path)
        try:
            yield store
        finally:
            await store.aclose()


async def every(store: SqliteStore) -> list[KeptRun]:
    """Return all runs, in the order of their ids."""
    return sorted([kept async for kept in walk(store)], key=lambda kept: kept.id)


def edit(path: Path, sql: str, *bindings: Any) -> list[tuple[Any, ...]]:
    """Change a journal behind the store's back."""
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql, bindings).fetchall()
    finally:
        connection.close()


def refusal(opening: Callable[[], object]) -> MidstreamError:
    """Return the error that something ends with."""
    try:
        opening()
    except MidstreamError as error:
        return error
    raise AssertionError("it went well")


async def child(script: str, *arguments: object) -> asyncio.subprocess.Process:
    """Return another Python process that runs a script: `path` and `arguments` are there for it.

    It waits for the others' locks as long as it takes.
    """
    prelude = f"""
        import asyncio, sys
        from pathlib import Path
        from midstream.store import schema
        schema.BUSY_MS = {1_000 * DEADLINE_S}
        from midstream.store.sqlite import SqliteStore
        from midstream.runtime.storage import Mail
        from midstream.testing.contracts import fact, facts
        path, arguments = Path(sys.argv[1]), sys.argv[2:]
    """
    text = textwrap.dedent(prelude) + textwrap.dedent(script)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        text,
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def line_of(process: asyncio.subprocess.Process) -> str:
    """Return the next line a child prints."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def golden(path: Path, format: int = 1) -> None:
    """Make the journal of a format."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute((GOLDEN / str(format) / "journal.sql").read_text(encoding="utf-8"))
    finally:
        connection.close()
