"""Stray writes to stdout and stderr, told as words of the console instead of drawn over it.

Handlers, tools and libraries print, and so do the programs they start. Over a prompt that is garbage
on the screen, and between JSON lines it is broken output. While a UI has the terminal, what is
printed goes through it: Python's own streams at once, whatever else writes to the descriptors 1 and 2
through a pipe. The UI itself writes to a descriptor of its own.
"""

import asyncio
import codecs
import contextlib
import io
import os
import selectors
import sys
import threading
from collections.abc import Callable, Iterator

from midstream.app.ui import UI
from midstream.config.portable import NotHere
from midstream.system.offloop import call_soon
from midstream.system.own_process import own_redactor

MAX_LINE = 20_000
"""Characters after which a line without an end is told all the same."""
_MAX_PIPE_BYTES = 1 << 20


class CapturedStream(io.TextIOBase):
    """A text file whose lines are handed to `emit`, on the loop, from whatever thread they come."""

    def __init__(self, emit: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> None:
        self._emit = emit
        self._loop = loop
        self._clean = own_redactor().sliding()
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
            *lines, self._rest = (self._rest + self._clean.fed(text)).split("\n")
            if len(self._rest) > MAX_LINE:
                lines, self._rest = [*lines, self._rest], ""
        for line in lines:
            call_soon(self._loop, self._emit, line)
        return len(text)

    def finish(self) -> None:
        """Tell what has no end yet."""
        with self._lock:
            rest, self._rest = self._rest + self._clean.rest(), ""
        for line in rest.split("\n") if rest else ():
            self._emit(line)


@contextlib.contextmanager
def capture_stdio(ui: UI) -> Iterator[None]:
    """Tell what is printed through a UI, for as long as this lasts. Enter it on the loop."""
    loop = asyncio.get_running_loop()
    out = CapturedStream(ui.say, loop)
    err = CapturedStream(lambda line: ui.say(line, kind="note"), loop)
    before = sys.stdout, sys.stderr
    with _descriptors(lambda line: call_soon(loop, ui.say, line)):
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            out.finish()
            err.finish()


_DESCRIPTORS = (1, 2)


@contextlib.contextmanager
def _descriptors(emit: Callable[[str], None]) -> Iterator[None]:
    """Tell the lines that are written to stdout and stderr by number; `emit` is called in a thread."""
    if sys.platform == "win32":
        # Its pipes cannot be waited for together with anything else: what programs print is seen where
        # they print it.
        yield
        return
    reading, writing = os.pipe()
    over, end = os.pipe()
    kept = [os.dup(number) for number in _DESCRIPTORS]
    for number in _DESCRIPTORS:
        os.dup2(writing, number)
    os.close(writing)
    reader = threading.Thread(
        target=_read_lines, args=(reading, over, emit), name="midstream-stray", daemon=True
    )
    reader.start()
    try:
        yield
    finally:
        for number, original in zip(_DESCRIPTORS, kept, strict=True):
            os.dup2(original, number)
            os.close(original)
        os.write(end, b".")
        reader.join()
        for each in (reading, over, end):
            os.close(each)


def _written(descriptor: int, over: int) -> Iterator[bytes]:
    """Yield what is written, up to what is there once somebody writes to `over`.

    The end of the pipe is not waited for: a process that was left behind may hold it for ever.
    """
    if sys.platform == "win32":
        raise NotHere
    with selectors.DefaultSelector() as selector:
        for each in (descriptor, over):
            selector.register(each, selectors.EVENT_READ)
        while over not in {key.fd for key, _ in selector.select()}:
            data = os.read(descriptor, 65_536)
            if not data:
                return
            yield data
    # One read takes all that a pipe can hold; whoever goes on writing is not waited for.
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        yield os.read(descriptor, _MAX_PIPE_BYTES)


def _read_lines(descriptor: int, over: int, emit: Callable[[str], None]) -> None:
    rest = ""
    clean = own_redactor().sliding()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for data in _written(descriptor, over):
        *lines, rest = (rest + clean.fed(decoder.decode(data))).split("\n")
        if len(rest) > MAX_LINE:
            lines, rest = [*lines, rest], ""
        for line in lines:
            emit(line.rstrip("\r"))
    rest += clean.fed(decoder.decode(b"", final=True)) + clean.rest()
    for line in rest.split("\n") if rest else ():
        emit(line)
