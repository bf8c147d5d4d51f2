"""Rehearsals of runs within a run, and of states that wait: written down, played, told apart."""

import asyncio

import msgspec
import pytest
from deadline import DEADLINE_S
from rehearsing import recorded
from support.reference import reference
from support.stage import Reference

from midstream.core import events as e
from midstream.core.decide import transitions
from midstream.core.question import Question
from midstream.core.run import Inbox, Run, Visit
from midstream.rehearsal import format as form
from midstream.rehearsal.comparison import replay
from midstream.rehearsal.disturb_everywhere import Tried, everywhere
from midstream.rehearsal.invariants import broken_by, calls_of_states
from midstream.rehearsal.playback import point_named


def broken(*facts: e.AnyFact, run: Run | None = None) -> list[str]:
    return list(broken_by(run or Run(id="r"), facts, [], {}))


async def tried_at(known: Reference, point: str) -> Tried:
    rehearsal = await recorded(known)
    async with asyncio.timeout(DEADLINE_S):
        (tried,) = await everywhere(
            rehearsal, known.definition, known.handlers, only=point_named(point)
        )
    return tried


async def changed(name: str, before: str, after: str) -> str:
    """Return the first difference of a reference whose workflow says something else by now."""
    known = reference(name)
    rehearsal = await recorded(known)
    text = msgspec.json.encode(known.definition).decode()
    assert before in text
    other = msgspec.json.decode(text.replace(before, after), type=type(known.definition))
    async with asyncio.timeout(DEADLINE_S):
        difference = (await replay(rehearsal, other, known.handlers)).difference
    assert difference is not None
    return str(difference)


# --- written down -------------------------------------------------------------------------------


async def test_a_step_says_in_which_branch_it_happened() -> None:
    steps = (await recorded(reference("sub-workflow"))).steps
    assert {step.branch for step in steps} == {"inner", ""}
    answers = [step for step in steps if isinstance(step, form.UserAnswered)]
    assert [(step.branch, step.question) for step in answers] == [
        ("inner", "How deep?"),
        ("inner", "Sure?"),
    ]


async def test_words_to_a_branch_are_written_as_a_person_types_them() -> None:
    steps = (await recorded(reference("words to a branch"))).steps
    (said,) = [step for step in steps if isinstance(step, form.UserSaid)]
    assert said.text == "@spots only src"
    assert said.shown_in == {"spots": "Everything "}
    assert said.shown == ""


async def test_words_say_what_was_seen_of_the_replies_they_cut_and_of_no_other() -> None:
    steps = (await recorded(reference("words of every kind to branches"))).steps
    said = {step.text: step.shown_in for step in steps if isinstance(step, form.UserSaid)}
    assert said == {
        "be there": {},
        "@queue be patient": {},
        "@steer be brief": {"steer": "On "},
        "@resume be short": {"resume": "On "},
    }


async def test_a_time_that_came_is_a_step() -> None:
    steps = (await recorded(reference("answered too late"))).steps
    assert [(s.state, s.timer) for s in steps if isinstance(s, form.TimeCame)] == [
        ("start", "deadline"),
        ("again", "deadline"),
    ]
    late = (await recorded(reference("taking too long"))).steps[0]
    assert late == form.TimeCame(state="start", timer="timeout", shown="Long ")


async def test_the_states_of_a_branch_are_expected_by_its_path() -> None:
    expected = (await recorded(reference("branches in a branch"))).expected
    assert expected.states == ("start", "stop")
    assert expected.branches["left"] == ("list", "stop")
    assert expected.branches["left/1"] == ("each", "stop")
    assert expected.branches["right"] == ("loop", "loop", "stop")


# --- told apart ---------------------------------------------------------------------------------


async def test_what_another_prompt_shows_a_branch_is_a_difference() -> None:
    difference = await changed("three branches", "Look at tests.", "Count tests.")
    assert "in the branch tests, worker is asked in tests" in difference
    assert "Count tests." in difference


async def test_another_way_through_a_branch_is_a_difference() -> None:
    difference = await changed("branches in a branch", "visits.loop < 2", "visits.loop < 3")
    assert "state 3, after loop of the branch right" in difference
    assert "expected: stop" in difference
    assert "got:      loop" in difference


async def test_a_time_that_is_not_waited_for_any_more_is_a_difference() -> None:
    difference = await changed(
        "answered too late", '"deadline_s":60.0,"on_timeout":"g', '"on_timeout":"g'
    )
    assert "the time has come (deadline of again)" in difference


# --- disturbed ----------------------------------------------------------------------------------


async def test_words_to_one_branch_are_a_disturbance_of_their_own() -> None:
    tried = await tried_at(reference("three branches"), "aside:11:flying")
    assert (tried.broken, tried.end) == ((), "finished")


async def test_a_halt_of_a_branch_that_leads_elsewhere_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transitions, "resume_target", lambda run: "stop")
    tried = await tried_at(reference("three branches"), "aside:11:flying")
    assert "the halt of epoch 1 in the branch tests led to 'stop'" in tried.broken


def test_a_branch_that_goes_on_after_its_end_is_found() -> None:
    started = e.RunStarted(workflow="w", definition=reference("three branches").definition)
    entered = e.StateTransition(source="", target="start", reason="started")
    facts = (started, entered, e.BranchStarted(name="tests"), e.BranchFinished(branch="tests"))
    late = e.Interrupted(branch="tests", epoch=1, text=None, leads_to="hold")
    assert "fact 5 is of the branch tests, which had ended" in broken(*facts, late)
    again = (started, entered, e.BranchStarted(name="tests"), e.BranchStarted(name="tests"))
    assert "the branch tests was begun again while it was under way" in broken(*again)


def test_a_once_call_that_a_state_makes_again_is_found() -> None:
    started = e.RunStarted(workflow="w", definition=reference("tool states").definition)
    entered = e.StateTransition(source="", target="do", reason="started")
    called = e.ToolCalled(call_id="c1", name="record", arguments={}, agent="")
    unknown = e.ToolReturned(call_id="c1", name="record", outcome="unknown", result="?")
    refused = e.ToolReturned(call_id="c1", name="record", outcome="not_run", result="no")
    again = e.ToolCalled(call_id="c2", name="record", arguments={}, agent="")
    told = (started, entered)

    def calls(*facts: e.AnyFact) -> list[str]:
        return list(calls_of_states([*told, *facts]))

    assert calls(called, unknown, again) == ["the state do called record again"]
    assert calls(called, refused, again) == []
    assert calls(called, unknown, entered, again) == [], "that is another visit"


def test_questions_left_open_or_alike_are_found() -> None:
    question = Question(id="q1", number=1, kind="question", text="?")
    over = Run(
        id="r",
        visit=Visit(phase="ended"),
        inbox=Inbox(questions=(question,), open_questions=(question,)),
    )
    assert broken(run=over) == ["the question q1 is open though the run is over"]
    asked = e.QuestionAsked(question_id="q1", number=1, kind="question", text="?")
    assert broken(asked, asked) == ["2 questions have the id q1"]
