"""A process lets go of a run, another goes on; there is no room to write; another one took the run."""

import asyncio
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from machine_kit import (
    DEADLINE_S,
    LET_GO,
    PLAIN,
    RESUMING,
    START,
    Scene,
    all_of,
    at_rest,
    check_request,
    end,
    flow,
    replayed,
    rounds,
    running,
    scene,
)

from midstream.core import events as e
from midstream.core.conversation import GO_ON
from midstream.core.notices import JournalStalled, JournalWorks, RunTaken
from midstream.core.run import Run
from midstream.language.errors import JournalFull, JournalMoved, UserMistake, WorldTrouble
from midstream.language.names import Effect, Json
from midstream.language.spec import Definition
from midstream.runtime import effects
from midstream.runtime.effects import CHECKPOINT_S
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Review, ToolContext, ToolOutcome
from midstream.runtime.state_machine import STALL_RETRY_S, WorkflowStateMachine
from midstream.testing.fakes import (
    Chronicle,
    FakeBlobStore,
    FakeJournal,
    FakeTool,
    FakeTools,
    Gate,
    Scripted,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
    says,
)

FULL = JournalFull("There is no room on the disk.", hint="Make room.")


async def left(here: Scene) -> Run:
    """Leave the run, and return it as the journal has it: the same."""
    run = await here.machine.leave()
    assert here.machine.is_closed
    assert replayed(here.machine.id, await here.journal.read(here.machine.id)) == run
    return run


async def taken_up(
    here: Scene,
    *script: Any,
    tools: FakeTools | None = None,
    was_cut: bool = False,
    handlers: dict[str, Any] | None = None,
    definition: Definition | None = None,
) -> tuple[WorkflowStateMachine, Chronicle, ScriptedModel]:
    """Return a machine of another process that goes on with the scene's run."""
    told, model = Chronicle(), ScriptedModel(*script)
    world = msgspec.structs.replace(here.machine._world, model=model, tools=tools or here.tools)
    run = replayed(here.machine.id, await here.journal.read(here.machine.id))
    assert run.definition is not None
    machine = WorkflowStateMachine(
        run.definition, world, handlers=ScriptHandlers(handlers or {}), id=run.id, tap=told
    )
    await machine.resume(run, was_cut=was_cut, definition=definition)
    return machine, told, model


async def died(machine: WorkflowStateMachine) -> None:
    """End the machine as the end of its process would: nothing more is journaled."""
    assert machine._task is not None
    machine._task.cancel()
    await asyncio.wait((machine._task,))


# --- leaving, in each kind of flight --------------------------------------------------------------


