"""The graph that stands above the prompt and goes with its run, until that is over or left.

A picture is laid out anew only when the run has come elsewhere or the terminal has another width, in a
thread: of two hundred states that takes longer than a key may wait. Until it is there the one before
stays. A frame cuts the rows it has room for, and remembers them.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Final

from midstream.core.run import Run
from midstream.language.spec import Definition
from midstream.system.offloop import in_thread
from midstream.tui.background_tasks import UnderWay
from midstream.tui.graph_rows import (
    LEAST,
    Drawn,
    drawn,
    graph_rows,
    standing,
    width_for,
)
from midstream.tui.scrollback import Scrollback
from midstream.tui.styled_lines import Row

if TYPE_CHECKING:
    from midstream.views.graph import Graph

OVER: Final = "/graph draws the way it went."
"""What stands where the picture was, once the run is over: the report must not be pushed off."""


class Following:
    """The run whose graph is followed, and what was last drawn of it."""

    def __init__(self, scrollback: Scrollback, under_way: UnderWay) -> None:
        self._scrollback = scrollback
        self._under_way = under_way
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
        stands = (standing(run), width)
        if stands != self._stands and self._run is not None:
            self._stands, self._is_drawing = stands, True
            self._under_way.begin_guarded(self._draw(self._run, run, width))

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
