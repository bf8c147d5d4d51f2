"""A console in a real pty with a screen of `pyte` before it, and what its processes come to."""

import contextlib
import os
import re
import select
import termios
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from pty import openpty
from struct import pack
from subprocess import Popen
from time import perf_counter
from types import TracebackType
from typing import Final, Self

import pyte

from benchmarks.processes import below, kill

HANGS_S: Final = 60.0
"""No console takes that long for anything that is measured."""

COLUMNS: Final = 100
ROWS: Final = 40

_ANSWERS: Final = (
    (re.compile(rb"\x1b\[6n"), b"\x1b[%d;%dR"),
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\]10;\?(?:\x07|\x1b\\)"), b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(?:\x07|\x1b\\)"), b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
)
"""What a terminal is asked, and what an ordinary one answers. It knows no newer protocol of keys."""

_LEFT_OUT: Final = re.compile(
    rb"\x1b\[[0-9;:]*m|\x1b\[[<>=?][0-9;]*(?:u|m|q|c|n|\$p)|\x1b\[0?c|\x1b\[[0-9;]*n"
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P_^X][^\x1b]*\x1b\\"
)
"""Colours, questions and titles: `pyte` does not know all of them, and nobody looks at them here."""

_CUT: Final = re.compile(rb"\x1b(?:\[[0-9;:<>=?$ ]*|\][^\x07\x1b]*\x1b?|[P_^X][^\x1b]*\x1b?)?$")


class _Emulated(pyte.HistoryScreen):
    """A screen without colours, which `pyte` does not know all of."""

    def select_graphic_rendition(self, *codes: int, **how: bool) -> None:
        """Draw on in the same colour."""


class Screen:
    """A program in a terminal. Use it as a context manager: leaving it ends the program and all of its."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._fd, theirs = openpty()
        ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = _Emulated(COLUMNS, ROWS, history=3000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._rest = b""
        self._unseen = b""
        self.home = env["HOME"]
        self.began = perf_counter()
        # setsid makes the terminal that of the program, and then is the program.
        command = ["setsid", "--ctty", *argv]
        self.process = Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=env)
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        kill(self.pids())
        self.process.wait()
        os.close(self._fd)

    # --- what a person does ---

    def type(self, text: str) -> float:
        """Send keys; return when, just before."""
        when = perf_counter()
        os.write(self._fd, text.encode())
        return when

    def read(self, seconds: float) -> bool:
        """Read what comes within so long; return whether something came.

        Raises:
            EOFError: the program has ended.
        """
        if not select.select([self._fd], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError as error:
            raise EOFError(f"the console ended; its screen: {self.text[-600:]}") from error
        for question, answer in _ANSWERS:
            if question.search(data):
                at = (self._screen.cursor.y + 1, self._screen.cursor.x + 1)
                self._show()
                os.write(self._fd, answer % at if b"%d" in answer else answer)
        self._unseen += data
        return True

    def until(
        self, holds: Callable[[], bool], seconds: float = HANGS_S, step_s: float = 0.05
    ) -> float:
        """Read until something holds; return when.

        Raises:
            TimeoutError: it did not come to.
        """
        until = perf_counter() + seconds
        while not holds():
            if perf_counter() > until:
                raise TimeoutError(f"it never came; the screen: {self.text[-1500:]}")
            self.read(step_s)
        return perf_counter()

    def wait(self, seconds: float) -> None:
        """Let time pass, reading."""
        until = perf_counter() + seconds
        while (left := until - perf_counter()) > 0:
            self.read(left)

    def rest(self, quiet_s: float = 0.5, seconds: float = 5.0) -> None:
        """Read until the console is quiet, or has not been for too long."""
        until = perf_counter() + seconds
        while perf_counter() < until and self.read(quiet_s):
            pass

    # --- what a person sees ---

    @property
    def shown(self) -> str:
        """Return what stands on the screen."""
        self._show()
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def text(self) -> str:
        """Return what stands on the screen, after what was scrolled out at its top."""
        self._show()
        above = (
            "".join(row[x].data for x in range(COLUMNS)).rstrip()
            for row in self._screen.history.top
        )
        return "\n".join([*above, self.shown]).strip()

    def has(self, words: str) -> bool:
        """Return whether these words stand there, wherever lines are broken."""
        return _run_together(words) in _run_together(self.text)

    @property
    def is_raw(self) -> bool:
        """Return whether keys come to the program one by one, and it draws them itself."""
        return not termios.tcgetattr(self._fd)[3] & (termios.ECHO | termios.ICANON)

    def _show(self) -> None:
        data, self._unseen = self._rest + self._unseen, b""
        cut = _CUT.search(data)
        data, self._rest = (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")
        if data:
            self._stream.feed(_LEFT_OUT.sub(b"", data))

    # --- what its processes come to ---

    def pids(self) -> set[int]:
        """Return the processes of the program: those below it, and those that went away with its home."""
        found = below(self.process.pid) if self.process.poll() is None else set()
        mark = f"HOME={self.home}\0".encode()
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if mark in (folder / "environ").read_bytes():
                        found.add(int(folder.name))
        return found | {each for pid in found for each in below(pid)}


def _run_together(text: str) -> str:
    return re.sub(r"[^\w.]+", "", text)
