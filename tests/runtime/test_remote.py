"""A run of another process: followed, answered, steered and stopped from here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from two_processes import DEADLINE_S, Place, place

from midstream.core.events import InputReceived
from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.language.errors import UserMistake
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.remote import LOOK_EVERY_S, NOBODY, NOBODY_S, RemoteMachine
from midstream.runtime.engine.resume import refused, stop_here
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.capability import PermissionMode
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    Gate,
    JumpingClock,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
    says,
)

__all__ = ["place"]

TALK: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}


class Owner:
    """A process with an engine."""

    def __init__(self, place: Place, *script: Any, tools: FakeTools | None = None) -> None:
        self.store = place.open()
        self.tools = tools or FakeTools()
        self.model = ScriptedModel(*script)
        world = fake_world(self.model, tools=self.tools, journal=self.store)
        self.engine = LocalEngine(world, self.store, sockets=place.sockets)
        self.heard = Chronicle()
        self.engine.listen(self.heard)

    async def start(self) -> WorkflowStateMachine:
        """Begin a talk."""
        return await self.engine.start(define(TALK, tools=self.tools))

    async def at_rest(self) -> WorkflowStateMachine:
        """Return a talk that has begun and waits for somebody."""
        machine = await self.start()
        await machine.settled()
        return machine


@asynccontextmanager
async def owning(
    place: Place, *script: Any, tools: FakeTools | None = None
) -> AsyncIterator[Owner]:
    """Give a process with an engine, which is closed at the end."""
    owner = Owner(place, *script, tools=tools)
    try:
        yield owner
    finally:
        await owner.engine.close()


@asynccontextmanager
async def attached(
    place: Place, id: str, heard: list[Envelope] | None = None
) -> AsyncIterator[RemoteMachine]:
    """Give another process's view of a run."""
    tap = None if heard is None else heard.append
    machine = await RemoteMachine.attached(
        place.open(), id, sockets=place.sockets, clock=JumpingClock(), tap=tap
    )
    try:
        yield machine
    finally:
        await machine.aclose()


async def test_a_question_is_answered_from_another_process(place: Place) -> None:
    async with owning(place, asks("Sure?"), "Done.") as owner:
        machine = await owner.at_rest()
        heard: list[Envelope] = []
        async with attached(place, machine.id, heard) as remote:
            receipt = await remote.say("yes")
            run = await remote.wait()

        assert receipt.handling == "answer"
        assert run.status == "finished"
        # The facts are there a moment before their owner has folded them.
        assert run == await machine.wait()
        assert [each.seq for each in heard if each.seq is not None] == list(
            range(heard[0].seq or 0, run.seq + 1)
        )


async def test_unasked_words_interrupt_from_another_process(place: Place) -> None:
    gate = Gate()
    script = (says("Once ", "upon", gate=gate), "As you say.")
    async with owning(place, *script) as owner:
        machine = await owner.start()
        await gate.reached()
        async with attached(place, machine.id) as remote:
            receipt = await remote.say("No, shorter.")
            record = await remote.disposed(receipt.input_id)

        assert receipt.handling == "interrupt"
        assert record is not None
        assert record.disposition == "interrupted"


async def test_of_two_answers_one_wins_and_the_other_hears_so(place: Place) -> None:
    gate = Gate()
    script = (asks("Sure?"), says("Done.", gate=gate))
    async with owning(place, *script) as owner:
        machine = await owner.at_rest()
        async with attached(place, machine.id) as one, attached(place, machine.id) as two:
            await asyncio.gather(
                one.say("yes", question="q1", id="one"), two.say("no", question="q1", id="two")
            )
            gate.open()
            run = await one.wait()
            late = await two.say("maybe", question="q1")

        assert (late.handling, late.reason) == ("reject", "already answered")
        records = [run.inbox.lines["one"], run.inbox.lines["two"]]
        assert sorted(str(record.disposition) for record in records) == ["answered", "rejected"]
        assert "already answered" in [record.reason for record in records]


async def test_the_same_id_counts_once_and_gives_the_same_receipt(place: Place) -> None:
    async with owning(place, asks("Sure?"), "Done.") as owner:
        machine = await owner.at_rest()
        async with attached(place, machine.id) as remote:
            receipts = await asyncio.gather(*(remote.say("yes", id="mine") for _ in range(3)))
            await remote.wait()
            receipts.append(await remote.say("yes", id="mine"))

        assert {receipt.handling for receipt in receipts} == {"answer"}
        assert [each.input_id for each in owner.heard.of(InputReceived)] == ["mine"]


