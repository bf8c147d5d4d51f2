"""A console in a pty with a screen of `pyte` before it, and a socket to what is behind it."""

import array
import contextlib
import os
import select
import signal
import socket
import struct
import sys
import termios
from collections import deque
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import pyte
from ptyprocess import PtyProcess  # type: ignore[import-untyped]

PROJECT: Final = Path(__file__).parents[1]
QUIET_S: Final = 0.06
HANGS_S: Final = 300.0
"""No console takes that long for anything, on no machine."""
_PTY_NUMBER: Final = 0x80045430
"""TIOCGPTN of Linux: which of /dev/pts is the program's end of a terminal."""
_HISTORY: Final = 4_000


class Emulated(pyte.HistoryScreen):
    """A screen that is resized as xterm does it: the cursor's row stays on it, nothing is wrapped anew."""

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Give it another size; rows scroll out at the top where the cursor needs the room."""
        lines, columns = lines or self.lines, columns or self.columns
        up = max(0, self.cursor.y - (lines - 1))
        for _ in range(up):
            self.history.top.append(self.buffer[0])
            for y in range(self.lines - 1):
                self.buffer[y] = self.buffer[y + 1]
            self.buffer.pop(self.lines - 1, None)
        self.cursor.y -= up
        for y in range(lines, self.lines):
            self.buffer.pop(y, None)
        for row in self.buffer.values():
            for x in range(columns, self.columns):
                row.pop(x, None)
        self.lines, self.columns = lines, columns
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.margins = None
        self.dirty.update(range(lines))


class Written:
    """Keys that were written. They reached the console after `began`; by `taken` it had read them."""

    def __init__(self, text: str, began: float) -> None:
        self.text = text
        self.began = began
        self.taken = float("inf")


class Died(Exception):
    """The console ended, or does not answer any more."""


class SoakTerminal:
    """The console of `soaked_console` in a terminal. Use it as a context manager."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        self._told = ours
        self._answers = b""
        self.written: deque[Written] = deque(maxlen=200)
        self.raw = bytearray()
        self._screen = Emulated(columns, rows, history=_HISTORY, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._is_open = True
        command = [
            sys.executable,
            "-m",
            "torture.soaked_console",
            str(theirs.fileno()),
            str(folder),
        ]
        self._process = PtyProcess.spawn(
            command,
            cwd=str(PROJECT),
            env=_environment(folder),
            dimensions=(rows, columns),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self.modes_before = termios.tcgetattr(self._process.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.isalive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self._process.close(force=True)
        self._told.close()

    # --- what a person does ---

    def type(self, text: str) -> None:
        """Write keys, reading meanwhile; it is kept between which moments they came to the console."""
        data = text.encode()
        fd = self._process.fd
        began = monotonic()
        while data and self._is_open:
            readable, writable, _ = select.select([fd], [fd], [], HANGS_S)
            if not readable and not writable:
                raise Died("does not read its keys")
            if readable:
                self.read()
            if writable and self._is_open:
                try:
                    data = data[os.write(fd, data[:1024]) :]
                except OSError:
                    self._is_open = False
        self.written.append(Written(text, began))

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self._screen.resize(rows, columns)
        with contextlib.suppress(OSError):
            ioctl(self._process.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self, seconds: float) -> None:
        """Let time pass, reading."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and self._is_open:
            self.read(left)

    def rest(self, deadline_s: float = 2.0) -> None:
        """Read until the console has been quiet for a moment, or has not been for too long."""
        until = monotonic() + deadline_s
        while self.read(QUIET_S) and monotonic() < until:
            pass

    def signal(self, number: signal.Signals) -> None:
        """Send the console a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def hang_up(self) -> None:
        """Close the terminal."""
        self._is_open = False
        self._process.fileobj.close()

    def read(self, seconds: float = 0.0) -> bool:
        """Read what is there, waiting for it at most so long; return whether there was some."""
        found = self._read(seconds)
        self._see_what_was_taken()
        return found

    def _read(self, seconds: float) -> bool:
        if not self._is_open or not select.select([self._process.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._process.fd, 65536)
        except OSError:
            data = b""
        if not data:
            self._is_open = False
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def _see_what_was_taken(self) -> None:
        """Note which keys the console has read by now. A machine may let it read them late."""
        if not self._is_open or not self.written or self.written[-1].taken < float("inf"):
            return
        if not self._keys_waiting():
            now = monotonic()
            for each in self.written:
                each.taken = min(each.taken, now)

    def _keys_waiting(self) -> int:
        """Return how many bytes typed the console has not read yet, 0 where nobody tells."""
        number, waiting = array.array("i", [0]), array.array("i", [0])
        with contextlib.suppress(OSError):
            ioctl(self._process.fd, _PTY_NUMBER, number)
            its_end = os.open(f"/dev/pts/{number[0]}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                ioctl(its_end, termios.FIONREAD, waiting)
            finally:
                os.close(its_end)
        return waiting[0]

    def ended(self, deadline_s: float) -> int | None:
        """Return the exit code (minus a signal's number); None if it has not ended in time."""
        until = monotonic() + deadline_s
        while self._process.isalive():
            if monotonic() > until:
                return None
            if not self._is_open or not self.read(0.05):
                select.select([], [], [], 0.02)
        while self.read():
            pass
        if self._process.signalstatus is not None:
            return -int(self._process.signalstatus)
        return int(self._process.exitstatus or 0)

    def modes(self) -> list[Any]:
        """Return the terminal's own modes now."""
        return termios.tcgetattr(self._process.fd)

    # --- what is behind the terminal ---

    def tell(self, order: Mapping[str, Any]) -> None:
        """Send an order to the desk."""
        try:
            self._told.sendall(msgspec.json.encode(order) + b"\n")
        except OSError as error:
            raise Died("it ended by itself") from error

    def asked(self, order: Mapping[str, Any], deadline_s: float = HANGS_S) -> dict[str, Any]:
        """Return the answer to an order, reading the terminal meanwhile.

        Raises:
            Died: there is none.
        """
        self.tell(order)
        until = monotonic() + deadline_s
        while b"\n" not in self._answers:
            if monotonic() > until:
                raise Died("does not answer: its loop is blocked")
            sources = [self._told, *([self._process.fd] if self._is_open else [])]
            for ready in select.select(sources, [], [], 0.2)[0]:
                if ready is not self._told:
                    self.read()
                else:
                    self._answers += self._heard()
        line, _, self._answers = self._answers.partition(b"\n")
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer

    def _heard(self) -> bytes:
        with contextlib.suppress(OSError):
            if more := self._told.recv(1 << 20):
                return more
        self.ended(5.0)
        raise Died("it ended by itself")

    # --- looking ---

    @property
    def screen(self) -> Emulated:
        """Return the screen."""
        return self._screen

    def rows(self) -> list[str]:
        """Return the rows on the screen, without trailing blanks."""
        return [row.rstrip() for row in self._screen.display]

    def above(self) -> str:
        """Return what has scrolled out at the top, in one text."""
        rows = [*self._screen.history.top]
        return "\n".join(
            "".join(row[x].data for x in range(max(row, default=-1) + 1)).rstrip() for row in rows
        )

    def is_in_frame(self) -> bool:
        """Return whether a synchronized update is half read."""
        return (2026 << 5) in self._screen.mode


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "EDITOR": "true",
        "SHELL": "/bin/sh",
    }
