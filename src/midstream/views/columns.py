"""Names with what they mean, beside each other where there is room, else one behind the other."""

from collections.abc import Sequence
from textwrap import fill
from typing import Final

_NARROWEST: Final = 20


def two_columns(rows: Sequence[tuple[str, str]], *, width: int) -> str:
    """Return rows as text of at most so many columns. An empty row is an empty line.

    A name too long for its column has its words below it. A word longer than the width is cut.
    """
    width = max(_NARROWEST, width)
    column = min(max((len(name) for name, _ in rows), default=0) + 2, max(16, width // 3))
    if width < 3 * column:
        return "\n".join(_behind(name, words, width) for name, words in rows)
    return "\n".join(_beside(name, words, column, width) for name, words in rows)


def _behind(name: str, words: str, width: int) -> str:
    return fill(f"{name}: {words}" if name else words, width, subsequent_indent="  ")


def _beside(name: str, words: str, column: int, width: int) -> str:
    rest = " " * column
    if len(name) + 2 > column:
        return f"{fill(name, width)}\n{fill(words, width, initial_indent=rest, subsequent_indent=rest)}"
    return fill(words, width, initial_indent=name.ljust(column), subsequent_indent=rest)
