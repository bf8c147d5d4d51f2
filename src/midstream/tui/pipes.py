"""Lines from a file descriptor as they arrive, and text to one: a pipe, a file, `/dev/null`, a socket.

A thread of our own reads, because a regular file cannot be waited for and a pipe of ours may be
shared with others. It is a daemon and reads the descriptor directly: a program that ends while the
thread waits for input neither hangs nor trips over a buffer's lock. Another one writes: the loop waits for
nobody who reads along.
"""

import asyncio
import atexit
import codecs
import os
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from midstream.app.ui import Console, Submitted, come_of
from midstream.system.offloop import call_soon

STDIN: Final = 0
STDOUT: Final = 1

MAX_LINE_BYTES: Final = 8_000_000
"""A longer line arrives in pieces of this size, so that `/dev/zero` costs no more."""

_CHUNK: Final = 65536
_AHEAD: Final = 64


async def lines_from(
    fd: int, *, between: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[str]:
    """Yield lines without their ends, each as soon as it is there; the last needs no newline.

    A line that was there before the one ahead of it was done with is yielded after `between`.
    Bytes that are no UTF-8 become U+FFFD. An unreadable descriptor ends like an empty one.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    ahead = threading.Semaphore(_AHEAD)

    def hand_over(line: str | None) -> None:
        ahead.acquire()
        loop.call_soon_threadsafe(queue.put_nowait, line)

    def read() -> None:
        try:
            _read_lines(fd, hand_over)
        except RuntimeError:
            return  # The loop is closed: nobody waits for lines any more.

    threading.Thread(target=read, name="midstream-stdin", daemon=True).start()
    is_first = True
    while True:
        if not (is_first or queue.empty() or between is None):
            await between()
        is_first = False
        line = await queue.get()
        ahead.release()
        if line is None:
            return
        yield line


def _read_lines(fd: int, hand_over: Callable[[str | None], None]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest: list[str] = []
    size = 0
    while True:
        try:
            data = os.read(fd, _CHUNK)
        except OSError:
            data = b""
        *lines, last = decoder.decode(data, final=not data).split("\n")
        for line in lines:
            hand_over(("".join(rest) + line).removesuffix("\r"))
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if not data or size > MAX_LINE_BYTES:
            if size:
                hand_over("".join(rest).removesuffix("\r"))
            rest, size = [], 0
        if not data:
            hand_over(None)
            return


class LineReader:
    """Hands lines to the session one by one, until they end or nobody listens.

    A piped line has no first key. It counts as begun when it was read, so it can answer what had
    been asked by then; a line that was there earlier is never taken for an answer by guessing. In a
    chat it is no word against a reply of which nothing was there either: it waits until that is whole.
    """

    def __init__(
        self,
        fd: int,
        *,
        taking: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """Make one. `taking` hears each line before the session does, `warn` why one had no effect."""
        self._fd = fd
        self._taking = taking
        self._warn = warn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop reading; may be called from any thread."""
        if self._loop is not None and self._reading is not None:
            call_soon(self._loop, self._reading.cancel)

    async def run(self, session: Console) -> None:
        """Return when the lines have ended, the session said to leave, or `stop` was called."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            self._reading = group.create_task(self._read(session))

    async def _read(self, session: Console) -> None:
        async for line in lines_from(self._fd, between=session.answered):
            if not line.strip():
                continue
            seen = frozenset(question.id for question in session.open_questions())
            self._taking(line)
            result = await come_of(session.submit(line, seen=seen))
            if text := unread(line, result):
                self._warn(text)
            if result.kind == "exit":
                return
            # Lines that came together still let the runs take a step between them.
            await asyncio.sleep(0)


def unread(line: str, result: Submitted) -> str:
    """Return what to say of a line without effect, "" if it had one."""
    match result.kind:
        case "returned":
            return f"Not delivered: {line}\n{result.reason}"
        case "unclear":
            return (
                f"Not delivered: {line}\nIt came before the question was asked and may be an answer "
                "or a new instruction. Begin it with the question's number, such as #1, to answer."
            )
        case _:
            return ""


# --- writing without waiting for whoever reads ----------------------------------------------------


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
        self._queue: queue.SimpleQueue[tuple[str, Callable[[], None] | None] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    def write(self, text: str, *, then: Callable[[], None] | None = None) -> None:
        """Queue text; returns at once. Text for a broken pipe is dropped.

        `then` is called, from the thread, once it is written.
        """
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
        self._queue.put((text, then))

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
        while (queued := self._queue.get()) is not None:
            text, then = queued
            data = memoryview(text.encode("utf-8", "replace"))
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as error:
                self.lost = error
                self.is_broken = True
                self._on_broken()
                return
            if then is not None:
                then()
