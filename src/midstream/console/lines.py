"""Styled lines: what everything on the screen is made of, before it is bytes.

A `Line` is one logical line with a mark in front. Wrapping repeats a mark on every row, so that
foreign text, whatever it holds, never reaches the first column: no agent can draw a prompt, a card
or another agent's gutter. A style is the parameters of an SGR sequence (`1;36`), from the basic
sixteen colours, and only from those that can be read on a light and on a dark background: no black,
white, blue or yellow. None is bold as well, which many terminals draw as a bright one. Meaning never
hangs on colour alone.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from midstream.core.safety.sanitize import controlled, sanitized

Fragment: TypeAlias = tuple[str, str]
"""A style and a text without newlines."""

Row: TypeAlias = Sequence[Fragment]

PLAIN: Final = ""
BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
MAGENTA: Final = "35"
CYAN: Final = "36"
AGENT_STYLES: Final = (CYAN, MAGENTA, GREEN)

_TAB_SIZE: Final = 4


class Line(msgspec.Struct, frozen=True):
    """One logical line. `mark` stands before its first row, `rest` before rows it wraps into.

    `rest` None: as wide as the mark, blank. The texts may be foreign: they are sanitized on layout.
    `shrinks` is the text of a fragment that is cut where the line then fits on one row of a terminal.
    """

    fragments: tuple[Fragment, ...]
    mark: str = ""
    style: str = PLAIN
    rest: str | None = None
    shrinks: str = ""


def lines_of(
    text: str,
    *,
    style: str = PLAIN,
    mark: str = "",
    mark_style: str = PLAIN,
    rest: str | None = None,
) -> list[Line]:
    """Return a text's lines. The first has the mark, the others begin with `rest`."""
    following = " " * width_of(mark) if rest is None else rest
    return [
        Line(((style, part),), mark if number == 0 else following, mark_style, following)
        for number, part in enumerate(sanitized(text).split("\n"))
    ]


def agent_style(agent: str) -> str:
    """Return the colour of an agent, the same in every session."""
    return AGENT_STYLES[sum(agent.encode("utf-8", "replace")) % len(AGENT_STYLES)]


def width_of(text: str) -> int:
    """Return how many cells a sanitized text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    from wcwidth import wcwidth

    return max(0, wcwidth(char))


def clipped(text: str, width: int) -> str:
    """Return the text's beginning that fits into `width` cells, with `…` where it was cut."""
    if width_of(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _cells(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…" if width > 0 else ""


def rows(line: Line, width: int) -> list[Row]:
    """Return the rows a line takes on a terminal of so many columns, each with its mark.

    Breaks at spaces where it can. Even on two columns something of the text is shown.
    """
    mark = line.mark
    rest = " " * width_of(mark) if line.rest is None else line.rest
    if width < 2 * width_of(mark) + 2:
        mark = rest = clipped(mark.strip(), 1)
    room = max(1, width - width_of(mark))
    clean = [(style, _one_line(text)) for style, text in line.fragments]
    if line.shrinks:
        clean = _shrunk(clean, _one_line(line.shrinks), room)
    texts = [text for _, text in clean]
    if sum(map(len, texts)) <= room and all(text.isascii() for text in texts):
        return [_row(mark, line.style, clean)]
    found: list[Row] = []
    for number, part in enumerate(_wrapped(clean, room)):
        found.append(_row(mark if number == 0 else rest, line.style, part))
    return found


_LEAST_SHRUNK: Final = 24


def _shrunk(fragments: list[Fragment], text: str, room: int) -> list[Fragment]:
    """Return the fragments with this one cut so that all fit into the room; as they are if they cannot."""
    over = sum(width_of(part) for _, part in fragments) - room
    left = width_of(text) - over
    if over <= 0 or left < _LEAST_SHRUNK:
        return fragments
    return [(style, clipped(part, left) if part == text else part) for style, part in fragments]


def _row(mark: str, style: str, fragments: Sequence[Fragment]) -> Row:
    return [(style, mark), *fragments] if mark else fragments


def _one_line(text: str) -> str:
    """Return a sanitized text that cannot leave its row: a newline here would shake off the mark."""
    clean = sanitized(text)
    if "\n" in clean:
        clean = clean.replace("\n", "␊")
    return clean.expandtabs(_TAB_SIZE) if "\t" in clean else clean


def _wrapped(fragments: Sequence[Fragment], room: int) -> list[list[Fragment]]:
    text = "".join(part for _, part in fragments)
    cuts = _cuts_of_ascii(text, room) if text.isascii() else _cuts(text, room)
    if not cuts:
        return [list(fragments)]
    bounds = iter([*cuts, len(text) + 1])
    bound, position = next(bounds), 0
    wrapped: list[list[Fragment]] = [[]]
    for style, part in fragments:
        # By offsets: cutting the rest anew for every row of a long line would copy it as often.
        begin = 0
        while position + len(part) - begin > bound:
            end = begin + bound - position
            wrapped[-1].append((style, part[begin:end]))
            wrapped.append([])
            begin, position = end, bound
            bound = next(bounds)
        wrapped[-1].append((style, part[begin:]))
        position += len(part) - begin
    return wrapped


def _cuts_of_ascii(text: str, room: int) -> list[int]:
    cuts: list[int] = []
    start = 0
    while len(text) - start > room:
        # A blank ends a row and never begins one, so it has to find room itself.
        space = text.rfind(" ", start + 1, start + room)
        start = start + room if space <= start else space + 1
        cuts.append(start)
    return cuts


def _cuts(text: str, room: int) -> list[int]:
    cuts: list[int] = []
    start, used, after_space = 0, 0, 0
    for position, char in enumerate(text):
        cells = _cells(char)
        while used + cells > room and position > start:
            start = after_space if start < after_space <= position else position
            cuts.append(start)
            used = width_of(text[start:position])
        used += cells
        if char == " ":
            after_space = position + 1
    return cuts


LEFT_TO_RIGHT: Final = "\u200e"
"""A mark that takes no cell. It follows every fragment of a row with right-to-left text.

So a terminal that reorders text turns round what is in one fragment, and no more: our gutter stays in
the first column, whatever a row begins with, and a number of ours behind foreign words stays there.
"""

_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


def has_right_to_left(row: Row) -> bool:
    """Return whether a terminal may turn part of a row round."""
    return any(not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None for _, text in row)


_COLOURS: Final = frozenset(
    str(code) for code in (*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108))
)


def without_colour(style: str) -> str:
    """Return the style with its colours left out; bold, dim and the like stay."""
    return ";".join(part for part in style.split(";") if part not in _COLOURS)


def to_ansi(row: Row, *, colour: bool = True) -> str:
    """Return a row as text with our own SGR sequences and no others: the terminal's write point."""
    parts: list[str] = []
    side = LEFT_TO_RIGHT if has_right_to_left(row) else ""
    for style, text in row:
        shown = style if colour else without_colour(style)
        clean = controlled(text)
        if clean and (shown or side):
            # What nobody sees stands before a sequence: some programs drop what follows it.
            clean = f"\x1b[{shown}m{clean}{side}\x1b[0m" if shown else f"{clean}{side}\x1b[0m"
        parts.append(clean)
    return "".join(parts)


def to_plain(lines: Iterable[Line]) -> str:
    """Return lines as text without styles or wrapping, each ended by a newline."""
    return "".join(
        line.mark + "".join(_one_line(text) for _, text in line.fragments) + "\n" for line in lines
    )
