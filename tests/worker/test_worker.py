"""A worker takes what is owed something, drives it, and lets go of what waits."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deadline import DEADLINE_S
from support.memory_pool import MemoryPool
from worker_kit import FLOW, Working, engine_on, offered, sleeping

import midstream
from midstream.app.assembly import SystemClock
from midstream.core.decide.decide import judged
from midstream.core.events import RunRecovered, RunSuspended
from midstream.core.inputs import Recovered, Start
from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.engine.hand_over import hand_over
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.ports import ToolContext
from midstream.runtime.storage import Mail, Placement
from midstream.system.offloop import in_thread
from midstream.testing.fakes import Gate, JumpingClock, Scripted, asks, call, define, says
from midstream.tools.base import Tool
from midstream.tools.user_tools import as_tool
from midstream.worker.health import address_of, answering


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder the runs work in."""
    work = tmp_path / "work"
    work.mkdir()
    return work


async def handed_over(
    store: MemoryPool,
    folder: Path,
    *tools: Tool,
    flow: dict[str, Any] = FLOW,
    input: str = "tidy",
) -> str:
    """Return the id of a run of a folder that workers are to go on with."""
    engine = engine_on(store.beside())
    engine.world = msgspec.structs.replace(engine.world, workspace=folder)
    plain = define(flow)
    specs = plain.tools | {tool.spec.name: tool.spec for tool in tools}
    definition = msgspec.structs.replace(plain, tools=specs)
    return await hand_over(engine, definition, Placement(), input=input)


async def followed(store: MemoryPool, id: str) -> RemoteMachine:
    """Return a run as another process holds it."""
    return await RemoteMachine.attached(store, id, sockets=None, clock=SystemClock())


async def stands(store: MemoryPool, id: str) -> Run:
    return await opened(store, id)


async def test_a_run_goes_to_its_end_and_nothing_of_it_stays(folder: Path) -> None:
    store = MemoryPool()
    id = await handed_over(store, folder)
    async with Working(store.beside(), "Done.") as one:
        await one.log.saying("let_go", "finished")

        assert (await stands(store, id)).output == "Done."
        assert one.worker.runs == ()
        assert await store.owner_of(id) == ""
        assert one.log.of("taken") == [f"taken {id} test in {folder}"]
    assert one.log.of("refused") == []


async def test_a_run_that_asks_has_no_process_until_it_is_answered(folder: Path) -> None:
    store = MemoryPool()
    id = await handed_over(store, folder)
    async with Working(store.beside(), asks("Which?"), "That one.") as one:
        await one.log.saying("let_go", "waits for a person")
        assert await store.owner_of(id) == ""
        assert await offered(store) == []

        run = await followed(store, id)
        receipt = await run.say("the first", source="send")
        await run.wait()
        await run.aclose()

        assert receipt.handling == "answer"
        assert run.run.output == "That one."
        assert len(one.log.of("taken")) == 2


class Launched:
    """A tool that must be called once only, and that stands at a gate while it is."""

    def __init__(self, gate: Gate | None = None, *, needs_approval: bool = False) -> None:
        self.epochs: list[int] = []

        @midstream.tool(effect="once", needs_approval=needs_approval)
        async def launch(count: int, context: ToolContext) -> str:
            """Launch something."""
            self.epochs.append(context.epoch)
            if gate is not None:
                await gate.passed()
            return f"launched {count}"

        self.tool = as_tool(launch)


async def test_an_approval_is_given_from_elsewhere(folder: Path) -> None:
    store, launched = MemoryPool(), Launched(needs_approval=True)
    id = await handed_over(store, folder, launched.tool)
    script = (call("launch", count=3), "Done.")
    async with Working(store.beside(), *script, tools=[launched.tool]) as one:
        await one.log.saying("let_go")
        run = await followed(store, id)
        [question] = run.run.inbox.open_questions
        await run.approve(question.id, Decision(granted=True))
        await run.wait()
        await run.aclose()

        # Each time it is taken its epoch is another one: what it passes on fences who comes late.
        assert launched.epochs == [3]


async def test_words_from_another_process_halt_a_reply_in_a_worker(folder: Path) -> None:
    store, gate = MemoryPool(), Gate()
    id = await handed_over(store, folder)
    async with Working(store.beside(), says("one ", gate=gate), "Renamed.") as one:
        await gate.reached()
        run = await followed(store, id)
        await run.say("no, rename it", source="send")
        await one.log.saying("let_go")
        await run.aclose()

        stood = await stands(store, id)
        assert [line.disposition for line in stood.inbox.lines.values()] == ["interrupted"]


async def test_what_a_killed_worker_had_goes_on_with_another(folder: Path) -> None:
    store, gate = MemoryPool(), Gate()
    ids = {await handed_over(store, folder, input=f"job {n}") for n in range(5)}
    async with Working(store.beside(), *[says("one ", gate=gate) for _ in ids]) as first:
        await first.log.saying("taken", times=5)
        await gate.reached()
        await first.die()
    async with Working(store.beside(), *["Done."] * 5) as second:
        await second.log.saying("let_go", "finished", times=5)

        assert {(await stands(store, id)).output for id in ids} == {"Done."}
        assert second.worker.counts["deaths"] == 5


