"""Noticing that anybody wrote: own commits at once, other processes' by a look every 20 ms.

Only while somebody waits is there anything to do; otherwise the thread sleeps.
"""

import asyncio
import contextlib
import threading

import apsw

from midstream.system.offloop import call_soon

LOOK_S = 0.02


class Watch:
    """Counts the changes of a journal and wakes who waits for one.

    Args:
        connection: one that never writes; it is closed with the watch.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._lock = threading.Condition()
        self._changes = 1
        self._told = 0
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._is_closed = False
        self._version = self._look()
        self._thread = threading.Thread(target=self._serve, name="midstream-watch", daemon=True)
        self._thread.start()

    async def changed(self, timeout_s: float) -> None:
        """Return once something changed since the last call returned, or in time."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._is_news():
                return
            self._waiters.add(waiter)
            self._lock.notify()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await waiter[1].wait()
        finally:
            with self._lock:
                self._waiters.discard(waiter)
                self._is_news()

    def note(self) -> None:
        """Hear that something was committed. From any thread."""
        with self._lock:
            self._changes += 1
            woken, self._waiters = self._waiters, set()
        for loop, event in woken:
            call_soon(loop, event.set)

    def close(self) -> None:
        """Wake everybody and end. Blocking, briefly."""
        with self._lock:
            self._is_closed = True
            self._lock.notify()
        self.note()
        self._thread.join()

    def _is_news(self) -> bool:
        is_news = self._changes != self._told
        self._told = self._changes
        return is_news

    def _serve(self) -> None:
        while True:
            with self._lock:
                while not self._waiters and not self._is_closed:
                    self._lock.wait()
                if self._is_closed:
                    break
            version = self._look()
            if version != self._version:
                self._version = version
                self.note()
                continue
            with self._lock:
                if not self._is_closed:
                    self._lock.wait(LOOK_S)
        self._connection.close()

    def _look(self) -> object:
        try:
            return self._connection.execute("pragma data_version").fetchall()[0][0]
        except apsw.Error:
            # A look that fails is one that saw nothing; whoever reads hears what is wrong.
            return None
