"""A machine laid out: frames, words and wires on a grid of cells, for any painter.

States stand in a column, in the order in which they are usually gone through. An arrow leads straight
to the state below; any other edge is a row of its state's frame, from which a rail at the left goes
to its target: one rail for all that lead there. Where there is no room for a rail, the row's words
say it all. Branches and sub-workflows are pictures within their state's frame.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from midstream.language.names import INTERRUPTED, STOP
from midstream.views.cells import cells, clipped, one_line, padded, wrapped
from midstream.views.graph import Edge, Graph, Group, Node, seconds_words, target_words
from midstream.views.graph_marks import NO_MARKS, Key, Marks

Look: TypeAlias = Literal["title", "plain", "dim", "exit", "mark"]

MIN_WIDTH = 24
"""A picture narrower than this has frames that stick out."""

_MAX_RAILS = 8
_NARROWEST = 22
_WIDEST = 58
_INDENT = "  "


class Frame(msgspec.Struct, frozen=True):
    """A state's box: its upper left corner and its size, in cells. `title` is the state's name."""

    x: int
    y: int
    width: int
    height: int
    title: str = ""
    is_current: bool = False
    is_visited: bool = False


class Words(msgspec.Struct, frozen=True):
    """A text from a cell to the right."""

    x: int
    y: int
    text: str
    look: Look = "plain"


class Wire(msgspec.Struct, frozen=True):
    """A line through the middles of cells, straight from point to point, with an arrow at its end."""

    points: tuple[tuple[int, int], ...]
    is_dashed: bool = False


class Picture(msgspec.Struct, frozen=True):
    """What there is to paint, outermost frames first."""

    width: int
    height: int
    frames: tuple[Frame, ...] = ()
    words: tuple[Words, ...] = ()
    wires: tuple[Wire, ...] = ()


def picture_of(graph: Graph, *, width: int = 80, marks: Marks = NO_MARKS) -> Picture:
    """Return the machine laid out in at most `width` columns."""
    return _laid_out(graph, max(width, MIN_WIDTH), marks, ())


# --- the order ------------------------------------------------------------------------------------


def in_order(graph: Graph) -> tuple[str, ...]:
    """Return the states as they are gone through: where one leads comes below it where it can.

    `stop` ends what begins at the entry; what unasked words lead to comes after that.
    """
    declared = [node.name for node in graph.nodes]
    placed: dict[str, None] = {}
    for root in (graph.entry, *declared):
        if root == STOP or root not in declared:
            continue
        _place(root, graph, declared, placed)
        if root == graph.entry and STOP in declared:
            placed[STOP] = None
    placed.setdefault(STOP, None)
    return tuple(name for name in placed if name in declared)


def _place(root: str, graph: Graph, declared: Sequence[str], placed: dict[str, None]) -> None:
    """Place all that can be reached from a state, the earliest declared first."""
    todo = [root]
    while todo:
        name = todo.pop()
        if name in placed or name == STOP:
            continue
        placed[name] = None
        onward = {edge.target for edge in graph.exits(name) if edge.kind != "resume"}
        todo += [each for each in reversed(declared) if each in onward and each not in placed]


# --- the rails --------------------------------------------------------------------------------------


class _Rail(msgspec.Struct, frozen=True):
    target: str
    is_dashed: bool


def _rail_of(edge: Edge) -> _Rail:
    return _Rail(edge.target, edge.kind == "resume")


def _rails(graph: Graph, order: Sequence[str], most: int) -> dict[_Rail, int]:
    """Return the lane of each rail, 0 next to the frames; short ones are further in."""
    place = {name: number for number, name in enumerate(order)}
    spans: dict[_Rail, tuple[int, int]] = {}
    for edge in graph.edges:
        if edge.target not in place or edge.source == edge.target or _is_straight(edge, place):
            continue
        ends = (place[edge.source], place[edge.target])
        low, high = spans.get(_rail_of(edge), ends)
        spans[_rail_of(edge)] = (min(low, *ends), max(high, *ends))
    taken: list[list[tuple[int, int]]] = []
    lanes: dict[_Rail, int] = {}
    for rail, span in sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[1])):
        free = (
            lane
            for lane, others in enumerate([*taken, []])
            if all(span[1] < low or high < span[0] for low, high in others)
        )
        lane = next(free)
        if lane < most:
            taken += [[]] if lane == len(taken) else []
            taken[lane].append(span)
            lanes[rail] = lane
    return lanes


def _is_straight(edge: Edge, place: Mapping[str, int]) -> bool:
    return place[edge.target] == place[edge.source] + 1 and edge.kind != "resume"


# --- the column -------------------------------------------------------------------------------------


class _Row(msgspec.Struct, frozen=True):
    """A row of a frame: words, at the right more of them, where a rail leaves it, or a picture."""

    text: str = ""
    look: Look = "plain"
    right: str = ""
    rail: _Rail | None = None
    inner: Picture | None = None

    @property
    def width(self) -> int:
        if self.inner is not None:
            return self.inner.width
        return cells(self.text) + (cells(self.right) + 2 if self.right else 0)


def _laid_out(graph: Graph, width: int, marks: Marks, prefix: Key) -> Picture:
    order = in_order(graph)
    place = {name: number for number, name in enumerate(order)}
    lanes = _rails(graph, order, min(_MAX_RAILS, max(0, (width - _NARROWEST - 1) // 2)))
    left = 2 * (max(lanes.values()) + 1) + 1 if lanes else 0
    inside = min(width - left, _WIDEST + 8) - 4
    rows = {
        name: _rows(node, graph, place, lanes, inside, marks, prefix)
        for name in order
        if (node := graph.node(name)) is not None
    }
    widest = max((row.width for each in rows.values() for row in each), default=0)
    painter = _Column(left, min(inside, max(widest, _NARROWEST - 8)), lanes)
    for number, name in enumerate(order):
        following = order[number + 1] if number + 1 < len(order) else None
        leads_on = any(
            edge.target == following and _is_straight(edge, place) for edge in graph.exits(name)
        )
        painter.add(name, rows[name], marks, (*prefix, name), leads_on=leads_on)
    return painter.picture()


def _rows(
    node: Node,
    graph: Graph,
    place: Mapping[str, int],
    lanes: Mapping[_Rail, int],
    width: int,
    marks: Marks,
    prefix: Key,
) -> list[_Row]:
    said = _said(marks, (*prefix, node.name))
    name = clipped(one_line(node.name), max(4, width - cells(said) - 2 if said else width))
    if node.kind == "stop":
        output = one_line(node.output)
        room = width - cells(name) - 4 - (cells(said) + 2 if said else 0)
        text = f"{name}  {clipped(output, room)}" if output and room > 8 else name
        return [_Row(text, "title", said)]
    rows = [_Row(name, "title", said)]
    rows += [_Row(line) for line in wrapped(one_line(node.work), width, most=3)]
    rows += [_Row(line, "dim") for line in wrapped(node.description, width, most=2)]
    if node.handlers:
        functions = f"runs {', '.join(map(one_line, node.handlers))}"
        rows += [_Row(line, "dim") for line in wrapped(functions, width, most=2)]
    if graph.resume == node.name:
        rows.append(_Row(clipped("↩ your words lead here", width), "dim"))
    for group in node.groups:
        rows += _group_rows(group, width, marks, (*prefix, node.name, group.name))
    exits = graph.exits(node.name)
    for edge in exits:
        is_plain = edge.target in place and _is_straight(edge, place) and not edge.label
        if is_plain and len(exits) == 1:
            continue
        rail = _rail_of(edge) if _rail_of(edge) in lanes else None
        is_straight = edge.target in place and _is_straight(edge, place)
        rows += _exit_rows(edge, None if is_straight else rail, width)
    return rows


def _group_rows(group: Group, width: int, marks: Marks, key: Key) -> list[_Row]:
    # What else there is but branches has been said already, as the state's work.
    head = f"┄ branch {one_line(group.name)}"
    rows = [_Row(clipped(head, width), "dim")] if group.kind == "branch" else []
    if width < MIN_WIDTH:
        names = ", ".join(one_line(name) for name in in_order(group.graph))
        return [*rows, *(_Row(_INDENT + line) for line in wrapped(names, width - 2, most=3))]
    return [*rows, _Row(inner=_laid_out(group.graph, width, marks, key))]


_ARROWS = {"branch": "⇉", "resume": "⇢"}


def _exit_rows(edge: Edge, rail: _Rail | None, width: int) -> list[_Row]:
    arrow = "↻" if edge.source == edge.target else _ARROWS.get(edge.kind, "→")
    target = f"{arrow} {clipped(one_line(target_words(edge.target)), width - 2)}"
    if edge.target == INTERRUPTED:
        target = clipped(f"↩ {target_words(edge.target)}", width)
    label = one_line(edge.label)
    if not label:
        return [_Row(target, "exit", rail=rail)]
    if cells(target) + 2 + cells(label) <= width:
        return [_Row(f"{target}{_INDENT}{label}", "exit", rail=rail)]
    lines = wrapped(label, width - 4, most=3)
    return [
        _Row(clipped(target, width), "exit", rail=rail),
        *(_Row(f"{_INDENT}{_INDENT}{line}", "exit") for line in lines),
    ]


def _said(marks: Marks, key: Key) -> str:
    """Return what is said of a state that was visited: `×2 · 12 s`."""
    visits, seconds = marks.visits.get(key, 0), marks.seconds.get(key, 0.0)
    here = "◀ " if key in marks.current and not marks.is_over else ""
    if not visits:
        return here.strip()
    took = f" · {seconds_words(seconds)}" if seconds >= 0.0005 and key[-1] != STOP else ""
    return f"{here}×{visits}{took}"


class _Column:
    """Puts frames below each other, and the rails beside them."""

    def __init__(self, left: int, inside: int, lanes: Mapping[_Rail, int]) -> None:
        self._left = left
        self._inside = inside
        self._lanes = lanes
        self._frames: list[Frame] = []
        self._words: list[Words] = []
        self._wires: list[Wire] = []
        self._ends: dict[str, tuple[int, int]] = {}
        self._leaving: list[tuple[int, _Rail]] = []
        self._y = 0

    def add(
        self, name: str, rows: Sequence[_Row], marks: Marks, key: Key, *, leads_on: bool
    ) -> None:
        x, y = self._left, self._y
        if name == STOP:
            row = rows[0]
            text = f"◉ {padded(row.text, self._inside - 2 - cells(row.right))}{row.right}".rstrip()
            self._words.append(Words(x + 2, y, text, "title"))
            self._ends[name] = (x, y)
            self._y = y + 2
            return
        self._ends[name] = (x - 1, y + 1)
        at, before = y + 1, len(self._frames)
        for row in rows:
            at = self._row(row, at)
        is_current = key in marks.current and not marks.is_over
        size = (self._inside + 4, at - y + 1)
        own = Frame(x, y, *size, name, is_current, key in marks.visits)
        self._frames.insert(before, own)
        if leads_on:
            self._wires.append(Wire(((x + 2, at), (x + 2, at + 1))))
        self._y = at + 2

    def _row(self, row: _Row, y: int) -> int:
        """Put a row into its frame; return the row below it."""
        x = self._left + 2
        if row.inner is not None:
            self._take(row.inner, x, y)
            return y + row.inner.height
        self._words.append(Words(x, y, row.text, row.look))
        if row.right:
            self._words.append(Words(x + self._inside - cells(row.right), y, row.right, "mark"))
        if row.rail is not None:
            self._leaving.append((y, row.rail))
        return y + 1

    def _take(self, inner: Picture, x: int, y: int) -> None:
        self._frames += [
            msgspec.structs.replace(frame, x=frame.x + x, y=frame.y + y) for frame in inner.frames
        ]
        self._words += [
            msgspec.structs.replace(words, x=words.x + x, y=words.y + y) for words in inner.words
        ]
        self._wires += [
            Wire(tuple((px + x, py + y) for px, py in wire.points), wire.is_dashed)
            for wire in inner.wires
        ]

    def picture(self) -> Picture:
        for y, rail in self._leaving:
            lane_x = self._left - 3 - 2 * self._lanes[rail]
            end_x, end_y = self._ends[rail.target]
            points = ((self._left, y), (lane_x, y), (lane_x, end_y), (end_x, end_y))
            self._wires.append(Wire(points, rail.is_dashed))
        return Picture(
            self._left + self._inside + 4,
            max(0, self._y - 1),
            tuple(self._frames),
            tuple(self._words),
            tuple(self._wires),
        )
