"""Memory of a parked run: many runs with a small conversation, each waiting for an answer.

The floor is a task that waits for a future, and the same conversation in plain lists and dicts. Each
side is measured in a process of its own: once by `tracemalloc`, which sees every object and nothing
else, once by what the process occupies, which is what a machine runs out of.
"""

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure
from midstream.language.names import REQUEST_USERS_INPUT
from midstream.language.spec import Agent, Context, StartingMessage, State, Workflow
from midstream.runtime.ports import ModelRequest
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import Scripted, ScriptedModel, call, define, fake_world

SYSTEM = "You are careful, and you ask before you change what others rely on."
CHOICES = ("rename it", "leave it")
ASKING = define(
    Workflow(
        workflow_name="asking",
        contexts=(
            Context(
                name="talk", starting_messages=(StartingMessage(role="system", content=SYSTEM),)
            ),
        ),
        agents=(Agent(agent_role="ada", context="talk"),),
        states=(
            State(name="start", agent="ada", next="ask"),
            State(name="ask", agent="ada", next="stop"),
            State(name="stop"),
        ),
    )
)


def task_of(number: int) -> str:
    """Return what run number so many is asked to do: every run has words of its own."""
    return f"Please tidy module_{number:05} and tell me what you would change first, in short."


def finding_of(number: int) -> str:
    """Return what the agent says first."""
    return f"module_{number:05} has two functions of one name and a loop nobody needs. " * 2


def question_of(number: int) -> str:
    """Return what the agent asks."""
    return f"May I rename helper_{number:05}? Three other modules import it."


async def park_ours(count: int) -> list[Any]:
    """Return so many runs, parked."""
    number = 0

    def reply(request: ModelRequest) -> Scripted:
        if request.state == "start":
            return Scripted(pieces=(finding_of(number),))
        asking = call(REQUEST_USERS_INPUT, question=question_of(number), choices=list(CHOICES))
        return Scripted(pieces=("One question first.",), calls=(asking,))

    world = fake_world(Forgetful(reply), journal=MemoryStore())
    machines = []
    for number in range(count):
        machine = WorkflowStateMachine(ASKING, world)
        machines.append(machine)
        await machine.start(task_of(number))
        run = await machine.settled()
        assert run.is_parked and run.inbox.open_questions, run.error  # noqa: PT018
    return machines


class Forgetful(ScriptedModel):
    """A scripted model that keeps no list of what it was asked: that is not the runs' memory."""

    async def request(self, request: Any, listener: Any) -> Any:
        """Return the reply to the request."""
        try:
            return await super().request(request, listener)
        finally:
            self.asked.clear()


async def park_floor(count: int) -> list[Any]:
    """Return so many tasks, each waiting for a future with its state."""

    async def run(state: dict[str, Any]) -> None:
        state["answer"] = await state["question"]["future"]

    tasks = []
    for number in range(count):
        question = question_of(number)
        state: dict[str, Any] = {
            "id": f"run{number:05}",
            "state": "ask",
            "input": task_of(number),
            "messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": task_of(number)},
                {"role": "assistant", "content": finding_of(number)},
                {
                    "role": "assistant",
                    "content": "One question first.",
                    "calls": [
                        {
                            "id": f"c{number}",
                            "name": REQUEST_USERS_INPUT,
                            "arguments": {"question": question, "choices": list(CHOICES)},
                        }
                    ],
                },
            ],
            "question": {
                "id": f"q{number}",
                "text": question,
                "choices": list(CHOICES),
                "future": asyncio.get_running_loop().create_future(),
            },
        }
        tasks.append(asyncio.create_task(run(state)))
    await asyncio.sleep(0)
    return tasks


WAITING = define(
    Workflow(
        workflow_name="waiting",
        contexts=(Context(name="talk"),),
        agents=(Agent(agent_role="ada", context="talk"),),
        states=(State(name="start", agent="ada", awaits_input=True), State(name="stop")),
    )
)


