"""A terminal for tests: a program in a real pty, its output read as a screen by `pyte`.

    screen = Screen.spawn([sys.executable, "-m", "midstream"], cols=80, rows=24)
    screen.wait_for("role:dude")
    screen.type("hello\r")
    screen.wait_until(lambda s: "hello" in s.text())
    assert screen.close() == 0

Nothing here sleeps: waiting means reading until the screen says so or the deadline has passed. Where
the screen says nothing, it means until the program has taken its keys and rests, which on a busy machine
is another thing than being quiet for a while.
"""

import array
import contextlib
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyte
from deadline import DEADLINE_S
from ptyprocess import PtyProcess  # type: ignore[import-untyped]

from midstream.tui.terminal_questions import QUIET_S

ENTER, ESC, TAB, UP, DOWN, BACKSPACE = "\r", "\x1b", "\t", "\x1b[A", "\x1b[B", "\x7f"
LEFT, RIGHT = "\x1b[D", "\x1b[C"
CTRL_C, CTRL_D, CTRL_J, CTRL_L, CTRL_R = "\x03", "\x04", "\x0a", "\x0c", "\x12"
ALT_ENTER = "\x1b\r"

FINGERS_S = 0.06
"""Between two keys of a person there is as much at least."""
_END_OF_FRAME = b"\x1b[?2026l"
_PTY_NUMBER = 0x80045430
"""TIOCGPTN of Linux: which of /dev/pts is the program's end of a terminal."""


def pasted(text: str) -> str:
    """Return what a terminal sends for a bracketed paste."""
    return f"\x1b[200~{text}\x1b[201~"


def is_running(pid: int) -> bool:
    """Return whether a process has not ended; one that nobody has buried yet has."""
    try:
        os.kill(pid, 0)
        # On a system without /proc there is no more to be asked.
        stat = Path(f"/proc/{pid}/stat").read_text() if Path("/proc/self").exists() else ") R"
        return stat.rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def _modes_of_a_new_terminal() -> list[Any]:
    ours, its = os.openpty()
    try:
        return termios.tcgetattr(its)
    finally:
        os.close(ours)
        os.close(its)


class ScreenTimeout(AssertionError):
    """The screen did not come to say what the test waits for."""


