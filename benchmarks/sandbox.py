"""How much longer a command takes to start and end in the sandbox than without one.

Both are run as the tool for commands runs them, to their end and until nothing of them is left: `true`
in a workspace with a repository. Measuring the sandbox at the start, from nothing, has a row of its own.
Where there is no sandbox, there is nothing to measure.
"""

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.measuring import Figure, in_turn, on_a_loop, progress
from midstream.system.programs import command_environment
from midstream.system.supervisor import run_command
from midstream.tools.sandbox.launch import Inside
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tools.shell import Output

AIM_MS = 30
AIM_MEASURING_MS = 1000
FLOOR = "the same command without a sandbox"


def measure(quick: bool) -> list[Figure]:
    """Return the milliseconds a sandbox adds, and those of measuring it."""
    rounds, times = (2, 2) if quick else (15, 10)
    with tempfile.TemporaryDirectory() as folder:
        state, workspace = Path(folder, "state"), Path(folder, "workspace")
        (workspace / ".git").mkdir(parents=True)
        (workspace / ".midstream").mkdir()
        sandbox = Sandbox(state)
        if sandbox.measure().level == "none":
            progress(f"no sandbox here: {sandbox.measure().why}")
            return []
        bare, boxed = in_turn(
            rounds,
            lambda: _milliseconds(workspace, None, times),
            lambda: _milliseconds(workspace, sandbox, times),
        )
        (measuring,) = in_turn(2 if quick else 5, lambda: _measuring(sandbox))
    return [
        Figure(
            name="a sandboxed command, over a bare one",
            unit="ms",
            values=tuple(max(0.0, ours - floor) for ours, floor in zip(boxed, bare, strict=True)),
            floor=FLOOR,
            floors=bare,
            aim=AIM_MS,
            aim_on="value",
            is_compared=False,
        ),
        Figure(
            name="measuring the sandbox, once",
            unit="ms",
            values=measuring,
            aim=AIM_MEASURING_MS,
            aim_on="value",
        ),
    ]


def _milliseconds(workspace: Path, sandbox: Sandbox | None, times: int) -> float:
    async def run() -> float:
        began = perf_counter()
        for _ in range(times):
            ended = await run_command(
                ["/bin/true"],
                folder=workspace,
                environment=command_environment(os.environ),
                timeout_s=30,
                stop=asyncio.Event(),
                sink=Output(lambda _text: None),
                box=None
                if sandbox is None
                else partial(sandbox.wrapped, Inside(workspace=workspace)),
            )
            assert ended.exit_code == 0
        return (perf_counter() - began) / times * 1000

    return on_a_loop(run)


def _measuring(sandbox: Sandbox) -> float:
    began = perf_counter()
    sandbox.measure(again=True)
    return (perf_counter() - began) * 1000
