"""From a key to its echo, through a real pty, while 10,000 events a second are shown.

Every key is a letter nothing else prints, so that its first appearance is its echo. The floors are
the same console without events, and a bare prompt of prompt_toolkit.
"""

import itertools
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.measuring import Figure, in_turn, percentile
from benchmarks.terminal import PROGRAMS, Terminal, bare_prompt, fresh_home, midstream

RATE = 10_000
LETTERS = "".join(
    map(chr, (*range(0x0400, 0x0482), *range(0x0100, 0x0180), *range(0x048A, 0x0530)))
)
"""Cyrillic and Latin letters that no console prints by itself, one column wide each."""

LINE = 30
"""Keys before the line is cleared, so that it never wraps."""

CLEAR = "\x15"


class Typist:
    """Types letters into a program and measures how long each takes to appear."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._letters = itertools.cycle(LETTERS)
        self._typed = 0

    def type(self, count: int) -> list[float]:
        """Return the milliseconds from each of so many keys to its echo."""
        return [self._one() for _ in range(count)]

    def _one(self) -> float:
        self.wait(random.uniform(0.02, 0.06))
        if self._typed and self._typed % LINE == 0:
            self._terminal.type(CLEAR)
            self.wait(0.15)
        self._typed += 1
        return self.now()

    def now(self) -> float:
        """Return the milliseconds one key takes that is typed at once."""
        letter = next(self._letters)
        typed = self._terminal.type(letter)
        return (self._terminal.until_text(letter) - typed) * 1e3

    def wait(self, seconds: float) -> None:
        """Let so much time pass, reading what comes: a terminal that does not read is no terminal."""
        until = perf_counter() + seconds
        while (left := until - perf_counter()) > 0:
            self._terminal.read(left)


def flooded(home: Path, kind: str, rate: int) -> list[str | Path]:
    """Return the command of a console that shows so many events a second."""
    folder = home / f"{kind}-{rate}"
    folder.mkdir()
    return [sys.executable, PROGRAMS / "flooded_console.py", folder, kind, str(rate)]


FLOOR = "the same console without events"
BARE = "a bare prompt_toolkit prompt without events"


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds from a key to its echo."""
    count, rounds, starts = (5, 1, 1) if is_quick else (120, 4, 15)
    samples: dict[str, list[list[float]]] = {
        name: [] for name in ("tokens", "lines", "quiet", "bare", "first")
    }
    rates: dict[str, str] = {}
    with fresh_home() as folder:
        home = Path(folder)
        commands: dict[str, Sequence[str | Path]] = {
            "tokens": flooded(home, "tokens", RATE),
            "lines": flooded(home, "lines", RATE),
            "quiet": flooded(home, "lines", 0),
            "bare": bare_prompt(home),
        }

        def typed(name: str) -> float:
            # One console at a time: two floods would measure the machine.
            with Terminal(commands[name], home) as terminal:
                terminal.until_text("›")
                typist = Typist(terminal)
                typist.wait(0.5)
                samples[name].append(typist.type(count))
            told = home / f"{name}-{RATE}" / "rate"
            rates[name] = told.read_text(encoding="ascii") if told.exists() else ""
            return 0.0

        in_turn(rounds, *(partial(typed, name) for name in commands))
        samples["first"] = [[_first_key(home) for _ in range(starts)]]
    return _figures(samples, rates)


def _first_key(home: Path) -> float:
    """Return the milliseconds a key takes that is typed the moment the prompt stands there.

    It is then that everything else of midstream is being loaded.
    """
    with Terminal([*midstream(), "--model", "offline"], home) as terminal:
        terminal.until_text("›")
        return Typist(terminal).now()


def _figures(samples: dict[str, list[list[float]]], rates: dict[str, str]) -> list[Figure]:
    def of(name: str, percent: float) -> tuple[float, ...]:
        return tuple(percentile(each, percent) for each in samples[name])

    floods = (("tokens", "20 agents streaming"), ("lines", "every event a line"))
    figures = [
        Figure(
            name=f"key to echo, {RATE:,} events/s, {words}, p{percent}",
            unit="ms",
            values=of(kind, percent),
            floor=FLOOR,
            floors=of("quiet", percent),
            aim=30 if percent == 99 else None,
            aim_on="value",
            note=f"{rates[kind]} events a second came",
        )
        for kind, words in floods
        for percent in (50, 99)
    ]
    figures += [
        Figure(
            name=f"key to echo without events, p{percent}",
            unit="ms",
            values=of("quiet", percent),
            floor=BARE,
            floors=of("bare", percent),
        )
        for percent in (50, 99)
    ]
    first = samples["first"][0]
    note = f"greatest of {len(first)}: {max(first):.0f} ms"
    values = (percentile(first, 50),)
    figures.append(
        Figure(
            name="context: the first key, while the rest loads, p50",
            unit="ms",
            values=values,
            note=note,
        )
    )
    return figures
