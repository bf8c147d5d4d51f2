"""External agents: one prompt is one request, and what they do meanwhile is told, judged and kept."""

from decide_kit import (
    Step,
    approves,
    fails,
    flow,
    go,
    keys,
    kinds,
    of,
    path,
    replayed,
    replies,
    says,
    state,
    tell,
    words,
)

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.conversation import ToolCall
from midstream.core.decide.external import CUT_SHORT, NOTHING_LOST
from midstream.core.pending import AskModel, pending, request_key, review_key
from midstream.core.run import Run, Session
from midstream.language.names import Effect, Outcome
from midstream.language.spec import Agent, Catch, Context, Retry

CLAUDE = Agent(name="claude", agent_role="dude", context="talk", acp="claude")
CRITIC = Agent(agent_role="critic", context="talk", role="user")
WHO = {"agents": (CLAUDE, CRITIC), "contexts": (Context(name="talk"),)}
ONE = flow(state("start", "claude", prompt="tidy it"), **WHO)
RESUMING = flow(
    state("start", "claude", prompt="tidy it", next="stop"),
    state("resume", "claude", next="$interrupted"),
    **WHO,
)


def opens(session: str = "s1", *, is_new: bool = True, told: int = 1) -> Step:
    return lambda run: inputs.AgentOpened(
        key=request_key(run), session=session, run=run.id, told=told, is_new=is_new
    )


def makes(id: str, effect: Effect = "once", name: str = "edit") -> Step:
    call = ToolCall(id=id, name=name, arguments={"title": id})
    return lambda run: inputs.AgentCalled(key=request_key(run), call=call, effect=effect)


def ends(id: str, outcome: Outcome = "completed", text: str = "ok", shown: str = "") -> Step:
    def step(run: Run) -> inputs.AgentReturned:
        key = request_key(run)
        seen = (inputs.Shown(key=key, text=shown),) if shown else ()
        return inputs.AgentReturned(key=key, call_id=id, outcome=outcome, text=text, shown=seen)

    return step


def asked_about(id: str) -> Step:
    return lambda run: inputs.CallReviewed(
        key=review_key(run, id), kind="ask", asks=ASKS, shows="+ a", reason="mode ask"
    )


def stops(run: Run) -> inputs.AgentStopped:
    return inputs.AgentStopped(key=request_key(run))


ASKS = ("write: a.py", "shown: 1")


def test_a_prompt_is_one_request_and_what_is_done_in_it_is_kept_with_the_reply() -> None:
    run, facts = tell(
        ONE, opens(), makes("x1"), ends("x1"), replies("Tidied.", usage=e.Usage(model="acp:claude"))
    )

    assert kinds(facts)[3:] == [
        "agent_prompted",
        "tool_called",
        "tool_returned",
        "agent_responded",
        "state_transition",
        "workflow_output",
        "run_finished",
    ]
    last = run.contexts["talk"][-1]
    assert (last.text, last.author) == ("Tidied.", "claude")
    assert [
        (call.name, result.outcome) for call, result in zip(last.calls, last.results, strict=True)
    ] == [("edit", "completed")]
    assert (run.usage.tool_calls, len(run.usage.requests)) == (1, 1)
    assert replayed(facts) == run


def test_it_hears_next_what_was_said_since_its_whole_reply_and_nothing_else() -> None:
    two = flow(
        state("start", "claude", prompt="one", next="judge"),
        state("judge", "critic", next="again"),
        state("again", "claude", prompt="two"),
        **WHO,
    )

    run, _ = tell(two, opens(), replies("first"), replies("hm"))

    assert [text for _, text in words(run.contexts["talk"])[-2:]] == ["hm", "two"]
    assert run.sessions == {"claude": Session(id="s1", run="r", unheard=2, told=1)}


def test_words_cut_it_and_it_is_waited_for_until_it_does_nothing_more() -> None:
    run, _ = tell(RESUMING, opens(), makes("x1"), makes("x2", "read", "read"))

    run, facts = go(run, says("no, rename", shown="I will"))

    assert run.visit.phase == "halting"
    owed = [effect for effect in pending(run) if isinstance(effect, AskModel)]
    assert [effect.stopping for effect in owed] == [True]
    assert kinds(facts) == ["input_received", "interrupted"]

    run, facts = go(run, ends("x1"), stops)

    assert kinds(facts)[:3] == ["tool_returned", "tool_returned", "agent_stopped"]
    assert [(each.call_id, each.outcome, each.result) for each in of(facts, e.ToolReturned)] == [
        ("x1", "completed", "ok"),
        ("x2", "stopped", NOTHING_LOST),
    ]
    assert run.visit.state == "resume"
    cut = next(each for each in run.contexts["talk"] if each.interrupted)
    assert (cut.text, [each.outcome for each in cut.results]) == (
        "I will",
        ["completed", "stopped"],
    )
    # The prompt, its own words, and the person's: it may remember none of them.
    assert run.sessions["claude"].unheard == 3


