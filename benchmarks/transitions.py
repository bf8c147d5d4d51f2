"""Transitions in memory: a loop of three states with async handlers.

The floor is an async loop that runs each state in a task of its own, so that it can be cancelled,
and does nothing else: no facts, no journal, no listeners. Nothing here ever waits, so what is measured
is the process's own CPU time: other work on the machine does not count.
"""

import asyncio
import cProfile
import pstats
from time import process_time
from typing import Any

from benchmarks.measuring import Figure, alone, in_turn, on_a_loop
from midstream.language.names import Json
from midstream.language.spec import Definition, State, Workflow
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import fake_world

LOOP = Definition(
    workflow=Workflow(
        workflow_name="loop",
        states=(
            State(name="start", transition_handler="to_second"),
            State(name="second", transition_handler="to_third"),
            State(name="third", transition_handler="to_first"),
            State(name="stop"),
        ),
    ),
    roles={},
)


async def ours(count: int) -> float:
    """Return the seconds a transition takes."""

    async def to_second(run: HandlerRun) -> Json:
        return "second"

    async def to_third(run: HandlerRun) -> Json:
        return "third"

    async def to_first(run: HandlerRun) -> Json:
        run.common_data["rounds"] = run.common_data.get("rounds", 0) + 1
        return "stop" if run.common_data["rounds"] * 3 >= count else "start"

    handlers = ScriptHandlers({"to_second": to_second, "to_third": to_third, "to_first": to_first})
    machine = WorkflowStateMachine(LOOP, fake_world(journal=MemoryStore()), handlers=handlers)
    began = process_time()
    await machine.start()
    run = await machine.wait()
    took = process_time() - began
    assert run.status == "finished", run.error
    return took / count


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


async def graph(count: int) -> float:
    """Return the seconds a transition of pydantic-graph takes."""
    from benchmarks.others import pydantic_graph_loop

    return await pydantic_graph_loop(count)


FLOOR = "an async loop with one cancellable task a state"


def measure(is_quick: bool) -> list[Figure]:
    """Return microseconds a transition."""
    count, rounds = (300, 2) if is_quick else (6_000, 15)
    own, bare, other = in_turn(
        rounds,
        lambda: on_a_loop(lambda: ours(count)) * 1e6,
        lambda: on_a_loop(lambda: floor(count)) * 1e6,
        lambda: on_a_loop(lambda: graph(max(300, count // 6))) * 1e6,
    )
    return [
        Figure(
            name="one transition in memory",
            unit="µs",
            values=own,
            floor=FLOOR,
            floors=bare,
            aim=2,
            note=f"{number_a_second(own)} transitions a second",
        ),
        Figure(
            name="context: the same in pydantic-graph",
            unit="µs",
            values=other,
            floor=FLOOR,
            floors=bare,
        ),
    ]


def number_a_second(microseconds: tuple[float, ...]) -> int:
    """Return how many fit into a second, by the best round."""
    return round(1e6 / min(microseconds))


def explain() -> None:
    """Print where the time of a transition goes."""
    profile = cProfile.Profile()
    profile.enable()
    on_a_loop(lambda: ours(15_000))
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    alone(measure, explain)
