"""A picture as text for a terminal: box-drawing characters that meet where lines do."""

from itertools import pairwise

from midstream.views.cells import cells
from midstream.views.graph import Graph
from midstream.views.graph_layout import Frame, Picture, Wire, Words, picture_of
from midstream.views.graph_marks import NO_MARKS, Marks

_N, _E, _S, _W = 1, 2, 4, 8

_LIGHT = {
    _N: "│",
    _S: "│",
    _E: "─",
    _W: "─",
    _N | _S: "│",
    _E | _W: "─",
    _E | _S: "╭",
    _W | _S: "╮",
    _E | _N: "╰",
    _W | _N: "╯",
    _N | _S | _E: "├",
    _N | _S | _W: "┤",
    _E | _W | _S: "┬",
    _E | _W | _N: "┴",
    _N | _E | _S | _W: "┼",
}
_HEAVY = {
    _N | _S: "┃",
    _E | _W: "━",
    _E | _S: "┏",
    _W | _S: "┓",
    _E | _N: "┗",
    _W | _N: "┛",
    _N | _S | _W: "┨",
    _E | _W | _S: "┯",
}
_DASHED = {_N | _S: "┊", _E | _W: "┄"}
_HEADS = {(1, 0): "▶", (0, 1): "▼", (0, -1): "▲", (-1, 0): "◀"}


def drawing(graph: Graph, *, width: int = 80, marks: Marks = NO_MARKS) -> str:
    """Return the machine drawn in at most `width` columns, without a line break at the end.

    What a file says is on one line each and free of control characters. A state the run is in has a
    heavy frame and `◀` beside its name; visited ones say how often and how long.
    """
    return painted(picture_of(graph, width=width, marks=marks))


def painted(picture: Picture) -> str:
    """Return a picture as text; each line ends with what is drawn last in it."""
    canvas = _Canvas()
    for frame in picture.frames:
        canvas.frame(frame)
    for wire in picture.wires:
        canvas.wire(wire)
    for words in picture.words:
        canvas.words(words)
    return canvas.text(picture.height)


class _Canvas:
    """Cells with lines in them, as directions, and cells with characters."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], int] = {}
        self._heavy: set[tuple[int, int]] = set()
        self._solid: set[tuple[int, int]] = set()
        self._chars: dict[tuple[int, int], str] = {}

    def frame(self, frame: Frame) -> None:
        left, top = frame.x, frame.y
        right, bottom = left + frame.width - 1, top + frame.height - 1
        corners = ((left, top), (right, top), (right, bottom), (left, bottom), (left, top))
        before = set(self._lines)
        for start, end in pairwise(corners):
            self._line(start, end, is_dashed=False)
        if frame.is_current:
            self._heavy |= set(self._lines) - before

    def wire(self, wire: Wire) -> None:
        for start, end in pairwise(wire.points):
            self._line(start, end, is_dashed=wire.is_dashed)
        (x0, y0), (x, y) = wire.points[-2:]
        direction = ((x > x0) - (x < x0), (y > y0) - (y < y0))
        self._chars[x, y] = _HEADS[direction]

    def words(self, words: Words) -> None:
        x = words.x
        for char in words.text:
            size = cells(char)
            if size == 0:
                # A mark belongs to the character before it.
                before = (x - 1, words.y)
                while before not in self._chars and before[0] >= words.x:
                    before = (before[0] - 1, words.y)
                self._chars[before] = self._chars.get(before, "") + char
                continue
            self._chars[x, words.y] = char
            if size == 2:
                self._chars[x + 1, words.y] = ""
            x += size

    def _line(self, start: tuple[int, int], end: tuple[int, int], *, is_dashed: bool) -> None:
        (x, y), (x1, y1) = start, end
        dx, dy = (x1 > x) - (x1 < x), (y1 > y) - (y1 < y)
        forth = {(1, 0): _E, (-1, 0): _W, (0, 1): _S, (0, -1): _N}[dx, dy]
        back = {_E: _W, _W: _E, _S: _N, _N: _S}[forth]
        while (x, y) != (x1, y1):
            self._join((x, y), forth, is_dashed=is_dashed)
            x, y = x + dx, y + dy
            self._join((x, y), back, is_dashed=is_dashed)

    def _join(self, at: tuple[int, int], direction: int, *, is_dashed: bool) -> None:
        self._lines[at] = self._lines.get(at, 0) | direction
        if not is_dashed:
            self._solid.add(at)

    def text(self, height: int) -> str:
        rows: list[dict[int, str]] = [{} for _ in range(height)]
        for at, directions in self._lines.items():
            table = _HEAVY if at in self._heavy else {} if at in self._solid else _DASHED
            rows[at[1]][at[0]] = table.get(directions) or _LIGHT[directions]
        for (x, y), char in self._chars.items():
            rows[y][x] = char
        return "\n".join(_row(row) for row in rows)


def _row(row: dict[int, str]) -> str:
    last = max(row, default=-1)
    return "".join(row.get(x, " ") for x in range(last + 1)).rstrip()
