"""A program in a real pty, read as fast as it writes. Not a screen: bytes, and when they came."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Self

CURSOR_REQUEST, CURSOR_REPORT = b"\x1b[6n", b"\x1b[1;1R"
PROGRAMS = Path(__file__).parent / "programs"
HANGS_S = 300.0
"""Nothing that is measured takes that long, on no machine: it only ends what hangs."""
_SEQUENCE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """A program in a pty of 80 x 24. Use it as a context manager: leaving it ends the program.

    The program's home is `home`, so that nothing of the person who measures is read or written.
    """

    def __init__(
        self, argv: Sequence[str | Path], home: Path, env: Mapping[str, str] | None = None
    ) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.fd = ours
        self.seen = b""
        self._tail = b""
        base = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        self.began = perf_counter()
        self.process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=base | dict(env or {}),
            cwd=home,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def type(self, text: str) -> float:
        """Send keys; return when, just before."""
        when = perf_counter()
        os.write(self.fd, text.encode())
        return when

    def read(self, timeout_s: float) -> tuple[bytes, float]:
        """Return what came next and when; nothing after so many seconds without output."""
        readable, _, _ = select.select([self.fd], [], [], timeout_s)
        when = perf_counter()
        if not readable:
            return b"", when
        try:
            data = os.read(self.fd, 1 << 20)
        except OSError as error:  # what Linux says of a pty whose program has ended
            raise EOFError(f"the program ended; it wrote: {self.words()[-2000:]}") from error
        if CURSOR_REQUEST in self._tail + data:
            os.write(self.fd, CURSOR_REPORT)
        self._tail = data[-3:]
        self.seen = (self.seen + data)[-200_000:]
        return data, when

    def until(self, holds: Callable[[bytes], bool], timeout_s: float = HANGS_S) -> float:
        """Read until that holds of what came since the call; return when it came to.

        Raises:
            TimeoutError: it did not, in time.
        """
        found = b""
        deadline = perf_counter() + timeout_s
        while perf_counter() < deadline:
            data, when = self.read(deadline - perf_counter())
            found += data
            if holds(found):
                return when
        raise TimeoutError(f"it never came; the program wrote: {self.words()[-2000:]}")

    def until_text(self, text: str, timeout_s: float = HANGS_S) -> float:
        """Read until this text has come; return when."""
        wanted = text.encode()
        return self.until(lambda found: wanted in found, timeout_s)

    def rest(self, quiet_s: float = 0.3) -> None:
        """Read until nothing has come for so long."""
        while self.read(quiet_s)[0]:
            pass

    def words(self) -> str:
        """Return what the program wrote lately, without escape sequences."""
        return _SEQUENCE.sub(b" ", self.seen).decode(errors="replace")


def midstream() -> list[str | Path]:
    """Return the command a person types, without its arguments."""
    return [Path(sys.executable).with_name("midstream")]


def bare_prompt(home: Path) -> list[str | Path]:
    """Return the command of the bare prompt."""
    return [sys.executable, PROGRAMS / "bare_prompt.py", home]


def fresh_home() -> tempfile.TemporaryDirectory[str]:
    """Return a home folder with a little code in it, gone when the context ends."""
    made = tempfile.TemporaryDirectory(prefix="midstream-bench-", ignore_cleanup_errors=True)
    lines = "\n".join(f"def part_{n}(x: int) -> int:\n    return x + {n}\n" for n in range(20))
    (Path(made.name) / "code.py").write_text(lines, encoding="utf-8")
    return made
