"""Noticing that anybody wrote: own commits at once, other processes' by a look every 20 ms.

Only while somebody waits is there anything to do; otherwise the thread sleeps. However many wait, and
however much is written, there is one look in that time.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from midstream.system.offloop import call_all_soon

LOOK_S = 0.02

_SHARE: Final = 10
_MOST_S: Final = 0.1
"""Where a look takes long, so many times as long passes until the next, but no more than this."""

ANY: Final = None
"""Stands for all runs."""

Look: TypeAlias = Callable[[Collection[str | None]], Mapping[str | None, object]]
"""Returns for runs, or for all of them, what is another value once something of them has changed."""

_Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event, Collection[str | None]]


class Watch:
    """Counts the changes of runs and wakes who waits for one of them.

    Args:
        look: how the runs that somebody waits for are. It is called in the thread of the watch. Of what it
            leaves out nothing was seen.
        close: is called in that thread when the watch ends.
    """

    def __init__(self, look: Look, close: Callable[[], object]) -> None:
        self._look = look
        self._close = close
        self._lock = threading.Condition()
        self._changes: dict[str | None, int] = {}
        self._told: dict[str | None, int] = {}
        self._seen: dict[str | None, object] = {}
        self._waiters: set[_Waiter] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="midstream-watch", daemon=True)
        self._thread.start()

    async def changed(self, timeout_s: float, runs: Collection[str | None]) -> None:
        """Return once something of these runs changed since the last call returned, or in time."""
        waiter = (asyncio.get_running_loop(), asyncio.Event(), tuple(runs))
        with self._lock:
            if self._is_news(runs):
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
                self._is_news(runs)

    def note(self, runs: Collection[str | None] = (ANY,)) -> None:
        """Hear that something was committed. From any thread."""
        noted = {*runs, ANY}
        with self._lock:
            for run in noted:
                self._changes[run] = self._changes.get(run, 1) + 1
            woken = {each for each in self._waiters if not noted.isdisjoint(each[2])}
            self._waiters -= woken
        call_all_soon((loop, event.set) for loop, event, _ in woken)

    def close(self) -> None:
        """Wake everybody and end. Blocking, briefly."""
        self._closing.set()
        with self._lock:
            self._lock.notify()
            woken, self._waiters = self._waiters, set()
        call_all_soon((loop, event.set) for loop, event, _ in woken)
        self._thread.join()

    def _is_news(self, runs: Collection[str | None]) -> bool:
        is_news = False
        for run in runs:
            changes = self._changes.setdefault(run, 1)
            is_news |= self._told.get(run) != changes
            self._told[run] = changes
        return is_news

    def _serve(self) -> None:
        while True:
            with self._lock:
                while not self._waiters and not self._closing.is_set():
                    self._lock.wait()
                if self._closing.is_set():
                    break
                wanted = {run for _, _, runs in self._waiters for run in runs}
            began = time.monotonic()
            seen = self._look(wanted)
            took_s = time.monotonic() - began
            changed = [run for run, how in seen.items() if self._seen.get(run, seen) != how]
            self._seen |= seen
            if changed:
                self.note(changed)
            self._closing.wait(max(LOOK_S, min(_SHARE * took_s, _MOST_S)))
        self._close()
