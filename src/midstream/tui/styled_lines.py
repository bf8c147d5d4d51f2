"""Styled lines: what everything on the screen is made of, before it is bytes.

A `Line` is one logical line. One of ours begins with a mark, such as `✓` or `›`. One without a mark is
what somebody else wrote, and belongs to the marked line above it. It stands in the first column, so
that it can be copied as it is; what could pass for one of our marks there moves in by two columns
(`may_begin`). So no agent can draw a prompt, a card or another agent's heading, and no line of code
is behind a bar.

A style says what a text means (`themes`). No colour is bold as well, which many terminals draw as a bright
one, but where it marks what differs in a line. Meaning never hangs on colour alone.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias
from unicodedata import category

import msgspec

from midstream.safety.sanitize import controlled, sanitized
from midstream.tui.themes import AGENTS, PLAIN, THEMES, Table, sgr
from midstream.views.cells import clipped, width_of

Fragment: TypeAlias = tuple[str, str]
"""A style and a text without newlines."""

Row: TypeAlias = Sequence[Fragment]

_TAB_SIZE: Final = 4


class Line(msgspec.Struct, frozen=True):
    """One logical line. `mark` stands before its first row, `rest` before rows it wraps into.

    `rest` None: as wide as the mark, blank. The texts may be foreign: they are sanitized on layout.
    `shrinks` is the text of a fragment that is cut where the line then fits on one row of a terminal.
    `is_code`: the terminal itself may break it, so that it is copied as the one line it is.
    """

    fragments: tuple[Fragment, ...]
    mark: str = ""
    style: str = PLAIN
    rest: str | None = None
    shrinks: str = ""
    is_code: bool = False


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
    return AGENTS[sum(agent.encode("utf-8", "replace")) % len(AGENTS)]


_QUOTES: Final = frozenset("„“”‚‘’«»¿¡§£€¥")
_LETTERS: Final = (range(0x80, 0x1400), range(0x1E00, 0x2000), range(0x3041, 0xA000))
_SYLLABLES: Final = range(0xAC00, 0xD7A4)
_LOOK_ALIKE: Final = frozenset("ǀǁǂǃɁɂʔʕʡʢ")
"""Letters that look like a mark of ours."""

_ASIDE: Final = "  "
"""What stands before foreign text that could pass for a mark."""

_NO_MARKS: Final = re.compile(r"(?:[\t -~](?<![!?])|[!?](?=[!-~]))*")


def may_begin(text: str, at: int = 0) -> bool:
    """Return whether a row of foreign text may begin so, in the first column.

    Letters, digits, quotes and the signs of ASCII may: all that our own lines begin with is something
    else, or is a `!` or `?` before a blank. What is allowed is listed, not what is forbidden: a symbol
    that only looks like one of ours moves in, too.
    """
    char = text[at : at + 1]
    if char in ("!", "?"):
        after = text[at + 1 : at + 2]
        return "!" <= after <= "~" or after.isalnum()
    if char.isascii() or char in _QUOTES:
        return True
    if char in _LOOK_ALIKE or not char.isalnum():
        return False
    code = ord(char)
    if code in _SYLLABLES or any(code in letters for letters in _LETTERS):
        return category(char) != "Lm"
    return False


def _is_safe_anywhere(text: str) -> bool:
    """Return whether foreign text may be broken anywhere, now and when the terminal's size changes."""
    if text.isascii():
        return _NO_MARKS.fullmatch(text) is not None
    return _RIGHT_TO_LEFT.search(text) is None and all(
        may_begin(text, at) for at in range(len(text))
    )


def rows(line: Line, width: int) -> list[Row]:
    """Return the rows a line takes on a terminal of so many columns, each with its mark.

    Breaks at spaces where it can. Even on two columns something of the text is shown. A line of code
    that the terminal may break is one row, however wide.
    """
    mark = line.mark
    rest = " " * width_of(mark) if line.rest is None else line.rest
    clean = [(style, _one_line(text)) for style, text in line.fragments]
    if width < 2 * width_of(mark) + 2:
        mark = rest = clipped(mark.strip(), 1)
        # Right behind a mark, with no space between, an accent would become a part of it.
        clean = [
            (style, "".join(char for char in text if category(char)[0] != "M"))
            for style, text in clean
        ]
    room = max(1, width - width_of(mark))
    if line.shrinks:
        clean = _shrunk(clean, _one_line(line.shrinks), room)
    text = "".join(text for _, text in clean)
    if len(text) <= room and text.isascii() and (mark or may_begin(text)):
        return [_row(mark, line.style, clean)]
    if line.is_code and not mark and _is_safe_anywhere(text):
        return [clean]
    if not mark or not rest:
        return _rows_aside(clean, text, mark, line.style, room)
    found: list[Row] = []
    for number, part in enumerate(_wrapped(clean, room)):
        found.append(_row(mark if number == 0 else rest, line.style, part))
    return found


