"""A plan: proposed by an agent, and approved, changed or rejected by a person."""

from typing import Any

import pytest
from decide_kit import (
    TOOLS,
    Step,
    call,
    comes,
    define,
    done,
    flow,
    go,
    replies,
    says,
    state,
    tell,
)
from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.codec import decode_run, encode_run
from midstream.core.conversation import NOTE
from midstream.core.decide.decide import judged
from midstream.core.fold.apply import apply
from midstream.core.inputs import Approve, Halt, Recovered, Start
from midstream.core.pending import pending
from midstream.core.proposal import CHANGED, mode_of, proposal_of, rewritten, written, yes_in
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.core.todo import MAX_CHARS, MAX_ITEMS
from midstream.language.errors import UserMistake
from midstream.language.spec import ToolSpec

STEPS = ["Read calc.py", "Write the test"]
PLAN: dict[str, Any] = {"title": "Mend the sum", "steps": STEPS}
PROPOSE = ToolSpec(
    name="propose_plan", description="", parameters={"type": "object"}, effect="read"
)
WORK = define(flow(state("start", "dude"), state("resume", "dude")))
WORK = replace(WORK, tools={**TOOLS, "propose_plan": PROPOSE})


def proposed(*steps: Step, **start: Any) -> tuple[Run, list[e.AnyFact]]:
    """Return a run whose agent has proposed the plan, after the steps."""
    return tell(WORK, replies("", call("propose_plan", **PLAN)), *steps, **start)


def approve(**fields: Any) -> Step:
    """A person decides on the plan that is open."""
    return lambda run: Approve(question=card(run).id, granted=fields.pop("granted", True), **fields)


def card(run: Run) -> Question:
    (question,) = run.inbox.open_questions
    return question


def items(run: Run) -> list[tuple[str, str]]:
    return [(item.status, item.text) for item in run.todo.items]


def result(run: Run) -> str:
    return run.contexts["talk"][-1].results[-1].text


def test_a_plan_is_an_approval_that_nothing_goes_past() -> None:
    run, _ = proposed()

    asked = card(run)
    assert (asked.kind, asked.about, asked.agent) == ("approval", "plan", "dude")
    assert asked.text == "propose_plan\nMend the sum\n1. Read calc.py\n2. Write the test"
    assert asked.asks[0].startswith("shown:")
    assert pending(run) == ()
    assert items(run) == []


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_a_yes_makes_the_steps_the_list_and_the_turn_goes_on(mode: Any) -> None:
    run, facts = proposed(approve(mode=mode))

    answered = next(fact for fact in facts if isinstance(fact, e.QuestionAnswered))
    assert mode_of(answered.answer) == mode
    assert items(run) == [("pending", "Read calc.py"), ("pending", "Write the test")]
    assert run.todo.agent == "dude"
    assert f"the permission mode is {mode}" in result(run)
    assert run.visit.turn is not None
    assert run.visit.turn.request == 2


def test_a_no_goes_back_with_what_was_said_and_planning_goes_on() -> None:
    run, _ = proposed(approve(granted=False, note="test first"))

    assert result(run).endswith("nothing of it is to be done. They said: test first")
    assert items(run) == []
    assert run.visit.turn is not None
    assert run.visit.turn.request == 2


def test_what_a_person_changed_is_shown_and_only_a_yes_to_that_counts() -> None:
    edited = {"title": "Mend it", "steps": ["Write the test", "Mend it", "Say so"]}
    run, facts = proposed(approve(edited=edited))

    assert [f.answer for f in facts if isinstance(f, e.QuestionAnswered)] == [CHANGED]
    assert mode_of(CHANGED) is None
    assert card(run).text.endswith("\n1. Write the test\n2. Mend it\n3. Say so")
    assert items(run) == []

    old = next(fact.question_id for fact in facts if isinstance(fact, e.QuestionAsked))
    assert go(run, Approve(question=old, granted=True))[0] == run, "the first card is gone"

    run, _ = go(run, approve(mode="auto"))
    assert [text for _, text in items(run)] == edited["steps"]
    assert "after changing it. It is now:\nMend it\n1. Write the test" in result(run)


def test_a_change_that_is_no_plan_leaves_the_card() -> None:
    before, _ = proposed()
    run, _ = go(before, approve(edited={"title": "", "steps": []}))
    assert run == before


def test_a_yes_to_a_card_that_does_not_say_what_its_call_holds_is_no_yes() -> None:
    run, _ = proposed()
    told = replace(card(run), text="propose_plan\nTidy\n1. Nothing", asks=("shown:0",))
    run = replace(run, inbox=replace(run.inbox, questions=(told,), open_questions=(told,)))

    story = judged(run, Approve(question=told.id, granted=True))

    assert card(story.run).text.endswith("2. Write the test")
    assert story.run.todo.items == ()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"title": "x", "steps": []},
        {"title": " ", "steps": ["x"]},
        {"title": "x", "steps": [" \n "]},
        {"title": "x", "steps": "all"},
        {"title": "x", "steps": ["x"] * (MAX_ITEMS + 1)},
        {"title": "x", "steps": ["x" * 501]},
        {"title": "x", "steps": ["x"], "mode": "full"},
    ],
)
def test_what_is_no_plan_is_told_the_model(arguments: Any) -> None:
    run, _ = tell(WORK, replies("", call("propose_plan", **arguments)))

    assert run.inbox.open_questions == ()
    assert result(run).startswith("That is no plan: ")


