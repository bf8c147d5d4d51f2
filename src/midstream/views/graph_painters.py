"""The painters of a machine: laid out, as text for a terminal and as an SVG document; and for other
drawers, in Mermaid and Graphviz's DOT.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from midstream.language.names import STOP
from midstream.views.cells import one_line, width_of
from midstream.views.graph import Graph, target_words
from midstream.views.graph_layout import Frame, Picture, Wire, Words, in_order, picture_of
from midstream.views.graph_marks import NO_MARKS, Key, Marks

# --- as text: box-drawing characters that meet where lines do ----------------------------------------

_N, _E, _S, _W = 1, 2, 4, 8

# The character for each sum of directions in which a line leaves a cell; a blank: as the light one.
_LIGHT = " │─╰││╭├─╯─┴╮┤┬┼"
_HEAVY = "   ┗ ┃┏  ┛━ ┓┨┯ "
_DASHED = "     ┊    ┄     "
_SOLID = " " * 16
_HEADS = {(1, 0): "▶", (0, 1): "▼", (0, -1): "▲", (-1, 0): "◀"}


def drawing(graph: Graph, *, width: int = 80, marks: Marks = NO_MARKS) -> str:
    """Return the machine drawn in at most `width` columns, without a line break at the end.

    What a file says is on one line each and free of control characters. A state the run is in has a
    heavy frame and `◀` beside its name; visited ones say how often and how long.
    """
    return text_of(picture_of(graph, width=width, marks=marks))


def text_of(picture: Picture) -> str:
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
        # Lines meet: a corner that another frame has drawn already stays as light as that one.
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
            size = width_of(char)
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
            table = _HEAVY if at in self._heavy else _SOLID if at in self._solid else _DASHED
            rows[at[1]][at[0]] = table[directions].strip() or _LIGHT[directions]
        for (x, y), char in self._chars.items():
            rows[y][x] = char
        return "\n".join(_row(row) for row in rows)


def _row(row: dict[int, str]) -> str:
    last = max(row, default=-1)
    return "".join(row.get(x, " ") for x in range(last + 1)).rstrip()


# --- as SVG: one file that needs no other, legible by day and by night -------------------------------

_CELL, _LINE, _EDGE = 8, 20, 16

_STYLE = """
svg { background: #ffffff; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; }
.title { font-weight: bold; }
.dim, .mark { fill: #57606a; }
.exit { fill: #0550ae; }
.frame { fill: #f6f8fa; stroke: #8c959f; }
.wire { fill: none; stroke: #57606a; stroke-width: 1.3; stroke-linejoin: round; }
.dashed { stroke-dasharray: 5 4; }
.head { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; }
  .dim, .mark { fill: #9da7b1; }
  .exit { fill: #79c0ff; }
  .frame { fill: #161b22; stroke: #6e7681; }
  .wire { stroke: #9da7b1; }
  .head { fill: #9da7b1; }
}
"""


def svg(graph: Graph, *, width: int = 90) -> str:
    """Return the machine as an SVG document; `width` bounds it, in characters of its text."""
    picture = picture_of(graph, width=width)
    width = picture.width * _CELL + 2 * _EDGE
    height = picture.height * _LINE + 2 * _EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_escaped(one_line(graph.name))}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        *map(_rect, picture.frames),
        *map(_polyline, picture.wires),
        *map(_text, picture.words),
        "</svg>",
    ]
    return "\n".join(parts)


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _at(x: float, y: float) -> tuple[float, float]:
    """Return the middle of a cell."""
    return _EDGE + (x + 0.5) * _CELL, _EDGE + (y + 0.5) * _LINE


def _rect(frame: Frame) -> str:
    x, y = _at(frame.x, frame.y)
    return (
        f'<rect class="frame" x="{x:g}" y="{y:g}" width="{(frame.width - 1) * _CELL:g}" '
        f'height="{(frame.height - 1) * _LINE:g}" rx="6"/>'
    )


def _polyline(wire: Wire) -> str:
    *most, (x0, y0), (x1, y1) = (_at(*point) for point in wire.points)
    # A cell's middle is short of the frame beside it.
    end = (x1 + _CELL * 0.8, y1) if y1 == y0 else (x1, y1 + _LINE * 0.6)
    points = " ".join(f"{x:g},{y:g}" for x, y in (*most, (x0, y0), end))
    look = "wire dashed" if wire.is_dashed else "wire"
    return f'<polyline class="{look}" points="{points}" marker-end="url(#head)"/>'


def _text(words: Words) -> str:
    x, y = _EDGE + words.x * _CELL, _EDGE + (words.y + 0.72) * _LINE
    # The length is given, so that every font fills the same cells.
    length = width_of(words.text) * _CELL
    kept = _escaped(words.text).replace("  ", "\u00a0\u00a0")
    return (
        f'<text class="{words.look}" x="{x:g}" y="{y:g}" textLength="{length}" '
        f'lengthAdjust="spacingAndGlyphs">{kept}</text>'
    )


# --- for other drawers -------------------------------------------------------------------------------
#
# Names go in quotes, escaped; what the drawers know a state by is a number of ours, so that no name can
# mean anything to them. The machine is gone through once, and each language is a table of how it says
# what is found on the way.

_Kind: TypeAlias = Literal[
    "state", "stop", "group", "end", "enters", "leads", "dashed", "words", "nowhere"
]


class _Item(msgspec.Struct, frozen=True):
    """Something to say, so many machines deep: of a state `id`, of an edge from there `to` a state."""

    depth: int
    kind: _Kind
    id: str = ""
    lines: tuple[str, ...] = ()
    to: str = ""


def _items(graph: Graph, prefix: Key, ids: dict[Key, str]) -> Iterator[_Item]:
    """Yield what there is to say of a machine. Its states are numbered before those within them."""
    depth = len(prefix) // 2
    keys = [(*prefix, name) for name in in_order(graph)]
    for key in keys:
        ids.setdefault(key, f"s{len(ids) + 1}")
    for key in keys:
        node, id = graph.node(key[-1]), ids[key]
        assert node is not None, "what stands in order is a state"
        lines = tuple(one_line(text) for text in (node.name, node.work or node.output) if text)
        kind: _Kind = "stop" if node.name == STOP else "state"
        yield _Item(depth, kind, id, lines)
        for number, group in enumerate(node.groups, 1):
            inner = (*key, group.name)
            called = {"branch": "branch", "item": "for each of", "workflow": "workflow"}[group.kind]
            yield _Item(depth, "group", f"{id}g{number}", (f"{called} {group.name}",))
            yield from _items(group.graph, inner, ids)
            yield _Item(depth, "end")
            yield _Item(depth, "enters", id, to=ids[(*inner, group.graph.entry)])
    nowhere: dict[str, str] = {}
    for edge in graph.edges:
        id = ids[(*prefix, edge.source)]
        to = ids.get((*prefix, edge.target))
        if to is None:  # such as a state that does not exist
            to = f"{id}x{len(edge.target)}"
            nowhere[to] = target_words(edge.target)
        kind = "dashed" if edge.kind in ("resume", "branch") else "leads"
        yield _Item(depth, kind, id, (edge.label,), to)
    if graph.resume and (*prefix, graph.resume) in ids:
        yield _Item(depth, "words", ids[(*prefix, graph.resume)])
    for end, words in nowhere.items():
        yield _Item(depth, "nowhere", end, (words,))


def _line(forms: dict[_Kind, str], item: _Item, text: str) -> str:
    said = forms[item.kind].format(id=item.id, text=text, to=item.to)
    indent = "  " * (item.depth + 1)
    return "\n".join(f"{indent}{line}" for line in said.split("\n"))


# --- Mermaid ------------------------------------------------------------------------------------------

_SAFE = frozenset(" .,-_()/?!=+*'")
_MERMAID: dict[_Kind, str] = {
    "state": '{id}["{text}"]',
    "stop": '{id}(("{text}"))',
    "group": 'subgraph {id}["{text}"]',
    "end": "end",
    "enters": "{id} --> {to}",
    "leads": "{id} -->{text} {to}",
    "dashed": "{id} -.->{text} {to}",
    "words": '{id}w(["your words"]) -.-> {id}',
    "nowhere": '{id}["{text}"]',
}


def mermaid(graph: Graph) -> str:
    """Return the machine as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    for item in _items(graph, (), {}):
        text = "<br/>".join(map(_entities, item.lines))
        if text and item.kind in ("leads", "dashed"):
            text = f'|"{text}"|'
        lines.append(_line(_MERMAID, item, text))
    return "\n".join(lines)


def _entities(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _SAFE else f"#{ord(char)};" for char in one_line(text)
    )


# --- DOT ----------------------------------------------------------------------------------------------

_DOT: dict[_Kind, str] = {
    "state": "{id} [label={text}];",
    "stop": "{id} [label={text}, shape=doublecircle];",
    "group": "subgraph cluster_{id} {{\n  label={text};",
    "end": "}}",
    "enters": "{id} -> {to};",
    "leads": "{id} -> {to} [label={text}];",
    "dashed": "{id} -> {to} [label={text}, style=dashed];",
    "words": '{id}w [label="your words", shape=plaintext];\n{id}w -> {id} [style=dashed];',
    "nowhere": "{id} [label={text}, shape=plaintext];",
}


def dot(graph: Graph) -> str:
    """Return the machine as a digraph for Graphviz."""
    items = _items(graph, (), {})
    return "\n".join(
        [
            f"digraph {_quoted(graph.name)} {{",
            "  compound=true;",
            '  node [shape=box, style=rounded, fontname="sans-serif"];',
            '  edge [fontname="sans-serif", fontsize=10];',
            *(_line(_DOT, each, _quoted(*each.lines)) for each in items),
            "}",
        ]
    )


def _quoted(*lines: str) -> str:
    escaped = (one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
