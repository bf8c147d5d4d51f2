"""Threads with a connection each, that do jobs for any number of event loops, in order.

Jobs that wait while one is under way are performed as a group: appends of many runs then share a commit, so
that a hundred runs wait for one flush of the disk and not for a hundred.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from midstream.language.errors import MidstreamError
from midstream.store.refusals import closed
from midstream.system.offloop import call_all_soon, call_soon


class Closable(Protocol):
    """A connection, as far as a thread is concerned with it."""

    def close(self) -> object:
        """Close it. Blocking, briefly."""


C = TypeVar("C", bound=Closable)
T = TypeVar("T")

MAX_GROUP = 512
"""How many jobs may share a commit."""


class Job(Generic[C, T]):
    """Something to do with the connection, and who waits for it."""

    __slots__ = ("_error", "_future", "_prepare", "_result", "loop", "work")

    def __init__(
        self,
        work: Callable[[C], T],
        loop: asyncio.AbstractEventLoop | None = None,
        future: "asyncio.Future[T] | None" = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.work = work
        self.loop = loop
        """On which its end is heard; None: nobody waits."""
        self._future = future
        self._prepare = prepare
        self._result: T | None = None
        self._error: Exception | None = None

    def prepare(self) -> bool:
        """Do what needs no connection; return whether there is more to do."""
        try:
            if self._prepare is not None:
                self._prepare()
        except MidstreamError as error:
            self._error = error
        return self._error is None

    def run(self, connection: C) -> None:
        """Do it. A refusal is kept for who waits; any other error is raised."""
        self._error = None
        try:
            self._result = self.work(connection)
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


class Worker(Generic[C]):
    """A daemon thread with a connection that does jobs, from any number of loops, in order."""

    def __init__(
        self,
        name: str,
        connection: C,
        perform: Callable[[C, list[Job[C, Any]]], None],
    ) -> None:
        self._name = name
        self._connection = connection
        self._perform = perform
        self._jobs: queue.SimpleQueue[Job[C, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[C], T], prepare: Callable[[], None] | None = None
    ) -> "asyncio.Future[T]":
        """Return what `work` will return. Cancelling the future leaves the work to be done.

        `prepare` is called in the thread before it, outside any transaction.

        Raises:
            WorldTrouble: the store is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if not self._thread.is_alive():
            raise closed()  # as in a process that was forked: threads are not
        with self._lock:
            if self._is_closed:
                raise closed()
            self._jobs.put(Job(work, loop, future, prepare))
        return future

    def post(self, work: Callable[[C], object]) -> None:
        """Have something done that nobody waits for; nothing where it is closed. From any thread."""
        with self._lock:
            if not self._is_closed:
                self._jobs.put(Job(work))

    def close(self, last: Callable[[C], object] | None = None) -> None:
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
            call_all_soon((job.loop, job.settle) for job in group if job.loop is not None)
        self._connection.close()


E = TypeVar("E")


@contextlib.contextmanager
def _listening(
    ears: set[tuple[asyncio.AbstractEventLoop, E]], lock: threading.Lock, ear: E
) -> Iterator[E]:
    """Give an ear that is among the others meanwhile, with the loop it is on."""
    hearing = (asyncio.get_running_loop(), ear)
    with lock:
        ears.add(hearing)
    try:
        yield ear
    finally:
        with lock:
            ears.discard(hearing)


class Notes:
    """Hands what is told to whoever hears it, on any loop of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hearing: set[tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]]] = set()

    def tell(self, note: str) -> None:
        """Hand it to everybody. From any thread."""
        with self._lock:
            for loop, notes in self._hearing:
                call_soon(loop, notes.put_nowait, note)

    def heard(self) -> contextlib.AbstractContextManager[asyncio.Queue[str]]:
        """Give what is told from now on."""
        return _listening(self._hearing, self._lock, asyncio.Queue[str]())


class Calls:
    """Wakes who waits, on any loop of this process.

    `is_news`: whoever waits first is woken at once, as if it had rung.
    """

    def __init__(self, *, is_news: bool = True) -> None:
        self._lock = threading.Lock()
        self._ears: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._is_news = is_news
        self.is_used = False

    def ring(self) -> None:
        """Wake everybody. From any thread."""
        if self._is_news and not self._ears:
            return  # whoever listens next has not heard of the last time yet
        with self._lock:
            self._is_news = True
            for loop, event in self._ears:
                call_soon(loop, event.set)

    async def rings(self) -> AsyncGenerator[None, None]:
        """Yield whenever it rang, and at once if it did while nobody listened."""
        with self._ear() as event:
            if self._is_news:
                event.set()
            while True:
                await event.wait()
                event.clear()
                self._is_news = False
                yield

    async def rung(self, timeout_s: float) -> None:
        """Return once it rang since the last call returned, or in time."""
        self.is_used = True
        with self._ear() as event, contextlib.suppress(TimeoutError):
            try:
                if not self._is_news:
                    async with asyncio.timeout(timeout_s):
                        await event.wait()
            finally:
                self._is_news = False

    def _ear(self) -> contextlib.AbstractContextManager[asyncio.Event]:
        """Give what is set whenever it rings."""
        return _listening(self._ears, self._lock, asyncio.Event())