def test_a_reply_that_comes_while_it_is_halted_ends_the_wait_and_is_no_reply() -> None:
    run, _ = tell(RESUMING, opens(), says("no", shown="I"))

    run, facts = go(run, replies("I did it all."))

    assert "agent_responded" not in kinds(facts)
    assert run.visit.state == "resume"
    assert [text for who, text in words(run.contexts["talk"]) if who == "claude"] == ["I"]


def test_before_it_was_sent_anything_nothing_is_waited_for() -> None:
    run, _ = tell(RESUMING, says("no"))

    assert (run.visit.state, run.visit.phase) == ("resume", "turn")


def test_what_it_may_do_is_asked_and_a_yes_lets_it_go_on() -> None:
    run, facts = tell(ONE, opens(), makes("x1"), asked_about("x1"))

    [question] = of(facts, e.QuestionAsked)
    assert (question.kind, question.text, question.asks) == ("approval", "edit\n+ a", ASKS)
    assert run.is_parked

    run, facts = go(run, approves(question.question_id))

    assert kinds(facts) == ["question_answered"]
    assert [(c.call.id, c.status) for c in run.visit.turn.external] == [("x1", "running")]  # type: ignore[union-attr]
    assert run.usage.tool_calls == 1


def test_a_no_refuses_the_call_and_the_agent_goes_on() -> None:
    run, _ = tell(ONE, opens(), makes("x1"), asked_about("x1"))

    run, facts = go(run, approves("q1", granted=False, note="too much"))

    [ended] = of(facts, e.ToolReturned)
    assert (ended.outcome, ended.result) == (
        "denied",
        "The user refused this call. They said: too much",
    )
    assert run.visit.phase == "turn"
    assert not run.is_parked


def test_where_nobody_is_there_to_ask_it_is_refused() -> None:
    _, facts = tell(ONE, opens(), makes("x1"), asked_about("x1"), approvals="deny")

    [ended] = of(facts, e.ToolReturned)
    assert ended.outcome == "denied"
    assert "--allow" in ended.result
    assert not of(facts, e.QuestionAsked)


def test_a_yes_for_the_run_covers_the_next_call() -> None:
    run, _ = tell(ONE, opens(), makes("x1"), asked_about("x1"))

    run, facts = go(run, approves("q1", for_run=True), ends("x1"), makes("x2"), asked_about("x2"))

    assert not of(facts, e.QuestionAsked)
    assert [c.status for c in run.visit.turn.external] == ["done", "running"]  # type: ignore[union-attr]


def test_one_that_does_not_wait_for_the_answer_closes_the_question() -> None:
    run, facts = tell(ONE, opens(), makes("x1"), asked_about("x1"), ends("x1", "failed", "gone"))

    assert kinds(facts)[-2:] == ["question_superseded", "tool_returned"]
    assert not run.inbox.open_questions


def test_a_halt_closes_what_nobody_has_allowed() -> None:
    run, _ = tell(RESUMING, opens(), makes("x1"), asked_about("x1"))

    run, facts = go(run, says("no"))

    [ended] = of(facts, e.ToolReturned)
    assert (ended.outcome, run.inbox.open_questions) == ("not_run", ())


def test_a_crash_leaves_the_outcome_of_its_calls_unknown_and_asks_it_on_in_its_session() -> None:
    run, _ = tell(ONE, opens(), makes("x1"), makes("x2"), asked_about("x2"))

    run, facts = go(run, inputs.Recovered())

    assert kinds(facts) == [
        "tool_returned",
        "question_superseded",
        "tool_returned",
        "reply_cut",
        "run_recovered",
    ]
    outcomes = [(each.outcome, each.result) for each in of(facts, e.ToolReturned)]
    assert outcomes[0] == ("unknown", CUT_SHORT)
    assert outcomes[1][0] == "not_run"
    assert [key[1] for key in keys(run)] == ["model"]
    assert run.sessions["claude"].id == "s1"
    assert run.sessions["claude"].unheard == 2


