"""Long texts of models and tools, made readable piece by piece.

A thread is not enough: while one call looks through 100 MB, no other thread runs, the event loop's
neither. Between pieces it does.
"""

import io
from collections.abc import Iterator

import msgspec

from midstream.runtime.user_words import readable

PIECE = 16_384
"""Characters that are made readable at once: less than a millisecond, whatever they are."""


class LongText(msgspec.Struct, frozen=True):
    """A readable text: its ends, how many characters it has, and all of it in UTF-8."""

    start: str
    end: str
    length: int
    whole: bytes


def long_text(text: str, max_end: int) -> LongText:
    """Return a text of which `max_end` characters of each end are wanted. Blocking: use a thread."""
    length, whole = 0, io.BytesIO()
    start: list[str] = []
    end: list[str] = []
    started = ended = 0
    for piece in _pieces(text):
        clean = readable(piece)
        length += len(clean)
        whole.write(clean.encode())
        if started < max_end:
            start.append(clean)
            started += len(clean)
        end.append(clean)
        ended += len(clean)
        if ended - len(end[0]) >= max_end:
            ended -= len(end.pop(0))
    # Of what was written, `getvalue` makes no copy.
    return LongText("".join(start)[:max_end], "".join(end)[-max_end:], length, whole.getvalue())


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces. Two halves of one character, side by side, stay together."""
    at = 0
    while at < len(text):
        end = at + PIECE
        if (
            "\ud800" <= text[end - 1 : end] <= "\udbff"
            and "\udc00" <= text[end : end + 1] <= "\udfff"
        ):
            end += 1
        yield text[at:end]
        at = end
