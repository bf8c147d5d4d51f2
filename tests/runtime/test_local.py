"""Several runs in one process: each on its own, all heard, all let go of by close()."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from midstream.core.notices import Envelope, ListenerFailed
from midstream.language.errors import WorldTrouble
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.open_run import opened
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    Gate,
    ScriptedModel,
    asks,
    call,
    define,
    fake_world,
    says,
)

FLOW: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}


def engine_of(
    model: ScriptedModel, *, tools: FakeTools | None = None, store: MemoryStore | None = None
) -> LocalEngine:
    """Return an engine over a store in memory."""
    store = store or MemoryStore()
    return LocalEngine(fake_world(model, tools=tools, journal=store, blobs=store), store)


async def test_runs_go_on_side_by_side_and_do_not_mix() -> None:
    model = ScriptedModel(
        lambda request: says("Done: ", str(request.input)) if request.request > 1 else asks("Sure?")
    )
    engine = engine_of(model)
    machines = [await engine.start(define(FLOW), input=f"job {n}") for n in range(20)]
    for machine in machines:
        await machine.settled()
    assert all(machine.run.is_parked for machine in machines)
    for machine in reversed(machines):
        await machine.say("yes", question=machine.run.inbox.open_questions[0].id)
    runs = [await machine.wait() for machine in machines]

    assert [run.output for run in runs] == [f"Done: job {n}" for n in range(20)]
    assert len({run.id for run in runs}) == 20
    assert engine.machines() == tuple(machines)


async def test_every_listener_hears_every_event_of_every_run() -> None:
    engine = engine_of(ScriptedModel(lambda request: "Done."))
    one, two = Chronicle(), Chronicle()
    engine.listen(one)
    first = await engine.start(define(FLOW))
    engine.listen(two)
    second = await engine.start(define(FLOW))
    for machine in (first, second):
        await machine.wait()

    assert {event.run for event in one.events} == {first.id, second.id}
    assert one.kinds().count("run_finished") == two.kinds().count("run_finished") == 2
    assert one.kinds().count("run_started") == 2


async def test_a_listener_that_raises_keeps_no_other_from_hearing() -> None:
    def broken(envelope: Envelope) -> None:
        raise ValueError("no")

    engine = engine_of(ScriptedModel("Done."))
    heard = Chronicle()
    engine.listen(broken)
    engine.listen(heard)
    run = await (await engine.start(define(FLOW))).wait()

    assert run.status == "finished"
    assert heard.kinds()[-1] == "run_finished"
    assert {notice.error for notice in heard.of(ListenerFailed)} == {"ValueError: no"}


async def test_close_leaves_what_runs_and_what_waits_and_leaves_nothing_behind() -> None:
    gate = Gate()
    lines: dict[str, Callable[[], Any]] = {
        "stream": lambda: says("one ", gate=gate),
        "ask": lambda: asks("Which?"),
        "tool": lambda: call("shell"),
        "end": lambda: "Done.",
    }
    tools = FakeTools(FakeTool(name="shell", effect="once", gate=gate))
    before = asyncio.all_tasks()
    model = ScriptedModel(lambda request: lines[str(request.input)]())
    store = MemoryStore()
    later = store.beside()
    engine = engine_of(model, tools=tools, store=store)
    for kind in lines:
        await engine.start(define(FLOW, tools=tools), input=kind)
    for _ in range(30):
        await asyncio.sleep(0)
    await engine.close()

    statuses = [machine.run.status for machine in engine.machines()]
    assert statuses == ["running", "running", "running", "finished"]
    assert all(machine.is_closed for machine in engine.machines())
    assert [called.ended for called in tools.calls] == ["stopped"]
    assert asyncio.all_tasks() == before
    assert [(kept.owner, kept.was_cut) for kept in await later.listing()] == [("", False)] * 4
    await engine.close()


async def test_close_ends_though_the_journal_fails() -> None:
    class Failing(MemoryStore):
        trouble: Exception | None = None

        async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
            if self.trouble is not None:
                raise self.trouble
            await super().append(run, expected, facts)

    gate = Gate()
    store = Failing()
    engine = engine_of(ScriptedModel(says("x", gate=gate)), store=store)
    machine = await engine.start(define(FLOW))
    await gate.reached()
    store.trouble = WorldTrouble("The disk is broken.")
    gate.open()
    await machine.wait()
    assert (machine.run.status, machine.run.error) == ("failed", "The disk is broken.")
    later = store.beside()
    await engine.close()

    run = await opened(later, machine.id)
    assert run.status == "running", "an end nobody could write down is none"


async def test_a_run_gets_what_it_was_started_with() -> None:
    tools = FakeTools(FakeTool(name="write", needs_approval=True))
    model = ScriptedModel(call("write"), "Done.")
    engine = engine_of(model, tools=tools)
    machine = await engine.start(
        define({**FLOW, "variables": {"depth": 1, "lang": "en"}}, tools=tools),
        input={"files": ["a"]},
        variables={"depth": 2},
        allowed=("write",),
    )
    run = await machine.wait()

    assert run.input == {"files": ["a"]}
    assert run.variables == {"depth": 2, "lang": "en"}
    assert len(tools.calls) == 1
