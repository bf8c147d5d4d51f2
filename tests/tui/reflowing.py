"""A terminal for tests that breaks rows anew as tmux does: it has the size it has, whoever knows of it.

    terminal = Reflowing(40, 10)
    terminal.feed("some words")
    terminal.resize(20, 10)
    terminal.rows()     # history and screen, rows as they were ended by who wrote them

It knows the sequences the console draws with, and fails on any other.
"""

import re
from itertools import groupby

from prompt_toolkit.utils import get_cwidth

_TOKEN = re.compile(
    r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\]([^\x07]*)\x07|\x1b(?:\Z|\[[?\d;]*\Z)|.", re.S
)
_IGNORED = ("m", "t", "q")


class Row:
    """A row as it stands on the screen. `goes_on`: the next one is its other piece."""

    def __init__(self, cells: list[str], *, goes_on: bool = False) -> None:
        self.cells = cells
        self.goes_on = goes_on


class Reflowing:
    """History and screen. A wide letter is two cells, the second of them empty."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._rows = [Row([]) for _ in range(lines)]
        self._scrolled = 0
        self._x = self._y = 0
        self._wraps = True
        self._begun = ""

    @property
    def _above(self) -> int:
        return len(self._rows) - self.lines

    def rows(self) -> list[str]:
        """Return history and screen, each row whole, without blanks at its end."""
        found, whole = [], ""
        for row in self._rows:
            whole += "".join(row.cells)
            if not row.goes_on:
                found.append(whole.rstrip())
                whole = ""
        return found

    def cursor_row(self) -> str:
        """Return the piece of a row in which the cursor stands."""
        return "".join(self._rows[self._above + self._y].cells)

    # --- its size ---

    def resize(self, columns: int, lines: int) -> None:
        """Become as large: first the height, then the width."""
        if lines < self.lines:
            # What is below the cursor goes first, then what is at the top goes into the history.
            below = min(self.lines - 1 - self._y, self.lines - lines)
            del self._rows[len(self._rows) - below :]
            pushed = self.lines - lines - below
            self._scrolled += pushed
            self._y -= pushed
        elif lines > self.lines:
            pulled = min(self._scrolled, lines - self.lines)
            self._scrolled -= pulled
            self._y += pulled
            self._rows += [Row([]) for _ in range(lines - self.lines - pulled)]
        self.lines = lines
        if columns != self.columns:
            self._reflow(columns)

    def _reflow(self, columns: int) -> None:
        at, found, here = self._above + self._y, list[Row](), (0, 0)
        numbers = [sum(not row.goes_on for row in self._rows[:y]) for y in range(len(self._rows))]
        for number, group in groupby(enumerate(self._rows), key=lambda each: numbers[each[0]]):
            pieces = list(group)
            cells = [cell for _, row in pieces for cell in row.cells]
            place = -1
            if numbers[at] == number:
                before = sum(len(row.cells) for y, row in pieces if y < at)
                place = before + self._x
            row = Row([])
            for offset, cell in enumerate(cells):
                is_wide = offset + 1 < len(cells) and cells[offset + 1] == ""
                if len(row.cells) + 1 + is_wide > columns and cell:
                    row.goes_on = True
                    found.append(row)
                    row = Row([])
                if offset == place:
                    here = (len(row.cells), len(found))
                row.cells.append(cell)
            if place >= len(cells):
                here = (min(len(row.cells) + place - len(cells), columns - 1), len(found))
            found.append(row)
        self.columns, self._rows = columns, found
        while len(self._rows) < self.lines:
            self._rows.append(Row([]))
        self._scrolled = min(self._scrolled, self._above)
        self._x, y = here
        self._y = y - self._above
        if self._y < 0:
            self._x = self._y = 0

    # --- what is written ---

    def feed(self, text: str) -> None:
        """Read a piece of output, which may end within a sequence."""
        text, self._begun = self._begun + text, ""
        for token in _TOKEN.finditer(text):
            if token[2]:
                self._obey(token[1], token[2])
            elif token[0].startswith("\x1b") and token[3] is None:
                self._begun = token[0]
            elif token[3] is None:
                self._put(token[0])

    def _obey(self, given: str, command: str) -> None:
        amount = int(given) if given.isdigit() else 1
        row = self._rows[self._above + self._y]
        match command:
            case "A":
                self._y = max(0, self._y - amount)
            case "B":
                self._y = min(self.lines - 1, self._y + amount)
            case "C":
                self._x = min(self.columns - 1, self._x + amount)
            case "D":
                self._x = max(0, min(self._x, self.columns - 1) - amount)
            case "K":
                del row.cells[self._x :]
                row.goes_on = row.goes_on and self._x > 0
            case "J" if given == "2":
                used = [y for y in range(self._above, len(self._rows)) if self._rows[y].cells]
                cleared = max(used, default=self._above - 1) + 1 - self._above
                self._rows += [Row([]) for _ in range(cleared)]
                self._scrolled += cleared
            case "J":
                assert (self._x, min(self._y, 1)) == (0, 1), "puts the screen into the history"
                for y in range(self._above + self._y, len(self._rows)):
                    self._rows[y] = Row([])
            case "h" | "l":
                if given == "?7":
                    self._wraps = command == "h"
            case _:
                assert command in _IGNORED, f"does not know {given}{command}"

    def _put(self, char: str) -> None:
        match char:
            case "\r":
                self._x = 0
            case "\n" | "\v":
                self._feed_line()
            case "\b":
                self._back()
            case _:
                self._write(char)

    def _feed_line(self) -> None:
        if self._y == self.lines - 1:
            self._rows.append(Row([]))
            self._scrolled += 1
        else:
            self._y += 1

    def _back(self) -> None:
        if self._x > 0:
            self._x = min(self._x, self.columns) - 1
        elif self._y > 0 and self._rows[self._above + self._y - 1].goes_on:
            self._x, self._y = self.columns - 1, self._y - 1

    def _write(self, char: str) -> None:
        width = get_cwidth(char)
        assert width > 0, repr(char)
        if self._x + width > self.columns:
            if self._wraps:
                self._rows[self._above + self._y].goes_on = True
                self._feed_line()
                self._x = 0
            else:
                self._x = self.columns - width
        cells = self._rows[self._above + self._y].cells
        cells += " " * (self._x - len(cells))
        cells[self._x : self._x + width] = [char, *[""] * (width - 1)]
        self._x += width
