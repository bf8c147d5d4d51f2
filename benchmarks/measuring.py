"""What benchmarks share: figures with their floors, percentiles, tables.

A machine under other load makes every absolute figure a guess. So ours and the floor are measured in
turn, round by round, and what counts is the ratio of each round; of those the median.
"""

import asyncio
import cProfile
import gc
import math
import pstats
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

import msgspec

T = TypeVar("T")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One thing measured: a value for each round, and that of the floor in the same round.

    `floor` says in words what the floor is. `aim` bounds the ratio to the floor or the value itself,
    as `aim_on` says; the median of the rounds has to keep it. Not `is_compared`: the floor is next to
    nothing, so that a ratio to it would say nothing either.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    floor: str = ""
    floors: tuple[float, ...] = ()
    aim: float | None = None
    aim_on: Literal["ratio", "value"] = "ratio"
    note: str = ""
    is_compared: bool = True

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return ours divided by the floor, round by round; none where that says nothing."""
        if not self.is_compared or not self.floors or min(self.floors) <= 0:
            return ()
        return tuple(ours / floor for ours, floor in zip(self.values, self.floors, strict=True))

    @property
    def is_met(self) -> bool | None:
        """Return whether the median keeps the aim, None if there is no aim."""
        if self.aim is None:
            return None
        judged = self.ratios if self.aim_on == "ratio" else self.values
        return bool(judged) and statistics.median(judged) <= self.aim


def in_turn(rounds: int, *measures: Callable[[], float]) -> list[tuple[float, ...]]:
    """Return the values of each measure, which take turns, so that a slow minute slows them all.

    Every other round goes backwards: what comes second is not always the same.
    """
    values: list[list[float]] = [[] for _ in measures]
    for number in range(rounds):
        order = range(len(measures)) if number % 2 == 0 else reversed(range(len(measures)))
        for index in order:
            gc.collect()
            values[index].append(measures[index]())
    return [tuple(each) for each in values]


def on_a_loop(work: Callable[[], Awaitable[T]]) -> T:
    """Return what async work returns, on a fresh event loop."""

    async def main() -> T:
        return await work()

    return asyncio.run(main())


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the sample that so many percent of all are not above (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


# --- showing ----------------------------------------------------------------------------------


def number(value: float) -> str:
    """Return a value with three digits that matter."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 3)}f}"


def spread(values: Sequence[float]) -> str:
    """Return the median, with the least and the greatest in brackets."""
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))}–{number(max(values))})"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a markdown table."""
    lines = [
        "| what | measured | floor | ratio | aim | kept |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in figures:
        aim = ""
        if each.aim is not None:
            aim = f"≤ {each.aim:g}×" if each.aim_on == "ratio" else f"< {each.aim:g} {each.unit}"
        floor = f"{spread(each.floors)} {each.unit}" if each.floors else ""
        ratio = f"{spread(each.ratios)}×" if each.ratios else ""
        kept = {True: "yes", False: "**no**", None: ""}[each.is_met]
        measured = f"{spread(each.values)} {each.unit}"
        lines.append(f"| {each.name} | {measured} | {floor} | {ratio} | {aim} | {kept} |")
    return "\n".join(lines)


def described(figure: Figure) -> str:
    """Return a figure in a few lines, every round of it."""
    parts = [f"{figure.name}: {spread(figure.values)} {figure.unit}"]
    if figure.floors:
        parts.append(f"  floor, {figure.floor}: {spread(figure.floors)} {figure.unit}")
    if figure.ratios:
        parts.append(f"  ratio by round: {' '.join(map(number, figure.ratios))}")
    if figure.note:
        parts.append(f"  {figure.note}")
    return "\n".join(parts)


def as_json(figures: Sequence[Figure]) -> str:
    """Return the figures as one JSON list, with their ratios and whether the aim is kept."""
    found = [
        msgspec.to_builtins(each) | {"ratios": each.ratios, "is_met": each.is_met}
        for each in figures
    ]
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def profiled(work: Callable[[], object]) -> None:
    """Print where the time of some work goes."""
    profile = cProfile.Profile()
    profile.runcall(work)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def progress(text: str) -> None:
    """Say on stderr what is being measured."""
    print(text, file=sys.stderr, flush=True)
