"""Writing to a pipe or file from the loop without waiting for whoever reads it."""

import asyncio
import atexit
import os
import queue
import threading
from collections.abc import Callable


class QueueWriter:
    """Text to a file descriptor, in order, through a thread. What is queued at exit is written."""

    def __init__(self, fd: int, *, on_broken: Callable[[], None]) -> None:
        """Make one; the thread starts with the first text.

        `on_broken` is called once, from the thread, when nobody reads any more.
        """
        self.is_broken = False
        self.lost: OSError | None = None
        self._fd = fd
        self._on_broken = on_broken
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Queue text; returns at once. Text for a broken pipe is dropped."""
        if self.is_broken:
            return
        if self._thread is None:
            # A daemon, so that it is `close` that waits for it: at exit a thread that still waits
            # for texts would otherwise be waited for before anyone could tell it to end.
            self._thread = threading.Thread(
                target=self._write_all, name="midstream-stdout", daemon=True
            )
            self._thread.start()
            atexit.register(self.close)
        self._queue.put(text)

    def close(self) -> None:
        """Wait until everything queued is written (or the pipe is broken). May be called again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()
            atexit.unregister(self.close)

    async def aclose(self) -> None:
        """Wait like `close`, without holding up the loop."""
        await asyncio.to_thread(self.close)

    def _write_all(self) -> None:
        while (text := self._queue.get()) is not None:
            data = memoryview(text.encode("utf-8", "replace"))
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as error:
                self.lost = error
                self.is_broken = True
                self._on_broken()
                return