async def test_a_call_that_may_have_happened_is_asked_about_on_any_machine(folder: Path) -> None:
    store, gate = MemoryPool(), Gate()
    launched = Launched(gate)
    id = await handed_over(store, folder, launched.tool)
    script = (call("launch", count=3),)
    async with Working(store.beside(), *script, tools=[launched.tool]) as first:
        await gate.reached()
        first.store.die()
        gate.open()
        await first.die()
    async with Working(store.beside(), "Done.", tools=[launched.tool]) as second:
        await second.log.saying("let_go", "waits for a person")
        [question] = (await stands(store, id)).inbox.open_questions

        assert question.text.startswith("A call was cut off while it ran.")
        assert len(launched.epochs) == 1


async def test_a_run_that_kills_its_workers_is_suspended_and_goes_on_with_a_person(
    folder: Path,
) -> None:
    store = MemoryPool()
    id = await handed_over(store, folder)
    for _ in range(5):
        gate = Gate()
        async with Working(store.beside(), says("one ", gate=gate)) as one:
            await gate.reached()
            await one.die()
    async with Working(store.beside(), "Done.") as last:
        await last.log.saying("let_go", "suspended: crash_loop")
        assert await offered(store) == []

        run = await followed(store, id)
        await run.unsuspend()
        await run.wait()
        await run.aclose()
        assert run.run.output == "Done."


async def test_a_run_that_died_with_five_owners_is_suspended_though_it_went_on_a_bit() -> None:
    story = judged(Run(id="r"), Start(definition=define(FLOW), input="tidy"))
    again = judged(story.run, Recovered(was_cut=True, deaths=5))

    assert RunSuspended(reason="crash_loop") in again.facts


async def test_a_far_time_is_waited_for_by_nobody(folder: Path) -> None:
    clock = JumpingClock()
    store = MemoryPool(clock.now)
    resting = {"states": [{"name": "start", "wait": {"seconds": 3600}}, {"name": "stop"}]}
    id = await handed_over(store, folder, flow=resting)
    async with Working(store.beside(), clock=clock) as one:
        await one.log.saying("let_go", "waits for a time")
        assert await store.owner_of(id) == ""
        clock.jump(3600)
        await store.post(Mail(id="1", run="other", at=1.0, text="somebody writes something"))
        await one.log.saying("let_go", "finished")


async def test_a_near_time_is_waited_for(folder: Path) -> None:
    clock = JumpingClock()
    store = MemoryPool(clock.now)
    resting = {"states": [{"name": "start", "wait": {"seconds": 5}}, {"name": "stop"}]}
    await handed_over(store, folder, flow=resting)
    async with Working(store.beside(), clock=clock) as one:
        await sleeping(clock)
        clock.jump(5)
        await one.log.saying("let_go", "finished")

        assert len(one.log.of("taken")) == 1


# --- it leaves -------------------------------------------------------------------------------------


async def test_who_leaves_lets_what_is_under_way_end_and_begins_nothing(folder: Path) -> None:
    store, gate = MemoryPool(), Gate()
    launched = Launched(gate)
    id = await handed_over(store, folder, launched.tool)
    script = (call("launch", count=3), "Never asked for.")
    async with Working(store.beside(), *script, tools=[launched.tool]) as first:
        await gate.reached()
        first.leaving.ask(DEADLINE_S)
        await first.log.saying("leaving")
        [seen] = await store.workers()
        assert (seen.is_leaving, seen.runs) == (True, (id,))
        assert await offered(store) == []
        gate.open()
        await first.ended()

        assert first.log.of("let_go") == [f"let go of {id}: the worker leaves"]
    async with Working(store.beside(), "Done.", tools=[launched.tool]) as second:
        await second.log.saying("let_go", "finished")

    stood = await stands(store, id)
    assert stood.output == "Done."
    assert len(launched.epochs) == 1
    recovered = [e.event for e in await store.read(id) if isinstance(e.event, RunRecovered)]
    assert [each.was_cut for each in recovered] == [False, False]


async def test_a_call_that_a_reply_asks_for_while_it_leaves_is_made_and_not_asked_about(
    folder: Path,
) -> None:
    store, gate, launched = MemoryPool(), Gate(), Launched()
    id = await handed_over(store, folder, launched.tool)
    reply = Scripted(pieces=("I launch.",), calls=(call("launch", count=3),), gate=gate)
    async with Working(store.beside(), reply, tools=[launched.tool]) as first:
        await gate.reached()
        first.leaving.ask(DEADLINE_S)
        await first.log.saying("leaving")
        gate.open()
        await first.ended()
    async with Working(store.beside(), "Done.", tools=[launched.tool]) as second:
        await second.log.saying("let_go", "finished")

    assert (await stands(store, id)).output == "Done."
    assert len(launched.epochs) == 1