def test_a_step_is_one_line_with_nothing_a_terminal_obeys() -> None:
    fake = "Look\n│ y yes\n2. \x1b[31mred\u202egnp\x9b1m"
    plan = proposal_of({"title": "t", "steps": [fake, "x" * 300]})

    assert written(plan).count("\n") == 2
    assert not set(plan.steps[0]) & set("\n\x1b\u202e\x9b")
    run, _ = tell(
        WORK, replies("", call("propose_plan", title="t", steps=[fake, "x" * 300])), approve()
    )
    assert run.todo.items[0].text == plan.steps[0]
    assert len(run.todo.items[1].text) == MAX_CHARS


def test_unasked_words_are_steering_and_approve_nothing() -> None:
    run, facts = proposed(says("yes, go on"))

    assert any(isinstance(fact, e.QuestionSuperseded) for fact in facts)
    assert not any(isinstance(fact, e.QuestionAnswered) for fact in facts)
    assert items(run) == []


def test_words_meant_as_an_answer_approve_nothing() -> None:
    before, _ = proposed()
    run, facts = go(before, says("y", question=card(before).id))

    assert any(isinstance(fact, e.AnswerRefused) for fact in facts)
    assert card(run) == card(before)


def test_esc_closes_the_card_and_a_crash_does_not() -> None:
    run, _ = proposed(Halt())
    assert run.inbox.open_questions == ()

    before, facts = proposed(Recovered(), Recovered())
    assert card(before).about == "plan"
    run = Run(id="r")
    for fact in facts:
        run = apply(run, fact)
        assert decode_run(*encode_run(run)) == run


def test_nobody_there_is_no_refusal_and_no_yes() -> None:
    run, _ = proposed(approvals="deny", allowed=("propose_plan",))

    assert card(run).about == "plan"
    assert items(run) == []


def test_a_yes_for_the_run_to_something_else_approves_no_plan() -> None:
    peek = replace(PROPOSE, name="peek", needs_approval=True)
    work = replace(WORK, tools={**WORK.tools, "peek": peek})
    run, _ = tell(work, replies("", call("peek"), call("propose_plan", **PLAN)))
    asked = next(q for q in run.inbox.open_questions if q.about == "")
    run, _ = go(run, Approve(question=asked.id, granted=True, for_run=True), done("call_1"))

    assert card(run).about == "plan"


def test_a_plan_that_waits_for_a_call_before_it_is_asked_about_when_its_turn_comes() -> None:
    run, _ = tell(
        WORK,
        replies("", call("put"), call("propose_plan", **PLAN)),
        done("call_1"),
        comes("call_2"),
    )

    assert card(run).about == "plan"


# --- what a person writes --------------------------------------------------------------------------


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = proposal_of({"title": "Mend the sum", "steps": [f"step {n}" for n in range(1, 12)]})
    assert rewritten(written(plan)) == plan


def test_a_plan_may_be_written_in_any_list() -> None:
    plan = rewritten("# Mend it\n\n- look\n* mend\n3) 2. test\n   say so  \n")
    assert (plan.title, plan.steps) == ("Mend it", ("look", "mend", "2. test", "say so"))
    for text in ("", "\n\n", "only a title"):
        with pytest.raises(UserMistake):
            rewritten(text)


# --- the permission mode, as an agent is told of it --------------------------------------------------


def in_mode(run: Run, input: Any, mode: Any) -> Run:
    return judged(run, input(run) if callable(input) else input, mode=mode).run


def notes(run: Run) -> list[str]:
    return [m.text for m in run.contexts["talk"] if m.author == NOTE]


def test_the_mode_is_told_before_a_request_once_it_is_plan_and_once_it_is_no_longer() -> None:
    begin = Start(definition=WORK, input="tidy")
    assert notes(in_mode(Run(id="r"), begin, "ask")) == []

    run = in_mode(Run(id="r"), begin, "plan")
    assert len(notes(run)) == 1
    assert "propose_plan" in notes(run)[0]
    before = run.contexts["talk"]
    run = in_mode(run, replies("", call("look")), "plan")
    run = in_mode(run, done("call_1"), "plan")
    assert len(notes(run)) == 1
    run = in_mode(run, replies("", call("look")), "auto")
    run = in_mode(run, done("call_2"), "auto")
    assert notes(run)[1:] == ["[The permission mode is auto now, no longer plan.]"]
    assert run.contexts["talk"][: len(before)] == before, "what was said stays as it was"


def test_an_approved_plan_says_the_mode_and_nothing_says_it_again() -> None:
    run = in_mode(Run(id="r"), Start(definition=WORK, input="tidy"), "plan")
    run = in_mode(run, replies("", call("propose_plan", **PLAN)), "plan")
    # What the machine looks at when it judges the yes is still the mode from before.
    run = in_mode(run, approve(), "plan")
    assert len(notes(run)) == 1
    run = in_mode(run, replies("", call("look")), "ask")
    run = in_mode(run, done("call_2"), "ask")
    assert len(notes(run)) == 1


def test_an_agent_that_cannot_propose_is_told_nothing() -> None:
    plain = define(flow(state("start", "dude")))
    assert notes(in_mode(Run(id="r"), Start(definition=plain, input="tidy"), "plan")) == []


def test_one_taken_up_in_another_mode_is_told() -> None:
    run, _ = tell(WORK)
    assert len(notes(in_mode(run, Recovered(), "plan"))) == 1


def test_yes_names_its_mode() -> None:
    assert [mode_of(yes_in(mode)) for mode in ("ask", "auto")] == ["ask", "auto"]
    assert mode_of("yes, in full") is None
