"""Threads with a connection each: one that writes, with group commit, and one that reads.

Appends of many runs that wait while a commit is under way share the next one, so that a hundred
runs wait for one flush of the disk and not for a hundred. A job checks before it writes and raises
a `MidstreamError` only while it has written nothing; then the others of its group go on. After any
other error the group is rolled back and each of its jobs is tried alone: only the one at fault fails.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from midstream.language.errors import MidstreamError, OurBug, WorldTrouble
from midstream.store.file_guard import Guard
from midstream.store.refusals import closed
from midstream.store.schema import damaged_file, format_of, refuse_newer, trouble
from midstream.system.offloop import call_soon

T = TypeVar("T")

MAX_GROUP = 512
"""How many jobs may share a commit."""


class Job(Generic[T]):
    """Something to do with the connection, and who waits for it."""

    __slots__ = ("_error", "_future", "_loop", "_prepare", "_result", "_work")

    def __init__(
        self,
        work: Callable[[apsw.Connection], T],
        loop: asyncio.AbstractEventLoop | None = None,
        future: "asyncio.Future[T] | None" = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._work = work
        self._loop = loop
        self._future = future
        self._prepare = prepare
        self._result: T | None = None
        self._error: Exception | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop on which its end is heard, None: nobody waits."""
        return self._loop

    def prepare(self) -> bool:
        """Do what needs no connection; return whether there is more to do."""
        try:
            if self._prepare is not None:
                self._prepare()
        except MidstreamError as error:
            self._error = error
        return self._error is None

    def run(self, connection: apsw.Connection) -> None:
        """Do it. A refusal is kept for who waits; any other error is raised."""
        self._error = None
        try:
            self._result = self._work(connection)
        except MidstreamError as error:
            self._error = error

    def fail(self, error: Exception) -> None:
        """Let it end with an error."""
        self._error = error

    def settle(self) -> None:
        """Tell who waits, on its loop. Who was cancelled waits no more."""
        if self._future is None or self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)  # type: ignore[arg-type]


class Worker:
    """A daemon thread with a connection that does jobs, from any number of loops, in order."""

    def __init__(
        self,
        name: str,
        connection: apsw.Connection,
        perform: Callable[[apsw.Connection, list[Job[Any]]], None],
    ) -> None:
        self._name = name
        self._connection = connection
        self._perform = perform
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[apsw.Connection], T], prepare: Callable[[], None] | None = None
    ) -> "asyncio.Future[T]":
        """Return what `work` will return. Cancelling the future leaves the work to be done.

        `prepare` is called in the thread before it, outside any transaction.

        Raises:
            WorldTrouble: the store is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._is_closed:
                raise closed()
            self._jobs.put(Job(work, loop, future, prepare))
        return future

    def close(self, last: Callable[[apsw.Connection], object] | None = None) -> None:
        """Return once every job, and a last one, is done and the connection is closed. Blocking."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                if last is not None:
                    self._jobs.put(Job(last))
                self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        goes_on = True
        while goes_on:
            job = self._jobs.get()
            if job is None:
                break
            group = [job]
            while len(group) < MAX_GROUP and not self._jobs.empty():
                job = self._jobs.get()
                if job is None:
                    goes_on = False
                    break
                group.append(job)
            self._perform(self._connection, group)
            _settle(group)
        self._connection.close()


def _settle(group: list[Job[Any]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in group:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        call_soon(loop, _settle_all, jobs)


def _settle_all(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        job.settle()


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

    def __call__(self, connection: apsw.Connection, group: list[Job[Any]]) -> None:
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

    def _transact(self, connection: apsw.Connection, group: list[Job[Any]]) -> None:
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

    def __call__(self, connection: apsw.Connection, group: list[Job[Any]]) -> None:
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
