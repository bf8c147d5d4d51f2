"""A machine laid out: frames, words and wires on a grid of cells, for any painter.

States stand in a column, in the order in which they are usually gone through. An arrow leads straight
to the state below; any other edge is a row of its state's frame, from which a rail at the left goes
to its target: one rail for all that lead there. Where there is no room for a rail, the row's words
say it all. Branches and sub-workflows are pictures within their state's frame.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from midstream.language.names import INTERRUPTED, STOP
from midstream.views.amounts import seconds_words
from midstream.views.cells import clipped, one_line, padded, width_of, wrapped
from midstream.views.graph import Edge, Graph, Group, Node, target_words
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
    return _Layout(graph, max(width, MIN_WIDTH), marks, ()).picture()


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
        todo = [root]
        while todo:
            name = todo.pop()
            if name in placed or name == STOP:
                continue
            placed[name] = None
            # Of what it leads to the earliest declared comes first.
            onward = {edge.target for edge in graph.exits(name) if edge.kind != "resume"}
            todo += [each for each in reversed(declared) if each in onward and each not in placed]
        if root == graph.entry:
            placed[STOP] = None
    placed.setdefault(STOP, None)
    return tuple(name for name in placed if name in declared)


# --- the rails --------------------------------------------------------------------------------------


class _Rail(msgspec.Struct, frozen=True):
    target: str
    is_dashed: bool


def _rail_of(edge: Edge) -> _Rail:
    return _Rail(edge.target, edge.kind == "resume")


def _rails(edges: Iterable[Edge], place: Mapping[str, int], most: int) -> dict[_Rail, int]:
    """Return the lane of each rail, 0 next to the frames; short ones are further in."""
    spans: dict[_Rail, tuple[int, int]] = {}
    for edge in edges:
        ends = (place[edge.source], place[edge.target])
        low, high = spans.get(_rail_of(edge), ends)
        spans[_rail_of(edge)] = (min(low, *ends), max(high, *ends))
    taken: list[list[tuple[int, int]]] = [[] for _ in range(most)]
    lanes: dict[_Rail, int] = {}
    # A long rail that stood further in would be crossed by every short one behind it.
    for rail, (low, high) in sorted(
        spans.items(), key=lambda item: (item[1][1] - item[1][0], item[1])
    ):
        for lane, others in enumerate(taken):
            if all(high < first or last < low for first, last in others):
                others.append((low, high))
                lanes[rail] = lane
                break
    return lanes


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
        return width_of(self.text) + (width_of(self.right) + 2 if self.right else 0)


_ARROWS = {"branch": "⇉", "resume": "⇢"}


class _Layout:
    """Puts the frames of one machine below each other, and the rails beside them.

    `prefix` names, in the keys of the marks, what the machine stands in.
    """

    def __init__(self, graph: Graph, width: int, marks: Marks, prefix: Key) -> None:
        self._graph, self._marks, self._prefix = graph, marks, prefix
        place = {name: number for number, name in enumerate(in_order(graph))}
        self._straight = {
            edge
            for edge in graph.edges
            if edge.kind != "resume" and place.get(edge.target) == place[edge.source] + 1
        }
        railed = [
            edge
            for edge in graph.edges
            if edge.target in place and edge.target != edge.source and edge not in self._straight
        ]
        most = min(_MAX_RAILS, max(0, (width - _NARROWEST - 1) // 2))
        self._lanes = _rails(railed, place, most)
        self._left = 2 * max(self._lanes.values()) + 3 if self._lanes else 0
        self._inside = min(width - self._left, _WIDEST + 8) - 4
        self._states = {name: self._rows(node) for name in place if (node := graph.node(name))}
        self._frames: list[Frame] = []
        self._words: list[Words] = []
        self._wires: list[Wire] = []
        self._leaving: list[tuple[int, _Rail]] = []

    def picture(self) -> Picture:
        rows = [row for each in self._states.values() for row in each]
        widest = max((row.width for row in rows), default=0)
        self._inside = min(self._inside, max(widest, _NARROWEST - 8))
        ends: dict[str, tuple[int, int]] = {}
        y = 0
        for name in self._states:
            ends[name] = (self._left, y) if name == STOP else (self._left - 1, y + 1)
            y = self._stop(y) if name == STOP else self._frame(name, y)
        for at, rail in self._leaving:
            lane_x = self._left - 3 - 2 * self._lanes[rail]
            end_x, end_y = ends[rail.target]
            points = ((self._left, at), (lane_x, at), (lane_x, end_y), (end_x, end_y))
            self._wires.append(Wire(points, rail.is_dashed))
        return Picture(
            self._left + self._inside + 4,
            max(0, y - 1),
            tuple(self._frames),
            tuple(self._words),
            tuple(self._wires),
        )

    # --- what a frame holds -------------------------------------------------------------------

    def _rows(self, node: Node) -> list[_Row]:
        width = self._inside
        said = self._said(node.name)
        taken = width_of(said) + 2 if said else 0
        name = clipped(one_line(node.name), max(4, width - taken))
        if node.kind == "stop":
            output, room = one_line(node.output), width - width_of(name) - 4 - taken
            text = f"{name}  {clipped(output, room)}" if output and room > 8 else name
            return [_Row(text, "title", said)]
        rows = [_Row(name, "title", said)]
        rows += [_Row(line) for line in wrapped(one_line(node.work), width, most=3)]
        functions = f"runs {', '.join(map(one_line, node.handlers))}" if node.handlers else ""
        for text in (node.description, functions):
            rows += [_Row(line, "dim") for line in wrapped(text, width, most=2)]
        if self._graph.resume == node.name:
            rows.append(_Row(clipped("↩ your words lead here", width), "dim"))
        for group in node.groups:
            rows += self._group_rows(node, group)
        exits = self._graph.exits(node.name)
        for edge in exits:
            if len(exits) > 1 or edge not in self._straight or edge.label:
                rows += self._exit_rows(edge)
        return rows

    def _said(self, name: str) -> str:
        """Return what is said of a state that was visited: `×2 · 12 s`."""
        key = (*self._prefix, name)
        visits, seconds = self._marks.visits.get(key, 0), self._marks.seconds.get(key, 0.0)
        here = "◀" if self._is_current(key) else ""
        took = f" · {seconds_words(seconds)}" if seconds >= 0.0005 and name != STOP else ""
        return f"{here} ×{visits}{took}".strip() if visits else here

    def _is_current(self, key: Key) -> bool:
        return key in self._marks.current and not self._marks.is_over

    def _group_rows(self, node: Node, group: Group) -> list[_Row]:
        width = self._inside
        # What else there is but branches has been said already, as the state's work.
        head = f"┄ branch {one_line(group.name)}"
        rows = [_Row(clipped(head, width), "dim")] if group.kind == "branch" else []
        if width < MIN_WIDTH:
            names = ", ".join(one_line(name) for name in in_order(group.graph))
            return [*rows, *(_Row(_INDENT + line) for line in wrapped(names, width - 2, most=3))]
        key = (*self._prefix, node.name, group.name)
        return [*rows, _Row(inner=_Layout(group.graph, width, self._marks, key).picture())]

    def _exit_rows(self, edge: Edge) -> list[_Row]:
        width, label = self._inside, one_line(edge.label)
        # An edge whose rail found no lane is words alone.
        is_railed = _rail_of(edge) in self._lanes and edge not in self._straight
        rail = _rail_of(edge) if is_railed else None
        arrow = "↻" if edge.source == edge.target else _ARROWS.get(edge.kind, "→")
        target = f"{arrow} {clipped(one_line(target_words(edge.target)), width - 2)}"
        if edge.target == INTERRUPTED:
            target = clipped(f"↩ {target_words(edge.target)}", width)
        if not label:
            return [_Row(target, "exit", rail=rail)]
        if width_of(target) + 2 + width_of(label) <= width:
            return [_Row(f"{target}{_INDENT}{label}", "exit", rail=rail)]
        lines = wrapped(label, width - 4, most=3)
        return [
            _Row(clipped(target, width), "exit", rail=rail),
            *(_Row(f"{_INDENT}{_INDENT}{line}", "exit") for line in lines),
        ]

    # --- where it stands: each returns the row below what it put ----------------------------------

    def _stop(self, y: int) -> int:
        row = self._states[STOP][0]
        text = f"◉ {padded(row.text, self._inside - 2 - width_of(row.right))}{row.right}".rstrip()
        self._words.append(Words(self._left + 2, y, text, "title"))
        return y + 2

    def _frame(self, name: str, y: int) -> int:
        key, x = (*self._prefix, name), self._left
        at, before = y + 1, len(self._frames)
        for row in self._states[name]:
            at = self._row(row, x + 2, at)
        size = (self._inside + 4, at - y + 1)
        own = Frame(x, y, *size, name, self._is_current(key))
        self._frames.insert(before, own)
        if any(edge in self._straight for edge in self._graph.exits(name)):
            self._wires.append(Wire(((x + 2, at), (x + 2, at + 1))))
        return at + 2

    def _row(self, row: _Row, x: int, y: int) -> int:
        if row.inner is not None:
            self._put(row.inner, x, y)
            return y + row.inner.height
        self._words.append(Words(x, y, row.text, row.look))
        if row.right:
            self._words.append(Words(x + self._inside - width_of(row.right), y, row.right, "mark"))
        if row.rail is not None:
            self._leaving.append((y, row.rail))
        return y + 1

    def _put(self, inner: Picture, x: int, y: int) -> None:
        moved = msgspec.structs.replace
        self._frames += [moved(each, x=each.x + x, y=each.y + y) for each in inner.frames]
        self._words += [moved(each, x=each.x + x, y=each.y + y) for each in inner.words]
        self._wires += [
            Wire(tuple((px + x, py + y) for px, py in wire.points), wire.is_dashed)
            for wire in inner.wires
        ]
