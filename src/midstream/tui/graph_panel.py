"""The graph that stands above the prompt and goes with its run, until that is over or left.

A picture is laid out anew only when the run has come elsewhere or the terminal has another width, in a
thread: of two hundred states that takes longer than a key may wait. Until it is there the one before
stays. A frame cuts the rows it has room for, those around where the run is, and remembers them.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.core.run import Run
from midstream.language.spec import Definition
from midstream.system.offloop import in_thread
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.scrollback import Scrollback
from midstream.tui.styled_lines import Row, one_row
from midstream.tui.themes import MUTED

if TYPE_CHECKING:
    from midstream.views.graph import Graph

OVER: Final = "/graph draws the way it went."
"""What stands where the picture was, once the run is over: the report must not be pushed off."""

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


def drawing_key(run: Run) -> Hashable:
    """Return what a picture of a run depends on: where it is, and how often it was where."""
    inner = tuple((name, drawing_key(branch)) for name, branch in run.visit.branches.items())
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
        part = ("" if is_here else MUTED, text)
        found.append(one_row([part], width, _MORE if is_cut else _MARK, MUTED))
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


class GraphPanel:
    """The run whose graph is followed, and what was last drawn of it."""

    def __init__(self, scrollback: Scrollback, background: BackgroundTasks) -> None:
        self._scrollback = scrollback
        self._background = background
        self._run: Callable[[], Run] | None = None
        self._picture: Drawn | None = None
        self._seen: Run | None = None
        self._stands: Hashable = None
        self._graph: tuple[Definition, Graph] | None = None
        self._is_drawing = False
        self._cut: tuple[tuple[int, int], list[Row]] | None = None

    @property
    def least(self) -> int:
        """Return how many rows are kept for it where those at work keep theirs, 0 without a graph."""
        return 0 if self._run is None else LEAST

    def follow(self, run: Callable[[], Run] | None) -> None:
        """Follow the graph of a run from now on; None: of none."""
        self._run, self._picture, self._cut = run, None, None
        self._seen, self._stands = None, None

    def rows(self, active: str, *, room: int, width: int) -> list[Row]:
        """Return what a frame shows of it in `room` rows. `active` is the id of the active run."""
        if self._run is None:
            return []
        run = self._run()
        if run.is_over:
            # Not within a frame: what is said asks for the next one.
            asyncio.get_running_loop().call_soon(partial(self._scrollback.say, OVER, kind="note"))
        if run.is_over or run.id != active:
            self.follow(None)
            return []
        self._keep_up(run, width)
        if self._picture is None:
            return []
        if self._cut is None or self._cut[0] != (room, width):
            self._cut = ((room, width), graph_rows(self._picture, room=room, width=width))
        return self._cut[1]

    def _keep_up(self, run: Run, width: int) -> None:
        """Have a picture made where the last one is no longer true. One is made at a time."""
        if self._is_drawing or (run is self._seen and self._stands_at(width)):
            return
        self._seen = run
        stands = (drawing_key(run), width)
        if stands != self._stands and self._run is not None:
            self._stands, self._is_drawing = stands, True
            self._background.begin_guarded(self._draw(self._run, run, width))

    def _stands_at(self, width: int) -> bool:
        return isinstance(self._stands, tuple) and self._stands[1] == width

    async def _draw(self, of: Callable[[], Run], run: Run, width: int) -> None:
        try:
            picture = await self._drawn(run, width)
        except Exception:
            # Told by whoever began this; without a picture there is nothing to follow.
            self.follow(None)
            raise
        finally:
            self._is_drawing = False
        if self._run is of:
            self._picture, self._cut = picture, None

    async def _drawn(self, run: Run, width: int) -> Drawn:
        from midstream.views.graph import graph_of

        definition = run.definition
        assert definition is not None, "only a workflow's graph is followed"
        if self._graph is None or self._graph[0] is not definition:
            self._graph = (definition, await in_thread(partial(graph_of, definition)))
        return await in_thread(partial(drawn, run, self._graph[1], width=width_for(width)))
