"""The list of a run's last turns that Esc Esc opens over the prompt. No IO, no clock.

Arrows move the mark; a number that is typed moves it too. Other words close the list and stay words.
"""

from typing import Final

import msgspec

from midstream.safety.sanitize import on_one_line
from midstream.tui.keymap import called
from midstream.tui.styled_lines import Row, one_row
from midstream.tui.themes import ATTENTION, MUTED
from midstream.views.turns import Turn

ARMED: Final = "Esc again: back to an earlier turn"
_NARROW: Final = 72
_MAX_DIGITS: Final = 6


class TurnList(msgspec.Struct, kw_only=True, eq=False):
    """The list. `turns` are the newest first, `at` is the marked one; `run` is the run they are of.

    `number` is what was typed into the line to mark a turn, "" for nothing.
    """

    turns: tuple[Turn, ...]
    at: int = 0
    number: str = ""

    @property
    def run(self) -> str:
        """Return the run the turns are of."""
        return self.turns[0].run

    @property
    def marked(self) -> Turn:
        """Return the marked turn."""
        return self.turns[self.at]

    def move(self, step: int) -> None:
        """Mark the turn before (1) or after (-1), if there is one."""
        self.number = ""
        self.at = min(max(0, self.at + step), len(self.turns) - 1)

    def means(self, text: str, *, is_fresh: bool) -> bool:
        """Mark the turn a typed line names; return False where it is other words, or came too soon."""
        if not text:
            self.number = ""
            return True
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
        if not is_number or not is_fresh or not 0 < int(text) <= len(self.turns):
            return False
        self.at, self.number = int(text) - 1, text
        return True


def turn_rows(shown: TurnList, *, width: int, height: int) -> list[Row]:
    """Return the rows of the list, at most a third of a terminal of `height` rows."""
    room = max(1, height // 3 - 1)
    count = len(shown.turns)
    first = min(max(0, shown.at - room // 2), max(0, count - room))
    title = "Back to before which turn?"
    if count > room:
        title += f" {shown.at + 1} of {count}"
    found = [one_row([(ATTENTION, title)], width, "↶ ", ATTENTION)]
    digits = len(str(count))
    for number, turn in enumerate(shown.turns[first : first + room], first + 1):
        is_marked = number == shown.at + 1
        text = f"{number:{digits}}  {on_one_line(turn.words)}"
        style, mark = ("", "▸ ") if is_marked else (MUTED, "  ")
        found.append(one_row([(style, text)], width, mark, ATTENTION))
    return found


def keys_for(width: int) -> str:
    """Return what the keys do in the list, for the bottom line."""
    send = called("send")
    if width >= _NARROW:
        return f"{send} goes back to before it, files too · ↑↓ or its number · Esc closes"
    return f"{send} goes back · ↑↓ · Esc closes"