async def test_asked_twice_it_leaves_at_once(folder: Path) -> None:
    store, gate = MemoryPool(), Gate()
    id = await handed_over(store, folder)
    async with Working(store.beside(), says("one ", gate=gate)) as one:
        await gate.reached()
        one.leaving.ask(DEADLINE_S)
        one.leaving.ask(DEADLINE_S)
        await one.ended()

    assert await offered(store) == [id]


# --- what it cannot take up ---------------------------------------------------------------------------


async def test_a_folder_that_nobody_has_trusted_is_refused_and_left_alone(folder: Path) -> None:
    own = folder / ".midstream" / "workflows"
    own.mkdir(parents=True)
    (own / "own.json").write_text('{"workflow_name": "own", "states": []}', encoding="utf-8")
    store = MemoryPool()
    id = await handed_over(store, folder)
    async with Working(store.beside(), "Done.") as one:
        await one.log.saying("refused", "midstream trust")
        other = folder.parent / "other"
        other.mkdir()
        await handed_over(store, other)
        await one.log.saying("let_go", "finished")

        [seen] = await store.workers()
        assert "is not trusted" in seen.refuses[str(folder)]
        [refused] = one.log.of("refused")
        assert f"midstream trust --workspace {folder}" in refused
        assert "--trust-workspace" not in refused
        assert await store.owner_of(id) == ""
        assert await offered(store) == [id]


async def test_a_folder_that_is_not_there_is_refused(folder: Path) -> None:
    store = MemoryPool()
    await handed_over(store, folder)
    await in_thread(folder.rmdir)
    async with Working(store.beside()) as one:
        await one.log.saying("refused", f"There is no folder {folder}")


async def test_a_run_whose_end_cannot_be_journaled_is_left_alone_for_a_while(folder: Path) -> None:
    class Failing(MemoryPool):
        trouble: Exception | None = None

        async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
            if self.trouble is not None:
                raise self.trouble
            await super().append(run, expected, facts)

    store, gate = MemoryPool(), Gate()
    failing = Failing()
    failing.join(store)
    id = await handed_over(store, folder)
    async with Working(failing, says("Done.", gate=gate)) as one:
        await gate.reached()
        failing.trouble = WorldTrouble("The disk is broken.")
        gate.open()
        await one.log.saying("refused", "The disk is broken.")

        assert not (await stands(store, id)).is_over
        assert await offered(store) == [id]
        assert one.worker.counts["taken"] == 1


async def test_no_more_runs_are_taken_than_there_is_room_for(folder: Path) -> None:
    store, gate = MemoryPool(), Gate()
    for n in range(3):
        await handed_over(store, folder, input=f"job {n}")
    script = [says("Done.", gate=gate) for _ in range(3)]
    async with Working(store.beside(), *script, max_runs=2) as one:
        await one.log.saying("taken", times=2)
        assert len(await offered(store)) == 1
        gate.open()
        await one.log.saying("let_go", "finished", times=3)


# --- how it is ----------------------------------------------------------------------------------------


async def test_it_says_how_it_is(folder: Path) -> None:
    store = MemoryPool()
    await handed_over(store, folder)
    async with Working(store.beside(), "Done.") as one:
        await one.log.saying("let_go", "finished")
        assert one.worker.health() == (200, "ok\n")
        assert one.worker.readiness() == (200, "ok\n")
        lines = one.worker.metrics()[1].splitlines()
        assert "midstream_worker_taken_total 1" in lines
        assert 'midstream_worker_let_go_total{why="finished"} 1' in lines
        one.leaving.ask(0)
        assert one.worker.readiness() == (503, "it leaves\n")


async def test_pages_are_answered_and_nothing_else() -> None:
    async def asked(address: str, request: bytes) -> bytes:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer

    async with answering("127.0.0.1", 0, {"/healthz": lambda: (200, "ok\n")}) as address:
        head = b" HTTP/1.1\r\nHost: x\r\n\r\n"
        good = await asked(address, b"GET /healthz" + head)
        assert good.startswith(b"HTTP/1.1 200 ")
        assert good.endswith(b"\r\n\r\nok\n")
        assert (await asked(address, b"GET /" + head)).startswith(b"HTTP/1.1 404 ")
        assert (await asked(address, b"POST /healthz" + head)).startswith(b"HTTP/1.1 405 ")
        assert await asked(address, b"what is this?\r\n\r\n") == b""


@pytest.mark.parametrize("text", ["", "x", "1:x", "127.0.0.1:", "h:99999"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserMistake, match="is no address"):
        address_of(text)


def test_an_address_may_leave_out_the_host() -> None:
    assert address_of(":8378") == ("127.0.0.1", 8378)
    assert address_of("[::1]:1") == ("::1", 1)