async def park_silent(count: int) -> list[Any]:
    """Return so many runs in which nobody has said anything: each waits for its first words."""
    world = fake_world(journal=MemoryStore())
    machines = []
    for _ in range(count):
        machine = WorkflowStateMachine(WAITING, world)
        machines.append(machine)
        await machine.start()
        run = await machine.settled()
        assert run.is_parked, run.error
    return machines


async def park_silent_floor(count: int) -> list[Any]:
    """Return so many tasks, each waiting for a future, with next to no state."""

    async def run(state: dict[str, Any]) -> None:
        state["messages"].append({"role": "user", "content": await state["words"]})

    tasks = []
    for number in range(count):
        words = asyncio.get_running_loop().create_future()
        state = {"id": f"run{number:05}", "state": "start", "messages": [], "words": words}
        tasks.append(asyncio.create_task(run(state)))
    await asyncio.sleep(0)
    return tasks


SIDES = {
    "ours": park_ours,
    "floor": park_floor,
    "silent": park_silent,
    "silent_floor": park_silent_floor,
}


async def _bytes_each(side: str, count: int, by: str) -> float:
    """Return the bytes a parked run takes, in this process."""
    park = SIDES[side]
    warm = await park(20)
    gc.collect()
    if by == "objects":
        tracemalloc.start()
    used: Callable[[], int] = _objects if by == "objects" else resident
    before = used()
    parked = await park(count)
    gc.collect()
    taken = used() - before
    del warm, parked
    return taken / count


def _objects() -> int:
    return tracemalloc.get_traced_memory()[0]


def resident() -> int:
    """Return the bytes this process occupies."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def measured(side: str, count: int, by: str) -> float:
    """Return the kilobytes a parked run takes, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.parked_memory", "--child", side, str(count), by]
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    return float(told.stdout) / 1024


def measure(is_quick: bool) -> list[Figure]:
    """Return kilobytes a parked run."""
    count, rounds = (50, 1) if is_quick else (2_000, 3)
    talked = "a task, a future and the same conversation in dicts"
    cases: list[tuple[str, str, str, float | None, str]] = [
        ("a parked run, its objects", "", "objects", 4, talked)
    ]
    if Path("/proc/self/statm").exists():
        cases += [("a parked run, as the process grows", "", "resident", 4, talked)]
    cases += [
        ("context: a run nobody has talked to, its objects", "silent", "objects", None, NOTHING)
    ]
    figures = []
    for name, kind, by, aim, floor in cases:
        pairs = [
            (
                measured(kind or "ours", count, by),
                measured(f"{kind}_floor" if kind else "floor", count, by),
            )
            for _ in range(rounds)
        ]
        figures.append(
            Figure(
                name=name,
                unit="KB",
                values=tuple(own for own, _ in pairs),
                floor=floor,
                floors=tuple(bare for _, bare in pairs),
                aim=aim,
                note=f"{count} runs",
            )
        )
    return figures


NOTHING = "a task, a future and a dict of four keys"


def explain() -> None:
    """Print which lines hold the memory of parked runs."""

    async def traced() -> None:
        warm = await park_ours(20)
        gc.collect()
        tracemalloc.start()
        parked = await park_ours(1_000)
        gc.collect()
        found = tracemalloc.take_snapshot().statistics("lineno")
        total = sum(each.size for each in found)
        print(f"{total / 1000:.0f} bytes a run")
        for each in found[:45]:
            frame = each.traceback[0]
            where = "/".join(Path(frame.filename).parts[-2:])
            print(
                f"{each.size / 1000:7.0f} bytes  {each.count / 1000:5.1f} objects  "
                f"{where}:{frame.lineno}"
            )
        del warm, parked

    asyncio.run(traced())


if __name__ == "__main__":
    print(asyncio.run(_bytes_each(sys.argv[2], int(sys.argv[3]), sys.argv[4])))
