"""What commands say: the end of their output as a terminal would show it, as its last lines stand now.

A progress bar writes over its own line; what counts is how it stands. What moves the cursor is
followed as far as such bars need it, and every other escape sequence is left out. The text stays
foreign: whoever draws it sanitizes it.

Of a command that runs the live region has the last line, or a few; of one that ended a line below its
call says how many passed, or what went wrong: what a person looks for first. All of it
comes with the result in full.
"""

import re
from collections.abc import Sequence
from typing import Final

from midstream.core.call_notes import without_change
from midstream.core.events import ToolCalled, ToolReturned
from midstream.system.own_process import own_redactor
from midstream.tui.event_lines import RESULT_MARK, branch_label
from midstream.tui.styled_lines import Line, Row, one_row
from midstream.tui.themes import MUTED
from midstream.views.calls_in_words import output_of

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


# --- what running commands say, in the live region ------------------------------------------------

MAX_ROWS: Final = 6
LEAST_LINES: Final = 3
"""Lines of output from which a command has rows of its own; fewer fit beside its name."""

_BAR: Final = "┊ "


class Outputs:
    """The ends of the outputs of running tool calls, by run and call."""

    def __init__(self) -> None:
        self._tails: dict[tuple[str, str], OutputTail] = {}

    def add(self, run: str, call_id: str, text: str) -> None:
        """Take the next piece of a call's output."""
        self._tails.setdefault((run, call_id), OutputTail()).feed(text)

    def drop_call(self, run: str, call_id: str) -> None:
        """Forget a call that ended."""
        self._tails.pop((run, call_id), None)

    def drop_run(self, run: str) -> None:
        """Forget the calls of a run."""
        for key in [key for key in self._tails if key[0] == run]:
            del self._tails[key]

    def last_line(self, run: str, call_id: str) -> str:
        """Return what a call says now, "" for nothing."""
        return "".join(self.lines(run, call_id, 1))

    def loudest(self, calls: Sequence[tuple[str, ToolCalled]]) -> ToolCalled | None:
        """Return the newest of the calls, each with its run, that says enough for rows of its own."""
        for of, call in reversed(calls):
            if len(self.lines(of, call.call_id, LEAST_LINES)) == LEAST_LINES:
                return call
        return None

    def rows(self, run: str, call: ToolCalled, *, height: int, width: int) -> list[Row]:
        """Return the last lines of a call's output, a row each, as many as there is room for."""
        named = branch_label(call.branch)
        return [
            one_row((*named, (MUTED, line.expandtabs(4).rstrip())), width - 1, _BAR, MUTED)
            for line in self.lines(run, call.call_id, min(height, MAX_ROWS))
        ]

    def lines(self, run: str, call_id: str, count: int = MAX_LINES) -> list[str]:
        """Return the last lines of a call's output that hold anything, at most so many."""
        tail = self._tails.get((run, call_id))
        return [] if tail is None else tail.last(count)


# --- the end of what a command printed ------------------------------------------------------------

FAILED_LINES: Final = 5
"""The last lines of a command that failed; of one that did not the last alone is shown."""

_LOOKED_AT: Final = 8_000


def last_words(fact: ToolReturned) -> list[Line]:
    """Return the last lines a command printed that hold anything, a row of a terminal each."""
    output = output_of(fact.name, without_change(fact.result))
    if not output.strip():
        return []
    redacted = own_redactor().redacted
    tail = OutputTail()
    # Before anything is cut, and again: what was written over may have parted a key.
    tail.feed(redacted(output[-2 * _LOOKED_AT :])[-_LOOKED_AT:])
    shown = tail.last(1 if fact.outcome == "completed" else FAILED_LINES)
    texts = [redacted(line.rstrip()) for line in shown]
    return [Line(((MUTED, text),), RESULT_MARK, MUTED, RESULT_MARK, shrinks=text) for text in texts]
