"""`@name words`: which branch of a run they are for, and what a line does where branches are at work."""

import pytest
from decide_kit import (
    Step,
    approves,
    asks,
    begins,
    call,
    dispositions,
    done,
    flow,
    go,
    of,
    replies,
    says,
    state,
    tell,
    within,
)

from midstream.core.events import InputDisposed, Interrupted, QuestionAnswered, StateTransition
from midstream.core.inputs import Halt, UserSaid
from midstream.core.routing import (
    address_of,
    addressees,
    as_typed,
    branch_at,
    gone,
    shared_names,
    spoken,
)
from midstream.core.run import Run
from midstream.language.spec import Branch, ForEach, Retry, State, Wait, Workflow
from midstream.views.lanes import Lane, about, lanes
from midstream.views.run_status import doing_of, what_addressing_does, what_enter_does

TWO = flow(
    State(name="start", parallel=("left", "right")), state("left", "dude"), state("right", "critic")
)


def meant(run: Run, line: str) -> tuple[str, str]:
    """Return the path of the branch a line is for, and the words for it."""
    to = spoken(line, run)
    return to.branch, to.text


def items(*names: str) -> Run:
    """Return a run with a branch for each of these items."""
    each = State(name="start", for_each=ForEach(items="input", state="one", max_concurrency=20))
    return tell(flow(each, state("one", "dude")), input=list(names))[0]


def nested() -> Run:
    """Return a run whose branch `outer` has branches `a` and `b` itself."""
    inner = (state("deep", "dude"),)
    outer = State(
        name="outer", parallel=(Branch(name="a", states=inner), Branch(name="b", states=inner))
    )
    return tell(
        flow(State(name="start", parallel=("outer", "other")), outer, state("other", "critic"))
    )[0]


def test_an_agent_at_work_in_two_branches_is_named_with_both() -> None:
    run = nested()

    assert shared_names(run) == {"dude": ("outer/a", "outer/b")}
    assert "dude" not in addressees(run)
    assert shared_names(tell(TWO)[0]) == {}


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("@tests only src", ("tests", "only src")),
        ("@a/b\nline one\nline two", ("a/b", "line one\nline two")),
        ("@tests", ("", "@tests")),
        ("@tests  ", ("", "@tests  ")),
        (" @tests x", ("", " @tests x")),
        ("mail me @home now", ("", "mail me @home now")),
        ("@", ("", "@")),
    ],
)
def test_an_address_is_a_name_behind_an_at_sign_and_words(
    line: str, expected: tuple[str, str]
) -> None:
    assert address_of(line) == expected


def test_a_branch_goes_by_its_name_and_the_agent_at_work_there() -> None:
    run, _ = tell(TWO)

    assert {name: branch.branch.path for name, branch in addressees(run).items()} == {
        "left": "left",
        "right": "right",
        "dude": "left",
        "critic": "right",
    }
    assert meant(run, "@critic hm") == ("right", "hm")
    assert meant(run, "@nobody hm") == ("", "@nobody hm")


def test_an_agent_at_work_in_two_branches_means_neither() -> None:
    assert "dude" not in addressees(nested())


def test_a_branch_within_goes_by_its_last_name_and_by_the_whole_way() -> None:
    run = nested()

    assert meant(run, "@a x") == meant(run, "@outer/a x") == ("outer/a", "x")


def test_an_item_goes_by_its_number_with_or_without_zeros() -> None:
    run = items(*(f"file{number}" for number in range(12)))

    assert meant(run, "@3 x") == meant(run, "@03 x") == ("03", "x")


def test_nobody_is_spoken_to_alone_while_all_are_being_halted() -> None:
    run, _ = tell(TWO, within("left", replies("", call("shell"))), Halt())

    assert run.visit.phase == "halting"
    assert addressees(run) == {}


def test_a_held_run_goes_on_with_words_for_one_of_its_branches() -> None:
    run, _ = tell(TWO, Halt(), says("@left go on"))

    assert dispositions(run) == ["interrupted"]
    assert [branch.visit.phase for branch in run.visit.branches.values()] == ["turn", "turn"]


def test_a_branch_that_ended_is_spoken_to_no_more() -> None:
    run, _ = tell(TWO, within("left", replies("L")))

    assert "left" not in addressees(run)
    assert gone(run) == {"left"}


def test_words_for_a_branch_that_has_just_ended_come_back() -> None:
    run, _ = tell(TWO)
    late = UserSaid(id="late", to=spoken("@left shorter", run), at=0.0)
    run, _ = go(run, within("left", replies("L")))

    run, facts = go(run, lambda _: late)

    assert of(facts, Interrupted) == []
    assert dispositions(run) == ["rejected"]
    assert run.inbox.lines["late"].text == "@left shorter"
    assert [fact.reason for fact in of(facts, InputDisposed)] == ["left is done"]


def test_a_branch_is_found_by_its_path() -> None:
    run = nested()

    assert branch_at(run, "") is run
    assert branch_at(run, "outer/a") is run.visit.branches["outer"].visit.branches["a"]
    assert branch_at(run, "outer/x") is None


def test_words_are_shown_as_they_were_typed() -> None:
    assert as_typed("hm", "") == "hm"
    assert as_typed("hm", "a/b") == "@a/b hm"


# --- words a branch waits for -----------------------------------------------------------------


def waiting() -> Run:
    """Return a run in which one branch waits for words and the other works."""
    workflow = flow(
        State(name="start", parallel=("left", "right")),
        state("left", "dude", awaits_input=True),
        state("right", "critic"),
    )
    return tell(workflow)[0]


