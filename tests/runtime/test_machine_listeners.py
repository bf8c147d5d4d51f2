"""Listeners and events(): everyone hears everything, and no one can harm the run."""

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator

import pytest
from deadline import DEADLINE_S, jump, until
from machine_kit import PLAIN, RESUMING, at_rest, rounds, running, scene

from midstream.core.events import AnyFact
from midstream.core.notices import AgentThinking, Envelope, ListenerFailed, TextDelta
from midstream.runtime import emitter
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.testing.fakes import FakeJournal, Gate, ScriptedModel, asks, says


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let listeners hear the rest however slow the machine is; who hangs is left behind for it below."""
    monkeypatch.setattr(emitter, "DRAIN_S", DEADLINE_S)


def facts_of(events: list[Envelope]) -> list[Envelope]:
    return [event for event in events if isinstance(event.event, AnyFact)]


async def test_plain_and_async_listeners_hear_every_event_in_order() -> None:
    plain: list[Envelope] = []
    awaited: list[Envelope] = []

    async def listen(envelope: Envelope) -> None:
        await asyncio.sleep(0)
        awaited.append(envelope)

    async with scene(PLAIN, says("a", "b", "c")) as here:
        here.machine.on("*", plain.append)
        here.machine.on("*", listen)
        await here.machine.start()
        await here.machine.wait()

        assert plain == awaited == here.told.events
        assert len(plain) > 5


async def test_a_listener_hears_the_events_it_asked_for() -> None:
    heard: list[Envelope] = []
    async with scene(PLAIN, "Done.") as here:
        here.machine.on("state_transition", heard.append)
        await here.machine.start()
        await here.machine.wait()

        assert [event.type for event in heard] == ["state_transition"] * 2


async def test_listeners_of_every_make_are_called() -> None:
    heard: list[str] = []

    async def listen(name: str, envelope: Envelope) -> None:
        await asyncio.sleep(0)
        heard.append(name)

    class Caller:
        async def __call__(self, envelope: Envelope) -> None:
            heard.append("object")

    async with scene(PLAIN, "Done.") as here:
        here.machine.on("run_finished", functools.partial(listen, "partial"))
        here.machine.on("run_finished", lambda envelope: listen("lambda", envelope))
        here.machine.on("run_finished", Caller())
        await here.machine.start()
        await here.machine.wait()

        assert sorted(heard) == ["lambda", "object", "partial"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()])
async def test_a_listener_that_raises_is_named_and_goes_on_hearing(error: BaseException) -> None:
    heard: list[str] = []

    def plain(envelope: Envelope) -> None:
        heard.append("plain")
        raise error

    async def awaited(envelope: Envelope) -> None:
        heard.append("awaited")
        raise error

    async with scene(PLAIN, "Done.") as here:
        here.machine.on("state_transition", plain)
        here.machine.on("state_transition", awaited)
        await here.machine.start()
        run = await here.machine.wait()

        assert run.status == "finished"
        assert sorted(heard) == ["awaited", "awaited", "plain", "plain"]
        failed = here.told.of(ListenerFailed)
        assert len(failed) == 4
        assert all(type(error).__name__ in notice.error for notice in failed)
        assert {notice.listener.rpartition(".")[2] for notice in failed} == {"plain", "awaited"}


async def test_a_listener_hears_the_rest_although_the_machine_stood_still_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emitter, "DRAIN_S", DEADLINE_S / 3)
    heard: list[str] = []
    is_last, may_go_on = asyncio.Event(), asyncio.Event()

    async def listen(envelope: Envelope) -> None:
        is_last.set()
        await may_go_on.wait()
        heard.append(envelope.type)

    async with scene(PLAIN, "Done.") as here:
        here.machine.on("run_finished", listen)
        await here.machine.start()
        ending = asyncio.create_task(here.machine.wait())
        await is_last.wait()
        await rounds()
        jump(DEADLINE_S / 3)
        await rounds()
        may_go_on.set()
        await ending

        assert heard == ["run_finished"]
        assert here.told.of(ListenerFailed) == []


async def test_listeners_that_hang_are_left_behind_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emitter, "DRAIN_S", 0.1)
    release, hanging = threading.Event(), set[str]()

    def plain(envelope: Envelope) -> None:
        hanging.add("plain")
        release.wait()

    async def awaited(envelope: Envelope) -> None:
        hanging.add("awaited")
        await asyncio.Event().wait()

    async def deaf(envelope: Envelope) -> None:
        while not release.is_set():
            hanging.add("deaf")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                release.set()

    async def endless() -> None:
        hanging.add("late")
        await asyncio.Event().wait()

    def late(envelope: Envelope) -> object:
        return endless()

    async def all_hang() -> bool:
        return hanging == {"plain", "awaited", "deaf", "late"}

    try:
        async with scene(PLAIN, asks("Which?"), "Done.") as here:
            for listener in (plain, awaited, deaf, late):
                here.machine.on("*", listener)  # type: ignore[arg-type]
            await here.machine.start()
            await here.machine.settled()
            await until(all_hang)
            await here.machine.say("src", question=here.question())
            run = await here.machine.wait()

            assert run.status == "finished"
            named = {n.listener.rpartition(".")[2] for n in here.told.of(ListenerFailed)}
            assert named == hanging
    finally:
        release.set()


async def test_a_hanging_listener_holds_up_no_other_and_not_the_run() -> None:
    release, heard = threading.Event(), list[str]()

    def hang(envelope: Envelope) -> None:
        release.wait()

    async def all_is_heard() -> bool:
        return heard[-1:] == ["run_finished"]

    async with scene(PLAIN, asks("Which?"), "Done.") as here:
        here.machine.on("*", hang)
        here.machine.on("*", lambda envelope: heard.append(envelope.type))
        await here.machine.start()
        await here.machine.settled()
        await here.machine.say("src", question=here.question())
        await until(all_is_heard)
        assert here.run.status == "finished"
        release.set()
        await here.machine.wait()


async def test_a_tap_that_raises_is_named_and_harms_nothing() -> None:
    async with scene(PLAIN, says("a", "b")) as here:
        tell = here.told.__call__

        def broken(envelope: Envelope) -> None:
            tell(envelope)
            raise ValueError("no")

        here.machine._events.tap = broken
        await here.machine.start()
        run = await here.machine.wait()

        assert (run.status, run.output) == ("finished", "ab")
        assert {n.error for n in here.told.of(ListenerFailed)} == {"ValueError: no"}


async def test_listening_needs_no_loop_and_a_run_that_never_begins_leaves_nothing() -> None:
    heard: list[Envelope] = []

    async def listen(envelope: Envelope) -> None:
        heard.append(envelope)

    async with scene(PLAIN) as here:
        threads = {*threading.enumerate()}
        here.machine.on("*", listen)
        here.machine.on("*", heard.append)

        assert {*threading.enumerate()} <= threads  # one of a test before may end just now
        assert len(asyncio.all_tasks()) == 1


async def test_a_listener_that_comes_after_the_end_hears_nothing() -> None:
    heard: list[Envelope] = []
    async with running(PLAIN, "Done.") as here:
        await here.machine.wait()
        here.machine.on("*", heard.append)
        await rounds()

        assert heard == []


async def test_a_slow_listener_loses_notices_but_no_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "QUEUE_LIMIT", 20)
    gate, heard = Gate(), list[Envelope]()

    async def slow(envelope: Envelope) -> None:
        await gate.passed()
        heard.append(envelope)

    async with scene(PLAIN, says(*"abcdefghijklmnopqrstuvwxyz" * 4)) as here:
        here.machine.on("*", slow)
        await here.machine.start()
        await here.told.until("run_finished")
        gate.open()
        await here.machine.wait()

        assert facts_of(heard) == facts_of(here.told.events)
        assert len(heard) < len(here.told.events)


# --- events() -------------------------------------------------------------------------------------


async def collected(events: AsyncIterator[Envelope]) -> list[Envelope]:
    return [event async for event in events]


async def test_events_yield_every_event_and_end_with_the_run() -> None:
    async with scene(PLAIN, says("a", "b")) as here:
        reading = [asyncio.ensure_future(collected(here.machine.events())) for _ in range(2)]
        await rounds(2)
        await here.machine.start()
        await here.machine.wait()

        assert await reading[0] == here.told.events
        assert await reading[1] == here.told.events


async def test_events_begun_late_yield_every_fact_first() -> None:
    async with at_rest(PLAIN, asks("Which?"), says("a", "b")) as here:
        reading = asyncio.ensure_future(collected(here.machine.events()))
        await rounds(2)
        await here.machine.say("src", question=here.question())
        await here.machine.wait()

        assert facts_of(await reading) == facts_of(here.told.events)


async def test_events_begun_in_mid_reply_yield_all_that_was_shown_of_it_first() -> None:
    gate = Gate()
    async with running(PLAIN, says("a ", "b ", "c", gate=gate, after=2)) as here:
        await gate.reached()
        reading = asyncio.ensure_future(collected(here.machine.events()))
        await rounds(2)
        gate.open()
        await here.machine.wait()

        pieces = [each.event.text for each in await reading if isinstance(each.event, TextDelta)]
        assert pieces == ["a b ", "c"]


async def test_events_begun_after_the_end_yield_every_fact() -> None:
    async with running(PLAIN, "Done.") as here:
        await here.machine.wait()

        assert await collected(here.machine.events()) == facts_of(here.told.events)
        assert await collected(here.machine.events()) == facts_of(here.told.events)


async def test_events_left_early_are_forgotten() -> None:
    async with running(PLAIN, asks("Which?"), "Done.") as here:
        events = here.machine.events()
        first = await anext(events)
        await events.aclose()

        assert first.type == "run_started"
        await here.machine.settled()
        await here.machine.say("src", question=here.question())
        assert (await here.machine.wait()).status == "finished"


async def test_events_read_slowly_have_no_gap_and_nothing_twice() -> None:
    journal = FakeJournal()
    async with running(RESUMING, asks("Which?"), "Done.", journal=journal) as here:
        seen = list[Envelope]()
        async for event in here.machine.events():
            seen.append(event)
            if event.type == "question_asked":
                await here.machine.say("src", question=here.question())
            await rounds(3)

        assert [event.seq for event in facts_of(seen)] == list(range(1, here.run.seq + 1))


async def test_events_of_a_run_whose_journal_failed_end() -> None:
    journal = FakeJournal()
    async with at_rest(PLAIN, asks("Which?"), journal=journal, is_journaled=False) as here:
        reading = asyncio.ensure_future(collected(here.machine.events()))
        await rounds(2)
        journal.trouble = OSError(28, "No space left on device")
        await here.machine.say("src", question=here.question())

        assert (await reading)[-1].type == "run_failed"
        assert (await collected(here.machine.events()))[-1].type == "question_asked"


async def test_a_loop_that_is_kept_busy_by_a_listener_still_takes_words() -> None:
    async with scene(RESUMING, asks("Which?"), "Noted.", "Done.") as here:
        here.machine.on("*", lambda envelope: time.sleep(0.005))
        await here.machine.start()
        await here.machine.settled()
        await here.machine.say("never mind", unasked=True)

        assert (await here.machine.wait()).halt.resume_input == "never mind"


class SlowToRead(FakeJournal):
    """A journal whose readers wait at a gate, and then get what has come meanwhile too."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = Gate()

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        await self.reading.passed()
        return await super().read(run, after, upto)


