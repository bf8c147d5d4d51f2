"""The todo list: an agent keeps it by calling a tool, a person changes it, and both are part of the run."""

from typing import Any

import pytest
from decide_kit import Step, call, done, flow, replies, state, tell

from midstream.core import events as e
from midstream.core.codec import decode_run, encode_run
from midstream.core.conversation import NOTE
from midstream.core.fold.apply import apply
from midstream.core.inputs import EditTodo
from midstream.core.run import Run
from midstream.core.todo import MAX_CHARS, MAX_ITEMS, TodoItem, parse_edit
from midstream.language.errors import UserMistake
from midstream.language.spec import State

TWO: list[Any] = [{"text": "Parse", "status": "doing"}, {"text": "Print"}]
WORK: tuple[State, ...] = (state("start", "dude"),)


def edit(line: str) -> Step:
    return EditTodo(edit=parse_edit(line))


def kept(*steps: Step) -> tuple[Run, list[e.AnyFact]]:
    """Return a run whose agent has kept two items, after the steps."""
    return tell(flow(*WORK), replies("", call("todo", items=TWO)), done("call_1"), *steps)


def items(run: Run) -> list[tuple[str, str]]:
    return [(item.status, item.text) for item in run.todo.items]


def test_the_list_is_what_the_last_call_was_made_with() -> None:
    run, facts = kept()
    assert items(run) == [("doing", "Parse"), ("pending", "Print")]
    assert run.todo.agent == "dude"
    assert not any(isinstance(fact, e.TodoEdited) for fact in facts), "the call says it all"

    run, _ = kept(replies("", call("todo", items=[])), done("call_2"))
    assert items(run) == []


@pytest.mark.parametrize("outcome", ["failed", "denied", "not_run", "stopped", "unknown"])
def test_a_call_that_was_not_made_keeps_nothing(outcome: Any) -> None:
    run, _ = kept(replies("", call("todo", items=[])), done("call_2", outcome=outcome))

    assert items(run) == [("doing", "Parse"), ("pending", "Print")]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"items": "Parse"},
        {"items": [{"text": ""}]},
        {"items": [{"text": "x" * (MAX_CHARS + 1)}]},
        {"items": [{"text": "x", "status": "late"}]},
        {"items": [{"text": "x"}] * (MAX_ITEMS + 1)},
    ],
)
def test_a_tool_of_the_same_name_that_keeps_no_list_changes_none(arguments: Any) -> None:
    run, _ = kept(replies("", call("todo", **arguments)), done("call_2"))

    assert items(run) == [("doing", "Parse"), ("pending", "Print")]


def test_a_person_changes_the_list_and_the_agent_learns_of_it() -> None:
    run, facts = kept(edit("add  Say   it"), edit("done 1"), edit("drop 2"))

    assert items(run) == [("done", "Parse"), ("pending", "Say it")]
    told = [fact for fact in facts if isinstance(fact, e.TodoEdited)]
    assert [fact.edit for fact in told] == ["add Say it", "done 1", "drop 2"]
    last = run.contexts["talk"][-1]
    assert (last.author, last.role) == (NOTE, "user")
    assert last.text == (
        "[I changed the todo list: dropped 'Print'. It is now:\n- done: Parse\n- pending: Say it]"
    )


def test_a_change_halts_nothing_and_begins_no_turn() -> None:
    run, facts = kept(edit("done 1"))

    assert not any(isinstance(fact, e.Interrupted) for fact in facts)
    assert run.visit.turn is not None
    assert run.visit.turn.request == 2


def test_a_list_may_be_begun_by_a_person() -> None:
    run, _ = tell(flow(*WORK), edit("add Parse"))

    assert items(run) == [("pending", "Parse")]
    assert "- pending: Parse" in run.contexts["talk"][-1].text


def test_a_change_that_cannot_be_made_any_more_makes_nothing_true() -> None:
    before, _ = kept(edit("done 1"))
    for line in ("done 1", "done 3", "drop 3", "drop 0"):
        run, _ = kept(edit("done 1"), edit(line))
        assert run == before, line

    full = [{"text": f"{n}"} for n in range(MAX_ITEMS)]
    run, _ = kept(replies("", call("todo", items=full)), done("call_2"), edit("add one more"))
    assert len(run.todo.items) == MAX_ITEMS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "add",
        "add   ",
        "done",
        "done x",
        "done -1",
        "drop 1 2",
        "done 99999",
        "clear",
        "add " + "x" * 201,
    ],
)
def test_what_is_no_change_is_said_to_be_none(line: str) -> None:
    with pytest.raises(UserMistake):
        parse_edit(line)


def test_the_list_outlives_the_process_and_every_point_of_the_past_has_its_own() -> None:
    _, facts = kept(edit("add Say it"), edit("done 2"))
    run, seen = Run(id="r"), []
    for fact in facts:
        run = apply(run, fact)
        assert decode_run(*encode_run(run)) == run
        seen.append(len(run.todo.items))

    assert sorted(set(seen)) == [0, 2, 3]
    assert run.todo.items[1] == TodoItem(text="Print", status="done")
