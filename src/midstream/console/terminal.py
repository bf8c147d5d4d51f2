"""Writing to a terminal without ever waiting for it.

A terminal may be slow (ssh), stopped (a pager of the terminal itself, a suspended window) or gone.
The loop must not notice: bytes go out through a file description of our own opened for non-blocking
writes (the one we were given is shared with our parent, and setting it non-blocking would break the
shell). What the terminal does not take waits here and follows when it can; while something waits,
the terminal is congested, and whoever draws frames should leave out a few.
"""

import asyncio
import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from midstream.console.reflow import reflows
from midstream.core.safety.sanitize import masked

_DRAIN_S: Final = 2.0
_SYNC_BEGIN: Final = "\x1b[?2026h"
_SYNC_END: Final = "\x1b[?2026l"


class TerminalWriter:
    """Bytes to one terminal, in order. Its methods are for the loop's thread."""

    def __init__(self, fd: int) -> None:
        """Make one for the terminal behind `fd`, which stays open and as it is."""
        self.is_gone = False
        self.on_gone: Callable[[], None] = lambda: None
        self.on_drained: Callable[[], None] = lambda: None
        self._waiting = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own = _reopened(fd)
        self._fd = fd if self._own is None else self._own

    @property
    def is_congested(self) -> bool:
        """Return whether the terminal has not taken yet what it was sent."""
        return bool(self._waiting)

    def write(self, data: bytes) -> None:
        """Send bytes; returns at once. Bytes for a terminal that is gone are dropped."""
        if self.is_gone:
            return
        self._waiting += data
        if self._loop is None:
            self._send()
            if self._waiting:
                self._follow()

    def drain(self, seconds: float = _DRAIN_S) -> None:
        """Wait, at most so long, until the terminal has taken everything. For the very end."""
        if self._loop is not None:
            self._loop.remove_writer(self._fd)
            self._loop = None
        deadline = time.monotonic() + seconds
        while self._waiting and not self.is_gone:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            select.select([], [self._fd], [], left)
            self._send()

    def close(self) -> None:
        """Drain and let go of the terminal."""
        self.drain()
        if self._own is not None:
            os.close(self._own)
            self._own = None
        self.is_gone = True

    def _send(self) -> None:
        while self._waiting:
            try:
                sent = os.write(self._fd, self._waiting[:65536])
            except BlockingIOError:
                return
            except OSError:
                self.is_gone = True
                self._waiting.clear()
                self.on_gone()
                return
            del self._waiting[:sent]

    def _follow(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.drain()
            return
        self._loop = loop
        loop.add_writer(self._fd, self._more)

    def _more(self) -> None:
        self._send()
        if not self._waiting and self._loop is not None:
            self._loop.remove_writer(self._fd)
            self._loop = None
            if not self.is_gone:
                self.on_drained()


def _reopened(fd: int) -> int | None:
    try:
        name = os.ttyname(fd)
        return os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


class TerminalOutput(Vt100_Output):
    """Prompt_toolkit's output over a `TerminalWriter`; whole frames go out in one piece."""

    def __init__(self, stdout: TextIO, *, colour: bool, term: str | None) -> None:
        """Make one for the terminal behind `stdout`."""
        super().__init__(
            stdout,
            self._size,
            term=term,
            default_color_depth=ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT,
            # Asking for the cursor's position would only tell how much room is left below, and its
            # answer arrives among the keys.
            enable_cpr=False,
        )
        self.writer = TerminalWriter(stdout.fileno())
        self._frames = 0
        self._is_tmux = reflows(os.environ)

    def _size(self) -> Size:
        try:
            columns, lines = os.get_terminal_size(self.stdout.fileno())
        except (OSError, ValueError):
            columns = lines = 0
        return Size(rows=lines or 24, columns=columns or 80)

    def write(self, data: str) -> None:
        """Write text that is no escape sequence; what is suspect in it shows as one cell."""
        super().write(masked(data) if data.strip("\r\n") else data)

    def erase_down(self) -> None:
        """Erase from the cursor on. tmux keeps what is erased from its first cell on in the scrollback,
        so there it is this row first, and then what is below it.
        """
        if self._is_tmux:
            self.write_raw("\x1b[K\x1b7\x1b[B\x1b[J\x1b8")
        else:
            super().erase_down()

    def flush(self) -> None:
        """Send what was written, unless a frame is under way."""
        if self._frames or not self._buffer:
            return
        data = "".join(self._buffer)
        self._buffer = []
        self.writer.write(data.encode("utf-8", "replace"))

    @contextlib.contextmanager
    def frame(self) -> Iterator[None]:
        """Hold back flushes, then send everything at once, as one frame where terminals know how.

        A frame within another is part of it; one that draws nothing sends nothing.
        """
        self._frames += 1
        if self._frames == 1:
            self.write_raw(_SYNC_BEGIN)
        before = len(self._buffer)
        try:
            yield
        finally:
            self._frames -= 1
            if self._frames == 0:
                if len(self._buffer) == before:
                    self._buffer.pop()
                else:
                    self.write_raw(_SYNC_END)
                self.flush()
