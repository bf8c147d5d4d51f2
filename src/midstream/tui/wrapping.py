"""How tall a typed line is once it is broken into rows: the row of the cursor must never be out of sight.

prompt_toolkit counts cells. But the cursor takes one, too, behind a line that fills its last row, and
a wide character that no longer fits at the end of a row leaves a cell there empty.
"""

from prompt_toolkit.formatted_text import (
    fragment_list_to_text,
    fragment_list_width,
    to_formatted_text,
)
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.layout.controls import GetLinePrefixCallable, UIContent
from prompt_toolkit.utils import get_cwidth


class WrappedControl(BufferControl):
    """Shows a buffer whose lines are wrapped behind prefixes that are all equally wide."""

    def create_content(self, width: int, height: int, preview_search: bool = False) -> UIContent:
        """Return what is shown; see prompt_toolkit."""
        content = super().create_content(width, height, preview_search)
        return _Wrapped(
            get_line=content.get_line,
            line_count=content.line_count,
            cursor_position=content.cursor_position,
            menu_position=content.menu_position,
            show_cursor=content.show_cursor,
        )


class _Wrapped(UIContent):
    def get_height_for_line(
        self,
        lineno: int,
        width: int,
        get_line_prefix: GetLinePrefixCallable | None,
        slice_stop: int | None = None,
    ) -> int:
        text = fragment_list_to_text(self.get_line(lineno))
        if slice_stop is not None:
            text = text[: slice_stop + 1]  # with the cell of the cursor
        prefix = "" if get_line_prefix is None else get_line_prefix(lineno, 0)
        return rows_of(text, width - fragment_list_width(to_formatted_text(prefix)))


def rows_of(text: str, width: int) -> int:
    """Return how many rows of `width` cells a text takes, at least one."""
    if width < 2:
        return max(1, len(text))
    cells = get_cwidth(text)
    if cells == len(text):
        return max(1, -(-cells // width))
    rows, used = 1, 0
    for char in text:
        wide = get_cwidth(char)
        if used + wide > width:
            rows, used = rows + 1, 0
        used += wide
    return rows
