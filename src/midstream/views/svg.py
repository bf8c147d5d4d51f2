"""A picture as SVG: one file that needs no other, legible by day and by night."""

from midstream.views.cells import cells, one_line
from midstream.views.graph import Graph
from midstream.views.graph_layout import Frame, Picture, Wire, Words, picture_of
from midstream.views.graph_marks import NO_MARKS, Marks

_CELL, _LINE, _EDGE = 8, 20, 16

_STYLE = """
svg { background: #ffffff; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; }
.title { font-weight: bold; }
.dim, .mark { fill: #57606a; }
.exit { fill: #0550ae; }
.frame { fill: #f6f8fa; stroke: #8c959f; }
.visited { fill: #e6f4ea; stroke: #2da44e; }
.current { fill: #fff8c5; stroke: #bf8700; stroke-width: 2.5; }
.wire { fill: none; stroke: #57606a; stroke-width: 1.3; stroke-linejoin: round; }
.dashed { stroke-dasharray: 5 4; }
.head { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; }
  .dim, .mark { fill: #9da7b1; }
  .exit { fill: #79c0ff; }
  .frame { fill: #161b22; stroke: #6e7681; }
  .visited { fill: #12261e; stroke: #3fb950; }
  .current { fill: #302a10; stroke: #d29922; }
  .wire { stroke: #9da7b1; }
  .head { fill: #9da7b1; }
}
"""


def svg(graph: Graph, *, marks: Marks = NO_MARKS, width: int = 90) -> str:
    """Return the machine as an SVG document; `width` bounds it, in characters of its text."""
    return painted(picture_of(graph, width=width, marks=marks), title=graph.name)


def painted(picture: Picture, *, title: str) -> str:
    """Return a picture as an SVG document."""
    width = picture.width * _CELL + 2 * _EDGE
    height = picture.height * _LINE + 2 * _EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        *map(_frame, picture.frames),
        *map(_wire, picture.wires),
        *map(_words, picture.words),
        "</svg>",
    ]
    return "\n".join(parts)


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _text(text: str) -> str:
    return _escaped(one_line(text))


def _at(x: float, y: float) -> tuple[float, float]:
    """Return the middle of a cell."""
    return _EDGE + (x + 0.5) * _CELL, _EDGE + (y + 0.5) * _LINE


def _frame(frame: Frame) -> str:
    x, y = _at(frame.x, frame.y)
    look = "current" if frame.is_current else "visited" if frame.is_visited else ""
    return (
        f'<rect class="frame {look}" x="{x:g}" y="{y:g}" width="{(frame.width - 1) * _CELL:g}" '
        f'height="{(frame.height - 1) * _LINE:g}" rx="6"/>'
    )


def _wire(wire: Wire) -> str:
    *most, (x0, y0), (x1, y1) = (_at(*point) for point in wire.points)
    # A cell's middle is short of the frame beside it.
    end = (x1 + _CELL * 0.8, y1) if y1 == y0 else (x1, y1 + _LINE * 0.6)
    points = " ".join(f"{x:g},{y:g}" for x, y in (*most, (x0, y0), end))
    look = "wire dashed" if wire.is_dashed else "wire"
    return f'<polyline class="{look}" points="{points}" marker-end="url(#head)"/>'


def _words(words: Words) -> str:
    x, y = _EDGE + words.x * _CELL, _EDGE + (words.y + 0.72) * _LINE
    # The length is given, so that every font fills the same cells.
    length = cells(words.text) * _CELL
    return (
        f'<text class="{words.look}" x="{x:g}" y="{y:g}" textLength="{length}" '
        f'lengthAdjust="spacingAndGlyphs">{_text_kept(words.text)}</text>'
    )


def _text_kept(text: str) -> str:
    """Return a text of the picture escaped, its runs of blanks kept."""
    return _escaped(text).replace("  ", "\u00a0\u00a0")