def test_words_go_to_the_branch_that_waits_for_them() -> None:
    assert what_enter_does(waiting()) == "sends to left"
    _, facts = go(waiting(), says("hello"))

    assert [fact.branch for fact in of(facts, QuestionAnswered)] == ["left"]


def test_words_to_another_branch_are_not_taken_by_the_one_that_waits() -> None:
    run, facts = go(waiting(), says("@right shorter"))

    assert of(facts, QuestionAnswered) == []
    assert [fact.branch for fact in of(facts, Interrupted)] == ["right"]
    assert run.visit.branches["left"].visit.phase == "waiting"


# --- a state's own call that was cut ----------------------------------------------------------


def cut_call() -> Run:
    """Return a run whose state's call was cut off by words, back in the state."""
    workflow = flow(State(name="start", tool="shell"), state("resume", "dude", next="$interrupted"))
    run, _ = tell(workflow, says("wait"), done("call_1", "killed", "stopped"), replies("Now."))
    return run


def test_a_call_that_did_not_happen_is_made_again() -> None:
    run = cut_call()
    (question,) = run.inbox.open_questions
    assert question.text == "A call was cut off while it ran. What became of it?\nshell {}"

    run, facts = go(run, says("2", question.id))

    assert run.visit.phase == "call"
    assert run.visit.turn is not None
    assert [each.status for each in run.visit.turn.calls] == ["running"]
    run, facts = go(run, done("call_2", "ok"))
    assert of(facts, StateTransition)[-1].target == "stop"


# --- where a run with branches stands ---------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "doing", "enter"),
    [
        ([], "left, right at work", "interrupts 2 branches"),
        ([within("left", replies("L"))], "right at work", "interrupts right"),
        (
            [within("left", replies("", asks("Which?")))],
            "right at work; waiting for your answer to #1",
            "answers #1",
        ),
        (
            [within("left", replies("", call("write")))],
            "right at work; waiting for your approval of #1",
            "interrupts 2 branches",
        ),
        ([Halt()], "stopped here, waiting for your words", "resumes"),
    ],
)
def test_where_a_run_with_branches_stands(steps: list[Step], doing: str, enter: str) -> None:
    run = tell(TWO, *steps)[0]

    assert (doing_of(run), what_enter_does(run)) == (doing, enter)


def test_many_branches_are_counted_and_one_sub_state_speaks_for_itself() -> None:
    assert doing_of(items("a", "b", "c", "d")) == "4 branches at work"
    assert doing_of(items("a")) == "dude is thinking"
    assert what_enter_does(items("a")) == "interrupts branch 1"


def test_every_branch_at_work_has_a_line_but_those_with_branches_of_their_own() -> None:
    run, _ = tell(TWO, within("left", replies("", asks("Which?"))))

    assert lanes(run) == (
        Lane(
            run="r",
            path="left",
            state="left",
            doing="waits for #1",
            agent="dude",
            is_parked=True,
            step=1,
        ),
        Lane(
            run="r",
            path="right",
            state="right",
            doing="critic is thinking",
            agent="critic",
            step=1,
        ),
    )
    assert [lane.path for lane in lanes(nested())] == ["outer/a", "outer/b", "other"]
    assert lanes(go(nested(), Halt())[0]) == ()


def test_a_line_says_until_when_a_branch_waits() -> None:
    workflow = flow(
        State(name="start", parallel=("nap", "try")),
        State(name="nap", wait=Wait(seconds=60)),
        State(name="try", tool="look", retry=Retry(max_attempts=3)),
    )
    run, _ = tell(
        workflow,
        within("nap", begins("wait", 60.0)),
        within("try", done("call_1", "no", "failed")),
        within("try", begins("retry", 7.0)),
    )

    nap, again = lanes(run)
    assert (nap.doing, nap.until) == ("nap waits", 60.0)
    assert (again.doing, again.until) == ("try waits to be tried again (2 of 3)", 7.0)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("src/core.py", "src/core.py"),
        ({"name": "core", "lines": 5}, "core"),
        ({"path": "a.py"}, "a.py"),
        (7, "7"),
        ("x" * 30, "x" * 23 + "…"),
        ("docs/a/very/long/path/to/file.md", "…ry/long/path/to/file.md"),
        ("two\nlines", "two lines"),
        (None, ""),
    ],
)
def test_an_item_is_said_in_a_few_characters(item: object, expected: str) -> None:
    assert about(item, {"index": 0}) == expected
    assert about(item, {}) == ""


def test_what_words_to_one_would_do_is_said_for_each() -> None:
    run, _ = tell(TWO, within("left", replies("", asks("Which?"))))

    assert what_addressing_does(run) == {
        "left": "interrupts left",
        "dude": "interrupts left",
        "right": "interrupts right",
        "critic": "interrupts right",
    }
    assert what_addressing_does(waiting())["left"] == "sends to left"


def test_a_branchs_policy_counts_for_words_to_it() -> None:
    workflow: Workflow = flow(
        State(name="start", parallel=("left", "right")),
        state("left", "dude", on_input="queue"),
        state("right", "critic", on_input="reject"),
    )
    does = what_addressing_does(tell(workflow)[0])

    assert does["left"] == "waits until left is done"
    assert does["right"] == "is not accepted by right now"


def test_an_approval_in_a_branch_is_granted_by_its_id() -> None:
    run, _ = tell(TWO, within("left", replies("", call("write"))))
    run, _ = go(run, approves("left/q1"))

    turn = run.visit.branches["left"].visit.turn
    assert turn is not None
    assert [each.status for each in turn.calls] == ["running"]
