"""What stands on the screen, and since when. No IO.

A person reads the screen, then presses a key; between the two the screen may change. So a key is about a
thing only once that has been drawn for a while: since it was first drawn, not since it was asked.
"""

from collections.abc import Hashable, Iterable
from typing import Final

FRESH_S: Final = 0.4
"""How long something must have been on the screen before a key counts, in seconds."""


class OnScreen:
    """The things of the last frame, each since when all have had it. Times are the loop's, in seconds."""

    def __init__(self, *, fresh_s: float = FRESH_S) -> None:
        """Begin with an empty screen. A key is about what has been drawn for `fresh_s`."""
        self.fresh_s = fresh_s
        self._since: dict[Hashable, float] = {}

    def frame(self, things: Iterable[Hashable], *, now: float) -> None:
        """Take note that a frame with these things, and no others, is on the screen."""
        self._since = {thing: self._since.get(thing, now) for thing in things}

    def covered(self) -> None:
        """Take note that the screen was another program's: what is drawn after it is drawn anew."""
        self._since = {}

    def since(self, thing: Hashable) -> float | None:
        """Return since when a thing has been on the screen, None for one that is not."""
        return self._since.get(thing)

    def is_fresh(self, thing: Hashable, *, now: float) -> bool:
        """Return whether a thing has been on the screen for long enough to be meant by a key."""
        since = self._since.get(thing)
        return since is not None and now - since >= self.fresh_s
