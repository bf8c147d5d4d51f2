"""Stray writes to stdout and stderr, told as words of the console instead of drawn over it.

Handlers, tools and libraries print. Over a prompt that is garbage on the screen, and between JSON
lines it is broken output. While a face has the terminal, what is printed goes through it.
"""

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Callable, Iterator

from midstream.offloop import call_soon
from midstream.ports import Face

MAX_LINE = 20_000
"""Characters after which a line without an end is told all the same."""


class Told(io.TextIOBase):
    """A text file whose lines are handed to `tell`, on the loop, from whatever thread they come."""

    def __init__(self, tell: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> None:
        self._tell = tell
        self._loop = loop
        self._rest = ""
        self._lock = threading.Lock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return what text written here is encoded in."""
        return "utf-8"

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Take text; whole lines are told, the rest waits for its end."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            if len(self._rest) > MAX_LINE:
                lines, self._rest = [*lines, self._rest], ""
        for line in lines:
            call_soon(self._loop, self._tell, line)
        return len(text)

    def finish(self) -> None:
        """Tell what has no end yet."""
        with self._lock:
            rest, self._rest = self._rest, ""
        if rest:
            self._tell(rest)


@contextlib.contextmanager
def redirected(face: Face) -> Iterator[None]:
    """Tell what is printed through a face, for as long as this lasts. Enter it on the loop."""
    loop = asyncio.get_running_loop()
    out = Told(face.say, loop)
    err = Told(lambda line: face.say(line, kind="note"), loop)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        out.finish()
        err.finish()
