"""The end of a running command's output as a terminal would show it: the last lines, as they stand now.

A progress bar writes over its own line; what counts is how it stands. What moves the cursor is
followed as far as such bars need it, and every other escape sequence is left out. The text stays
foreign: whoever draws it sanitizes it.
"""

import re
from typing import Final

MAX_LINES: Final = 24
MAX_CHARS: Final = 400
_MAX_FED: Final = 40_000
_MAX_SEQUENCE: Final = 200

_PIECES: Final = re.compile(
    r"\x1b\[(?P<numbers>[0-?]*)[ -/]*(?P<final>[@-~])"  # such as colours, and moving the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # such as a title or a link
    r"|\x1b[ -/]*[0-Z\\^-~]"
    r"|(?P<control>[\n\r\x08])"
    r"|(?P<text>[^\x1b\n\r\x08]+)"
)
_UNFINISHED: Final = re.compile(r"\x1b(?:[ -/]*|\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)\Z")


class OutputTail:
    """Takes output in pieces, cut anywhere, and keeps its last lines."""

    __slots__ = ("_is_at_start", "_lines", "_rest")

    def __init__(self) -> None:
        self._lines = [""]
        self._rest = ""
        self._is_at_start = False

    def feed(self, text: str) -> None:
        """Take the next piece of the output."""
        text = (self._rest + text)[-_MAX_FED:]
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MAX_SEQUENCE))
        self._rest = text[unfinished.start() :] if unfinished else ""
        for piece in _PIECES.finditer(text, 0, len(text) - len(self._rest)):
            if words := piece["text"]:
                self._write(words)
            elif control := piece["control"]:
                self._control(control)
            elif final := piece["final"]:
                self._sequence(final, piece["numbers"])

    def _write(self, words: str) -> None:
        # After a return the line is written anew: what is left of a longer one is not looked at.
        known = "" if self._is_at_start else self._lines[-1]
        self._is_at_start = False
        self._lines[-1] = (known + words)[-MAX_CHARS:]

    def _control(self, char: str) -> None:
        if char == "\n":
            self._is_at_start = False
            self._lines.append("")
            del self._lines[:-MAX_LINES]
        elif char == "\r":
            self._is_at_start = True
        else:
            self._lines[-1] = self._lines[-1][:-1]

    def _sequence(self, final: str, numbers: str) -> None:
        count = int(numbers) if numbers.isascii() and numbers.isdigit() and len(numbers) < 4 else 1
        if final == "K" and (numbers in ("1", "2") or self._is_at_start):
            self._lines[-1] = ""
        elif final == "G" and count <= 1:
            self._is_at_start = True
        elif final == "J" and numbers in ("2", "3"):
            self._lines = [""]
        elif final in "AF":
            # Several bars below each other: they are all drawn again from here on.
            del self._lines[max(1, len(self._lines) - max(1, count)) :]
            self._is_at_start = True

    def last(self, count: int) -> list[str]:
        """Return the last lines that hold anything, at most so many."""
        found = [line for line in self._lines if line.strip()]
        return found[-count:] if count > 0 else []
