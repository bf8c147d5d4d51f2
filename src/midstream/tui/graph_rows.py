"""A picture of a run's workflow cut to the rows a frame has: those around where the run is. No IO."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.core.run import Run
from midstream.safety.sanitize import sanitized
from midstream.tui.styled_lines import DIM, Line, Row, clipped, rows

if TYPE_CHECKING:
    from midstream.views.graph import Graph

LEAST: Final = 3
"""Rows that tell something: the top of a state's frame, its name and what it does."""

WIDEST: Final = 100
"""Columns a picture takes at most: a wider one is no clearer."""

_MARK: Final = "  "
_MORE: Final = "⋮ "


class Drawn(msgspec.Struct, frozen=True):
    """A picture as text, a line a row. `here` are the spans of rows in which the run is, innermost."""

    lines: tuple[str, ...]
    here: tuple[tuple[int, int], ...] = ()


def standing(run: Run) -> Hashable:
    """Return what a picture of a run depends on: where it is, and how often it was where."""
    inner = tuple((name, standing(branch)) for name, branch in run.visit.branches.items())
    return run.visit.state, tuple(run.visits.items()), run.is_over, inner


def width_for(columns: int) -> int:
    """Return how wide a picture is laid out: two columns are the console's own."""
    return min(columns, WIDEST) - len(_MARK)


def drawn(run: Run, graph: "Graph", *, width: int) -> Drawn:
    """Return a run's picture in so many columns. Of a large workflow it takes long: off the loop."""
    # Loaded once somebody wants a picture.
    from midstream.views.graph_layout import picture_of
    from midstream.views.graph_marks import marks_of
    from midstream.views.graph_painters import text_of

    picture = picture_of(graph, width=width, marks=marks_of(run, graph))
    spans = [(each.y, each.y + each.height) for each in picture.frames if each.is_current]
    here = tuple(sorted(span for span in spans if not any(_holds(span, each) for each in spans)))
    return Drawn(tuple(text_of(picture).split("\n")), here)


def graph_rows(picture: Drawn, *, room: int, width: int) -> list[Row]:
    """Return the part of a picture around where the run is, in at most `room` rows.

    Where rows are left out above or below, the first or last row begins with a mark. Fewer than
    `LEAST` rows would tell nothing: then there is none, unless that is the whole picture.
    """
    count = len(picture.lines)
    if room < min(LEAST, count):
        return []
    first = _first(picture, room)
    shown = picture.lines[first : first + room]
    found: list[Row] = []
    for at, text in enumerate(shown, first):
        is_cut = (at == first > 0) or (at == first + room - 1 < count - 1)
        is_here = any(top <= at < end for top, end in picture.here)
        # Sanitized first: what shows a control character takes more cells than that did.
        words = clipped(sanitized(text), max(1, width - len(_MARK)))
        line = Line((("" if is_here else DIM, words),), _MORE if is_cut else _MARK, DIM, _MARK)
        found += rows(line, width)[:1]
    return found


def _first(picture: Drawn, room: int) -> int:
    """Return the first row that is shown: where the run is stands in the middle, or as much as fits."""
    last = max(0, len(picture.lines) - room)
    if not picture.here:
        return 0
    top, end = picture.here[0]
    for _, lower in picture.here[1:]:
        # Of branches as many as fit beside the first.
        if lower - top <= room:
            end = max(end, lower)
    above = max(0, (room - (end - top)) // 2)
    return min(last, max(0, top - above))


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]