def _rows_aside(
    fragments: Sequence[Fragment], text: str, mark: str, style: str, room: int
) -> list[Row]:
    """Return the rows of text that stands in the first column, with what may not begin there moved in."""
    marks: list[str] = []
    bounds: list[int] = []
    at = 0
    while at < len(text) or not marks:
        is_first = not marks and mark
        marks.append(
            mark if is_first else "" if may_begin(text, at) else _ASIDE[: max(1, room - 1)]
        )
        at = _row_end(text, at, room if is_first else max(1, room - len(marks[-1])))
        bounds.append(at)
    found = _parted(fragments, text, bounds[:-1])
    return [
        _row(before, style if before == mark else PLAIN, part)
        for before, part in zip(marks, found, strict=True)
    ]


def one_row(parts: Iterable[Fragment], width: int, mark: str, style: str) -> Row:
    """Return fragments behind a mark on one row of at most so many columns: what finds no room is cut."""
    room = max(1, width - width_of(mark))
    shown: list[Fragment] = []
    for part_style, text in parts:
        shown.append((part_style, clipped(sanitized(text).replace("\n", " "), max(0, room))))
        room -= width_of(shown[-1][1])
    return rows(Line(tuple(shown), mark, style, mark), width)[0]


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
    return _parted(
        fragments, text, _cuts_of_ascii(text, room) if text.isascii() else _cuts(text, room)
    )


def _parted(fragments: Sequence[Fragment], text: str, cuts: Sequence[int]) -> list[list[Fragment]]:
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
    end = _row_end(text, 0, room)
    while end < len(text):
        cuts.append(end)
        end = _row_end(text, end, room)
    return cuts


def _row_end(text: str, start: int, room: int) -> int:
    """Return where the row that begins at `start` ends: behind its last blank, if it does not hold all."""
    used, after_space = 0, 0
    for position in range(start, len(text)):
        char = text[position]
        used += width_of(char)
        if used > room and position > start:
            return after_space if start < after_space <= position else position
        if char == " ":
            after_space = position + 1
    return len(text)


LEFT_TO_RIGHT: Final = "\u200e"
"""A mark that takes no cell. It follows every fragment of a row with right-to-left text.

It stands before the row as well. So a terminal that reorders text turns round what is in one fragment,
and no more: our mark stays in the first column, no sign from the end of a row gets there, and a number
of ours behind foreign words stays behind them.
"""

_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


def has_right_to_left(row: Row) -> bool:
    """Return whether a terminal may turn part of a row round."""
    return any(not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None for _, text in row)


def is_wider(row: Row, width: int) -> bool:
    """Return whether a row takes more than so many cells: one that the terminal is to break."""
    return sum(width_of(text) for _, text in row) > width


def without_end(row: Row) -> Row:
    """Return a row without the blanks at its end, which nobody sees and everybody would copy."""
    kept = list(row)
    while kept and not kept[-1][1].rstrip(" "):
        kept.pop()
    if kept and kept[-1][1].endswith(" "):
        kept[-1] = (kept[-1][0], kept[-1][1].rstrip(" "))
    return kept


def broken_there(text: str) -> str:
    """Return a printed row that the terminal breaks, where it breaks no other."""
    return f"\x1b[?7h{text}\x1b[?7l"


def to_ansi(row: Row, table: Table = THEMES["auto"].colours) -> str:
    """Return a row as text with our own SGR sequences and no others: the terminal's write point."""
    side = LEFT_TO_RIGHT if has_right_to_left(row) else ""
    # What nobody sees stands before a sequence: some programs drop what follows it.
    parts = [f"{side}\x1b[0m"] if side else []
    for style, text in row:
        shown = sgr(style, table)
        clean = controlled(text)
        if clean and (shown or side):
            clean = f"\x1b[{shown}m{clean}{side}\x1b[0m" if shown else f"{clean}{side}\x1b[0m"
        parts.append(clean)
    return "".join(parts)


def to_plain(lines: Iterable[Line]) -> str:
    """Return lines as text without styles or wrapping, each ended by a newline."""
    return "".join(f"{_plain(line)}\n" for line in lines)


def _plain(line: Line) -> str:
    text = "".join(_one_line(text) for _, text in line.fragments)
    return f"{line.mark}{text}" if line.mark or may_begin(text) else f"{_ASIDE}{text}"