async def test_words_nobody_hears_are_kept_for_the_next_owner(place: Place) -> None:
    first = Owner(place, asks("Sure?"))
    machine = await first.at_rest()
    await first.engine.close()
    async with attached(place, machine.id) as remote:
        receipts = [await remote.say("yes", id="mine") for _ in range(2)]
        async with owning(place, "Done.") as second:
            resumed = await second.engine.resume(machine.id)
            run = await resumed.wait()

    assert [(receipt.handling, receipt.reason) for receipt in receipts] == [("queue", NOBODY)] * 2
    assert run.status == "finished"
    assert [each.text for each in second.heard.of(InputReceived)] == ["yes"]


async def test_words_survive_the_death_of_who_should_have_heard_them(place: Place) -> None:
    first = Owner(place, asks("Sure?"))
    machine = await first.at_rest()
    await machine.leave()  # deaf from here on, as a hung process is
    async with attached(place, machine.id) as remote:
        saying = asyncio.create_task(remote.say("yes", id="mine"))
        while not await remote._store.undelivered(machine.id):
            await remote._store.changed(1.0)
        place.kill(first.store)
        if first.engine._owner._live is not None:  # a process that dies takes its sockets with it
            await first.engine._owner._live.close()
        receipt = await saying
        async with owning(place, "Done.") as second:
            resumed = await second.engine.resume(machine.id)
            await resumed.wait()
            run = await remote.wait()

    assert receipt.reason == NOBODY
    assert run.status == "finished"
    assert run.inbox.lines["mine"].disposition == "answered"
    await _buried(first)


async def _buried(owner: Owner) -> None:
    """Take down what is left of a process that died: its tasks live in this one."""
    assert owner.engine._owner._dispatcher is not None
    await owner.engine._owner._dispatcher.close()


async def test_words_answer_what_is_asked_when_they_are_sent_and_nothing_later(
    place: Place,
) -> None:
    gate = Gate()
    owners = [Owner(place, asks("Sure?")), Owner(place, says("Once ", gate=gate))]
    asking, busy = [await owner.start() for owner in owners]
    await asking.settled()
    await gate.reached()
    for owner in owners:
        await owner.engine.close()
    mails = []
    for machine in (asking, busy):
        async with attached(place, machine.id) as remote:
            await remote.say("yes")
            mails += await remote._store.undelivered(machine.id)

    assert [(mail.question, mail.unasked) for mail in mails] == [
        ("q1", False),
        (None, True),
    ]


async def test_several_questions_refuse_words_that_name_none(place: Place) -> None:
    both = calls(
        call("request_users_input", question="Red?"), call("request_users_input", question="Blue?")
    )
    async with owning(place, both, "Done.") as owner:
        machine = await owner.at_rest()
        async with attached(place, machine.id) as remote:
            with pytest.raises(UserMistake, match="Several questions are open: q1, q2"):
                await remote.say("yes")
            await remote.say("yes", question="q2")
            await remote.say("no", question="q1")
            run = await remote.wait()

        assert run.status == "finished"


async def test_a_tool_call_is_approved_from_another_process(place: Place) -> None:
    tools = FakeTools(FakeTool(name="shoot", needs_approval=True))
    script = (calls(call("shoot")), "Done.")
    async with owning(place, *script, tools=tools) as owner:
        machine = await owner.at_rest()
        async with attached(place, machine.id) as remote:
            await remote.approve("q1", Decision(granted=True))
            run = await remote.wait()

        assert run.status == "finished"
        assert [called.name for called in tools.calls] == ["shoot"]


async def test_a_turn_is_halted_and_gone_on_with_from_another_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That a message was taken is no fact: it is seen although its owner, who tells facts, says nothing.
    monkeypatch.setattr("midstream.runtime.engine.remote.QUIET_S", 10 * DEADLINE_S)
    gate = Gate()
    async with owning(place, says("Once ", gate=gate), "Shorter.") as owner:
        machine = await owner.start()
        await gate.reached()
        async with attached(place, machine.id) as remote:
            await remote.halt()
            held = await remote.settled()
            await remote.say("Shorter, please.")
            run = await remote.wait()

        assert held.visit.phase == "held"
        assert run.status == "finished"


async def test_a_run_is_stopped_from_another_process(place: Place) -> None:
    async with owning(place, asks("Sure?")) as owner:
        machine = await owner.at_rest()
        async with attached(place, machine.id) as remote:
            await remote.stop("enough")

            assert remote.run.status == "stopped"
            assert remote.run.halt.reason == "enough"
            assert remote.is_closed
            assert (await remote.say("late")).reason == "the run has ended"


async def test_nobody_can_be_told_to_stop_a_run_nobody_runs(place: Place) -> None:
    owner = Owner(place, asks("Sure?"))
    machine = await owner.at_rest()
    await owner.engine.close()
    async with attached(place, machine.id) as remote:
        with pytest.raises(UserMistake, match=f"No process runs {machine.id}"):
            await remote.stop()
        await remote.halt()

        assert await remote._store.undelivered(machine.id) == []