class Screen:
    """A program in a pty and what a person would see of it."""

    def __init__(self, process: PtyProcess, cols: int, rows: int, deadline_s: float) -> None:
        self.process = process
        self.deadline_s = deadline_s
        self.raw = bytearray()
        self.modes_before = (
            _modes_of_a_new_terminal()
        )  # by now the program may have changed its own
        self._history = pyte.HistoryScreen(cols, rows, history=20_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._history)
        self._is_open = True
        self._typed = ""
        self._unseen = b""

    @classmethod
    def spawn(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
        *,
        cwd: str | os.PathLike[str] | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> Self:
        """Start a program in a pty. `env` is added to a small, quiet environment of our own."""
        base = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        process = PtyProcess.spawn(
            list(argv),
            env={**base, **(env or {})},
            cwd=None if cwd is None else os.fspath(cwd),
            dimensions=(rows, cols),
            echo=True,
        )
        return cls(process, cols, rows, deadline_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- typing ---

    def type(self, text: str) -> None:
        """Send keys, all at once, reading meanwhile so that neither side can block the other.

        Those of two calls never come together: the program has taken the first ones by then.
        """
        if self._typed:
            # What follows Esc sooner may be the rest of what a terminal says by itself: it decides nothing.
            self.rest(QUIET_S if self._typed.endswith(ESC) else FINGERS_S)
        self._typed = text
        data = text.encode()
        fd = self.process.fd
        deadline = time.monotonic() + self.deadline_s
        while data:
            if time.monotonic() > deadline:
                raise ScreenTimeout("the program does not read its keys")
            readable, writable, _ = select.select([fd], [fd], [], 0.5)
            if readable:
                self._read()
            if writable:
                # A pty takes about 4 KB; a larger blocking write would wait for the program.
                sent = os.write(fd, data[:1024])
                data = data[sent:]

    def press(self, keys: str, *, quiet_s: float = 0.5) -> None:
        """Press keys one by one, as fingers do, once the screen has stood still for `quiet_s`."""
        self.settle(quiet_s)
        for key in keys:
            self.type(key)

    def paste(self, text: str) -> None:
        """Send text as a bracketed paste."""
        self.type(pasted(text))

    def resize(self, cols: int, rows: int) -> None:
        """Change the window's size; the program gets SIGWINCH."""
        self._history.resize(rows, cols)
        ioctl(self.process.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def kill(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        os.kill(self.process.pid, number)

    # --- looking ---

    def lines(self) -> list[str]:
        """Return the rows on the screen now, without trailing blanks."""
        return [line.rstrip() for line in self._history.display]

    def text(self) -> str:
        """Return the screen as one text."""
        return "\n".join(self.lines()).rstrip()

    def scrollback(self) -> list[str]:
        """Return all rows, those that have scrolled out at the top included."""
        above = [
            "".join(row[column].data for column in range(self._history.columns)).rstrip()
            for row in self._history.history.top
        ]
        return above + self.lines()

    def cursor(self) -> tuple[int, int]:
        """Return the cursor's column and row, from 0."""
        return self._history.cursor.x, self._history.cursor.y

    def cell(self, column: int, row: int) -> Any:
        """Return pyte's cell there: `.data`, `.fg`, `.bold` and so on."""
        return self._history.buffer[row][column]

    def wait_until(
        self,
        predicate: Callable[["Screen"], bool],
        deadline_s: float | None = None,
        *,
        what: str = "",
    ) -> None:
        """Read until the predicate holds.

        Raises:
            ScreenTimeout: it did not hold in time, or the program ended first; with the screen.
        """
        deadline = time.monotonic() + (self.deadline_s if deadline_s is None else deadline_s)
        while self._is_in_frame() or not predicate(self):
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                if predicate(self):
                    return
                ended = "" if self._is_open else "the program ended; "
                raise ScreenTimeout(f"{ended}waited for {what or predicate}; saw:\n{self.text()}")

    def wait_for(self, text: str, deadline_s: float | None = None) -> None:
        """Read until the text stands on the screen or in the scrollback."""
        self.wait_until(
            lambda s: any(text in line for line in s.scrollback()), deadline_s, what=repr(text)
        )

    def wait_gone(self, text: str, deadline_s: float | None = None) -> None:
        """Read until the text is not on the screen any more."""
        self.wait_until(lambda s: text not in s.text(), deadline_s, what=f"no {text!r}")

    def settle(self, quiet_s: float = 0.15) -> None:
        """Read until the program, which rests, has been quiet for so long (or ended)."""
        deadline = time.monotonic() + self.deadline_s
        while self._read_until_rest(deadline) and (self._read(quiet_s) or not self.is_at_rest()):
            pass

    def rest(self, seconds: float) -> None:
        """Read until the program has taken its keys and rests; and then so long, whatever it says."""
        deadline = time.monotonic() + self.deadline_s
        while self._read_until_rest(deadline):
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0 and self._is_open:
                self._read(left)
            if self.is_at_rest():
                return

    def _read_until_rest(self, deadline: float) -> bool:
        """Read until the program rests; return whether it has not ended."""
        while self._is_open and not self.is_at_rest():
            self._read(0.002)
            if time.monotonic() > deadline:
                raise ScreenTimeout(f"the program never rests; saw:\n{self.text()}")
        return self._is_open

    def is_at_rest(self) -> bool:
        """Return whether the program has taken its keys, and each of its threads waits for something.

        One that waits for a processor, or was stopped, does not: it may be quiet for long in the
        middle of its work. Where the system does not tell, a program is taken to be at rest.
        """
        return not self._keys_waiting() and not {*self._threads()} & {"R", "D", "T", "gone"}

    def _keys_waiting(self) -> int:
        """Return how many bytes typed the program has not taken yet."""
        number, waiting = array.array("i", [0]), array.array("i", [0])
        with contextlib.suppress(OSError):
            ioctl(self.process.fd, _PTY_NUMBER, number)
            its_end = os.open(f"/dev/pts/{number[0]}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                # A worker of the kernel hands on what we wrote: who looks for it waits for that.
                select.select([its_end], [], [], 0)
                ioctl(its_end, termios.FIONREAD, waiting)
            finally:
                os.close(its_end)
        return waiting[0]

    def _threads(self) -> Iterator[str]:
        """Return the state of each thread, as Linux spells it; of one that has just ended "gone"."""
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
                try:
                    yield thread.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0]
                except OSError:
                    yield "gone"

    def _is_in_frame(self) -> bool:
        """Return whether a synchronized update is half read: a person would not see that."""
        return (2026 << 5) in self._history.mode

    def _read(self, seconds: float = 0.0) -> bool:
        """Read what is there, waiting for it at most so long; return whether there was some."""
        if not self._unseen and not self._receive(seconds):
            return False
        # Frame by frame: what stood on the screen for a moment alone was seen, too.
        frame, end, self._unseen = self._unseen.partition(_END_OF_FRAME)
        self.raw += frame + end
        self._stream.feed(frame + end)
        return True

    def _receive(self, seconds: float) -> bool:
        if not self._is_open or not select.select([self.process.fd], [], [], seconds)[0]:
            return False
        try:
            self._unseen = os.read(self.process.fd, 65536)
        except OSError:
            self._unseen = b""
        self._is_open = bool(self._unseen)
        return self._is_open

    # --- ending ---

    def modes(self) -> list[Any]:
        """Return the terminal's modes now, to compare with `modes_before`."""
        return termios.tcgetattr(self.process.fd)

    def wait_exit(self, deadline_s: float | None = None) -> int:
        """Read until the program has ended; return its exit code, minus the signal's number."""
        deadline = time.monotonic() + (self.deadline_s if deadline_s is None else deadline_s)
        while self.process.isalive():
            if time.monotonic() > deadline:
                raise ScreenTimeout(f"the program does not end; saw:\n{self.text()}")
            self._read(0.05)
        while self._read():
            pass
        if self.process.signalstatus is not None:
            return -int(self.process.signalstatus)
        return int(self.process.exitstatus or 0)

    def hang_up(self) -> int:
        """Close the terminal under the program; return its exit code."""
        self._is_open = False
        self.process.fileobj.close()
        self.process.wait()
        self.process.closed = True
        if self.process.signalstatus is not None:
            return -int(self.process.signalstatus)
        return int(self.process.exitstatus or 0)

    def close(self) -> int | None:
        """End the program if it still runs and let go of the pty; return its exit code, if any."""
        if not self.process.closed:
            with contextlib.suppress(OSError):
                if self.process.isalive():
                    os.kill(self.process.pid, signal.SIGKILL)
            while self._read(0.2):
                pass
            self._is_open = False
            self.process.wait() if self.process.isalive() else None
            self.process.close()
        return None if self.process.exitstatus is None else int(self.process.exitstatus)


Spawn: TypeAlias = Callable[..., Screen]
"""What starts a program in a terminal; see the fixture `spawn`."""


def editor_line(screen: Screen) -> str:
    """Return the row the cursor stands on."""
    return screen.lines()[screen.cursor()[1]]