async def test_a_streaming_reply_is_cut_off_and_what_was_shown_of_it_is_kept() -> None:
    gate = Gate()
    async with running(
        PLAIN, says("one ", "two", gate=gate, after=1), is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        run = await left(here)

        assert (run.visit.phase, run.status) == ("turn", "running")
        assert here.model.asked[0].ended == "cancelled"
        assert here.told.shown() == "one "

        machine, told, model = await taken_up(here, "Done.")
        assert (await machine.wait()).output == "Done."
        assert told.kinds()[:2] == ["reply_cut", "run_recovered"]
        *before, shown, asked_on = model.requests[0].messages
        assert tuple(before) == here.model.requests[0].messages
        assert (shown.text, shown.interrupted, asked_on.text) == ("one ", True, GO_ON)


@pytest.mark.parametrize("is_shut_down", [False, True])
async def test_what_a_handler_makes_of_its_being_cut_off_is_of_no_account(
    is_shut_down: bool,
) -> None:
    begun = asyncio.Event()

    async def wrap(run: HandlerRun) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise RuntimeError("The line is dead.") from error

    states = flow({"name": "start", "pre_handler": "h"})
    async with running(states, handlers={"h": wrap}) as here:
        await begun.wait()
        if is_shut_down:  # as the end of the program's loop does, which cancels all its tasks
            for task in here.machine._in_flight._tasks.values():
                task.cancel()
            await died(here.machine)
            run = here.run
        else:
            run = await left(here)

        assert (run.status, run.visit.phase) == ("running", "pre")
        assert replayed(run.id, await here.journal.read(run.id)) == run


async def test_a_reply_of_which_nothing_was_shown_is_asked_for_again() -> None:
    gate = Gate()
    async with running(
        PLAIN, says("one", gate=gate, after=0), is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        await left(here)

        machine, told, model = await taken_up(here, "Done.")
        assert (await machine.wait()).output == "Done."
        assert told.kinds()[0] == "run_recovered"
        assert model.requests[0].messages == here.model.requests[0].messages


# --- what is shown of a reply ---------------------------------------------------------------------


async def test_what_is_shown_is_journaled_at_most_a_second_later_and_only_what_is_new() -> None:
    first = Gate()
    held = Scripted(pieces=("one ", "two ", "three ", "four"), gate=first, gate_after=2)
    async with running(PLAIN, held, input="tidy") as here:
        await first.reached()
        assert here.told.of(e.ReplyShown) == []

        here.clock.jump(CHECKPOINT_S)
        await rounds()
        assert [fact.text for fact in here.told.of(e.ReplyShown)] == ["one two "]

        here.clock.jump(100 * CHECKPOINT_S)
        await rounds()
        assert len(here.told.of(e.ReplyShown)) == 1, "nothing is told where nothing was shown"

        first.open()
        await end(here)
        assert here.run.output == "one two three four"
        assert len(here.told.of(e.ReplyShown)) == 1


async def test_a_crash_keeps_what_was_checkpointed_and_never_runs_half_a_call() -> None:
    gate = Gate()
    held = Scripted(pieces=("I look. ",), calls=(call("look"),), gate=gate)
    async with running(
        PLAIN, held, tools=[FakeTool(name="look", effect="once")], is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        here.clock.jump(CHECKPOINT_S)
        await rounds()
        await died(here.machine)

        machine, told, model = await taken_up(here, "Done.", was_cut=True)
        assert (await machine.wait()).output == "Done."
        assert [fact.partial for fact in told.of(e.ReplyCut)] == ["I look. "]
        assert here.tools.calls == []
        check_request(model.requests[0])


async def test_a_chat_holds_after_a_crash_as_after_esc_and_the_next_words_go_on() -> None:
    gate = Gate()
    async with scene(PLAIN, says("one ", "two", gate=gate, after=1), is_journaled=False) as here:
        here.machine._definition = msgspec.structs.replace(here.machine._definition, kind="chat")
        await here.machine.start("tidy")
        await gate.reached()
        here.clock.jump(CHECKPOINT_S)
        await rounds()
        await died(here.machine)

        machine, told, model = await taken_up(here, "Done.", was_cut=True)
        assert machine.run.visit.phase == "held"
        assert [(fact.partial, fact.leads_to) for fact in told.of(e.Interrupted)] == [
            ("one ", "hold")
        ]
        await rounds()
        assert model.requests == [], "nobody is paid before the person says so"

        await machine.say("shorter, please")
        assert (await machine.wait()).output == "Done."
        assert [message.text for message in model.requests[0].messages][-2:] == [
            "one ",
            "shorter, please",
        ]


async def test_a_checkpoint_without_room_is_made_later_and_nothing_of_it_is_lost() -> None:
    gate, journal = Gate(), FakeJournal()
    held = Scripted(pieces=("one ", "two ", "three"), gate=gate, gate_after=2)
    async with running(PLAIN, held, journal=journal, input="tidy") as here:
        await gate.reached()
        journal.trouble = FULL
        here.clock.jump(CHECKPOINT_S)
        await rounds()
        journal.trouble = None
        assert here.told.of(e.ReplyShown) == []
        assert here.told.of(JournalStalled) == []

        here.clock.jump(CHECKPOINT_S)
        await rounds()
        assert [fact.text for fact in here.told.of(e.ReplyShown)] == ["one two "]
        gate.open()
        await end(here)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_is_dropped_and_called_again(is_async: bool) -> None:
    reached, never, let_go = asyncio.Event(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    calls_made = []

    async def waits(run: HandlerRun) -> None:
        run.common_data["n"] = 1
        reached.set()
        await never.wait()

    def blocks(run: HandlerRun) -> None:
        run.common_data["n"] = 1
        loop.call_soon_threadsafe(reached.set)
        let_go.wait(DEADLINE_S)
        run.log("too late")

    def again(run: HandlerRun) -> None:
        calls_made.append(dict(run.common_data))

    workflow = flow({**START, "pre_handler": "go"})
    handlers = {"go": waits if is_async else blocks}
    async with running(workflow, handlers=handlers, is_journaled=False) as here:
        await reached.wait()
        run = await left(here)
        assert (run.visit.phase, run.common_data) == ("pre", {})
        let_go.set()

        machine, _, _ = await taken_up(here, "Done.", handlers={"go": again})
        assert (await machine.wait()).output == "Done."
        assert calls_made == [{}]


async def test_a_read_tool_is_cancelled_and_called_again() -> None:
    gate = Gate()
    look = FakeTool(name="look", gate=gate)
    async with running(
        PLAIN, call("look", n=1), tools=[look], is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        run = await left(here)
        assert run.visit.turn is not None
        assert run.visit.turn.calls[0].status == "running"
        assert here.tools.calls[0].ended == "cancelled"

        again = FakeTools(FakeTool(name="look"))
        machine, told, _ = await taken_up(here, "Done.", tools=again)
        assert (await machine.wait()).output == "Done."
        assert [called.arguments for called in again.calls] == [{"n": 1}]
        assert [fact.outcome for fact in told.of(e.ToolReturned)] == ["completed"]
        assert not told.of(e.ToolCalled), "its intent is journaled already"


async def test_a_once_tool_that_listens_is_stopped_softly_and_its_end_is_journaled() -> None:
    gate = Gate()
    shell = FakeTool(name="shell", effect="once", gate=gate)
    async with running(
        PLAIN, call("shell"), tools=[shell], is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        run = await left(here)
        assert here.tools.calls[0].ended == "stopped"
        assert run.contexts["talk"][-1].results[0].text == "stopped softly"

        machine, told, model = await taken_up(here, "Done.", tools=FakeTools())
        assert (await machine.wait()).output == "Done."
        assert not told.of(e.ToolCalled)
        check_request(model.requests[0])


async def test_a_once_tool_that_does_not_listen_is_cut_off_and_unknown() -> None:
    gate = Gate()
    shell = FakeTool(name="shell", effect="once", gate=gate, when_stopped=None)
    async with running(
        PLAIN, call("shell"), tools=[shell], is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        leaving = asyncio.ensure_future(left(here))
        await rounds()
        assert not leaving.done()
        here.clock.jump(effects.SOFT_STOP_S)
        run = await leaving

        assert run.contexts["talk"][-1].results[0].outcome == "unknown"
        assert here.tools.calls[0].ended == "cancelled"


@pytest.mark.parametrize(
    ("effect", "status", "ended"),
    [
        ("read", ["running", "running"], ["cancelled", "cancelled"]),
        ("idempotent", ["running", "new"], ["cancelled"]),
        ("once", ["done", "new"], ["stopped"]),
    ],
)
async def test_each_tool_ends_by_its_own_rule_and_none_begins_that_had_to_wait(
    effect: Effect, status: list[str], ended: list[str]
) -> None:
    gate = Gate()
    tool = FakeTool(name="tool", effect=effect, gate=gate)
    script = calls(call("tool", n=1), call("tool", n=2))
    async with running(PLAIN, script, tools=[tool], is_journaled=False, input="tidy") as here:
        await rounds()
        run = await left(here)

        assert run.visit.turn is not None
        assert [c.status for c in run.visit.turn.calls] == status
        assert [called.ended for called in here.tools.calls] == ended

        gate.open()
        machine, _, _ = await taken_up(here, "Done.", was_cut=False)
        assert (await machine.wait()).output == "Done."
        assert here.told.of(e.QuestionAsked) == []


async def test_a_run_at_rest_is_left_at_once_and_its_question_stays() -> None:
    async with at_rest(RESUMING, asks("Which?"), is_journaled=False, input="tidy") as here:
        question = here.question()
        assert (await left(here)).is_parked

        machine, _, _ = await taken_up(here, "Done.")
        await machine.say("src", question=question)
        assert (await machine.wait()).output == "Done."


async def test_what_came_before_leaving_is_taken() -> None:
    async with at_rest(PLAIN, asks("Which?"), is_journaled=False, input="tidy") as here:
        said = asyncio.ensure_future(here.machine.say("src"))
        await asyncio.sleep(0)
        run, receipt = await all_of(here.machine.leave(), said)

        assert receipt.handling == "answer"
        assert run.inbox.lines[receipt.input_id].disposition == "answered"


async def test_words_after_leaving_are_not_taken() -> None:
    async with at_rest(PLAIN, asks("Which?"), is_journaled=False, input="tidy") as here:
        before = await left(here)
        receipt = await here.machine.say("src")

        assert (receipt.handling, receipt.reason) == ("reject", LET_GO)
        assert here.run == before


async def test_leaving_while_an_append_is_under_way_waits_for_it() -> None:
    journal, disk = FakeJournal(), Gate()

    async def go(run: HandlerRun) -> None:
        journal.gate = disk
        run.common_data["a"] = 1

    workflow = flow({**START, "pre_handler": "go"})
    async with running(workflow, journal=journal, handlers={"go": go}, is_journaled=False) as here:
        await disk.reached()
        leaving = asyncio.ensure_future(left(here))
        await rounds()
        assert not leaving.done(), "what is being written is waited for"
        disk.open()
        run = await leaving

        assert run.common_data == {"a": 1}
        assert not here.model.asked, "nothing new begins"


async def test_leaving_twice_and_leaving_what_has_ended_is_nothing() -> None:
    async with running(PLAIN, "Done.") as here:
        await here.machine.wait()
        assert here.machine.is_closed
        assert await here.machine.leave() == here.run
        assert await here.machine.leave() == here.run


async def test_a_machine_that_was_left_before_it_began_never_begins() -> None:
    async with scene(PLAIN, "Done.", is_journaled=False) as here:
        await here.machine.leave()
        with pytest.raises(UserMistake):
            await here.machine.start()
        assert await here.journal.read(here.machine.id) == []


async def test_leaving_while_it_starts_leaves_a_run_that_has_begun() -> None:
    journal, disk = FakeJournal(), Gate()
    journal.gate = disk
    async with scene(PLAIN, journal=journal, is_journaled=False) as here:
        starting = asyncio.ensure_future(here.machine.start("tidy"))
        await disk.reached()
        leaving = asyncio.ensure_future(left(here))
        await rounds()
        disk.open()
        await starting
        assert (await leaving).visit.state == "start"
        assert not here.model.asked


# --- taking up ------------------------------------------------------------------------------------


async def test_a_run_that_cannot_be_journaled_is_not_taken_up() -> None:
    for trouble in (FULL, WorldTrouble("The disk is broken."), JournalMoved("Moved.")):
        journal = FakeJournal()
        async with at_rest(PLAIN, asks("Which?"), journal=journal, is_journaled=False) as here:
            run = await left(here)
            kept = await journal.read(run.id)
            told = Chronicle()
            assert run.definition is not None
            machine = WorkflowStateMachine(run.definition, here.machine._world, id=run.id, tap=told)
            journal.trouble = trouble
            with pytest.raises(type(trouble)):
                await machine.resume(run, was_cut=True)

            assert machine.is_closed
            assert machine.run == run
            assert told.events == [], "nothing ended"
            journal.trouble = None
            assert await journal.read(run.id) == kept


async def test_what_does_not_fit_is_refused_before_anything_is_done() -> None:
    async with at_rest(PLAIN, asks("Which?"), is_journaled=False) as here:
        await left(here)
        with pytest.raises(UserMistake, match="'start' has another agent"):
            await taken_up(here, definition=define(flow({"name": "start", "agent": "critic"})))


async def test_a_machine_goes_on_with_one_run_once() -> None:
    async with at_rest(PLAIN, asks("Which?"), "Done.", is_journaled=False) as here:
        with pytest.raises(UserMistake):
            await here.machine.resume(here.run, was_cut=True)


async def test_after_a_crash_the_person_says_what_became_of_a_call() -> None:
    gate = Gate()
    shell = FakeTool(name="shell", effect="once", gate=gate)
    async with running(
        PLAIN, call("shell"), tools=[shell], is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        await died(here.machine)
        again = FakeTools(FakeTool(name="shell", effect="once"))
        machine, _, model = await taken_up(here, "Done.", tools=again, was_cut=True)
        (question,) = machine.run.inbox.open_questions
        await machine.say("1", question=question.id)
        run = await machine.wait()

        assert run.output == "Done."
        assert again.calls == []
        assert "it happened" in model.requests[0].messages[-1].results[0].text


async def test_a_run_that_crashes_five_times_waits_until_a_person_says_so() -> None:
    async with running(PLAIN, says("x", gate=Gate()), is_journaled=False, input="tidy") as here:
        await died(here.machine)
        for _ in range(4):
            machine, _, model = await taken_up(here, says("x", gate=Gate()), was_cut=True)
            await rounds()
            assert len(model.asked) == 1
            await died(machine)
        machine, _, model = await taken_up(here, says("x", gate=Gate()), was_cut=True)
        await machine.settled()
        assert (machine.run.suspended, model.asked) == ("crash_loop", [])
        await machine.leave()

        machine, _, _ = await taken_up(here, "Done.")
        assert machine.run.suspended == "crash_loop"
        await machine.unsuspend()
        assert (await machine.wait()).output == "Done."


# --- no room --------------------------------------------------------------------------------------


async def stalled(here: Scene) -> None:
    await here.told.until("journal_stalled")
    await rounds()


async def test_what_a_look_at_a_call_came_to_waits_for_room_too() -> None:
    journal = FakeJournal()

    def fills_up(arguments: dict[str, Json], context: ToolContext) -> Review:
        journal.trouble = FULL
        return Review()

    tool = FakeTool(name="shell", effect="once", review=fills_up)
    async with running(
        PLAIN, call("shell"), "Done.", tools=[tool], journal=journal, input="tidy"
    ) as here:
        await stalled(here)
        assert here.run.status == "running"
        journal.trouble = None
        here.clock.jump(STALL_RETRY_S)
        assert (await here.machine.wait()).output == "Done."


async def test_what_an_effect_came_to_is_kept_once_there_is_room() -> None:
    journal, gate = FakeJournal(), Gate()
    async with running(PLAIN, says("Done.", gate=gate), journal=journal, input="tidy") as here:
        await gate.reached()
        journal.trouble = FULL
        gate.open()
        await stalled(here)
        for _ in range(3):
            here.clock.jump(STALL_RETRY_S)
            await rounds()
        assert here.run.visit.phase == "turn"
        assert here.told.of(JournalStalled) == [JournalStalled(error=FULL.what, hint=FULL.hint)]

        journal.trouble = None
        here.clock.jump(STALL_RETRY_S)
        run = await here.machine.wait()

        assert run.output == "Done."
        assert len(here.model.asked) == 1, "the model was not asked again"
        assert len(here.told.of(JournalWorks)) == 1


async def test_the_result_of_a_once_call_is_kept_once_there_is_room() -> None:
    journal, gate = FakeJournal(), Gate()
    shell = FakeTool(name="shell", effect="once", gate=gate, answer="made")
    async with running(
        PLAIN, call("shell"), "Done.", tools=[shell], journal=journal, input="tidy"
    ) as here:
        await gate.reached()
        journal.trouble = FULL
        gate.open()
        await stalled(here)
        journal.trouble = None
        here.clock.jump(STALL_RETRY_S)
        await here.machine.wait()

        assert [fact.result for fact in here.told.of(e.ToolReturned)] == ["made"]
        assert len(here.tools.calls) == 1


async def test_a_handler_taken_in_its_own_task_stalls_as_well() -> None:
    journal, gate = FakeJournal(), Gate()

    async def go(run: HandlerRun) -> None:
        await gate.passed()
        run.common_data["a"] = 1

    workflow = flow({**START, "pre_handler": "go"})
    async with running(workflow, "Done.", handlers={"go": go}, journal=journal) as here:
        await gate.reached()
        journal.trouble = FULL
        gate.open()
        await stalled(here)
        with pytest.raises(JournalFull):
            await here.machine.halt()
        journal.trouble = None
        here.clock.jump(STALL_RETRY_S)
        assert (await here.machine.wait()).common_data == {"a": 1}


async def test_words_while_there_is_no_room_are_refused_and_nothing_is_kept() -> None:
    journal, gate = FakeJournal(), Gate()
    async with running(RESUMING, says("Done.", gate=gate), journal=journal, input="tidy") as here:
        await gate.reached()
        journal.trouble = FULL
        gate.open()
        await stalled(here)
        before = here.run
        for act in (
            here.machine.say("no"),
            here.machine.halt(),
            here.machine.stop(),
            here.machine.unsuspend(),
        ):
            with pytest.raises(JournalFull, match="no room"):
                await act
        assert here.run == before
        assert here.run.inbox.lines == {}
        journal.trouble = None
        here.clock.jump(STALL_RETRY_S)
        await here.machine.wait()


async def test_words_that_met_the_full_disk_leave_the_run_as_it_was_and_alive() -> None:
    journal, gate = FakeJournal(), Gate()
    async with running(
        RESUMING, says("one ", "two ", "three", gate=gate, after=1), journal=journal, input="tidy"
    ) as here:
        await gate.reached()
        before = here.run
        journal.trouble = FULL
        with pytest.raises(JournalFull):
            await here.machine.say("no")
        assert here.run == before
        assert not here.told.of(JournalStalled)

        journal.trouble = None
        gate.open()
        run = await here.machine.wait()
        assert run.output == "one two three"
        assert here.told.shown() == "one two three", "the reply streams on as if nothing had been"


async def test_the_same_words_are_taken_when_said_again() -> None:
    journal, gate = FakeJournal(), Gate()
    script = says("one", gate=gate), "I see.", "Done."
    async with running(RESUMING, *script, journal=journal, input="tidy") as here:
        await gate.reached()
        journal.trouble = FULL
        with pytest.raises(JournalFull):
            await here.machine.say("no", id="a")
        journal.trouble = None
        receipt = await here.machine.say("no", id="a")
        assert receipt.handling == "interrupt"
        assert (await here.machine.wait()).output == "Done."


async def test_words_said_in_the_very_append_that_finds_no_room_are_refused() -> None:
    journal, gate, disk = FakeJournal(), Gate(), Gate()
    async with running(RESUMING, says("Done.", gate=gate), journal=journal, input="tidy") as here:
        await gate.reached()
        journal.gate = disk
        gate.open()
        await disk.reached()
        speaking = asyncio.ensure_future(here.machine.say("no"))
        await rounds()
        journal.trouble = FULL
        disk.open()
        with pytest.raises(JournalFull):
            await speaking
        journal.trouble = None
        here.clock.jump(STALL_RETRY_S)
        run = await here.machine.wait()
        assert (run.output, run.inbox.lines) == ("Done.", {})


async def test_a_run_is_left_while_there_is_no_room_as_if_the_process_had_died() -> None:
    journal, gate = FakeJournal(), Gate()
    shell = FakeTool(name="shell", effect="once", gate=gate)
    script = calls(call("shell"), call("look"))
    async with running(
        PLAIN,
        script,
        tools=[shell, FakeTool(name="look", gate=gate)],
        journal=journal,
        is_journaled=False,
        input="tidy",
    ) as here:
        await rounds()
        journal.trouble = FULL
        gate.open()
        await stalled(here)
        run = await left(here)
        journal.trouble = None

        assert run.visit.turn is not None
        assert [c.status for c in run.visit.turn.calls] == ["running", "new"]
        machine, _, _ = await taken_up(here, "Done.", was_cut=False)
        assert [q.call_id for q in machine.run.inbox.open_questions] == ["call_1"]
        await machine.say("1")
        assert (await machine.wait()).output == "Done."


async def test_a_start_without_room_is_seen_to_fail_and_journals_nothing() -> None:
    journal = FakeJournal()
    journal.trouble = FULL
    async with running(PLAIN, journal=journal, is_journaled=False) as here:
        journal.trouble = None
        run = await here.machine.wait()

        assert (run.status, run.error) == ("failed", FULL.what)
        assert here.machine.is_closed
        assert await journal.read(here.machine.id) == []


async def test_the_end_of_a_run_that_never_began_is_not_journaled() -> None:
    class Once(FakeJournal):
        async def append(self, run: str, expected: int, facts: Any) -> None:
            trouble, self.trouble = self.trouble, None
            if trouble is not None:
                raise trouble
            await super().append(run, expected, facts)

    journal = Once()
    journal.trouble = FULL
    async with running(PLAIN, journal=journal, is_journaled=False) as here:
        assert (await here.machine.wait()).error == FULL.what
        assert await journal.read(here.machine.id) == []


# --- taken by another -----------------------------------------------------------------------------


async def test_a_run_another_process_took_is_let_go_of_and_has_not_failed() -> None:
    journal, gate = FakeJournal(), Gate()
    async with running(
        PLAIN, says("Done.", gate=gate), journal=journal, is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        before = here.run
        journal.trouble = JournalMoved("Another has it.")
        gate.open()
        run = await here.machine.wait()

        assert run == before
        assert here.machine.is_closed
        assert here.told.of(RunTaken) == [RunTaken()]
        assert not here.told.of(e.RunFailed)
        receipt = await here.machine.say("no")
        assert receipt.handling == "reject"
        assert receipt.reason == "another process goes on with the run"
        with pytest.raises(UserMistake):
            await here.machine.start()


async def test_a_run_that_is_taken_after_an_error_it_caught_has_not_failed() -> None:
    journal = FakeJournal()
    workflow = flow({**START, "on_failure": "after"}, {"name": "after", "agent": "dude"})
    model = (Scripted(error=WorldTrouble("The line is dead.")), asks("Which?"))
    async with at_rest(workflow, *model, journal=journal, is_journaled=False) as here:
        journal.trouble = JournalMoved("Another has it.")
        receipt = await here.machine.say("src")

        assert receipt.reason == "another process goes on with the run"


async def test_whoever_speaks_when_it_turns_out_is_told() -> None:
    journal = FakeJournal()
    async with at_rest(PLAIN, asks("Which?"), journal=journal, is_journaled=False) as here:
        journal.trouble = JournalMoved("Another has it.")
        receipt = await here.machine.say("src")

        assert receipt.handling == "reject"
        assert (await here.machine.settled()).inbox.open_questions


# --- files about to change ------------------------------------------------------------------------


class Writing(FakeTools):
    """Tools whose `write` changes a file in a dictionary, after saying so."""

    def __init__(self, path: Path = Path("/w/a.txt"), gate: Gate | None = None) -> None:
        super().__init__(FakeTool(name="write", effect="once"))
        self.path, self.gate = path, gate
        self.files: dict[Path, bytes] = {path: b"old"}
        self.raised: list[Exception] = []
        self.hear: Callable[[ToolContext], None] = lambda context: None

    async def call(self, name: str, arguments: Any, context: ToolContext) -> ToolOutcome:
        if self.gate is not None:
            await self.gate.passed()
        self.hear(context)
        try:
            await context.changing(self.path, self.files.get(self.path), b"new")
        except Exception as error:
            self.raised.append(error)
            return ToolOutcome(outcome="failed", text=str(error))
        self.files[self.path] = b"new"
        return ToolOutcome(outcome="completed", text="written")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def writing(here: Scene, tools: Writing) -> FakeBlobStore:
    """Give the scene these tools, and return its blob store."""
    world = msgspec.structs.replace(here.machine._world, tools=tools)
    here.machine._world = world
    blobs = world.blobs
    assert isinstance(blobs, FakeBlobStore)
    return blobs


TOOLS = [FakeTool(name="write", effect="once")]


async def test_what_a_file_held_and_will_hold_is_kept_and_journaled_before_it_changes() -> None:
    tools = Writing()
    async with scene(PLAIN, call("write"), "Done.", tools=TOOLS, is_journaled=False) as here:
        blobs = await writing(here, tools)
        await here.machine.start("tidy")
        await here.machine.wait()

        (written,) = here.told.of(e.FileWritten)
        assert written == e.FileWritten(
            call_id="call_1", path="/w/a.txt", before=digest(b"old"), after=digest(b"new")
        )
        assert blobs.kept == {digest(b"old"): b"old", digest(b"new"): b"new"}
        kinds = here.told.kinds()
        assert kinds.index("file_written") < kinds.index("tool_returned")


async def test_a_call_that_was_halted_meanwhile_writes_nothing() -> None:
    gate = Gate()
    tools = Writing()
    tools.files.clear()

    class Slow(FakeBlobStore):
        async def put(self, data: bytes) -> str:
            await gate.passed()
            return await super().put(data)

    tools.files = {tools.path: b"old"}
    async with scene(
        RESUMING,
        call("look"),
        "I see.",
        "Done.",
        tools=[FakeTool(name="look"), *TOOLS],
        is_journaled=False,
    ) as here:
        await writing(here, tools)
        here.machine._world = msgspec.structs.replace(here.machine._world, blobs=Slow())
        await here.machine.start("tidy")
        await gate.reached()
        await here.machine.say("no", unasked=True)
        gate.open()
        await here.machine.wait()

        assert tools.files == {tools.path: b"old"}
        assert not here.told.of(e.FileWritten)


async def test_a_halted_tool_that_ignores_its_cancellation_is_refused() -> None:
    tools, gate = Writing(), Gate()
    refused = asyncio.Event()

    async def stubborn(name: str, arguments: Any, context: ToolContext) -> ToolOutcome:
        try:
            await gate.passed()
        except asyncio.CancelledError:
            with pytest.raises(WorldTrouble, match="left as it is"):
                await context.changing(tools.path, b"old", b"new")
            refused.set()
        return ToolOutcome(outcome="completed", text="")

    tools.call = stubborn  # type: ignore[method-assign]
    async with scene(
        RESUMING,
        call("look"),
        "I see.",
        "Done.",
        tools=[FakeTool(name="look"), *TOOLS],
        is_journaled=False,
    ) as here:
        await writing(here, tools)
        await here.machine.start("tidy")
        await gate.reached()
        await here.machine.say("no", unasked=True)
        await refused.wait()
        await here.machine.wait()
        assert not here.told.of(e.FileWritten)


@pytest.mark.parametrize("where", ["blobs", "journal"])
async def test_without_room_a_file_is_left_as_it_is(where: str) -> None:
    journal, gate = FakeJournal(), Gate()
    tools = Writing(gate=gate)

    class Full(FakeBlobStore):
        async def put(self, data: bytes) -> str:
            raise FULL

    async with scene(PLAIN, call("write"), "Done.", tools=TOOLS, journal=journal) as here:
        await writing(here, tools)
        if where == "blobs":
            here.machine._world = msgspec.structs.replace(here.machine._world, blobs=Full())
        await here.machine.start("tidy")
        await gate.reached()
        if where == "journal":
            journal.trouble = FULL
            tools.hear = lambda context: None
        gate.open()
        if where == "journal":
            await stalled(here)
            journal.trouble = None
            here.clock.jump(STALL_RETRY_S)
        await here.machine.wait()

        assert tools.files == {tools.path: b"old"}
        assert [type(error) for error in tools.raised] == [JournalFull]
        assert here.told.of(e.ToolReturned)[0].outcome == "failed"


async def test_a_file_whose_name_is_no_text_is_left_as_it_is() -> None:
    tools = Writing(Path("/w/half-\udcff.txt"))
    async with scene(PLAIN, call("write"), "Done.", tools=TOOLS, is_journaled=False) as here:
        await writing(here, tools)
        await here.machine.start("tidy")
        run = await here.machine.wait()

        assert run.output == "Done."
        assert "no Unicode" in str(tools.raised[0])
        assert tools.files[tools.path] == b"old"


async def test_a_world_alone_records_nothing() -> None:
    context = ToolContext(
        workspace=fake_world().workspace,
        run="r",
        agent="a",
        stop=asyncio.Event(),
        progress=lambda text: None,
    )
    assert await context.changing(Path("/w/a"), None, b"new") is None  # type: ignore[func-returns-value]


async def test_who_waits_for_the_end_just_as_a_run_is_taken_up_again_is_told_of_it() -> None:
    async with at_rest(PLAIN, asks("Which?"), says("Done.")) as here:

        async def stand_still_and_go_on() -> None:
            await here.machine.stand_still(FULL)
            await here.machine.resume(here.run, was_cut=False)

        # The one that goes on hears first that the task has ended.
        back = asyncio.create_task(stand_still_and_go_on())
        ending = asyncio.create_task(here.machine.wait())
        await back
        await here.machine.say("src")

        assert (await ending).status == "finished"


async def test_one_that_is_given_up_before_its_first_step_leaves_nobody_waiting() -> None:
    async with scene(PLAIN) as here:
        starting = asyncio.create_task(here.machine.start("tidy"))
        while here.machine._task is None:  # noqa: ASYNC110 - up to where its task has not taken a step
            await asyncio.sleep(0)

        await here.machine.abandon()
        await starting

        assert here.machine.is_closed
        assert await here.journal.read(here.machine.id) == []
