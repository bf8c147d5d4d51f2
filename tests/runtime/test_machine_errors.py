"""When adapters misbehave, the disk fails or the program ends: the run says so, nothing is left."""

import asyncio
import os

import msgspec
import pytest
from machine_kit import (
    LET_GO,
    PLAIN,
    RESUMING,
    START,
    at_rest,
    begin,
    check_request,
    end,
    flow,
    replayed,
    rounds,
    running,
    scene,
)

from midstream.core import events as e
from midstream.core.decide import decide
from midstream.core.decide.decide import MAX_BREAKS
from midstream.core.inputs import RequestedCall
from midstream.core.notices import Notice, RunTaken
from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import (
    ModelReply,
    ModelRequest,
    ReplyListener,
    Review,
    ToolContext,
    ToolOutcome,
)
from midstream.testing.fakes import FakeJournal, FakeTool, Gate, Line, Scripted, asks, call, says


class OddModel:
    """A model that does to every request what it is told to."""

    def __init__(self, does: BaseException | object) -> None:
        self._does = does

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Allow everything: these are not reviewed."""
        return Review()

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        if isinstance(self._does, BaseException):
            raise self._does
        return self._does  # type: ignore[return-value]


class OddTools:
    """Tools that do the same to every call."""

    def __init__(self, does: BaseException | object) -> None:
        self._does = does

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        if isinstance(self._does, BaseException):
            raise self._does
        return self._does  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (KeyError("choices"), "KeyError: 'choices'"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("slow"), "TimeoutError: slow"),
        (SystemExit(1), "SystemExit: 1"),
        (BaseException("skipped"), "BaseException: skipped"),
        (None, "AttributeError"),
        (WorldTrouble("The line is dead."), "The line is dead."),
    ],
)
async def test_a_model_that_misbehaves_fails_the_turn(does: object, words: str) -> None:
    async with scene(PLAIN) as here:
        world = msgspec.structs.replace(here.machine._world, model=OddModel(does))
        here.machine._world = world
        await here.machine.start()
        run = await here.machine.wait()

        assert run.status == "failed"
        assert words in run.error


@pytest.mark.parametrize(
    "does", [KeyError("x"), asyncio.CancelledError(), SystemExit(1), None, "not an outcome"]
)
async def test_tools_that_misbehave_fail_their_call(does: object) -> None:
    look = FakeTool(name="look")
    async with scene(PLAIN, call("look"), "Done.", tools=[look]) as here:
        here.machine._world = msgspec.structs.replace(here.machine._world, tools=OddTools(does))
        await here.machine.start()
        run = await here.machine.wait()

        assert run.output == "Done."
        assert here.told.of(e.ToolReturned)[0].outcome == "failed"


async def test_a_model_that_cancels_its_own_task_fails_the_turn() -> None:
    class Cancelling(OddModel):
        async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
            own = asyncio.current_task()
            assert own is not None
            own.cancel()
            await asyncio.sleep(0)
            return ModelReply(text="Done.")

    async with scene(PLAIN) as here:
        world = msgspec.structs.replace(here.machine._world, model=Cancelling(None))
        here.machine._world = world
        await here.machine.start()
        run = await here.machine.wait()

        assert run.error == "The model request failed: CancelledError: no message"
        (failed,) = here.told.of(e.RunFailed)
        assert failed.hint == "Nobody had stopped it: only tasks of its own may be cancelled."


async def test_a_tool_cannot_change_what_is_known_of_its_call() -> None:
    def meddle(arguments: dict[str, Json]) -> str:
        arguments["deep"].append("changed")
        return "ok"

    async with running(
        PLAIN, call("look", deep=[]), "Done.", tools=[FakeTool(name="look", answer=meddle)]
    ) as here:
        await here.machine.wait()
        # The scene compares the run with its journal.
        assert here.model.requests[1].messages[-1].calls[0].arguments == {"deep": []}


async def test_words_no_store_can_keep_are_made_readable() -> None:
    look = FakeTool(name="look", answer="a\0b\ud800")
    async with running(PLAIN, call("look"), says("half \udfff", " pair"), tools=[look]) as here:
        run = await here.machine.wait()

        assert run.output == "half \ufffd pair"
        assert here.told.shown() == "half \ufffd pair"
        assert here.told.of(e.ToolReturned)[0].result == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    "trouble", [WorldTrouble("The disk is full.", hint="Make room."), OSError(28, os.strerror(28))]
)
async def test_a_journal_that_fails_ends_the_run_visibly(trouble: Exception) -> None:
    journal = FakeJournal()
    async with at_rest(RESUMING, asks("Which?"), journal=journal, is_journaled=False) as here:
        kept = await journal.read(here.machine.id)
        journal.trouble = trouble
        receipt = await here.machine.say("src", question=here.question())
        run = await here.machine.wait()

        assert run.status == "failed"
        assert receipt.handling == "reject"
        assert receipt.reason == f"the run has failed: {run.error}"
        (failed,) = here.told.of(e.RunFailed)
        assert failed.error in ("The disk is full.", f"The journal failed: {trouble}")
        assert (failed.fault, bool(failed.hint)) == ("world", True)
        assert await journal.read(here.machine.id) == kept
        assert run.inbox.open_questions == ()


async def test_a_journal_that_fails_at_the_start_fails_the_run() -> None:
    journal = FakeJournal()
    journal.trouble = WorldTrouble("The disk is full.")
    async with running(PLAIN, journal=journal, is_journaled=False) as here:
        run = await here.machine.wait()

        assert (run.status, run.error) == ("failed", "The disk is full.")
        assert (await here.machine.say("hello")).reason == "the run has failed: The disk is full."


async def test_everyone_who_speaks_while_the_journal_fails_is_told() -> None:
    journal, disk = FakeJournal(), Gate()
    async with at_rest(RESUMING, asks("Which?"), journal=journal, is_journaled=False) as here:
        journal.gate = disk
        speaking = [asyncio.ensure_future(here.machine.say(f"line {n}")) for n in range(5)]
        await disk.reached()
        journal.trouble = WorldTrouble("The disk is full.")
        disk.open()

        receipts = await asyncio.gather(*speaking)
        assert {receipt.handling for receipt in receipts} == {"reject"}


async def test_a_fault_of_ours_ends_the_run_with_every_line_accounted_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    gate = Gate()
    async with running(RESUMING, says("…", gate=gate)) as here:
        await gate.reached()
        await here.machine.say("later", policy="queue")
        monkeypatch.setattr(decide, "run_to_completion", broken)
        gate.open()
        run = await here.machine.wait()

        assert (run.status, run.error) == ("failed", "ZeroDivisionError: division by zero")
        assert [fact.disposition for fact in here.told.of(e.InputDisposed)] == ["rejected"]
        assert "report it" in here.told.of(e.RunFailed)[0].hint


async def test_another_writer_ends_the_run_here() -> None:
    journal = FakeJournal()
    async with at_rest(PLAIN, asks("Which?"), journal=journal, is_journaled=False) as here:
        facts = await journal.read(here.machine.id)
        await journal.append(here.machine.id, len(facts), facts[:1])
        await here.machine.say("src", question=here.question())
        run = await here.machine.wait()

        assert run.status == "running", "it goes on there"
        assert here.machine.is_closed
        assert here.told.of(RunTaken)
        assert not here.told.of(e.RunFailed)
        assert len(await journal.read(here.machine.id)) == len(facts) + 1


# --- the program ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["model", "tool", "once", "handler", "question"])
async def test_cancelling_the_machines_task_leaves_nothing_behind(at: str) -> None:
    gate = Gate()
    tools = [
        FakeTool(name="look", gate=gate),
        FakeTool(name="shell", effect="once", gate=gate, when_stopped=None),
    ]

    async def pre(run: HandlerRun) -> None:
        await gate.passed()

    lines: dict[str, Line] = {
        "model": says("one ", gate=gate),
        "tool": call("look"),
        "once": call("shell"),
        "handler": "never asked",
        "question": asks("Which?"),
    }
    states = {**START, "pre_handler": "pre"} if at == "handler" else START
    before = asyncio.all_tasks()
    async with running(
        flow(states), lines[at], tools=tools, handlers={"pre": pre}, is_journaled=False
    ) as here:
        if at == "question":
            await here.machine.settled()
        else:
            await gate.reached()
        waiting = asyncio.ensure_future(here.machine.wait())
        settling = asyncio.ensure_future(here.machine.settled())
        reading = asyncio.ensure_future(anext(here.machine.events()))
        await rounds()
        assert here.machine._task is not None
        here.machine._task.cancel()
        run = await waiting
        await settling
        await reading

        assert asyncio.all_tasks() == before
        assert not run.is_over
        told = await here.journal.read(here.machine.id)
        assert replayed(here.machine.id, told) == run
        receipt = await here.machine.say("anybody there?")
        assert (receipt.handling, receipt.reason) == ("reject", LET_GO)
        await here.machine.halt()


def test_a_loop_that_shuts_down_in_the_middle_leaves_nothing_behind() -> None:
    async def main() -> None:
        gate = Gate()
        async with scene(RESUMING, says("one ", gate=gate), is_journaled=False) as here:
            here.machine.on("*", lambda envelope: None)
            await here.machine.start()
            await gate.reached()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


async def test_words_in_the_very_moment_of_the_end_are_answered() -> None:
    journal, disk, gate = FakeJournal(), Gate(), Gate()
    async with running(PLAIN, says("Done.", gate=gate), journal=journal) as here:
        await gate.reached()
        journal.gate = disk
        gate.open()
        await disk.reached()
        speaking = [asyncio.ensure_future(here.machine.say(f"line {n}")) for n in range(3)]
        await rounds()
        disk.open()

        receipts = await asyncio.gather(*speaking)
        assert [receipt.reason for receipt in receipts] == ["the run has ended"] * 3


async def test_a_thousand_calls_of_a_tool_end_the_turn() -> None:
    async with running(PLAIN, lambda request: call("look"), tools=[FakeTool(name="look")]) as here:
        run = await here.machine.wait()

        assert run.status == "failed"
        assert "100 model requests in one turn" in run.error


async def test_calls_that_cannot_be_made_are_explained_to_the_model() -> None:
    broken = Scripted(
        calls=(
            RequestedCall(name="loo", arguments={}),
            RequestedCall(name="look", arguments={}, problem="path is missing"),
        )
    )
    async with running(PLAIN, broken, "Done.", tools=[FakeTool(name="look")]) as here:
        await here.machine.wait()

        results = [result.text for result in here.model.requests[1].messages[-1].results]
        assert "There is no tool 'loo'" in results[0]
        assert results[1] == "path is missing"
        assert here.tools.calls == []
        check_request(here.model.requests[1])


async def test_notices_stop_with_the_run() -> None:
    gate = Gate()
    stubborn = msgspec.structs.replace(says("one ", "two", gate=gate, after=1), stubborn=True)
    async with running(PLAIN, stubborn) as here:
        await gate.reached()
        await here.machine.stop()
        count = sum(isinstance(told.event, Notice) for told in here.told.events)
        await rounds()

        assert sum(isinstance(told.event, Notice) for told in here.told.events) == count


# --- a reply that breaks off in the middle ----------------------------------------------------------

BROKEN = WorldTrouble("The reply was cut off: a line of it is no JSON.")


async def test_a_reply_that_broke_off_is_asked_on_with_what_was_shown_of_it() -> None:
    broken = Scripted(pieces=("one ", "two "), error=BROKEN)
    async with running(PLAIN, broken, "three.", input="tidy") as here:
        run = await end(here)
        assert (run.status, run.output) == ("finished", "three.")
        cuts = [(fact.partial, fact.reason) for fact in here.told.of(e.ReplyCut)]
        assert cuts == [("one two ", BROKEN.what)]
        shown = here.model.requests[1].messages[-2]
        assert (shown.text, shown.interrupted) == ("one two ", True)


async def test_a_call_that_broke_off_is_never_made_and_the_model_told_so() -> None:
    broken = Scripted(calls=(call("look"),), error=BROKEN)
    async with running(PLAIN, broken, "Done.", tools=[FakeTool(name="look")], input="tidy") as here:
        assert (await end(here)).output == "Done."
        assert here.tools.calls == []
        assert [fact.calling for fact in here.told.of(e.ReplyCut)] == ["look"]
        shown = here.model.requests[1].messages[-2]
        assert (shown.text, shown.interrupted, shown.calling) == ("", True, "look")


async def test_a_model_whose_replies_break_off_again_and_again_fails_in_the_end() -> None:
    broken = Scripted(pieces=("one ",), error=BROKEN)
    async with running(PLAIN, *[broken] * (MAX_BREAKS + 1), input="tidy") as here:
        run = await end(here)
        assert (run.status, run.error) == ("failed", BROKEN.what)
        assert len(here.model.requests) == MAX_BREAKS + 1


async def test_what_broke_before_anything_was_there_is_not_asked_on() -> None:
    async with running(PLAIN, Scripted(error=BROKEN), input="tidy") as here:
        assert (await end(here)).status == "failed"
        assert len(here.model.requests) == 1


async def test_in_a_chat_the_person_says_how_it_goes_on() -> None:
    broken = Scripted(pieces=("one ",), error=BROKEN)
    async with scene(PLAIN, broken) as here:
        here.machine._definition = msgspec.structs.replace(here.machine._definition, kind="chat")
        await begin(here)
        await end(here)
        assert [fact.partial for fact in here.told.of(e.AgentFailed)] == ["one "]
        assert len(here.model.requests) == 1
