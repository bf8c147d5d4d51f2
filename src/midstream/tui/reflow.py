"""Terminals that break rows anew: finding our own rows whatever has become of them. Pure.

tmux breaks what stands in a window that becomes narrower, and joins it when it becomes wider, at once;
we hear of it up to a quarter of a second later. So what we send may be read at any width, and the width
may change between any two bytes of it. Whoever counts rows counts those of another width then, and
leaves some behind. Two things hold at every width: the cursor stays with its character, and a row that
we ended ourselves stays a row, of however many pieces. And in tmux a backspace goes on from the first
cell of a piece to the last cell of the one before, but never into another row.

So enough backspaces lead to the beginning of a row, as the cursor's way up by one leads into the last
piece of the row above, and we find the first of ours without knowing any width. All of them are then
erased and drawn anew: nobody knows which pieces a difference would be drawn over.

What has left the screen at its top nobody can erase. So the live region stays low enough for a narrow
window, and begins at the bottom, where what is pushed out is above it.

Terminals that cut rows off, or whose backspace stays on its line, cannot be told from each other by
asking; so it is done only where it is certain.
"""

import re
from collections.abc import Mapping
from typing import Final

from midstream.tui.styled_lines import broken_there

TO_THE_BOTTOM: Final = "\x1b[999B\r"

NEXT_ROW: Final = "\v\r"
"""CR comes last: from the beginning of a piece the cursor may get into the middle of its row, and LF would
lead into the next piece then. VT is an LF before which the system puts no CR of its own.
"""

_CERTAIN: Final = re.compile(
    r"(?:\x1b\[[\d;]*m|[ -~\xa1-\xac\xae-\u02ff\u0391-\u03ff\u0400-\u0482\u048a-\u052f"
    r"\u2010-\u2015\u2018-\u2027\u203a\u2190-\u2193\u2500-\u259f\u25a0\u2713\u2717"
    r"\u3001-\u3029\u3041-\u3096\u30a1-\u30fe\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff5e])*"
)
"""Colours, and letters and marks that take as many cells everywhere."""


def reflows(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to break rows anew, as tmux does."""
    return bool(environ.get("TMUX")) and "STY" not in environ


def beginning(columns: int) -> str:
    """Return what leads to the beginning of a row of at most so many cells, from anywhere in it.

    A wide letter that finds no room at the end of a piece leaves a cell there, one more to go over.
    """
    return "\b" * (columns + columns // 4 + 1)


def breakable(text: str) -> str:
    """Return printed rows, each ended by CR and LF, of which the terminal breaks those of certain width."""
    return NEXT_ROW.join(
        broken_there(row) if row and _CERTAIN.fullmatch(row) else row for row in text.split("\r\n")
    )
