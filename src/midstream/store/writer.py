"""What the threads of the SQLite store do: one writes, with group commit, and one reads.

A job checks before it writes and raises a `MidstreamError` only while it has written nothing; then the
others of its group go on. After any other error the group is rolled back and each of its jobs is tried
alone: only the one at fault fails.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from midstream.language.errors import MidstreamError, OurBug, WorldTrouble
from midstream.store.file_guard import Guard
from midstream.store.schema import damaged_file, format_of, refuse_newer, trouble
from midstream.store.threads import Job


class Committing:
    """How the writing thread performs: all waiting jobs in one transaction.

    Args:
        path: the journal's, for errors.
        guard: knows whether it is still the journal.
        committed: is called in the thread after each commit that may have changed something.
    """

    def __init__(self, path: Path, guard: Guard, committed: Callable[[], None]) -> None:
        self._path = path
        self._guard = guard
        self._committed = committed

    def __call__(self, connection: apsw.Connection, group: list[Job[apsw.Connection, Any]]) -> None:
        """Do the jobs and commit, or let each end with what went wrong."""
        group = [job for job in group if job.prepare()]
        if not group:
            return
        try:
            self._transact(connection, group)
        except Exception as error:
            if len(group) > 1:
                for job in group:
                    self(connection, [job])
            else:
                group[0].fail(self._explained(error))

    def _transact(
        self, connection: apsw.Connection, group: list[Job[apsw.Connection, Any]]
    ) -> None:
        try:
            connection.execute("begin immediate")
            self._guard.check()
            refuse_newer(format_of(connection), self._path)
            for job in group:
                job.run(connection)
            connection.execute("commit")
        finally:
            if connection.in_transaction:
                _rolled_back(connection)
        self._guard.committed()
        self._committed()

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, apsw.Error) and (lost := self._guard.explained(error)) is not None:
            lost.__cause__ = error
            return lost
        return explained(error, self._path, is_writing=True)


class Reading:
    """How the reading thread performs: each job sees the journal as it stood at one moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, connection: apsw.Connection, group: list[Job[apsw.Connection, Any]]) -> None:
        """Do the jobs one by one."""
        for job in group:
            try:
                connection.execute("begin")
                job.run(connection)
            except Exception as error:
                job.fail(explained(error, self._path))
            finally:
                if connection.in_transaction:
                    _rolled_back(connection)


def explained(error: Exception, path: Path, *, is_writing: bool = False) -> Exception:
    """Return an error a person can act on."""
    told: MidstreamError
    match error:
        case MidstreamError():
            return error
        case apsw.Error():
            told = trouble(error, path, is_writing=is_writing)
        case UnicodeDecodeError():
            told = damaged_file(path, str(error))
        case MemoryError():
            told = WorldTrouble("There is not enough memory for the journal.", hint="Try again.")
        case _:
            told = OurBug(f"The journal {path} failed: {type(error).__name__}: {error}.")
    told.__cause__ = error
    return told


def _rolled_back(connection: apsw.Connection) -> None:
    try:
        connection.execute("rollback")
    except apsw.Error:
        # SQLite has rolled back by itself, or the next `begin` says what is wrong.
        return
