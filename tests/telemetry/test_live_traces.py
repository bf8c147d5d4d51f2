"""Traces while runs run: killed anywhere they are one in the end, and no collector holds a run up."""

import asyncio
from collections.abc import Sequence

import pytest
from support.collector import Collector, Say
from support.reference import reference
from support.stage import Stage, StagedModel, StagedTools, perform
from telemetry_kit import told

from midstream.core.notices import Envelope
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.telemetry.live import LiveTraces
from midstream.telemetry.sending import destination, export_run
from midstream.testing.fakes import JumpingClock, fake_world


class Life:
    """A process that plays a reference and sends its traces."""

    def __init__(
        self,
        name: str,
        store: MemoryStore,
        url: str,
        *,
        delay_s: float = 0.0,
        flush_s: float = 60.0,
    ) -> None:
        self.reference = reference(name)
        self.stage = Stage()
        tools = StagedTools(self.reference, self.stage, lambda key: None)
        model = StagedModel(self.reference, self.stage)
        world = fake_world(model, tools=tools, clock=self.stage.clock, journal=store)
        self.store = store
        self.engine = LocalEngine(world, store)
        self.lines: list[str] = []
        to = destination({}, url=url)
        assert to is not None
        live = LiveTraces(
            store,
            to,
            lambda run, line: self.lines.append(line),
            delay_s=delay_s,
            flush_s=flush_s,
        )
        self.engine.listen(live.hear, at_end=live.close)

    async def start(self) -> WorkflowStateMachine:
        """Begin the run."""
        return await self.engine.start(
            self.reference.definition,
            handlers=self.reference.handlers,
            input=self.reference.input,
            allowed=self.reference.allowed,
        )

    async def resume(self, id: str) -> WorkflowStateMachine:
        """Go on with the run of another process."""
        return await self.engine.resume(id, handlers=self.reference.handlers)

    async def to_the_end(self, machine: WorkflowStateMachine) -> None:
        """Be the person until the run has ended; then the process ends, too."""
        await perform(machine, self.reference, self.stage)
        await machine.wait()
        await self.engine.close()


async def killed_after(name: str, appends: int, url: str) -> MemoryStore | None:
    """Play until so much is journaled, and die there; None where the run has ended before."""
    store = MemoryStore()
    dead, left, append = asyncio.Event(), appends, store.append

    async def dying(run: str, expected: int, facts: Sequence[Envelope]) -> None:
        nonlocal left
        await append(run, expected, facts)
        left -= 1
        if left == 0:
            dead.set()
            await asyncio.Event().wait()

    store.append = dying  # type: ignore[method-assign]
    before = asyncio.all_tasks()
    life = Life(name, store, url)

    async def living() -> None:
        await life.to_the_end(await life.start())

    ends = (asyncio.create_task(living()), asyncio.create_task(dead.wait()))
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not dead.is_set():
        await ends[0]
        ends[1].cancel()
        return None
    store.die()  # first: nothing lets go of anything any more
    gone = asyncio.all_tasks() - before
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    return store


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the dead leave things
@pytest.mark.parametrize(
    "name",
    [
        "line",
        "approval",
        "parallel tool calls",
        "soft stop",
        "steer",
        "compacted",
        "tasks handed on",
    ],
)
async def test_killed_at_any_fact_and_resumed_it_is_the_same_one_trace(name: str) -> None:
    at, store = 0, None
    while at == 0 or store is not None:
        at += 1
        with Collector() as collector:
            store = await killed_after(name, at, collector.url)
            if store is None:
                continue
            after = store.beside()
            [id] = [kept.id for kept in await after.listing()]
            life = Life(name, after, collector.url)
            run = await after.run(id)
            if run is not None and not run.summary.is_over:
                await life.to_the_end(await life.resume(id))
                assert life.lines == []
                assert collector.total("midstream.recoveries") == 1
            else:  # it died with nothing left to do but to send: nobody takes it up any more
                to = destination({}, url=collector.url)
                assert to is not None
                await export_run(after, id, to, JumpingClock())
            later = Collector()
            told(later, await store.beside().read(id))
            assert collector.whole() == later.whole()
            assert {k: v["amount"] for k, v in collector.points.items()} == {
                k: v["amount"] for k, v in later.points.items()
            }
    assert at > 3