async def test_words_that_wait_for_an_owner_can_be_taken_back(place: Place) -> None:
    owner = Owner(place, asks("Sure?"))
    machine = await owner.at_rest()
    await owner.engine.close()
    async with attached(place, machine.id) as remote:
        receipt = await remote.say("yes")
        await remote.withdraw(receipt.input_id)

        assert await remote._store.undelivered(machine.id) == []
        ended = await stop_here(remote._store, JumpingClock(), machine.id, reason="enough")
        assert await refused(remote._store, ended) == []


async def test_words_whose_run_ends_before_it_hears_them_are_refused(place: Place) -> None:
    owner = Owner(place, asks("Sure?"))
    machine = await owner.at_rest()
    await owner.engine.close()
    async with attached(place, machine.id) as remote:
        receipt = await remote.say("yes", id="mine")
        ended = await stop_here(remote._store, JumpingClock(), machine.id, reason="enough")
        await remote.wait()
        record = await remote.disposed("mine")
        again = await remote.say("yes", id="mine")
        late = await refused(remote._store, ended)

        assert await remote._store.undelivered(machine.id) == []
    assert receipt.handling == "queue"
    assert record is not None
    assert (record.disposition, record.reason) == ("rejected", "the run has ended")
    assert (again.handling, again.reason) == ("reject", "the run has ended")
    assert [mail.text for mail in late] == ["yes"]


async def test_queued_words_are_taken_back_from_another_process(place: Place) -> None:
    gate = Gate()
    async with owning(place, says("Once ", gate=gate)) as owner:
        machine = await owner.start()
        await gate.reached()
        async with attached(place, machine.id) as remote:
            receipt = await remote.say("later", policy="queue")
            await remote.withdraw(receipt.input_id)
            record = await remote.disposed(receipt.input_id)
            gate.open()

        assert receipt.handling == "queue"
        assert record is not None
        assert record.disposition == "withdrawn"


async def test_who_is_attached_no_more_hears_no_more(place: Place) -> None:
    async with owning(place, asks("Sure?"), "Done.") as owner:
        machine = await owner.at_rest()
        heard: list[Envelope] = []
        async with attached(place, machine.id, heard) as remote:
            pass
        await machine.say("yes")
        await machine.wait()

        assert heard == []
        assert (await remote.wait()).status == "running"


# --- a plan ----------------------------------------------------------------------------------------


class Permits:
    """The permission mode of a process."""

    mode: PermissionMode = "plan"

    def switch(self, mode: str) -> None:
        self.mode = "auto" if mode == "auto" else "ask"


async def test_a_plan_is_approved_from_another_process_and_its_owner_leaves_plan_mode(
    place: Place,
) -> None:
    plan = calls(call("propose_plan", title="Mend it", steps=["Look", "Mend"]))
    tools = FakeTools(FakeTool(name="propose_plan", effect="read"), FakeTool(name="look"))
    seen: list[str] = []

    def reply(request: Any) -> Any:
        seen.append(permits.mode)
        return "Done." if any(m.results for m in request.messages) else plan

    permits = Permits()
    store = place.open()
    world = fake_world(ScriptedModel(reply), tools=tools, journal=store)
    world = msgspec.structs.replace(world, permits=permits)
    engine = LocalEngine(world, store, sockets=place.sockets)
    try:
        machine = await engine.start(define(TALK, tools=tools))
        await machine.settled()
        (question,) = machine.run.inbox.open_questions
        async with attached(place, machine.id) as remote:
            assert [q.about for q in remote.run.inbox.open_questions] == ["plan"]
            await remote.approve(question.id, Decision(granted=True, mode="auto"))
            run = await remote.wait()
    finally:
        await engine.close()

    assert [item.text for item in run.todo.items] == ["Look", "Mend"]
    assert seen == ["plan", "auto"], "it was left before the next request"
    assert tools.calls == []


async def test_a_run_that_nobody_runs_is_looked_at_seldom_until_somebody_does(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owning(place, asks("Sure?")) as owner:
        machine = await owner.at_rest()
    store = place.open()
    changed, looks = store.changed, asyncio.Queue[float]()

    async def noted(timeout_s: float, *more: Any) -> None:
        looks.put_nowait(timeout_s)
        await changed(timeout_s, *more)

    monkeypatch.setattr(store, "changed", noted)
    remote = await RemoteMachine.attached(
        store, machine.id, sockets=None, clock=JumpingClock(), owned=lambda owner: None
    )
    async with asyncio.timeout(DEADLINE_S):
        while await looks.get() != NOBODY_S:
            pass
        async with owning(place) as owner:
            await owner.engine.resume(machine.id)
            while await looks.get() != LOOK_EVERY_S:
                pass
    await remote.aclose()
