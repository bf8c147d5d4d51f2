"""What is drawn, and how quickly a key comes back, while agents stream: none, one, a hundred.

The console shows one agent's words and a line for each other one, as far as there is room. An agent
says 50 words a second. A bare prompt of prompt_toolkit, which shows no words, is the floor of echoes;
the bytes of the words themselves are the floor of what is drawn.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.echo_latency import Typist, flooded
from benchmarks.measuring import Figure, in_turn, percentile
from benchmarks.terminal import Terminal, bare_prompt, fresh_home

WORDS_A_SECOND = 50
WORD_BYTES = len("word1234 ")
AGENTS = (1, 100)
BARE = "a bare prompt_toolkit prompt, without agents"


def drawn(terminal: Terminal, seconds: float) -> float:
    """Return the bytes a second a program writes while nobody types."""
    until = perf_counter() + seconds
    count = 0
    while (left := until - perf_counter()) > 0:
        count += len(terminal.read(left)[0])
    return count / seconds


def measure(is_quick: bool) -> list[Figure]:
    """Return bytes a second, and milliseconds from a key to its echo."""
    keys, seconds, rounds = (5, 0.5, 1) if is_quick else (120, 5.0, 4)
    echoes: dict[str, list[list[float]]] = {}
    rates: dict[str, list[float]] = {}
    with fresh_home() as folder:
        home = Path(folder)
        commands: dict[str, Sequence[str | Path]] = {"bare": bare_prompt(home)}
        commands["0"] = flooded(home, "lines", 0)
        commands |= {f"{n}": flooded(home, f"{n}", n * WORDS_A_SECOND) for n in AGENTS}

        def one(name: str) -> float:
            with Terminal(commands[name], home) as terminal:
                terminal.until_text("›")
                typist = Typist(terminal)
                typist.wait(1.0)
                rates.setdefault(name, []).append(drawn(terminal, seconds))
                echoes.setdefault(name, []).append(typist.type(keys))
            return 0.0

        in_turn(rounds, *(partial(one, name) for name in commands))
    return _figures(echoes, rates)


def _figures(echoes: dict[str, list[list[float]]], rates: dict[str, list[float]]) -> list[Figure]:
    def words(name: str) -> str:
        agents = {"0": "nobody", "1": "one agent"}.get(name, f"{name} agents")
        return f"while {agents} streams" if name in "01" else f"while {agents} stream"

    figures = []
    for name in ("0", *map(str, AGENTS)):
        floor = WORDS_A_SECOND * WORD_BYTES if name != "0" else 0
        figures.append(
            Figure(
                name=f"drawn {words(name)}",
                unit="bytes/s",
                values=tuple(rates[name]),
                floor="the words of one agent alone" if floor else "",
                floors=(float(floor),) * len(rates[name]) if floor else (),
                is_compared=bool(floor),
            )
        )
    for name in map(str, AGENTS):
        for percent in (50, 99):
            figures.append(
                Figure(
                    name=f"key to echo {words(name)}, p{percent}",
                    unit="ms",
                    values=tuple(percentile(each, percent) for each in echoes[name]),
                    floor=BARE,
                    floors=tuple(percentile(each, percent) for each in echoes["bare"]),
                    aim=30 if percent == 99 else None,
                    aim_on="value",
                )
            )
    return figures
