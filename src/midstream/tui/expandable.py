"""What was shown on one line, or not at all, and can be had in full: results, reasoning. No IO."""

from collections import deque
from typing import Final

import msgspec

MAX_CHARS: Final = 400_000
"""Of one text so much is kept here; the journal has all of it."""

_KEPT: Final = 20
_KEPT_CHARS: Final = 2_000_000


class Shown(msgspec.Struct, frozen=True):
    """A text with the line it was told by. `left_out` counts the characters that are not kept."""

    title: str
    text: str
    left_out: int = 0


class Recent:
    """The last few, the newest first when asked for."""

    def __init__(self) -> None:
        self._kept: deque[Shown] = deque()
        self._size = 0
        self._asked = 0

    def add(self, title: str, text: str) -> None:
        """Keep a text, as the newest."""
        if not text.strip():
            return
        shown = Shown(title, text[:MAX_CHARS], max(0, len(text) - MAX_CHARS))
        self._kept.append(shown)
        self._size += len(shown.text)
        while len(self._kept) > _KEPT or (self._size > _KEPT_CHARS and len(self._kept) > 1):
            self._size -= len(self._kept.popleft().text)
        self._asked = 0

    def next(self) -> tuple[Shown, int] | None:
        """Return the newest, asked again the one before it, with how far back it is; None: no more."""
        if self._asked >= len(self._kept):
            return None
        self._asked += 1
        return self._kept[-self._asked], self._asked - 1

    def again(self) -> None:
        """Begin with the newest again."""
        self._asked = 0
