"""Where things stand: live text, cards, the editor, completions, the bottom line."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, is_done
from prompt_toolkit.formatted_text import (
    StyleAndTextTuples,
    fragment_list_to_text,
    fragment_list_width,
    to_formatted_text,
)
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.controls import GetLinePrefixCallable, UIContent
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.layout.processors import (
    HighlightIncrementalSearchProcessor,
    Processor,
    TabsProcessor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from midstream.safety.sanitize import joiners, masked
from midstream.tui.styled_lines import LEFT_TO_RIGHT, Row, has_right_to_left
from midstream.tui.themes import ACCENT
from midstream.views.cells import width_of

_FLAGS = {
    "1": "bold",
    "3": "italic",
    "4": "underline",
    "7": "reverse",
    "9": "strike",
}


@lru_cache(maxsize=256)
def toolkit_style(style: str) -> str:
    """Return one of our styles in prompt_toolkit's words."""
    words = []
    for code in filter(None, style.split(";")):
        words.append(_FLAGS.get(code, f"class:{code}"))
    return " ".join(words)


def toolkit_text(rows: Sequence[Row]) -> StyleAndTextTuples:
    """Return laid-out rows as prompt_toolkit's fragments."""
    found: StyleAndTextTuples = []
    for number, row in enumerate(rows):
        if number:
            found.append(("", "\n"))
        is_turned = has_right_to_left(row)
        for style, text in row:
            # Masked as the output does it, or what takes no room here would take a cell there.
            found.append((toolkit_style(style), masked(text)))
            if is_turned:
                found.append(("[ZeroWidthEscape]", LEFT_TO_RIGHT))
        if row and row[-1][1] and width_of(row[-1][1][-1]) == 0:
            # A mark at the very end would be drawn twice: with its letter, and in the cell behind.
            found.append(("", " "))
    return found


class _Masked(Processor):
    """Shows suspects in the typed text as one cell each, so that the cursor stays right.

    Joiners that belong where they are take no cell: the letters they join stand side by side.
    """

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        hidden = joiners("".join(text for _, text, *_ in fragments))
        if not hidden:
            return Transformation([(style, masked(text)) for style, text, *_ in fragments])
        left, at = set(hidden), 0
        shown: StyleAndTextTuples = []
        for style, text, *_ in fragments:
            kept = "".join(char for number, char in enumerate(text, at) if number not in left)
            shown.append((style, masked(kept)))
            at += len(text)
        behind = [place - number for number, place in enumerate(hidden)]
        return Transformation(
            shown,
            source_to_display=lambda place: place - bisect_left(hidden, place),
            display_to_source=lambda place: place + bisect_right(behind, place),
        )


class _Tabs(TabsProcessor):
    """Shows tabs as blanks. As `^I` they would take room that wrapping does not reckon with."""

    def __init__(self) -> None:
        super().__init__(char1=" ", char2=" ")

    def apply_transformation(self, ti: TransformationInput) -> Transformation:
        if any("\t" in text for _, text, *_ in ti.fragments):
            return super().apply_transformation(ti)
        return Transformation(ti.fragments)


def layout_of(
    buffer: Buffer,
    *,
    above: Callable[[], Sequence[Row]],
    prompt: Callable[[], str],
    bottom: Callable[[], Row],
    editor_height: Callable[[], int],
    own: Callable[[], Row] = list,
) -> Layout:
    """Return the layout. The callables are asked at every draw and must be quick."""
    search = SearchToolbar()
    editor = Window(
        WrappedControl(
            buffer,
            input_processors=[HighlightIncrementalSearchProcessor(), _Tabs(), _Masked()],
            search_buffer_control=search.control,
            preview_search=True,
        ),
        wrap_lines=True,
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=editor_height()),
        get_line_prefix=lambda number, wraps: [
            (toolkit_style(ACCENT), prompt() if number == 0 and wraps == 0 else " " * len(prompt()))
        ],
    )
    parts = HSplit(
        [
            ConditionalContainer(
                Window(
                    FormattedTextControl(lambda: toolkit_text(above())),
                    dont_extend_height=True,
                ),
                filter=Condition(lambda: bool(above())) & ~is_done,
            ),
            editor,
            search,
            ConditionalContainer(
                Window(
                    CompletionsMenuControl(),
                    dont_extend_height=True,
                    height=Dimension(max=10),
                ),
                filter=has_completions & ~is_done,
            ),
            ConditionalContainer(
                Window(FormattedTextControl(lambda: toolkit_text([bottom()])), height=1),
                filter=~is_done,
            ),
            ConditionalContainer(
                Window(FormattedTextControl(lambda: toolkit_text([own()])), height=1),
                filter=Condition(lambda: bool(own())) & ~is_done,
            ),
        ]
    )
    return Layout(parts, focused_element=editor)


# --- a typed line broken into rows ----------------------------------------------------------------


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