async def test_facts_told_while_the_journal_is_read_come_once() -> None:
    journal = SlowToRead()
    async with running(PLAIN, asks("Which?"), "Done.", journal=journal) as here:
        reading = asyncio.ensure_future(collected(here.machine.events()))
        await journal.reading.reached()
        await here.machine.settled()
        await here.machine.say("src", question=here.question())
        await here.machine.wait()
        journal.reading.open()

        assert facts_of(await reading) == facts_of(here.told.events)


async def test_what_a_request_is_doing_is_told_with_its_agent_and_state() -> None:
    async def patient(
        self: ScriptedModel, request: ModelRequest, hear: ReplyListener
    ) -> ModelReply:
        hear.status("trying again in 1 s")
        hear.calling("")
        hear.calling("write\n_file" + "e" * 200)
        return ModelReply(text="Done.")

    async with scene(PLAIN) as here:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ScriptedModel, "request", patient)
            await here.machine.start()
            await here.machine.wait()

        notices = [e.event for e in here.told.events if isinstance(e.event, AgentThinking)]
        long = notices[-1].calling
        assert (long[:11], len(long)) == ("write _file", 100)
        assert notices == [
            AgentThinking(agent="dude", state="start"),
            AgentThinking(agent="dude", state="start", status="trying again in 1 s"),
            AgentThinking(agent="dude", state="start", calling=long),
        ]
