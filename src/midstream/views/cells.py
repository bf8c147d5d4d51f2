"""Text measured in the cells of a terminal, and put into columns.

Most characters take one cell, wide ones two, marks none.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from textwrap import fill
from typing import Final

ELLIPSIS = "…"
_JOINER = "\u200d"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"})


@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    from wcwidth import wcwidth

    return max(0, wcwidth(char))


def width_of(text: str) -> int:
    """Return how many cells a text takes on a terminal. It has no controls."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def one_line(text: str) -> str:
    """Return a text as one line that cannot upset a drawing.

    Blanks and line breaks become single spaces, what nobody sees (controls, bidi marks) U+FFFD.
    """
    joined = " ".join(text.split())
    if joined.isascii() and joined.isprintable():
        return joined
    return "".join(
        "\ufffd" if unicodedata.category(char) in _UNSEEN and char != _JOINER else char
        for char in joined
    )


SUMMARY_CHARS: Final = 160
"""Characters of what is told in a line."""


def shortened(text: str, limit: int = SUMMARY_CHARS) -> str:
    """Return a text of at most so many characters (not cells); where it was cut it ends with `…`."""
    return text if len(text) <= limit else f"{text[: limit - 1]}{ELLIPSIS}"


def clipped(text: str, width: int) -> str:
    """Return the text in at most `width` cells; what is cut off is an ellipsis."""
    if width_of(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += _cells(char)
        if used > width - 1:
            break
        kept += char
    return f"{kept.rstrip()}{ELLIPSIS}" if width > 0 else ""


def wrapped(text: str, width: int, *, most: int) -> list[str]:
    """Return the text in lines of at most `width` cells, at most `most` of them."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if width_of(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while width_of(line) > width > 0 and len(lines) <= most:
            head = clipped(line, width + 1)[:-1] or line[0]
            lines.append(head)
            line = line[len(head) :]
    lines += [line] if line else []
    if len(lines) > most:
        kept = lines[: most - 1]
        rest = " ".join(lines[most - 1 :])
        return [*kept, clipped(rest, width)]
    return lines


def padded(text: str, width: int) -> str:
    """Return the text with blanks behind it up to `width` cells."""
    return text + " " * (width - width_of(text))


def row_of(texts: Iterable[str], widths: Iterable[int]) -> str:
    """Return texts beside each other, each in a column so wide, without blanks at the end."""
    return "  ".join(map(padded, texts, widths)).rstrip()


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
