"""A workflow that was changed is found out: the first thing that differs, and where."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from deadline import DEADLINE_S
from rehearsing import recorded
from support.reference import reference

from midstream.language.spec import Definition
from midstream.rehearsal.comparison import Difference, replay
from midstream.rehearsal.format import Rehearsal, UserAnswered, decoded
from midstream.rehearsal.record import from_facts
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Handlers


async def difference_of(
    rehearsal: Rehearsal, definition: Definition, handlers: Handlers
) -> Difference | None:
    async with asyncio.timeout(DEADLINE_S):
        return (await replay(rehearsal, definition, handlers)).difference


def with_states(definition: Definition, change: Callable[[list[Any]], None]) -> Definition:
    states = [msgspec.to_builtins(state) for state in definition.workflow.states]
    change(states)
    workflow = msgspec.to_builtins(definition.workflow) | {"states": states}
    return msgspec.structs.replace(
        definition, workflow=msgspec.convert(workflow, type(definition.workflow))
    )


def goes_to_end_at_once(states: list[Any]) -> None:
    states[0]["next"] = "end"


def asks_another_agent_nowhere(states: list[Any]) -> None:
    states[2]["agent"] = None


def goes_on_after_the_end(states: list[Any]) -> None:
    states[2]["next"] = "note"


def note(run: HandlerRun) -> None:
    run.common_data["noted"] = run.last_response.text
    run.log("noted")


@pytest.mark.parametrize(
    ("change", "step", "about", "expected", "got"),
    [
        (goes_to_end_at_once, 4, "state 2, after start", "note", "end"),
        (
            asks_another_agent_nowhere,
            4,
            "state 4, after end",
            "stop",
            "stop",
        ),
        (goes_on_after_the_end, None, "state 4, after end", "stop", "note"),
    ],
)
async def test_another_way_through_the_states_is_found_where_it_parts(
    change: Callable[[list[Any]], None], step: int | None, about: str, expected: str, got: str
) -> None:
    line = reference("line")
    changed = with_states(line.definition, change)
    found = await difference_of(await recorded(line), changed, line.handlers)
    assert found is not None
    if change is asks_another_agent_nowhere:
        assert found.step == 4
        assert "worker is asked in end" in found.expected
        assert found.got == "the run has finished"
    else:
        assert (found.step, found.about, found.expected, found.got) == (step, about, expected, got)


async def test_a_handler_that_tells_the_agent_something_else_is_found_at_the_next_request() -> None:
    loop = reference("loop")

    def count(run: HandlerRun) -> None:
        run.common_data["rounds"] = run.common_data.get("rounds", 0) + 1

    def keep(run: HandlerRun) -> None:
        run.contexts["desk"].add_message("user", f"Lap {run.common_data['rounds']}.")

    def again(run: HandlerRun) -> str:
        return "stop" if run.common_data["rounds"] >= 3 else "start"

    handlers = ScriptHandlers({"count": count, "keep": keep, "again": again})
    found = await difference_of(await recorded(loop), loop.definition, handlers)
    assert found is not None
    assert found.step == 4
    assert "worker is asked in start" in found.about
    assert found.expected == "message 2 of the context desk: user: Round 1."
    assert found.got == "user: Lap 1."
    assert "expected: message 2" in str(found)


async def test_messages_nobody_is_asked_about_any_more_are_compared_at_the_end() -> None:
    line = reference("line")

    def noisy(run: HandlerRun) -> None:
        note(run)
        run.contexts["desk"].add_message("user", "By the way.")

    rehearsal = await recorded(line)
    steps = tuple(
        msgspec.structs.replace(step, seen="") if hasattr(step, "seen") else step
        for step in rehearsal.steps
    )
    rehearsal = msgspec.structs.replace(rehearsal, steps=steps)
    found = await difference_of(rehearsal, line.definition, ScriptHandlers({"note": noisy}))
    assert found is not None
    assert (found.step, found.about) == (None, "message 4 of the context desk")
    assert found.got == "user: By the way."


async def test_another_output_is_found_from_the_place_where_the_texts_part() -> None:
    line = reference("line")

    def output(states: list[Any]) -> None:
        states[3]["input"] = "common_data.noted"

    rehearsal = await recorded(line)
    found = await difference_of(rehearsal, with_states(line.definition, output), line.handlers)
    assert found == Difference(
        step=None, about="the output", expected="All done.", got="First done."
    )


async def test_a_handler_that_raises_now_is_the_difference() -> None:
    line = reference("line")

    def broken(run: HandlerRun) -> None:
        raise KeyError("gone")

    found = await difference_of(
        await recorded(line), line.definition, ScriptHandlers({"note": broken})
    )
    assert found is not None
    assert found.step == 4
    assert "KeyError" in found.got


async def test_a_handler_that_fails_as_it_did_then_is_no_difference_wherever_the_script_is() -> (
    None
):
    line = reference("line")

    def broken(run: HandlerRun) -> None:
        raise KeyError("gone")

    handlers = ScriptHandlers({"note": broken}, where=__file__)
    failing = msgspec.structs.replace(line, handlers=handlers)
    rehearsal = await recorded(failing)
    assert rehearsal.expected.error == "The handler note raised KeyError: 'gone'."
    assert await difference_of(rehearsal, line.definition, handlers) is None


async def test_a_tool_that_needs_a_yes_now_is_found_where_it_was_called() -> None:
    line = reference("line")
    tools = dict(line.definition.tools)
    tools["record"] = msgspec.structs.replace(tools["record"], needs_approval=True)
    changed = msgspec.structs.replace(line.definition, tools=tools)
    found = await difference_of(await recorded(line), changed, line.handlers)
    assert found is not None
    assert found.step == 2
    assert "is waited for" in found.got


async def test_a_question_nobody_asks_any_more_is_found() -> None:
    asked = reference("question")
    rehearsal = await recorded(asked)
    steps = tuple(
        msgspec.structs.replace(step, question="Which shape?")
        if isinstance(step, UserAnswered)
        else step
        for step in rehearsal.steps
    )
    rehearsal = msgspec.structs.replace(rehearsal, steps=steps)
    found = await difference_of(rehearsal, asked.definition, asked.handlers)
    assert found is not None
    assert found.step == 2
    assert "'Which shape?' is asked" in found.expected
    assert "'Which colour?' is waited for" in found.got


async def test_accepting_writes_down_what_the_workflow_does_now() -> None:
    line = reference("line")

    def louder(run: HandlerRun) -> None:
        run.contexts["desk"].add_message("user", "Louder!")

    handlers = ScriptHandlers({"note": louder})
    rehearsal = await recorded(line)
    played = await replay(rehearsal, line.definition, handlers, compares=False)
    assert played.difference is None
    accepted = from_facts(played.facts)
    assert await difference_of(rehearsal, line.definition, handlers) is not None
    assert await difference_of(accepted, line.definition, handlers) is None


async def test_what_a_person_removed_from_the_file_is_not_compared() -> None:
    line = reference("line")

    def louder(run: HandlerRun) -> None:
        run.contexts["desk"].add_message("user", "Louder!")

    rehearsal = await recorded(line)
    steps = tuple(
        msgspec.structs.replace(step, seen="") if hasattr(step, "seen") else step
        for step in rehearsal.steps
    )
    expected = msgspec.structs.replace(rehearsal.expected, contexts={})
    rehearsal = msgspec.structs.replace(rehearsal, steps=steps, expected=expected)
    found = await difference_of(rehearsal, line.definition, ScriptHandlers({"note": louder}))
    assert found is None


@pytest.mark.parametrize("name", ["status", "states", "output"])
async def test_any_part_of_what_is_expected_may_be_left_out(name: str) -> None:
    line = reference("line")
    told = msgspec.to_builtins(await recorded(line))
    told["expected"] = {
        "status": "failed",
        "states": ["start", "elsewhere"],
        "output": "something else",
        "contexts": told["expected"].get("contexts", {}),
    }
    whole = decoded(msgspec.json.encode(told))
    assert await difference_of(whole, line.definition, line.handlers) is not None
    for part in ("status", "states", "output"):
        if part != name:
            del told["expected"][part]
    alone = decoded(msgspec.json.encode(told))
    assert await difference_of(alone, line.definition, line.handlers) is not None
    del told["expected"][name]
    nothing = decoded(msgspec.json.encode(told))
    assert await difference_of(nothing, line.definition, line.handlers) is None
