"""A run on one line: kept up fact by fact, it says what the folded run says."""

from decide_kit import (
    asks,
    begins,
    define,
    flow,
    replayed,
    replies,
    rings,
    says,
    state,
    tell,
    within,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_core_invariants import RESUMES, told

from midstream.core.events import AnyFact
from midstream.core.fold.apply import apply
from midstream.core.inputs import Recovered, Resume, Stop
from midstream.core.notices import Envelope
from midstream.core.run import Run, definition_of
from midstream.language.spec import Ask, State
from midstream.views.listing import Summary, summarised

PLAIN = flow(state("start", "dude"))


def listed(facts: list[AnyFact], at: float = 0.0) -> Summary:
    """Return the summary of a run with these facts, the first of them told at `at`."""
    summary = Summary()
    for seq, fact in enumerate(facts, 1):
        told = Envelope(run="r", at=at + seq - 1, event=fact, seq=seq)
        summary = summarised(summary, told)
    return summary


def test_a_run_is_listed_with_its_workflow_and_times() -> None:
    _, facts = tell(PLAIN, workspace="/w")
    summary = listed(facts, at=100.0)

    assert (summary.workflow, summary.kind, summary.workspace) == ("w", "workflow", "/w")
    assert (summary.started_at, summary.updated_at) == (100.0, 100.0 + len(facts) - 1)
    assert (summary.state, summary.status, summary.is_over) == ("start", "running", False)


def test_a_run_is_listed_with_the_words_it_began_with() -> None:
    given = {"tidy": "tidy", "two\n lines": "two lines", "x" * 90: "x" * 79 + "…"}
    for input, first in given.items():
        assert listed(tell(PLAIN, says("no"), input=input)[1]).first == first
    assert listed(tell(PLAIN, input={"topic": "rain"})[1]).first == '{"topic":"rain"}'
    assert listed(tell(PLAIN, says("no, wait"), input=None)[1]).first == "no, wait"


def test_what_is_asked_is_listed_until_it_is_answered() -> None:
    _, facts = tell(PLAIN, replies("", asks("Which?"), asks("Why?")))
    assert listed(facts).asking == ("q1", "q2")

    _, facts = tell(PLAIN, replies("", asks("Which?"), asks("Why?")), says("src", "q1"))
    assert listed(facts).asking == ("q2",)


def test_waiting_for_words_asks_nothing() -> None:
    _, facts = tell(flow(state("start", "dude", awaits_input=True)), input=None)
    summary = listed(facts)

    assert (summary.asking, summary.awaits_input) == ((), True)


def test_a_crash_loop_is_listed_until_a_person_ends_it() -> None:
    _, facts = tell(PLAIN, *[Recovered()] * 5)
    assert listed(facts).status == "suspended"

    _, facts = tell(PLAIN, *[Recovered()] * 5, Resume())
    assert listed(facts).status == "running"

    _, facts = tell(PLAIN, *[Recovered()] * 5, Stop(reason="bye"))
    assert (listed(facts).status, listed(facts).is_over) == ("stopped", True)


def test_another_definition_is_listed() -> None:
    now = define(flow(state("start", "dude"), workflow_name="w2"))
    _, facts = tell(PLAIN, Recovered(definition=now))

    assert listed(facts).workflow == "w2"


def test_a_branch_moves_in_its_own_states_and_asks_for_the_whole() -> None:
    workflow = flow(
        State(name="start", parallel=("left", "right")),
        state("left", "dude"),
        state("right", "critic"),
    )
    _, facts = tell(workflow, within("left", replies("", asks("Which?"))))
    summary = listed(facts)

    assert (summary.state, summary.asking) == ("start", ("left/q1",))


def test_a_question_whose_time_is_over_is_asked_no_more() -> None:
    ask = Ask(question="Which?", deadline_s=5, on_timeout="goto", to="after")
    workflow = flow(State(name="start", ask=ask), state("after", "dude"))
    steps = (begins("deadline", 5.0), rings("deadline"))
    assert listed(tell(workflow, *steps)[1]).asking == ()

    stays = flow(State(name="start", ask=Ask(question="Which?", deadline_s=5)))
    assert listed(tell(stays, *steps)[1]).asking == ("q1",)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_after_every_fact_the_summary_agrees_with_the_run(data: st.DataObject) -> None:
    run, facts = told(data, data.draw(st.sampled_from(RESUMES)))
    assert replayed(facts) == run
    summary, run = Summary(), Run(id="r")
    for seq, fact in enumerate(facts, 1):
        run = apply(run, fact)
        summary = summarised(summary, Envelope(run="r", at=1.0, event=fact, seq=seq))
        status = "suspended" if run.suspended and not run.is_over else run.status
        assert (summary.state, summary.status, summary.is_over) == (
            run.visit.state,
            status,
            run.is_over,
        )
        asking = tuple(q.id for q in run.inbox.open_questions if q.kind != "input")
        assert summary.asking == asking
        assert summary.awaits_input == any(q.kind == "input" for q in run.inbox.open_questions)
        definition = definition_of(run)
        assert summary.workflow == definition.workflow.workflow_name
        assert summary.kind == definition.kind
