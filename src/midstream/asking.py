"""Questions at a terminal outside of the console: only keys pressed under a question answer it.

What was typed before it stood there, or within `FRESH_S` of that, is dropped: it was meant for
something else. So is what comes faster than fingers: the keys of a paste, or of a program.
"""

import codecs
import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from typing import Final

from midstream.process import STDIN, STDOUT, erase_last, write_error, write_out

FRESH_S: Final = 0.4
"""How long a question must have been on the screen before a key counts."""

PAUSE_S: Final = 0.02
"""Between two keys of a person there is more; between two of a paste, less."""

PASTED: Final = "(What is pasted does not count: type it.)"

_INTERRUPT: Final = 0x03
_END: Final = "\x04"
_RUBOUT: Final = ("\x7f", "\b")
_CLEAR: Final = ("\x15", "\x17")
_ESCAPE: Final = 0x1B
_LONGEST_KEY: Final = 8
"""Bytes of an arrow or function key, at most; what is longer is no key."""


def asked(question: str, *, to: int = STDOUT) -> str:
    """Return the line a person types under a question, without blanks around it.

    Blocks. Call it only where stdin and `to` are terminals.

    Raises:
        KeyboardInterrupt: by Ctrl-C, by Ctrl-D on an empty line, or because the terminal is gone.
    """
    write = write_out if to == STDOUT else write_error
    with _key_by_key() as has_keys:
        if not has_keys:
            write(question)
            return _plain_line()
        return _typed(question, write, to).strip()


def is_yes(question: str) -> bool:
    """Return whether a person at the terminal says yes; anything else is a no."""
    return asked(f"{question} [y/N]: ").casefold() in ("y", "yes")


def _typed(question: str, write: Callable[[str], None], to: int) -> str:
    write(question)
    fresh_at = time.monotonic() + FRESH_S
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    line = ""
    while True:
        burst = _burst()
        if _INTERRUPT in burst or not burst:
            write("\n")
            raise KeyboardInterrupt
        if time.monotonic() < fresh_at or (burst[0] == _ESCAPE and len(burst) <= _LONGEST_KEY):
            continue
        key = decoder.decode(burst)
        if len(key) > 1:
            write(f"\n{PASTED}\n{question}")
            fresh_at, line = time.monotonic() + FRESH_S, ""
        elif key in ("\r", "\n"):
            write("\n")
            return line
        elif key == _END and not line:
            write("\n")
            raise KeyboardInterrupt
        elif key in _RUBOUT and line:
            line = line[:-1]
            erase_last(to)
        elif key in _CLEAR:
            erase_last(to, len(line))
            line = ""
        elif key.isprintable():
            line += key
            write(key)


def _burst() -> bytes:
    """Return one key, or all that came together; nothing once the terminal is gone."""
    found = b""
    with contextlib.suppress(OSError):
        found = os.read(STDIN, 1024)
        while found and select.select([STDIN], [], [], PAUSE_S)[0]:
            more = os.read(STDIN, 1024)
            found += more
            if not more:
                break
    return found


@contextlib.contextmanager
def _key_by_key() -> Iterator[bool]:
    """Take each key as it comes, unechoed, with none of those typed so far. False: it cannot be."""
    try:
        import termios

        before = termios.tcgetattr(STDIN)
    except (ImportError, OSError):
        yield False
        return
    except termios.error:
        yield False
        return
    mode = termios.tcgetattr(STDIN)
    # Ctrl-C comes as a key: a loop that waits here would not hear the signal.
    mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(STDIN, termios.TCSAFLUSH, mode)
    try:
        yield True
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


def _plain_line() -> str:
    try:
        return input().strip()
    except EOFError:
        raise KeyboardInterrupt from None
