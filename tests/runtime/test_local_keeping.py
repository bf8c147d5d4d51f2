"""Runs that outlive their process: taken up, their messages delivered, their snapshots no more."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import pytest
from deadline import DEADLINE_S, jump, until

from midstream.core import conversation
from midstream.core.append_only import Log, is_read
from midstream.core.conversation import Message, Side
from midstream.core.events import (
    AgentResponded,
    InputReceived,
    ReplyCut,
    ReplyShown,
    RunRecovered,
    ToolReturned,
)
from midstream.core.notices import Envelope, JournalStalled, JournalWorks, RunTaken
from midstream.language.errors import JournalFull, JournalMoved, RunOwned, UserMistake, WorldTrouble
from midstream.runtime.engine import local, mailbox, open_run
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.mailbox import hand_over
from midstream.runtime.engine.open_run import keep, opened
from midstream.runtime.engine.owner import Owner
from midstream.runtime.engine.resume import refused
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import NO_PAGES, Claim, Mail
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    Gate,
    Line,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
    says,
)

FLOW: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}
CHAT = {**FLOW, "states": [{"name": "start", "agent": "dude", "awaits_input": True}]}
CHAT["states"][0]["next"] = "start"


class Process:
    """An engine of its own over contents shared with others."""

    def __init__(self, store: MemoryStore, *script: Line, tools: FakeTools | None = None) -> None:
        self.store = store
        self.model = ScriptedModel(*script)
        self.told = Chronicle()
        self.tools = tools or FakeTools()
        world = fake_world(self.model, tools=self.tools, journal=store, blobs=store)
        self.engine = LocalEngine(world, store)
        self.engine.listen(self.told)
        _MADE.append(self)

    async def start(self, flow: dict[str, Any] = FLOW, **given: Any) -> WorkflowStateMachine:
        return await self.engine.start(define(flow, tools=self.tools), **given)

    async def at_rest(self) -> WorkflowStateMachine:
        """Return a run that has begun and waits for somebody."""
        machine = await self.start()
        await machine.settled()
        return machine

    async def die(self) -> None:
        """End as a killed process does: nothing is let go of, nothing more is written."""
        _MADE.remove(self)
        self.store.die()
        if self.engine._owner._dispatcher is not None:
            await self.engine._owner._dispatcher.close()
        for machine in self.engine.machines():
            if machine._task is not None:
                machine._task.cancel()
                await asyncio.wait((machine._task,))


_MADE: list[Process] = []
"""The processes of the test that have not died."""


@asynccontextmanager
async def shared() -> AsyncIterator[MemoryStore]:
    """Yield a store. Afterwards its processes are closed, and nothing that began meanwhile is left."""
    before = asyncio.all_tasks()
    _MADE.clear()
    yield MemoryStore()
    for process in _MADE:
        await process.engine.close()
    left = asyncio.all_tasks() - before
    assert not left, left


S = TypeVar("S", bound=MemoryStore)


def beside(store: MemoryStore, kind: type[S]) -> S:
    """Return another owner of what a store holds, of a kind of its own."""
    other = kind()
    other._open(store._contents)
    return other


class Failing(MemoryStore):
    """A store whose appends fail with an error, for as long as there is one."""

    error: WorldTrouble | None = None

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        if self.error is not None:
            raise self.error
        await super().append(run, expected, facts)


FULL = JournalFull("There is no room.")


class Looking(MemoryStore):
    """A store that counts how often somebody looks for messages."""

    looks = 0

    async def mail(self, owner: str) -> list[Mail]:
        self.looks += 1
        return await super().mail(owner)


async def rounds(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def waiting(store: MemoryStore) -> list[Mail]:
    """Return every message that is not delivered, whoever runs its run."""
    found = [await store.mail(owner) for owner in ("", *store._contents.owners)]
    return [mail for mails in found for mail in mails]


async def emptied(store: MemoryStore) -> None:
    """Return once every message is delivered."""

    async def are_none() -> bool:
        return not await waiting(store)

    await until(are_none)


async def let_go(store: MemoryStore, id: str) -> None:
    """Return once nobody has the run: it is kept first, in a thread."""

    async def is_nobodys() -> bool:
        return await store.owner_of(id) == ""

    await until(is_nobodys)


# --- taking up ------------------------------------------------------------------------------------


async def test_a_run_that_was_left_goes_on_where_it_stood() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?")), Process(store.beside(), "Done.")
        machine = await one.start(input="tidy")
        await machine.settled()
        await one.engine.close()

        again = await two.engine.resume(machine.id)
        assert again.run.inbox.open_questions == machine.run.inbox.open_questions
        assert two.told.of(RunRecovered) == [RunRecovered(was_cut=False)]
        await again.say("src")
        assert (await again.wait()).output == "Done."


async def test_a_run_whose_process_was_killed_was_cut() -> None:
    async with shared() as store:
        gate = Gate()
        tools = FakeTools(FakeTool(name="look", gate=gate))
        one = Process(store, call("look"), tools=tools)
        two = Process(store.beside(), "Done.", tools=FakeTools(FakeTool(name="look")))
        machine = await one.start()
        await gate.reached()
        await one.die()

        assert [kept.was_cut for kept in await two.store.listing()] == [True]
        again = await two.engine.resume(machine.id)
        assert two.told.of(RunRecovered) == [RunRecovered(was_cut=True)]
        assert (await again.wait()).output == "Done."
        assert len(two.tools.calls) == 1


@pytest.mark.parametrize("is_halted", [False, True])
async def test_of_a_run_that_only_waited_when_its_process_was_killed_nothing_was_cut(
    is_halted: bool,
) -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?")), Process(store.beside())
        machine = await one.at_rest()
        if is_halted:
            await machine.halt()
        await one.die()

        kept = await two.store.listing()
        assert [(each.was_cut, each.cut_work) for each in kept] == [(True, is_halted)]
        await two.engine.resume(machine.id)
        [recovered] = two.told.of(RunRecovered)
        assert recovered == RunRecovered(was_cut=True, was_idle=True)
        assert not recovered.cut_work


async def test_a_run_of_a_living_process_is_not_taken() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?"), "Done."), Process(store.beside())
        machine = await one.at_rest()
        with pytest.raises(RunOwned):
            await two.engine.resume(machine.id)
        assert two.engine.machines() == ()
        await machine.say("src")
        assert (await machine.wait()).output == "Done."


async def test_what_cannot_be_resumed_says_why_and_is_claimed_by_nobody() -> None:
    async with shared() as store:
        one = Process(store, "Done.", asks("Which?"))
        ended = await one.start()
        await ended.wait()
        open_one = await one.start()
        await open_one.settled()
        await one.engine.close()
        two = Process(later := store_after(store))
        with pytest.raises(UserMistake, match="has ended"):
            await two.engine.resume(ended.id)
        with pytest.raises(UserMistake, match="no run"):
            await two.engine.resume("nothing")
        other = define({**FLOW, "states": [{"name": "start"}]})
        with pytest.raises(UserMistake, match="no turn any more"):
            await two.engine.resume(open_one.id, definition=other)
        assert two.engine.machines() == ()
        assert {kept.owner for kept in await later.listing()} == {""}


def store_after(store: MemoryStore) -> MemoryStore:
    """Return a new owner of what a closed store held."""
    return store.beside()


async def test_resuming_what_runs_here_returns_its_machine() -> None:
    async with shared() as store:
        one = Process(store, asks("Which?"))
        machine = await one.at_rest()
        assert await one.engine.resume(machine.id) is machine
        assert not one.told.of(RunRecovered)


async def test_two_who_resume_a_run_at_once_get_one_machine() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?")), Process(store.beside(), "Done.")
        machine = await one.at_rest()
        await one.engine.close()
        first, second, third = await asyncio.gather(
            *[two.engine.resume(machine.id) for _ in range(3)]
        )

        assert first is second is third
        assert two.told.of(RunRecovered) == [RunRecovered()]
        assert not two.told.of(RunTaken)


async def test_handlers_and_another_definition_go_with_it() -> None:
    def choose(run: HandlerRun) -> str:
        run.common_data["by"] = "the new one"
        return "stop"

    state = {"name": "start", "agent": "dude", "transition_handler": "choose"}
    async with shared() as store:
        one, two = Process(store, asks("Which?")), Process(store.beside(), "Done.")
        machine = await one.at_rest()
        await one.engine.close()
        again = await two.engine.resume(
            machine.id,
            definition=define({**FLOW, "states": [state]}),
            handlers=ScriptHandlers({"choose": choose}),
        )
        await again.say("src")
        assert (await again.wait()).common_data == {"by": "the new one"}


async def test_a_full_disk_leaves_a_run_for_later() -> None:
    async with shared() as store:
        one, full = Process(store, asks("Which?")), beside(store, Failing)
        two = Process(full, "Done.")
        machine = await one.at_rest()
        await one.engine.close()
        full.error = FULL
        with pytest.raises(JournalFull):
            await two.engine.resume(machine.id)
        assert two.engine.machines() == ()
        assert two.told.events == []
        assert await full.owner_of(machine.id) == ""

        full.error = None
        again = await two.engine.resume(machine.id)
        assert again.run.inbox.open_questions


async def test_a_crash_is_counted_though_the_disk_was_full_when_it_was_taken_up() -> None:
    async with shared() as store:
        one, full = Process(store, asks("Which?")), beside(store, Failing)
        full.error = FULL
        two, three = Process(full), Process(store.beside())
        machine = await one.at_rest()
        await one.die()
        for _ in range(2):
            with pytest.raises(JournalFull):
                await two.engine.resume(machine.id)
        await two.engine.close()

        again = await three.engine.resume(machine.id)
        assert three.told.of(RunRecovered) == [RunRecovered(was_cut=True, was_idle=True)]
        assert again.run.crashes == 1


async def test_nothing_begins_in_an_engine_that_has_closed() -> None:
    async with shared() as store:
        one = Process(store, "Done.")
        await one.engine.close()
        with pytest.raises(Exception, match=r"closed|closing"):
            await one.start()
        assert one.engine.machines() == ()


# --- messages --------------------------------------------------------------------------------------


async def test_messages_are_delivered_in_order_and_once() -> None:
    async with shared() as store:
        one, other = Process(store, *["ok"] * 5), store.beside()
        machine = await one.start(CHAT)
        await machine.settled()
        for n in range(5):
            mail = Mail(id=f"l{n}", run=machine.id, at=1.0, text=f"line {n}", policy="queue")
            assert await other.post(mail) == mail
            await other.post(mail)
        one.engine.look()
        await emptied(other)
        await machine.settled()

        received = one.told.of(InputReceived)
        assert [fact.text for fact in received] == [f"line {n}" for n in range(5)]
        assert [fact.input_id for fact in received] == [f"l{n}" for n in range(5)]


async def test_a_message_to_a_run_nobody_has_waits_for_its_next_owner() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?")), Process(store.beside(), "Done.")
        machine = await one.at_rest()
        await one.engine.close()
        await two.store.post(Mail(id="a", run=machine.id, at=1.0, text="src", question="q1"))
        await rounds()
        assert len(await waiting(two.store)) == 1

        again = await two.engine.resume(machine.id)
        assert (await again.wait()).output == "Done."
        await emptied(two.store)


async def test_messages_that_waited_are_heard_before_anything_begins_again() -> None:
    async with shared() as store:
        gate = Gate()
        tools = FakeTools(FakeTool(name="look", gate=gate))
        one, two = Process(store, call("look"), tools=tools), Process(store.beside(), "I see.")
        machine = await one.start()
        await gate.reached()
        await one.die()
        for id in ("a", "b"):
            await two.store.post(Mail(id=id, run=machine.id, at=1.0, text=id, unasked=True))

        again = await two.engine.resume(machine.id)
        assert list(again.run.inbox.lines) == ["a", "b"]
        assert await waiting(two.store) == []
        run = await again.wait()
        assert [called.name for called in two.tools.calls] == [], "the call was cut by the words"
        assert [record.disposition for record in run.inbox.lines.values()] == ["interrupted"] * 2
        assert len(two.model.asked) == 1


async def test_a_stop_that_waited_ends_the_run_before_anything_begins_again() -> None:
    async with shared() as store:
        gate = Gate()
        tools = FakeTools(FakeTool(name="shell", effect="once", gate=gate), FakeTool(name="look"))
        one = Process(store, calls(call("shell"), call("look")), tools=tools)
        two = Process(store.beside(), "I see.")
        machine = await one.start()
        await gate.reached()
        await one.die()
        await two.store.post(Mail(id="a", run=machine.id, at=1.0, kind="stop", text="enough"))

        again = await two.engine.resume(machine.id)
        assert (again.run.status, again.run.halt.reason) == ("stopped", "enough")
        assert (two.model.asked, two.tools.calls) == ([], [])
        assert await waiting(two.store) == []


async def test_a_run_that_hears_nothing_while_it_is_taken_up_goes_on_all_the_same() -> None:
    class Mute(MemoryStore):
        async def undelivered(self, run: str) -> list[Mail]:
            raise WorldTrouble("The disk is slow.")

    async with shared() as store:
        mute = beside(store, Mute)
        one, two = Process(store, says("x", gate=Gate())), Process(mute, "Done.")
        machine = await one.start()
        await rounds()
        await one.die()
        again = await two.engine.resume(machine.id)
        assert (await again.wait()).output == "Done."


async def test_a_message_to_an_ended_run_whose_process_is_gone_is_refused() -> None:
    async with shared() as store:
        one, two = Process(store, "Done."), Process(store.beside(), asks("Which?"))
        machine = await one.start()
        ended = await machine.wait()
        await one.engine.close()
        await two.store.post(Mail(id="a", run=machine.id, at=1.0, text="too late"))
        await two.store.post(Mail(id="b", run=machine.id, at=1.0, kind="halt"))

        await two.engine.start(define(FLOW))
        await emptied(two.store)
        assert [mail.text for mail in await refused(two.store, ended)] == ["too late"]


async def test_a_message_to_a_run_that_waits_for_an_owner_is_left_to_it() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?")), Process(store.beside(), asks("Which?"))
        machine = await one.at_rest()
        await one.engine.close()
        await two.store.post(Mail(id="a", run=machine.id, at=1.0, text="src"))
        await two.engine.start(define(FLOW))
        await rounds()
        assert [mail.id for mail in await waiting(two.store)] == ["a"]


async def test_an_owner_that_is_called_looks_for_its_messages_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailbox, "LOOK_EVERY_S", 2 * DEADLINE_S)

    store = Looking()
    one = Process(store, asks("Which?"), "Done.")
    machine = await one.at_rest()
    await rounds()
    looks = store.looks
    jump(DEADLINE_S / 2)
    await rounds()
    assert store.looks == looks, "where nobody calls nothing is read"
    other = store.beside()
    await other.post(Mail(id="a", run=machine.id, at=1.0, text="src", question="q1"))
    await other.ring(store.me)
    assert (await machine.wait()).output == "Done."
    await one.engine.close()


async def test_a_message_that_was_taken_and_not_marked_is_not_taken_twice() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?"), says("x", gate=Gate())), Process(store.beside())
        two.model = ScriptedModel("Done.")
        two.engine.world = fake_world(two.model, journal=two.store, blobs=two.store)
        machine = await one.at_rest()
        mail = Mail(id="a", run=machine.id, at=1.0, text="src", question="q1")
        await two.store.post(mail)
        await hand_over(machine, mail)
        await one.die()

        again = await two.engine.resume(machine.id)
        run = await again.wait()
        await emptied(two.store)
        assert run.output == "Done."
        assert [record.id for record in run.inbox.lines.values()] == ["a"]


async def test_a_message_to_a_run_that_is_being_left_stays_for_the_next_owner() -> None:
    async with shared() as store:
        gate = Gate()
        shell = FakeTools(FakeTool(name="shell", effect="once", gate=gate))
        one = Process(store, call("shell"), tools=shell)
        two = Process(store.beside(), "I see.", tools=shell)
        machine = await one.start()
        await gate.reached()
        await machine.leave()
        await two.store.post(Mail(id="a", run=machine.id, at=1.0, text="no"))
        for _ in range(5):
            one.engine.look()
            await rounds()
        assert len(await waiting(two.store)) == 1
        await one.engine.close()

        again = await two.engine.resume(machine.id)
        await emptied(two.store)
        assert list((await again.wait()).inbox.lines) == ["a"]


async def test_a_run_that_is_ours_no_more_keeps_the_dispatcher_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailbox, "LOOK_EVERY_S", 2 * DEADLINE_S)

    async with shared() as store:
        counting = beside(store, Looking)
        one = Process(counting, asks("Which?"))
        machine = await one.at_rest()
        await machine.leave()
        await store.post(Mail(id="a", run=machine.id, at=1.0, text="no"))
        one.engine.look()
        await rounds()
        looks = counting.looks
        await rounds(200)
        assert counting.looks <= looks + 1


async def test_a_message_to_a_run_that_has_ended_is_put_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailbox, "SWEEP_EVERY_S", 0.0)
    async with shared() as store:
        one, other = Process(store, "Done."), store.beside()
        machine = await one.start()
        await machine.wait()
        await other.post(Mail(id="a", run=machine.id, at=1.0, text="too late"))
        one.engine.look()
        await emptied(other)


async def test_what_cannot_be_done_any_more_does_not_hold_up_the_rest() -> None:
    async with shared() as store:
        one, other = Process(store, asks("Which?"), "Done."), store.beside()
        machine = await one.at_rest()
        for mail in (
            Mail(id="a", run=machine.id, at=1.0, text="x", question="q9"),
            Mail(id="b", run=machine.id, at=1.0, kind="approve", question="q9", granted=True),
            Mail(id="c", run=machine.id, at=1.0, kind="withdraw", text="never"),
            Mail(id="d", run=machine.id, at=1.0, text="src", question="q1"),
        ):
            await other.post(mail)
        one.engine.look()
        assert (await machine.wait()).output == "Done."
        await emptied(other)


async def test_a_stop_by_message_ends_the_run_and_lets_go_of_it() -> None:
    async with shared() as store:
        one, other = Process(store, asks("Which?")), store.beside()
        machine = await one.at_rest()
        await other.post(Mail(id="a", run=machine.id, at=1.0, kind="stop", text="enough"))
        one.engine.look()
        assert (await machine.wait()).halt.reason == "enough"
        await emptied(other)
        await let_go(other, machine.id)


async def test_without_room_a_message_waits() -> None:
    async with shared() as store:
        full = beside(store, Failing)
        one = Process(full, asks("Which?"), "Done.")
        machine = await one.at_rest()
        full.error = FULL
        await store.post(Mail(id="a", run=machine.id, at=1.0, text="src", question="q1"))
        for _ in range(3):
            one.engine.look()
            await rounds()
        assert len(await waiting(store)) == 1
        assert machine.run.inbox.lines == {}
        full.error = None
        one.engine.look()
        assert (await machine.wait()).output == "Done."
        await emptied(full)


async def test_a_message_marked_while_a_later_look_is_under_way_is_not_handed_over_again() -> None:
    class Late(MemoryStore):
        looking, marking = Gate(), Gate()
        is_late = False

        def __init__(self) -> None:
            super().__init__()
            self.marked: list[str] = []

        async def mail(self, owner: str) -> list[Mail]:
            found = await super().mail(owner)
            if self.is_late:
                await self.looking.passed()
            return found

        async def delivered(self, run: str, id: str) -> None:
            await self.marking.passed()
            self.marked.append(id)
            await super().delivered(run, id)

    store = Late()
    one = Process(store, asks("Which?"))
    machine = await one.at_rest()
    await store.post(Mail(id="a", run=machine.id, at=1.0, kind="halt"))
    one.engine.look()
    await store.marking.reached()
    store.is_late = True
    one.engine.look()
    await store.looking.reached()
    store.marking.open()
    await rounds()
    store.looking.open()
    await rounds()
    assert store.marked == ["a"]
    await one.engine.close()


async def test_a_message_that_met_a_broken_journal_stays() -> None:
    async with shared() as store:
        broken = beside(store, Failing)
        one, two = Process(broken, asks("Which?")), Process(store, "Done.")
        machine = await one.at_rest()
        broken.error = WorldTrouble("The disk is broken.")
        await store.post(Mail(id="a", run=machine.id, at=1.0, text="src", question="q1"))
        one.engine.look()
        assert (await machine.wait()).status == "failed"
        for _ in range(3):
            one.engine.look()
            await rounds()
        await one.engine.close()
        assert len(await waiting(store)) == 1

        again = await two.engine.resume(machine.id)
        assert (await again.wait()).output == "Done."
        await emptied(store)


# --- snapshots ------------------------------------------------------------------------------------


async def test_a_long_run_is_kept_now_and_then_and_opens_the_same_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "SNAPSHOT_EVERY", 10)
    async with shared() as store:
        one, two = Process(store, *["ok"] * 20), store.beside()
        machine = await one.start(CHAT)
        for n in range(12):
            await machine.settled()
            await machine.say(f"line {n}")
        await machine.settled()

        async def is_kept() -> bool:
            kept = await two.snapshot(machine.id)
            return kept is not None and machine.run.seq - 12 <= kept[0] < machine.run.seq

        await until(is_kept)

        assert await opened(two, machine.id) == machine.run
        half = await opened(two, machine.id, upto=20)
        assert half.seq == 20
        await one.engine.close()
        assert (await two.snapshot(machine.id) or (0,))[0] == machine.run.seq

        await two.forget_snapshots()
        assert await opened(two, machine.id) == machine.run
        assert await opened(two, machine.id, upto=20) == half


async def test_a_long_run_without_a_snapshot_gets_one_when_it_is_first_taken_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "SNAPSHOT_EVERY", 10)
    async with shared() as store:
        one, two = Process(store.beside(), *["ok"] * 9), Process(store.beside(), "ok")
        machine = await one.start(CHAT)
        for n in range(5):
            await machine.settled()
            await machine.say(f"line {n}")
        await machine.settled()
        await one.engine.close()
        await store.forget_snapshots()

        again = await two.engine.resume(machine.id)
        await again.say("and on")
        await again.settled()
        await until(lambda: store.snapshot(machine.id))


async def test_a_long_conversation_is_read_when_it_is_needed_and_off_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_the_loop = 0
    look = conversation._seen

    def looking(messages: Sequence[Message], agent: str, side: Side) -> Iterator[Message]:
        nonlocal on_the_loop
        if threading.current_thread() is threading.main_thread():
            on_the_loop += len(messages)
        return look(messages, agent, side)

    monkeypatch.setattr(conversation, "_seen", looking)
    async with shared() as store:
        one, two = Process(store), Process(store.beside(), "ok", "ok")
        machine = await one.start(CHAT)
        await machine.settled()
        await one.engine.close()
        said = Log(Message(role="user", text=f"line {n}") for n in range(5_000))
        await keep(two.store, msgspec.structs.replace(machine.run, contexts={"talk": said}))

        again = await two.engine.resume(machine.id)
        assert again.run.contexts["talk"][-1].text == "line 4999"
        assert not is_read(again.run.contexts["talk"]), "nobody has asked for it"
        for _ in range(2):
            await again.say("and on")
            await again.settled()
        assert len(two.model.requests[-1].messages) == 5_003
        assert on_the_loop < 100


async def test_a_very_long_run_is_kept_anew_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SNAPSHOT_EVERY", 1)
    monkeypatch.setattr(local, "SNAPSHOT_SHARE", 1)
    seqs: list[int] = []

    class Noting(MemoryStore):
        async def keep_snapshot(
            self, run: str, seq: int, data: bytes, pages: Mapping[str, bytes] = NO_PAGES
        ) -> None:
            seqs.append(seq)
            await super().keep_snapshot(run, seq, data, pages)

    one = Process(Noting(), *["ok"] * 30)
    machine = await one.start(CHAT)
    for n in range(20):
        await machine.settled()
        await machine.say(f"line {n}")
    await machine.settled()
    await rounds()
    length = machine.run.seq
    await one.engine.close()

    assert length > 60
    assert len(seqs) <= 2 + length.bit_length()


async def test_a_snapshot_of_another_version_is_folded_anew() -> None:
    async with shared() as store:
        one, two = Process(store, asks("Which?")), store.beside()
        machine = await one.at_rest()
        await one.engine.close()
        for data in (b"", b"{}", b"\xff", b'{"id":"x"}', b"0000000000000000\n{}"):
            await two.keep_snapshot(machine.id, 2, data)
            assert await opened(two, machine.id) == machine.run


async def test_an_ended_run_is_kept_once_and_let_go_of() -> None:
    class Counting(MemoryStore):
        kept = 0

        async def keep_snapshot(
            self, run: str, seq: int, data: bytes, pages: Mapping[str, bytes] = NO_PAGES
        ) -> None:
            self.kept += 1
            await super().keep_snapshot(run, seq, data, pages)

    store = Counting()
    one = Process(store, "Done.")
    machine = await one.start()
    await machine.wait()

    await let_go(store, machine.id)
    await one.engine.close()
    assert store.kept == 1


# --- cancelled in the midst -----------------------------------------------------------------------


class Suspending(MemoryStore):
    """A store each of whose calls gives the loop a round before and after."""

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        await asyncio.sleep(0)
        await super().append(run, expected, facts)
        await asyncio.sleep(0)

    async def claim(self, run: str) -> Any:
        await asyncio.sleep(0)
        claim = await super().claim(run)
        await asyncio.sleep(0)
        return claim

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        await asyncio.sleep(0)
        return await super().read(run, after, upto)

    async def release(self, run: str, due_at: float | None = None) -> None:
        await asyncio.sleep(0)
        await super().release(run, due_at)


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do on the loop what a thread does of snapshots: a step is a step then, however fast threads are."""

    async def here(work: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        result = work()
        await asyncio.sleep(0)
        return result

    monkeypatch.setattr(open_run, "in_thread", here)


async def cancelled_at(doing: Any, step: int) -> bool:
    """Cancel a call at its n-th suspension; return whether it had ended before."""
    task = asyncio.ensure_future(doing)
    for _ in range(step):
        await asyncio.sleep(0)
    was_done: bool = task.done()
    task.cancel()
    await asyncio.wait((task,))
    assert was_done or task.cancelled(), "the cancellation came out, nothing else"
    if was_done:
        task.result()
    return was_done


@pytest.mark.usefixtures("on_the_loop")
async def test_a_start_cancelled_anywhere_leaves_nothing_running_that_nobody_has() -> None:
    for step in range(100):
        async with shared() as store:
            suspending = beside(store, Suspending)
            one = Process(suspending, asks("Which?"))
            was_done = await cancelled_at(one.start(), step)
            if not was_done:
                assert one.engine.machines() == ()
                assert not suspending._contents.leases
                for kept in await store.listing():
                    run = await opened(store, kept.id)
                    assert run.visit.state == "start", "it has begun, or it is not there"
        if was_done:
            assert step > 5
            return
    raise AssertionError("never done")


@pytest.mark.usefixtures("on_the_loop")
async def test_a_resume_cancelled_anywhere_leaves_the_run_to_be_resumed() -> None:
    for step in range(200):
        async with shared() as store:
            one = Process(store, asks("Which?"))
            machine = await one.at_rest()
            await one.engine.close()
            suspending = beside(store, Suspending)
            two = Process(suspending, "Done.")
            was_done = await cancelled_at(two.engine.resume(machine.id), step)
            if not was_done:
                assert two.engine.machines() == ()
                assert not suspending._contents.leases
            again = await two.engine.resume(machine.id)
            await again.say("src")
            assert (await again.wait()).output == "Done."
            assert await opened(suspending, machine.id) == again.run
        if was_done:
            assert step > 8
            return
    raise AssertionError("never done")


@pytest.mark.usefixtures("on_the_loop")
async def test_a_close_cancelled_anywhere_can_be_done_again() -> None:
    for step in range(100):
        async with shared() as store:
            gate = Gate()
            suspending = beside(store, Suspending)
            tools = FakeTools(FakeTool(name="shell", effect="once", gate=gate))
            one = Process(suspending, call("shell"), tools=tools)
            machine = await one.start()
            await gate.reached()
            was_done = await cancelled_at(one.engine.close(), step)
            await one.engine.close()
            assert machine.is_closed
            assert await opened(suspending.beside(), machine.id) == machine.run
            assert not suspending._contents.leases
        if was_done:
            return
    raise AssertionError("never done")


class Cut(MemoryStore):
    """A store that is cut off: its owner cannot say that it lives, and hears of nothing it does."""

    renewed = 0
    is_cut_off = is_restored = is_slow = False
    is_kept_unheard = False
    claims_fail = 0

    async def claim(self, run: str) -> Claim:
        if self.claims_fail:
            self.claims_fail -= 1
            raise WorldTrouble("No connection is left.")
        return await super().claim(run)

    async def renew(self) -> float:
        if self.is_cut_off:
            raise WorldTrouble("The network is gone.")
        if self.is_restored:
            self.is_restored = False
            raise JournalMoved("It was restored.")
        self.renewed += 1
        return 0.06

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        is_unheard = self.is_cut_off or self.is_slow
        if self.is_kept_unheard or not is_unheard:
            await super().append(run, expected, facts)
        if is_unheard:
            await asyncio.Event().wait()

    async def release(self, run: str, due_at: float | None = None) -> None:
        if self.is_cut_off:
            await asyncio.Event().wait()
        await super().release(run, due_at)


@asynccontextmanager
async def cut_off(*script: Line, tools: FakeTools | None = None) -> AsyncIterator[Process]:
    """Give a process whose store can be cut off."""
    async with shared() as store:
        cut = beside(store, Cut)
        process = Process(cut, *script, tools=tools)
        yield process


async def test_a_run_whose_store_is_away_stands_still_and_goes_on_with_it() -> None:
    gate = Gate()
    tools = FakeTools(FakeTool(name="look", gate=gate))
    async with cut_off(call("look"), "Done.", tools=tools) as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start()
        ended = asyncio.create_task(machine.wait())
        await gate.reached()
        await until(lambda: _is(cut.renewed > 3))
        assert await cut.owner_of(machine.id) == cut.me
        cut.is_cut_off = True
        journaled = len(await cut.read(machine.id))
        await until(lambda: _is(machine.is_away))

        # Nothing more is written: the store may be one that answers only when the network is back.
        assert len(await cut.read(machine.id)) == journaled
        with pytest.raises(JournalFull, match=r"not reached in time\. The network is gone"):
            await machine.say("words")
        assert not machine.is_closed
        cut.is_cut_off = False
        gate.open()

        assert (await ended).output == "Done."
        assert len(process.told.of(JournalStalled)) == len(process.told.of(JournalWorks)) == 1
        assert process.told.of(RunRecovered) == [RunRecovered(was_cut=True)]
        assert len(tools.calls) == 2
        told = [envelope.seq for envelope in process.told.events if envelope.seq is not None]
        assert told == [*range(1, machine.run.seq + 1)]


async def test_a_run_goes_on_where_its_owner_was_heard_again_before_anything_else_was() -> None:
    gate = Gate()
    async with cut_off(says("Once ", "upon", gate=gate), "Done.") as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start()
        await gate.reached()
        cut.is_cut_off, cut.claims_fail = True, 2
        await until(lambda: _is(machine.is_away))
        cut.is_cut_off = False

        assert (await machine.wait()).output == "Done."
        assert cut.claims_fail == 0


class Far(MemoryStore):
    """A store whose owner hears a moment later that it was heard."""

    renewed = 0

    async def renew(self) -> float:
        await rounds()
        self.renewed += 1
        return 60.0


async def test_a_run_goes_on_where_its_machine_stood_still_for_less_than_its_owner_lives() -> None:
    async with shared() as store:
        gate, far = Gate(), beside(store, Far)
        process = Process(far, says("Done.", gate=gate))
        machine = await process.start()
        await gate.reached()
        await until(lambda: _is(far.renewed == 1))
        await rounds()
        jump(45.0)
        await until(lambda: _is(far.renewed >= 2))
        await rounds()
        gate.open()

        assert (await machine.wait()).output == "Done."
        assert process.told.of(JournalStalled) == []
        assert len(process.model.requests) == 1


async def test_what_was_shown_of_a_reply_before_its_store_was_away_is_kept_whole() -> None:
    gate = Gate()
    async with cut_off(says("Once ", "upon", gate=gate), "a time.") as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start()
        await gate.reached()
        cut.is_cut_off = True
        await until(lambda: _is(machine.is_away))
        seen = process.told.shown()
        cut.is_cut_off = False
        await machine.wait()

        assert seen.startswith("Once ")
        assert [shown.text for shown in process.told.of(ReplyShown)] == [seen]
        assert [reply.partial for reply in process.told.of(ReplyCut)] == [seen]


async def _is(holds: bool) -> bool:
    return holds


async def stands_still(machine: WorkflowStateMachine, cut: Cut) -> None:
    """Cut a store off that has been slow, and return once the run stands still."""
    cut.is_cut_off, cut.is_slow = True, False
    await until(lambda: _is(machine.is_away))


@pytest.mark.parametrize("is_kept", [True, False])
async def test_words_whose_append_nobody_answered_are_in_the_run_once(is_kept: bool) -> None:
    async with cut_off("Hello.") as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start(CHAT)
        await machine.settled()
        cut.is_cut_off, cut.is_kept_unheard = True, is_kept
        said = asyncio.create_task(machine.say("hello", id="line"))
        await until(lambda: _is(machine.is_away))
        assert not said.done()
        cut.is_cut_off = False

        assert (await said).handling != "reject"
        assert [fact.input_id for fact in process.told.of(InputReceived)] == ["line"]
        await machine.settled()
        assert len(process.model.requests) == 1


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_reply_that_was_there_before_its_store_was_away_is_not_asked_for_again(
    is_kept: bool,
) -> None:
    gate = Gate()
    async with cut_off(says("Done.", gate=gate)) as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start()
        await gate.reached()
        cut.is_slow, cut.is_kept_unheard = True, is_kept
        gate.open()
        await until(lambda: _is(machine._is_taking))
        await stands_still(machine, cut)
        assert not machine.run.is_over
        cut.is_cut_off = False

        assert (await machine.wait()).output == "Done."
        assert len(process.model.requests) == 1
        assert [fact.text for fact in process.told.of(AgentResponded)] == ["Done."]
        assert process.told.of(RunTaken) == []
        await let_go(cut, machine.id)


@pytest.mark.parametrize("is_kept", [True, False])
async def test_what_came_while_words_were_being_journaled_is_kept_as_they_are(
    is_kept: bool,
) -> None:
    gate = Gate()
    tools = FakeTools(FakeTool(name="look"), FakeTool(name="shell", effect="once", gate=gate))
    async with cut_off(call("shell"), "Soon.", "Done.", tools=tools) as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start()
        await gate.reached()
        cut.is_slow, cut.is_kept_unheard = True, is_kept
        said = asyncio.create_task(machine.say("hurry", policy="queue"))
        await until(lambda: _is(machine._is_taking))
        gate.open()
        await until(lambda: _is(bool(machine._inputs)))
        await stands_still(machine, cut)
        cut.is_cut_off = False

        await said
        assert (await machine.wait()).output == "Done."
        assert len(tools.calls) == 1
        assert [ended.outcome for ended in process.told.of(ToolReturned)] == ["completed"]
        assert len(process.told.of(InputReceived)) == 1


async def test_what_another_process_went_on_with_meanwhile_is_forgotten_here() -> None:
    gate, again = Gate(), Gate()
    async with cut_off(says("Mine.", gate=gate), "Asked again.") as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.start()
        await gate.reached()
        cut.is_slow = True
        gate.open()
        await until(lambda: _is(machine._is_taking))
        await stands_still(machine, cut)
        other = Process(cut.beside(), says("Its.", gate=again))
        cut._contents.owners.pop(cut.me)
        theirs = await other.engine.resume(machine.id)
        await again.reached()
        await other.engine.close()
        cut._contents.owners[cut.me] = cut
        cut.is_cut_off = False

        assert theirs.run.output is None
        assert (await machine.wait()).output == "Asked again."


async def test_a_run_that_another_process_took_meanwhile_is_its() -> None:
    async with cut_off(asks("Which?")) as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.at_rest()
        cut.is_cut_off = True
        await until(lambda: _is(machine.is_away))
        other = Process(cut.beside(), "Done.")
        cut._contents.owners.pop(cut.me)
        await other.engine.resume(machine.id)
        cut._contents.owners[cut.me] = cut
        cut.is_cut_off = False

        await machine.wait()
        assert process.told.of(RunTaken) == [RunTaken()]
        receipt = await machine.say("words")
        assert receipt.reason == "another process goes on with the run"
        assert await cut.owner_of(machine.id) == other.store.me
        await other.engine.close()


async def test_a_process_that_ends_while_its_store_is_away_gives_the_run_back() -> None:
    async with shared() as store:
        cut = beside(store, Cut)
        process = Process(cut, asks("Which?"))
        machine = await process.at_rest()
        cut.is_cut_off = True
        await until(lambda: _is(machine.is_away))
        waits = asyncio.create_task(machine.wait())
        await process.engine.close()

        assert machine.is_closed
        assert not (await waits).is_over


@pytest.mark.parametrize("was_away", [False, True])
async def test_runs_of_a_journal_that_was_restored_are_let_go_of(was_away: bool) -> None:
    async with cut_off(asks("Which?")) as process:
        cut = process.store
        assert isinstance(cut, Cut)
        machine = await process.at_rest()
        if was_away:
            cut.is_cut_off = True
            await until(lambda: _is(machine.is_away))
        cut.is_restored, cut.is_cut_off = True, False

        async def is_let_go() -> bool:
            return machine.is_closed and await cut.owner_of(machine.id) == ""

        await until(is_let_go)
        assert not machine.run.is_over
        assert process.told.of(RunTaken) == [RunTaken()]
        renewed = cut.renewed
        await until(lambda: _is(cut.renewed > renewed + 2))
        assert not (await process.engine.resume(machine.id)).is_closed


async def test_who_leaves_just_as_the_store_goes_away_is_not_held_up_for_long() -> None:
    async with shared() as store:
        cut = beside(store, Cut)
        process = Process(cut, asks("Which?"))
        machine = await process.at_rest()
        cut.is_cut_off = True
        await process.engine.close()

        assert machine.is_closed
        assert not machine.run.is_over
        assert not process.told.of(RunTaken)


class SlowToLetGo(MemoryStore):
    """A store that lets go of a run once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def release(self, run: str, due_at: float | None = None) -> None:
        self.has_begun.set()
        await self.may_end.wait()
        await super().release(run, due_at)


async def test_what_is_claimed_again_while_others_are_given_back_stays_claimed() -> None:
    store = SlowToLetGo()
    owner = Owner(store)
    for run in ("one", "two"):
        await owner.claim(run)
        owner._unreleased[run] = 0.0
    owner.begin()
    await store.has_begun.wait()
    await owner.claim("two")
    store.may_end.set()

    assert owner._renewals is not None
    await owner._renewals
    assert [await store.owner_of(run) for run in ("one", "two")] == ["", store.me]
    await owner.close()