async def played(
    collector: Collector, *, delay_s: float = 0.0, flush_s: float = 60.0
) -> tuple[Life, str]:
    """Play a run to its end, with the collector as it is."""
    life = Life("line", MemoryStore(), collector.url, delay_s=delay_s, flush_s=flush_s)
    machine = await life.start()
    await life.to_the_end(machine)
    return life, machine.id


async def sent_later(life: Life, id: str, collector: Collector) -> None:
    """Export the run, and see that it is all there."""
    to = destination({}, url=collector.url)
    assert to is not None
    sent = await export_run(life.store.beside(), id, to, JumpingClock())
    later = Collector()
    told(later, await life.store.beside().read(id))
    assert collector.whole() == later.whole()
    assert (sent.spans, sent.open) == (len(later.spans), 0)


async def test_a_run_is_sent_when_its_program_ends_at_once() -> None:
    with Collector() as collector:
        life, id = await played(collector, delay_s=3600)
        assert life.lines == []
        before = dict(collector.spans)
        await sent_later(life, id, collector)
        assert collector.spans == before


async def test_a_collector_that_is_not_there_costs_one_line() -> None:
    with Collector() as collector:
        gone = collector.url
    collector.url = gone
    life, id = await played(collector)

    [line] = life.lines
    assert "cannot be reached" in line
    assert f"midstream export {id} --otlp" in line
    with Collector() as back:
        await sent_later(life, id, back)


async def test_a_collector_that_never_answers_holds_nothing_up() -> None:
    with Collector() as collector:
        collector.goes_on.clear()
        life, id = await played(collector, flush_s=0.01)
        [line] = life.lines
        assert "did not take it within 0.01 s" in line
        collector.goes_on.set()
        await sent_later(life, id, collector)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_collector_without_room_is_sent_it_again(status: int) -> None:
    with Collector() as collector:
        collector.answers = [Say(status, {"Retry-After": "0"})]
        life = Life("approval", MemoryStore(), collector.url)
        machine = await life.start()
        while not collector.requests:  # noqa: ASYNC110  # the collector is a thread
            await asyncio.sleep(0.001)
        await life.to_the_end(machine)
        assert len(life.lines) == 1
        assert f"answered {status}" in life.lines[0]
        later = Collector()
        told(later, await life.store.beside().read(machine.id))
        assert collector.whole() == later.whole()


@pytest.mark.parametrize("answer", [Say(400), Say(404), Say(401), Say(302, {"Location": "/x"})])
async def test_what_is_refused_for_good_is_said_once(answer: Say) -> None:
    with Collector() as collector:
        collector.answers = [answer] * 50
        life, _ = await played(collector)
        asked = collector.requests
        assert len(life.lines) == 1
        assert 1 <= asked <= 50
        assert collector.spans == {}


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_collector_of_traces_alone_is_sent_no_metrics_and_nothing_is_amiss(
    status: int,
) -> None:
    with Collector() as collector:
        collector.to_metrics = Say(status)  # as Phoenix and Jaeger say it
        life, id = await played(collector)
        assert life.lines == []
        live = dict(collector.whole())
        to = destination({}, url=collector.url)
        assert to is not None
        sent = await export_run(life.store.beside(), id, to, JumpingClock())
        assert (sent.spans, sent.metrics, sent.takes_metrics) == (len(live), 0, False)
        assert collector.whole() == live
        assert collector.points == {}


async def test_what_a_collector_rejects_in_part_is_said() -> None:
    with Collector() as collector:
        collector.answers = [Say(rejects=3)] * 50
        life, _ = await played(collector)
        [line] = life.lines
        assert "refused 3 of what it was sent" in line


async def test_an_export_waits_as_long_as_the_collector_asks_for() -> None:
    with Collector() as collector:
        life, id = await played(collector)
    with Collector() as collector:
        collector.answers = [Say(429, {"Retry-After": "7"}), Say(503)]
        to = destination({}, url=collector.url)
        assert to is not None
        clock = JumpingClock()

        exporting = asyncio.create_task(export_run(life.store.beside(), id, to, clock))
        began = clock.now()
        while not exporting.done():
            await asyncio.sleep(0)
            if clock.sleepers():
                clock.jump(1)
        assert clock.now() - began >= 8
        assert collector.whole()


async def test_a_fault_of_ours_is_a_line_and_no_end_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("midstream.telemetry.sending.Collector.send", broken)
    with Collector() as collector:
        life, id = await played(collector)
    run = await life.store.beside().run(id)

    assert run is not None
    assert run.summary.is_over
    [line] = life.lines
    assert "KeyError" in line
