"""Transitions in memory: a loop of three states with async handlers; the state is empty, or 10 KB.

The floor is an async loop that runs each state in a task of its own, so that it can be cancelled,
and does nothing else: no facts, no journal, no listeners. Nothing here ever waits, so what is measured
is the process's own CPU time: other work on the machine does not count.
"""

import asyncio
from time import process_time
from typing import Any, Final

from benchmarks.durable_transitions import transit
from benchmarks.measuring import Figure, in_turn, on_a_loop, profiled
from midstream.store.memory import MemoryStore

MANY: Final = 50
"""Messages of 200 bytes in a state as people have them, about 10 KB."""


async def ours(count: int, messages: int = 0) -> float:
    """Return the seconds a transition takes, in a state of so many messages."""
    began = process_time()
    await transit(MemoryStore(), count, messages)
    return (process_time() - began) / count


async def floor(count: int) -> float:
    """Return the seconds a transition takes where a state is a task and nothing more."""

    async def to_second(data: dict[str, Any]) -> str:
        return "second"

    async def to_third(data: dict[str, Any]) -> str:
        return "third"

    async def to_first(data: dict[str, Any]) -> str:
        data["rounds"] = data.get("rounds", 0) + 1
        return "stop" if data["rounds"] * 3 >= count else "start"

    states = {"start": to_second, "second": to_third, "third": to_first}
    data: dict[str, Any] = {}
    state = "start"
    began = process_time()
    while state != "stop":
        state = await asyncio.create_task(states[state](data))
    return (process_time() - began) / count


FLOOR = "an async loop with one cancellable task a state"


def measure(is_quick: bool) -> list[Figure]:
    """Return microseconds a transition."""
    count, rounds = (300, 2) if is_quick else (6_000, 15)
    own, large, bare = in_turn(
        rounds,
        lambda: on_a_loop(lambda: ours(count)) * 1e6,
        lambda: on_a_loop(lambda: ours(count, MANY)) * 1e6,
        lambda: on_a_loop(lambda: floor(count)) * 1e6,
    )
    return [
        Figure(
            name="one transition in memory",
            unit="µs",
            values=own,
            floor=FLOOR,
            floors=bare,
            aim=4,
            note=f"{number_a_second(own)} transitions a second",
        ),
        Figure(
            name=f"the same with {MANY} messages in its state, one appended and one dropped",
            unit="µs",
            values=large,
            floor="one transition with an empty state",
            floors=own,
            aim=2,
        ),
    ]


def number_a_second(microseconds: tuple[float, ...]) -> int:
    """Return how many fit into a second, by the best round."""
    return round(1e6 / min(microseconds))


def explain() -> None:
    """Print where the time of a transition goes."""
    profiled(lambda: on_a_loop(lambda: ours(15_000)))
