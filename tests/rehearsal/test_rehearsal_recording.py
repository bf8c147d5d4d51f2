"""A run is written down from its facts, and played again it does the same."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from rehearsing import recorded, recorded_of
from support.reference import reference, references
from support.stage import Reference

from midstream.core.events import RunFailed, RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake
from midstream.language.spec import ParsingTool, Role
from midstream.rehearsal import format as form
from midstream.rehearsal.comparison import replay
from midstream.rehearsal.record import from_facts
from midstream.runtime import redact_results
from midstream.runtime.effects import CHECKPOINT_S
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Review, ToolContext, ToolOutcome
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.redaction import PIECE
from midstream.store.memory import MemoryStore
from midstream.system.offloop import in_thread
from midstream.testing.fakes import (
    Chronicle,
    FakeJournal,
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
    fits_type,
    says,
)

DESK = {
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "host", "context": "desk"}],
}


@pytest.mark.parametrize("reference", references(), ids=lambda known: known.name)
async def test_a_reference_played_again_does_the_same(reference: Reference) -> None:
    rehearsal = await recorded(reference)
    again = await replay(
        form.decoded(form.encoded(rehearsal)), reference.definition, reference.handlers
    )
    assert again.difference is None
    assert rehearsal.expected.states == reference.path


@pytest.mark.parametrize("reference", references(), ids=lambda known: known.name)
async def test_what_was_played_again_gives_the_same_rehearsal(reference: Reference) -> None:
    rehearsal = await recorded(reference)
    again = await replay(rehearsal, reference.definition, reference.handlers)
    assert from_facts(again.facts) == rehearsal


async def test_words_during_a_handler_come_during_that_handler_again() -> None:
    gate = Gate()

    async def slow(run: HandlerRun) -> None:
        if not run.resume_input:
            await gate.passed()

    async def quick(run: HandlerRun) -> None:
        run.common_data["seen"] = run.state

    states = [
        {"name": "start", "pre_handler": "quick", "next": "work"},
        {"name": "work", "pre_handler": "slow", "next": "stop"},
        {"name": "resume", "pre_handler": "quick", "next": "work"},
    ]
    definition = define({**DESK, "states": states})
    handlers = ScriptHandlers({"slow": slow, "quick": quick})

    async def interrupt(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await gate.reached()
        await machine.say("hurry")
        await machine.wait()

    rehearsal = await recorded_of(definition, ScriptedModel(), interrupt, handlers=handlers)
    assert rehearsal.steps == (form.UserSaid(text="hurry", state="work", after_handlers=1),)
    gate.open()
    again = await replay(rehearsal, definition, handlers)
    assert again.difference is None
    assert rehearsal.expected.states == ("start", "work", "resume", "work", "stop")


async def test_what_a_person_had_seen_of_a_reply_is_kept() -> None:
    gate = Gate()
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})

    async def escape(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await gate.reached()
        await machine.halt()
        await machine.say("shorter")
        await machine.wait()

    model = ScriptedModel(says("Once ", "upon", gate=gate, after=1), "A tale.")
    rehearsal = await recorded_of(definition, model, escape)
    assert rehearsal.steps[0] == form.UserHalted(shown="Once ")
    again = await replay(rehearsal, definition, ScriptHandlers({}))
    assert again.difference is None
    assert again.run.contexts["desk"][1].text == "Once "
    assert again.run.contexts["desk"][1].interrupted


async def test_a_long_reply_is_given_again_however_long_it_takes_to_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})
    rehearsal = await recorded_of(
        definition, ScriptedModel("a long word " * PIECE), lambda machine, _: machine.wait()
    )
    rests = threading.Event()
    sleep = asyncio.sleep

    async def slowly(work: Callable[[], Any]) -> Any:
        return await in_thread(lambda: rests.wait() and work())

    async def resting(seconds: float) -> None:
        if seconds:
            rests.set()
        await sleep(seconds)

    monkeypatch.setattr(redact_results, "in_thread", slowly)
    monkeypatch.setattr(asyncio, "sleep", resting)
    again = await replay(rehearsal, definition, ScriptHandlers({}))
    assert again.difference is None


async def test_a_refused_answer_is_refused_again() -> None:
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})
    model = ScriptedModel(asks("How many?", schema={"type": "integer"}), "Noted.")

    async def stammer(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await machine.settled()
        await machine.say("many")
        await machine.say("5")
        await machine.say("6", question="q1")
        await machine.wait()

    rehearsal = await recorded_of(definition, model, stammer)
    answers = [step for step in rehearsal.steps if isinstance(step, form.UserAnswered)]
    assert [step.text for step in answers] == ["many", "5"]
    again = await replay(rehearsal, definition, ScriptHandlers({}), validate=fits_type)
    assert again.difference is None


async def test_calls_a_model_made_badly_are_bad_again() -> None:
    bad = msgspec.structs.replace(call("look", key=1), problem="key: 1 is no text")
    tools = FakeTools(FakeTool(name="look"))
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]}, tools=tools)
    model = ScriptedModel(calls(bad, call("look", key="a"), call("loko")), "Done.")

    async def wait(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await machine.wait()

    rehearsal = await recorded_of(definition, model, wait, tools=tools)
    again = await replay(rehearsal, definition, ScriptHandlers({}))
    assert again.difference is None
    results = [result.text for result in again.run.contexts["desk"][1].results]
    assert results == [
        "key: 1 is no text",
        "ok",
        "There is no tool 'loko'. Tools: look, request_users_input.",
    ]


async def test_replies_without_the_call_they_owe_are_given_again_and_the_run_fails_again() -> None:
    role = Role(parsingTools=(ParsingTool(name="verdict"),))
    definition = define(
        {**DESK, "states": [{"name": "start", "agent": "host"}]}, roles={"host": role}
    )
    bad = msgspec.structs.replace(call("verdict"), problem="approved is missing")

    async def wait(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await machine.wait()

    rehearsal = await recorded_of(definition, ScriptedModel("words", bad, "words"), wait)
    assert rehearsal.expected.status == "failed"
    assert len(rehearsal.steps) == 3
    assert (await replay(rehearsal, definition, ScriptHandlers({}))).difference is None


async def test_queued_words_taken_back_are_taken_back_again() -> None:
    gate = Gate()
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})

    async def waver(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await gate.reached()
        receipt = await machine.say("later", policy="queue")
        await machine.withdraw(receipt.input_id)
        await machine.say("also", policy="steer")
        gate.open()
        await machine.wait()

    model = ScriptedModel(says("One.", gate=gate, after=0), "Two.")
    rehearsal = await recorded_of(definition, model, waver)
    assert rehearsal.steps[:2] == (
        form.UserSaid(text="later", state="start", policy="queue"),
        form.UserWithdrew(text="later"),
    )
    assert (await replay(rehearsal, definition, ScriptHandlers({}))).difference is None


async def test_a_run_that_was_cut_and_taken_up_is_rehearsed_with_its_crash() -> None:
    line = reference("line")
    journal, gate = FakeJournal(), Gate()

    class Slow:
        def specs(self) -> dict[str, object]:
            return {}

        async def call(
            self, name: str, arguments: dict[str, object], context: ToolContext
        ) -> ToolOutcome:
            await gate.passed()
            return ToolOutcome(outcome="completed", text="done")

    model = ScriptedModel(calls(call("record", key="1")), "First done.", "All done.")
    world = fake_world(model, tools=Slow(), journal=journal)  # type: ignore[arg-type]
    first = WorkflowStateMachine(line.definition, world, handlers=line.handlers)
    await first.start("go")
    await gate.reached()
    dead, journal.trouble = first.run, OSError("gone")
    gate.open()
    await first.wait()
    journal.trouble = None
    second = WorkflowStateMachine(line.definition, world, handlers=line.handlers, id=first.id)
    await second.resume(dead, was_cut=True)
    await second.settled()
    await second.say("1", question="q1")
    await second.wait()
    rehearsal = from_facts(await journal.read(first.id))
    assert form.ProcessChanged(was_cut=True) in rehearsal.steps
    again = await replay(rehearsal, line.definition, line.handlers)
    assert again.difference is None
    assert "It happened" not in again.run.contexts["desk"][1].text
    assert "it happened" in again.run.contexts["desk"][1].results[0].text


async def test_a_reply_that_was_cut_by_a_crash_is_cut_there_again() -> None:
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})
    gate, journal, clock = Gate(), MemoryStore(), JumpingClock()
    model = ScriptedModel(says("Half a ", "story", gate=gate, after=1), "The rest.")
    world = fake_world(model, journal=journal, clock=clock)
    first = WorkflowStateMachine(definition, world)
    await first.start("go")
    await gate.reached()
    clock.jump(CHECKPOINT_S)
    run = await first.leave()
    second = WorkflowStateMachine(definition, world, id=first.id)
    await second.resume(run, was_cut=True)
    await second.wait()
    rehearsal = from_facts(await journal.read(first.id))
    assert form.ProcessChanged(was_cut=True, shown="Half a ") in rehearsal.steps
    again = await replay(rehearsal, definition, ScriptHandlers({}))
    assert again.difference is None
    assert again.run.contexts["desk"][1].interrupted


async def test_a_run_that_still_waits_is_rehearsed_as_far_as_it_got() -> None:
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})

    async def leave(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await machine.settled()

    rehearsal = await recorded_of(definition, ScriptedModel(asks("Which?")), leave)
    assert rehearsal.expected.status == "running"
    assert (await replay(rehearsal, definition, ScriptHandlers({}))).difference is None


def test_no_facts_make_no_rehearsal() -> None:
    with pytest.raises(UserMistake):
        from_facts([])


def test_facts_this_midstream_would_not_come_to_are_refused_with_their_place() -> None:
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]})
    facts = [
        Envelope(run="r", at=1.0, seq=1, event=RunStarted(workflow="test", definition=definition)),
        Envelope(run="r", at=1.0, seq=2, event=RunFailed(error="out of the blue")),
    ]
    with pytest.raises(UserMistake, match="Fact 1"):
        from_facts(facts)


async def test_calls_that_policy_refused_are_refused_again_one_by_one() -> None:
    no = Review(kind="deny", reason="rm is denied.")
    tools = FakeTools(FakeTool(name="run", effect="once", review=no))
    definition = define({**DESK, "states": [{"name": "start", "agent": "host"}]}, tools=tools)

    async def wait(machine: WorkflowStateMachine, story: Chronicle) -> None:
        await machine.wait()

    twice = calls(call("run", command="rm"), call("run", command="rm"))
    model = ScriptedModel(twice, call("run", command="rm"), "Fine.")
    rehearsal = await recorded_of(definition, model, wait, tools=tools)
    again = await replay(rehearsal, definition, ScriptHandlers({}))
    assert again.difference is None
    assert from_facts(again.facts) == rehearsal
