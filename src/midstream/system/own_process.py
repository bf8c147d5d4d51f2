"""The process midstream runs in: its standard streams as they may be, its signals, its secrets.

What is written to stdout and stderr outside a UI goes through `write_out` and `write_error`, and
nothing else in the house writes there: no control of a foreign text reaches a terminal, and no key
of ours anybody.
"""

import asyncio
import contextlib
import gc
import io
import os
import shutil
import signal
import sys
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

from midstream.language.errors import WorldTrouble
from midstream.safety import redaction
from midstream.safety.redaction import Redactor, secret_values
from midstream.safety.sanitize import sanitized

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2

HANGUPS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that end a program from outside: a kill, and a closed terminal."""

T = TypeVar("T")


class Signalled(Exception):
    """A signal ended the work; everything it had begun has been stopped."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class OutputLost(WorldTrouble):
    """What was written to stdout did not arrive. `is_unread`: its reader has gone, such as `head`."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"The output cannot be written: {error.strerror or error}.",
            hint="Free some space, or redirect stdout.",
        )
        self.is_unread = isinstance(error, BrokenPipeError)


def open_missing_streams() -> None:
    """Open what is closed of stdin, stdout and stderr.

    Else the next file or socket to be opened would take the number, and be written to as if it were
    stdout. Reading finds the end at once; writing to stdout fails, as it does on a closed one.
    """
    for number, mode in ((STDIN, os.O_RDONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free, which is this one


def load_without_collecting() -> None:
    """Collect no garbage from now on, until `settle_memory`: what is being loaded is here to stay."""
    gc.disable()


def settle_memory() -> None:
    """Set aside everything loaded so far for good, and collect garbage again.

    A full collection over the libraries behind the models blocks the loop for a tenth of a second:
    long enough to see it in a halt.
    """
    gc.freeze()
    gc.enable()


@contextmanager
def loading_for_good() -> Iterator[None]:
    """Load something large within: no garbage is collected meanwhile.

    It is set aside too where `settle_memory` has set aside what there was before; in a process that
    is not ours nothing is.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count():
            gc.freeze()
        if was_enabled:
            gc.enable()


def favour_the_loop() -> None:
    """Let threads that compute give way to the loop after a millisecond, where Python has five.

    The loop waits for them anew whenever it has waited for anything else: a key has to be read, looked
    at, drawn and written, and each of these would cost five milliseconds beside a block of code that
    is being coloured. So would every piece of every reply, without a screen, beside a file of one run
    that is being read.
    """
    sys.setswitchinterval(0.001)


def columns() -> int:
    """Return how wide the person's terminal is; 80 where there is none and COLUMNS is not set.

    While a UI has the terminal, stdout leads to it, and only stdin still knows.
    """
    for number in (STDIN, STDOUT):
        with contextlib.suppress(OSError):
            if (found := os.get_terminal_size(number).columns) > 0:
                return found
    return shutil.get_terminal_size().columns


def is_terminal(number: int) -> bool:
    """Return whether a stream is a terminal."""
    try:
        return os.isatty(number)
    except OSError:
        return False


@cache
def own_redactor() -> Redactor:
    """Return what takes secrets out of texts, the values of our own environment's keys included.

    The environment is read once: what is taken out of it later is a secret all the same.
    """
    return Redactor(secret_values(os.environ))


def beginning(text: str, chars: int) -> str:
    """Return the first characters of a text, without half of a secret that goes on there."""
    return own_redactor().beginning(text, chars)


def ending(text: str, chars: int) -> str:
    """Return about the last characters of a text, its secrets redacted before it is cut."""
    return redaction.ending(text, chars, own_redactor().redacted)


def write_out(text: str, *, is_exact: bool = False) -> None:
    """Write text to stdout as UTF-8, whatever the locale says; what cannot be encoded becomes `?`.

    Secrets are redacted, and it is made harmless: what stands in it may be foreign, and whoever reads a
    pipe or file may show it on a terminal. With `is_exact` a pipe or file gets it as it is: that is for
    a run's own result, and for what programs read.

    Raises:
        OutputLost: it could not be written, or not all of it.
    """
    text = own_redactor().redacted(text)
    told = text if is_exact and not is_terminal(STDOUT) else sanitized(text)
    _write_out(told.encode("utf-8", "replace"))


def write_bytes(data: bytes) -> None:
    """Write data to stdout as it is; at a terminal as text that is made harmless, its secrets redacted.

    Raises:
        OutputLost: it could not be written, or not all of it.
    """
    if is_terminal(STDOUT):
        write_out(data.decode("utf-8", "replace"))
    else:
        _write_out(data)


def _write_out(data: bytes) -> None:
    try:
        _write(STDOUT, data)
    except OSError as error:
        raise OutputLost(error) from None


def write_error(text: str) -> None:
    """Write text to stderr, made harmless and its secrets redacted. Unheard, it is lost."""
    with contextlib.suppress(OSError):
        _write(STDERR, sanitized(own_redactor().redacted(text)).encode("utf-8", "replace"))


def complain(text: str) -> None:
    """Write a line to stderr, at a terminal broken between words; unheard, it is lost."""
    if is_terminal(STDERR):
        text = "\n".join(_between_words(line) for line in text.split("\n"))
    write_error(f"{text}\n")


def _between_words(line: str) -> str:
    """Return a line of a terminal's width as several; a word longer than that is left whole."""
    from textwrap import wrap  # no command that goes well needs it

    width = columns()
    if len(line) < width:
        return line
    return "\n".join(
        wrap(line, width - 1, break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
    )


def erase_last(number: int, cells: int = 1) -> None:
    """Erase so many cells before the cursor of a terminal, as Backspace does."""
    with contextlib.suppress(OSError):
        _write(number, b"\b \b" * cells)


def mark_pastes(*, is_on: bool) -> None:
    """Let the terminal that keys come from say what of them is pasted, or no more."""
    if os.environ.get("TERM", "dumb") != "dumb":
        with contextlib.suppress(OSError):
            _write(STDIN, b"\x1b[?2004h" if is_on else b"\x1b[?2004l")


class CleanStderr(io.TextIOBase):
    """Python's own way to stderr, through `write_error`: warnings, tracebacks, last words of threads."""

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Return whether a terminal shows it."""
        return is_terminal(STDERR)

    def fileno(self) -> int:
        """Return the descriptor behind it."""
        return STDERR

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return what text written here is encoded in."""
        return "utf-8"

    def write(self, text: str) -> int:
        """Write text, made harmless and its secrets redacted."""
        write_error(text)
        return len(text)


def _write(number: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]


def drop_stdout() -> None:
    """Let what is still buffered for a lost stdout go nowhere, so that the exit does not fail too."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDOUT)
        os.close(nowhere)


def run_until_signalled(work: Coroutine[Any, Any, T], *, signals: Iterable[int]) -> T:
    """Return what `work` returns. The first of the signals cancels it, and is raised once it is done.

    Later ones change nothing: cleaning up is bounded, and cut short it would leave tools running. Threads
    give way to the work's loop soon: see `favour_the_loop`.

    Raises:
        Signalled: a signal came, and the work has ended.
        KeyboardInterrupt: SIGINT came, and is none of `signals`.
    """
    heard: list[int] = []
    favour_the_loop()

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            if not heard:
                heard.append(number)
                task.cancel()

        # Elsewhere (Windows) the loop knows no signals, and they end the process as ever.
        for number in signals if os.name == "posix" else ():
            loop.add_signal_handler(number, stop, number)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not heard:
            raise
        raise Signalled(heard[0]) from None
