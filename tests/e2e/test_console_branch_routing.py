"""AICoderConsole over real runs with branches: whom a line reaches, and what the screen is told."""

from pathlib import Path
from typing import Any

import pytest
from scene_kit import WORKFLOWS, WORKS, Scene, scene

from midstream.core.events import Interrupted, QuestionAnswered, ToolCalled
from midstream.core.question import Decision
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    Gate,
    Line,
    Scripted,
    asks,
    call,
    calls,
    says,
)

PARALLEL: dict[str, Any] = {
    **WORKS,
    "states": [
        {"name": "start", "parallel": ["left", "right"]},
        {"name": "left", "agent": "ada"},
        {"name": "right", "agent": "ada"},
        {"name": "stop"},
    ],
}


@pytest.fixture(autouse=True)
def _parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library have a workflow with two branches, and one whose first state asks."""
    asking = {**WORKS, "states": [{"name": "start", "ask": "Which?"}, {"name": "stop"}]}
    monkeypatch.setitem(WORKFLOWS, "parallel", PARALLEL)
    monkeypatch.setitem(WORKFLOWS, "asking", asking)


def by_state(**lines: Line) -> list[Any]:
    """Return a script that answers each branch by its state."""

    def reply(request: ModelRequest) -> Line:
        return lines[request.state]

    return [reply] * 6


def held(gate: Gate) -> Scripted:
    """Return words that wait for a gate after the first."""
    return says("Well, ", "yes.", gate=gate, after=1)


async def both_at_work(made: Scene, *gates: Gate) -> None:
    """Start the workflow; return when each of the branches speaks."""
    await made.type("/workflow parallel")
    for gate in gates:
        await gate.reached()


async def test_the_screen_is_told_of_each_branch_and_of_what_words_do(tmp_path: Path) -> None:
    gates = (Gate(), Gate())
    script = by_state(left=held(gates[0]), right=held(gates[1]))
    async with scene(tmp_path, *script) as made:
        await both_at_work(made, *gates)
        status = made.console.status()

        assert status.enter == "interrupts 2 branches"
        assert [lane.path for lane in status.lanes] == ["left", "right"]
        assert (status.thinking, status.busy) == ("", True)
        assert status.notes[0] == "@name words: to one"
        assert made.console.completions("@le") == (("@left", "to one: interrupts left"),)
        assert made.console.completions("@left wo") == ()

        await made.type("@left shorter")
        assert [fact.branch for fact in made.ui.of(Interrupted)] == ["left"]
        result = await made.type("@lefft shorter")
        assert (result.kind, result.reason) == (
            "returned",
            "No branch 'lefft' is at work. Did you mean @left?",
        )
        await made.type("/interrupt stop that")
        assert [fact.branch for fact in made.ui.of(Interrupted)] == ["left", "", "left", "right"]


async def test_a_question_on_the_screen_does_not_take_a_line_to_another_branch(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with scene(tmp_path, *by_state(left=asks("Which?"), right=held(gate))) as made:
        await both_at_work(made, gate)
        await made.asked()
        assert made.console.status().enter == "answers #1"
        [shown] = made.console.open_questions()
        assert shown.branch == "left"

        await made.type("@right shorter")
        assert made.ui.of(QuestionAnswered) == []
        await made.type("the first")
        assert [fact.branch for fact in made.ui.of(QuestionAnswered)] == ["left"]


async def test_a_line_that_waits_for_a_branch_comes_back_as_it_was_typed(tmp_path: Path) -> None:
    gates = (Gate(), Gate())
    script = by_state(left=held(gates[0]), right=held(gates[1]))
    async with scene(tmp_path, *script) as made:
        await both_at_work(made, *gates)
        await made.type("/queue @left and the tests?")
        assert [w.text for w in made.console.waiting_inputs()] == ["@left and the tests?"]
        assert await made.console.take_back() == "@left and the tests?"


async def test_approvals_in_two_branches_are_decided_one_by_one(tmp_path: Path) -> None:
    tools = FakeTools(FakeTool(name="write", effect="once", needs_approval=True))
    script = by_state(left=calls(call("write", at="l")), right=calls(call("write", at="r")))
    async with scene(tmp_path, *script, tools=tools) as made:
        await made.type("/workflow parallel")
        await made.asked(2)
        right = next(q for q in made.console.open_questions() if q.branch == "right")
        await made.console.approve(right.id, Decision(granted=True))
        assert [fact.arguments for fact in made.ui.of(ToolCalled)] == [{"at": "r"}]
        assert [q.branch for q in made.console.open_questions() if q.kind == "approval"][:1] == [
            "left"
        ]


async def test_a_question_asked_as_a_workflow_begins_is_no_background_news(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        await made.type("/workflow asking")
        await made.asked()
        assert not any("in the background" in words for words in made.ui.said)
        assert [q.text for q in made.console.open_questions()] == ["Which?"]
