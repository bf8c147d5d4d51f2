"""What a worker counts, as Prometheus reads it."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from midstream.core.notices import Envelope
from midstream.runtime.ports import Journal

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The upper bounds of the buckets of the histogram, in seconds."""


class TimedJournal:
    """A journal whose appends are timed. See the port `Journal`."""

    def __init__(self, journal: Journal, times: "Histogram") -> None:
        self._journal = journal
        self._times = times

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Append, and count how long it took."""
        began = time.monotonic()
        await self._journal.append(run, expected, facts)
        self._times.add(time.monotonic() - began)

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Read."""
        return await self._journal.read(run, after, upto)


class Histogram:
    """How often something took how long."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> Iterator[str]:
        """Yield it as text."""
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip((*BOUNDS_S, None), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{"+Inf" if bound is None else bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"
