"""Where our rows are once a terminal has broken them anew, having become narrower. Pure.

A terminal that reflows has done so before it says that its size is another one. What we drew then takes
more rows than we know of, and erasing only ours would leave its beginning in the scrollback. Terminals
that cut rows off instead cannot be told from those, and erasing too much there would take finished
text away: so it is done only where it is certain.
"""

from collections.abc import Mapping

from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Screen


def reflows(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to break rows anew, as tmux does."""
    return bool(environ.get("TMUX")) and "STY" not in environ


def cursor_after(drawn: Screen, cursor: Point, columns: int) -> Point:
    """Return where the cursor is, from our first row, once the rows drawn fill `columns` columns each."""
    above = sum(-(-max(1, _used(drawn, y)) // columns) for y in range(cursor.y))
    return Point(x=cursor.x % columns, y=above + cursor.x // columns)


class Written:
    """How far each of our rows was written since it was last erased whole.

    By that a terminal breaks it anew: in tmux what was erased behind shorter words still counts.
    """

    def __init__(self) -> None:
        """Know of no rows yet."""
        self._columns: list[int] = []

    def drew(self, drawn: Screen, *, rows: int, is_anew: bool) -> bool:
        """Take note of the first `rows` rows of a frame, drawn over the last one or `is_anew`.

        Return whether one of them holds less than was written there: to be drawn anew, then.
        """
        before = [] if is_anew else self._columns
        now = [_used(drawn, y) for y in range(rows)]
        is_less = any(old > new for old, new in zip(before, now, strict=False))
        self._columns = [
            max(before[y] if y < len(before) else 0, now[y] if y < rows else 0)
            for y in range(max(rows, len(before)))
        ]
        return is_less


def _used(drawn: Screen, y: int) -> int:
    """Return how many columns of a row something was written in."""
    row = drawn.data_buffer[y]
    return max((x + row[x].width for x in [*row] if row[x].char != " "), default=0)
