"""Where things stand: live text, cards, the editor, completions, the bottom line."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, is_done
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.layout.processors import (
    HighlightIncrementalSearchProcessor,
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.widgets import SearchToolbar

from midstream.console.lines import Row
from midstream.core.safety.sanitize import masked

_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_FLAGS = {
    "1": "bold",
    "2": "dim",
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
        number = int(code)
        if 30 <= number < 38:
            words.append(f"ansi{_COLOURS[number - 30]}")
        elif code in _FLAGS:
            words.append(_FLAGS[code])
    return " ".join(words)


def toolkit_text(rows: Sequence[Row]) -> StyleAndTextTuples:
    """Return laid-out rows as prompt_toolkit's fragments."""
    found: StyleAndTextTuples = []
    for number, row in enumerate(rows):
        if number:
            found.append(("", "\n"))
        found += [(toolkit_style(style), text) for style, text in row]
    return found


class _Masked(Processor):
    """Shows suspects in the typed text as one cell each, so that the cursor stays right."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        return Transformation(
            [(style, masked(text)) for style, text, *_ in transformation_input.fragments]
        )


def layout_of(
    buffer: Buffer,
    *,
    above: Callable[[], Sequence[Row]],
    prompt: Callable[[], str],
    bottom: Callable[[], Row],
    editor_height: Callable[[], int],
) -> Layout:
    """Return the layout. The callables are asked at every draw and must be quick."""
    search = SearchToolbar()
    editor = Window(
        BufferControl(
            buffer,
            input_processors=[HighlightIncrementalSearchProcessor(), _Masked()],
            search_buffer_control=search.control,
            preview_search=True,
        ),
        wrap_lines=True,
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=editor_height()),
        get_line_prefix=lambda number, wraps: [
            ("ansicyan", prompt() if number == 0 and wraps == 0 else " " * len(prompt()))
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
                    height=Dimension(max=6),
                ),
                filter=has_completions & ~is_done,
            ),
            ConditionalContainer(
                Window(FormattedTextControl(lambda: toolkit_text([bottom()])), height=1),
                filter=~is_done,
            ),
        ]
    )
    return Layout(parts, focused_element=editor)
