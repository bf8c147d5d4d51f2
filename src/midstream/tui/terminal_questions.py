"""Questions at a terminal: only keys pressed under a question answer it. `Sequences` is the console's, too.

What was typed before it stood there, or within `FRESH_S` of that, is dropped: it was meant for
something else. So is what comes faster than fingers: the keys of a paste, or of a program. One key and
Enter are no paste where they come together: a busy machine hands over late what was typed quickly, and
a terminal says what is pasted.

What a terminal says of itself (its colours, the clipboard, that it has the focus) comes among the keys,
and over a slow line in pieces: the rest of an answer looks like a key. So none answers while a sequence
is open, or within `QUIET_S` of one.
"""

import codecs
import contextlib
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from midstream.system.own_process import (
    STDIN,
    STDOUT,
    erase_last,
    mark_pastes,
    write_error,
    write_out,
)
from midstream.tui.on_screen import FRESH_S

PAUSE_S: Final = 0.02
"""Between two keys of a person there is more; between two of a paste, less."""

PASTED: Final = "(Pasted text is ignored: type it.)"

_INTERRUPT: Final = 0x03
_END: Final = "\x04"
_RUBOUT: Final = ("\x7f", "\b")
_CLEAR: Final = ("\x15", "\x17")
_PASTE: Final = "\x1b[200~"

QUIET_S: Final = 1.0
"""How long after a terminal's own words no key answers."""

_WORDS: Final = r"[^\x00-\x1f\x7f]*"
_WHOLE: Final = re.compile(
    r"\x1b(?:\[200~.*?\x1b\[201~"
    r"|\[M.{3}"  # a pointer, as the oldest terminals tell it
    r"|\[(?!200~|M)\[?[0-?]*[ -/]*[@-~]"
    rf"|[]P_^X]{_WORDS}(?:\x07|\x1b\\)"
    r"|O[ -~]"
    r"|[^][P_^XO\x1b])",
    re.DOTALL,
)
_BEGUN: Final = re.compile(
    rf"\x1b(?:\[200~.*|\[M.{{0,2}}|\[\[?[0-?]*[ -/]*|[]P_^X]{_WORDS}\x1b?|O)?\Z", re.DOTALL
)
_KEY: Final = re.compile(r"\x1b(?:O[A-DFH]|\[(?:1;[2-8])?[A-DFHZ]|\[[1-9]\d?(?:;[2-8])?~)")
"""Arrows and their neighbours. None of them ends as the key of an answer looks."""

_LONG: Final = 4_096


class Sequences:
    """What a terminal says of itself among the keys, followed so that no piece of it passes for a key."""

    def __init__(self) -> None:
        """Begin where none is open."""
        self._open = ""
        self._heard_at = float("-inf")

    def heard(self, piece: str, now: float) -> bool:
        """Take a piece of input; return whether a key in it may answer, as far as this goes.

        Esc alone is a key once nothing has followed it for `QUIET_S`. Of another sequence only its end
        is one, or a key that cannot be part of it, such as Backspace.
        """
        if self._open == "\x1b" and now - self._heard_at >= QUIET_S:
            self._open = ""
        was_open = bool(self._open)
        text, self._open = self._open + piece, ""
        is_heard, at = was_open, 0
        while (at := text.find("\x1b", at)) >= 0:
            whole = _WHOLE.match(text, at)
            if whole is not None:
                is_heard = is_heard or _KEY.fullmatch(whole[0]) is None
                at = whole.end()
            elif _BEGUN.match(text, at):
                is_heard, self._open = True, text[at:]
                break
            else:
                # Broken off, by Backspace maybe; the rest of its own piece is still not to be trusted.
                is_heard, at = is_heard or not was_open, at + 1
        if len(self._open) > _LONG:
            self._open = self._open[:6] + self._open[-6:]
        is_quiet = not is_heard and now - self._heard_at >= QUIET_S
        if is_heard:
            self._heard_at = now
        return is_quiet


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
    typing = _Typing(write)
    typing.put(question)
    line = ""
    while True:
        keys, is_typed = typing.keys()
        if not is_typed:
            if len(keys) > 1 and (_PASTE in keys or not keys.startswith("\x1b")):
                typing.put(f"\n{PASTED}\n{question}")
                line = ""
            continue
        for key in keys:
            if key in ("\r", "\n"):
                write("\n")
                return line
            if key == _END and not line:
                write("\n")
                raise KeyboardInterrupt
            if key in _RUBOUT and line:
                line = line[:-1]
                erase_last(to)
            elif key in _CLEAR:
                erase_last(to, len(line))
                line = ""
            elif key.isprintable():
                line += key
                write(key)


class _Typing:
    """Keys from the terminal, as they come."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._sequences = Sequences()

    def put(self, question: str) -> None:
        """Write a question. What is typed until it has stood there for a while is dropped, also where
        this process gets to read it only later.
        """
        self._write(question)
        fresh_at = time.monotonic() + FRESH_S
        while select.select([STDIN], [], [], max(0.0, fresh_at - time.monotonic()))[0]:
            self.keys()

    def keys(self) -> tuple[str, bool]:
        """Return the next keys, and whether a person has typed them: one, or one and Enter."""
        burst = _burst()
        if _INTERRUPT in burst or not burst:
            self._write("\n")
            raise KeyboardInterrupt
        keys = self._decode(burst)
        is_quiet = self._sequences.heard(keys, time.monotonic())
        is_one = len(keys) < 2 or (len(keys) == 2 and keys[0].isprintable() and keys[1] in "\r\n")
        return keys, is_quiet and is_one


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
    if sys.platform == "win32":
        yield False
        return
    import termios

    try:
        before = termios.tcgetattr(STDIN)
    except (OSError, termios.error):
        yield False
        return
    mode = termios.tcgetattr(STDIN)
    # Ctrl-C comes as a key: a loop that waits here would not hear the signal.
    mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(STDIN, termios.TCSAFLUSH, mode)
    mark_pastes(is_on=True)
    try:
        yield True
    finally:
        mark_pastes(is_on=False)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


def _plain_line() -> str:
    try:
        return input().strip()
    except EOFError:
        raise KeyboardInterrupt from None
