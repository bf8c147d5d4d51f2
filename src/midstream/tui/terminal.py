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
import sys
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from midstream.config.portable import O_CLOEXEC, O_NOCTTY, O_NONBLOCK
from midstream.safety.sanitize import masked
from midstream.system.offloop import Timeout
from midstream.tui.reflow import NEXT_ROW, TO_THE_BOTTOM, beginning, reflows

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

    def drain(self) -> None:
        """Wait, two seconds at most, until the terminal has taken everything. For the very end."""
        if self._loop is not None:
            self._loop.remove_writer(self._fd)
            self._loop = None
        timeout = Timeout(_DRAIN_S)
        while self._waiting and not self.is_gone and (wait_s := timeout.wait_s()):
            select.select([], [self._fd], [], wait_s)
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
    if sys.platform == "win32":
        return None
    try:
        name = os.ttyname(fd)
        return os.open(name, os.O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    except OSError:
        return None


class TerminalOutput(Vt100_Output):
    """Prompt_toolkit's output over a `TerminalWriter`; whole frames go out in one piece."""

    def __init__(self, stdout: TextIO, *, depth: ColorDepth, term: str | None) -> None:
        """Make one for the terminal behind `stdout`."""
        super().__init__(
            stdout,
            self._size,
            term=term,
            default_color_depth=depth,
            # Asking for the cursor's position would only tell how much room is left below, and its
            # answer arrives among the keys.
            enable_cpr=False,
        )
        self.writer = TerminalWriter(stdout.fileno())
        self._frames = 0
        self._frame_size: Size | None = None
        self._is_reflowed = reflows(os.environ)
        self._is_returned = False
        self._widest = 0
        """The most columns there ever were: no row of ours is longer."""

    def _size(self) -> Size:
        """Return how large the terminal is; within a frame what it was at its beginning."""
        if self._frame_size is not None:
            return self._frame_size
        try:
            columns, lines = os.get_terminal_size(self.stdout.fileno())
        except (OSError, ValueError):
            columns = lines = 0
        return Size(rows=lines or 24, columns=columns or 80)

    def write(self, data: str) -> None:
        """Write text that is no escape sequence; what is suspect in it shows as one cell."""
        if data.strip("\r\n"):
            super().write(masked(data))
        elif data == "\r" and self._is_reflowed:
            self._is_returned = True
        else:
            super().write(data.replace("\r\n", NEXT_ROW) if self._is_reflowed else data)

    def cursor_backward(self, amount: int) -> None:
        """Go back. Where rows are broken anew it is to the beginning of the row; see `reflow`."""
        if not self._is_reflowed:
            super().cursor_backward(amount)
        elif amount:
            self.write_raw(self._to_its_beginning())

    def cursor_forward(self, amount: int) -> None:
        """Go on. What would go by the beginning of a row to its last cell stands there already: its piece
        may be another one by then, and LF from there leads into the next piece.
        """
        is_returned, self._is_returned = self._is_returned, False
        if is_returned and amount == self._size().columns - 1:
            return
        if is_returned:
            self.write_raw(self._to_its_beginning())
        super().cursor_forward(amount)

    def cursor_up(self, amount: int) -> None:
        """Go up. Where rows are broken anew it is to the beginning of a row; see `reflow`."""
        if not self._is_reflowed:
            super().cursor_up(amount)
        elif amount:
            back = self._to_its_beginning()
            self.write_raw(back + f"\x1b[A{back}" * amount)

    def cursor_goto(self, row: int = 0, column: int = 0) -> None:
        """Go to a cell. Where rows are broken anew, a screen that was cleared begins at its bottom."""
        if self._is_reflowed:
            self.write_raw(TO_THE_BOTTOM)
        else:
            super().cursor_goto(row, column)

    def _to_its_beginning(self) -> str:
        self._widest = max(self._widest, self._size().columns)
        return beginning(self._widest)

    def erase_down(self) -> None:
        """Erase from the first cell of a row on. tmux keeps what is erased from the screen's first cell
        on in its history, so there it is this row first, and then what is below it.
        """
        if self._is_reflowed:
            # It has a row below it then, so that the way up is as long as the way down.
            self.write_raw("\x1b[K\n\x1b[J\x1b[A")
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
        begin = len(self._buffer)
        if self._frames == 1:
            self._frame_size = self._size()
            self.write_raw(_SYNC_BEGIN)
        before = len(self._buffer)
        try:
            yield
        finally:
            self._frames -= 1
            if self._frames == 0:
                self._frame_size = None
                if len(self._buffer) == before:
                    del self._buffer[begin:]
                else:
                    self.write_raw(_SYNC_END)
                self.flush()