def test_a_crash_in_the_middle_of_a_halt_finishes_it() -> None:
    run, _ = tell(RESUMING, opens(), makes("x1"), says("no", shown="I"))

    run, facts = go(run, inputs.Recovered())

    assert "agent_stopped" in kinds(facts)
    assert run.visit.state == "resume"


def test_a_crash_of_the_agent_is_an_error_of_a_kind_that_is_tried_again_or_caught() -> None:
    tried = flow(state("start", "claude", retry=Retry(max_attempts=2, on=("agent",))), **WHO)
    caught = flow(
        state("start", "claude", catch=(Catch(to="sorry", on=("agent",)),)),
        state("sorry"),
        **WHO,
    )

    _, facts = tell(tried, opens(), makes("x1"), fails("it died"))
    assert [(each.kind, each.then) for each in of(facts, e.StateFailed)] == [("agent", "retry")]
    assert [each.outcome for each in of(facts, e.ToolReturned)] == ["unknown"]

    _, facts = tell(caught, fails("it died"))
    assert path(facts) == ["start", "sorry", "stop"]


def test_steering_waits_for_a_call_and_then_cuts_the_reply() -> None:
    run, _ = tell(ONE, opens(), makes("x1"))

    run, facts = go(run, says("also the docs", policy="steer", shown="I"))
    assert kinds(facts) == ["input_received"]

    run, facts = go(run, ends("x1", shown="I am"))

    assert kinds(facts) == ["tool_returned", "reply_cut", "words_joined", "input_disposed"]
    assert of(facts, e.ReplyCut)[0].partial == "I am"


def test_a_cleared_conversation_is_a_new_session() -> None:
    clearing = flow(
        state("start", "claude", prompt="one", next="clear"),
        state("clear", post_handler="h", next="again"),
        state("again", "claude", prompt="two"),
        **WHO,
    )
    change = e.ContextChange(context="talk", action="clear")

    run, _ = tell(
        clearing,
        opens(),
        replies("first"),
        lambda run: inputs.HandlerReturned(key=keys(run)[0], contexts=(change,)),
    )

    assert run.sessions == {}


def test_files_that_changed_are_told_whatever_the_run_is_at() -> None:
    file = e.FileWritten(call_id="$seen", path="/w/a", before=None, after="k")

    run, facts = tell(
        ONE,
        inputs.FilesSeen(branch="", manifest="m"),
        opens(),
        inputs.FilesSeen(branch="", files=(file,), note="b changed"),
    )

    assert kinds(facts)[-3:] == ["file_written", "workflow_output", "workspace_seen"]
    assert run.manifest == ""


def test_killed_after_any_step_the_run_is_taken_up_and_comes_to_its_end() -> None:
    steps = (
        inputs.FilesSeen(branch="", manifest="m"),
        opens(),
        makes("x1"),
        asked_about("x1"),
        approves("q1"),
        ends("x1"),
        makes("x2", "read", "read"),
        makes("x3"),
        asked_about("x3"),
        says("no", shown="I"),
        stops,
        opens(is_new=False, told=3),
        makes("x4"),
        replies("Renamed."),
    )
    for count in range(len(steps)):
        run, facts = tell(RESUMING, *steps[:count])
        run, more = go(run, inputs.Recovered())
        while not run.is_over:
            assert any(isinstance(effect, AskModel) for effect in pending(run)), count
            run, told = go(run, opens("s2", told=len(run.contexts["talk"])), replies("Done."))
            more = [*more, *told]

        facts = [*facts, *more]
        assert run.status == "finished"
        called = [fact.call_id for fact in of(facts, e.ToolCalled)]
        assert sorted(fact.call_id for fact in of(facts, e.ToolReturned)) == sorted(called)
        assert replayed(facts) == run


def test_one_that_only_did_something_has_answered_and_one_that_did_nothing_is_asked_again() -> None:
    run, _ = tell(ONE, opens(), makes("x1"), ends("x1"), replies(""))
    assert run.status == "finished"

    run, facts = tell(ONE, opens(), replies(""), opens(), replies(""), opens(), replies(""))
    assert run.status == "failed"
    assert of(facts, e.AgentResponded)[0].problem.startswith("Your reply was empty")
