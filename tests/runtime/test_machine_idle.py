"""A run that waits costs nothing: the loop makes no round on its behalf."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from deadline import DEADLINE_S
from machine_kit import RESUME, Scene, flow, rounds, running

from midstream.runtime.handler_run import HandlerRun
from midstream.testing.fakes import FakeTool, Gate, Line, asks, call, says

MANY = 20


async def rounds_made(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many rounds the loop makes until it sleeps with no timer but the test's deadline."""
    loop: Any = asyncio.get_running_loop()
    made, sleeps = 0, asyncio.Event()
    select: Callable[[float | None], object] = loop._selector.select

    def counted(timeout: float | None = None) -> object:
        nonlocal made
        made += 1
        if made < MANY and timeout is not None and timeout < DEADLINE_S / 2:
            return select(timeout)
        sleeps.set()
        return select(0)

    with monkeypatch.context() as patch:
        patch.setattr(loop._selector, "select", counted)
        await sleeps.wait()
    return made


@pytest.mark.parametrize(
    "at", ["model", "tool", "once", "question", "approval", "handler", "thread", "held", "input"]
)
async def test_a_waiting_run_makes_no_rounds(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, release = Gate(), threading.Event()

    async def pre(run: HandlerRun) -> None:
        await gate.passed()

    def slow(run: HandlerRun) -> None:
        run.log("started")
        release.wait()

    lines: dict[str, Line] = {
        "tool": call("look"),
        "once": call("shell"),
        "question": asks("Which?"),
        "approval": call("write"),
    }
    tools = [
        FakeTool(name="look", gate=gate),
        FakeTool(name="shell", gate=gate, effect="once"),
        FakeTool(name="write", needs_approval=True),
    ]
    start: dict[str, Any] = {"name": "start", "agent": "dude"}
    if at in ("handler", "thread"):
        start["pre_handler"] = {"handler": "pre", "thread": "slow"}[at]
    condition = "on_user_input" if at == "input" else "immediate"
    async with running(
        flow(start, RESUME, start_condition=condition),
        lines.get(at, says("one ", gate=gate)),
        tools=tools,
        handlers={"pre": pre, "slow": slow},
    ) as here:
        await _at_rest(here, at, gate)
        waiting = asyncio.ensure_future(here.machine.wait())
        await rounds()

        # One to go to sleep, and two to spare for what a thread says late.
        assert await rounds_made(monkeypatch) <= 3
        assert not waiting.done()
        release.set()
        await here.machine.stop()
        await waiting


async def _at_rest(here: Scene, at: str, gate: Gate) -> None:
    if at == "held":
        await gate.reached()
        await here.machine.halt()
    if at == "thread":
        await here.told.until("workflow_output")
    elif at in ("question", "approval", "held", "input"):
        await here.machine.settled()
    else:
        await gate.reached()
