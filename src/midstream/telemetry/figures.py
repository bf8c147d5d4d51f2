"""The metrics of one run: sums and histograms over its facts, from its first on.

They are cumulative and carry the run's id, so that telling them again changes nothing: a run that was
killed and goes on counts on from where it was, whoever tells it.
"""

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from midstream.telemetry.names import Metric

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]


class Figure(msgspec.Struct):
    """One series. `buckets` count, one more than the metric has bounds; of a counter there are none.

    `at` is when it last changed, in nanoseconds since 1970.
    """

    metric: Metric
    attributes: Attributes
    at: int = 0
    count: int = 0
    total: float = 0
    least: float = 0
    most: float = 0
    buckets: list[int] = msgspec.field(default_factory=list)


class Figures:
    """All series of a run."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[tuple[str, Value], ...]], Figure] = {}

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._known.values())

    def add(self, metric: Metric, amount: float, at: int, attributes: Attributes) -> None:
        """Count something in, in the series of these attributes."""
        key = (metric.name, tuple(sorted(attributes.items())))
        figure = self._known.get(key)
        if figure is None:
            buckets = [0] * (len(metric.bounds) + 1) if metric.bounds else []
            figure = self._known[key] = Figure(
                metric, attributes, least=amount, buckets=buckets, most=amount
            )
        figure.at = at
        figure.count += 1
        figure.total += amount
        figure.least, figure.most = min(figure.least, amount), max(figure.most, amount)
        if metric.bounds:
            figure.buckets[bisect_left(metric.bounds, amount)] += 1
