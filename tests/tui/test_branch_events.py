"""Branches as the lines a person reads: whose words they are, how they end, what halts cut."""

from decide_kit import (
    Step,
    approves,
    asks,
    begins,
    call,
    done,
    fails,
    flow,
    go,
    of,
    replies,
    rings,
    says,
    state,
    tell,
    within,
)

from midstream.core.events import AnyFact, BranchStarted, QuestionAsked, StateFailed
from midstream.core.inputs import Halt, Stop
from midstream.core.notices import AgentThinking, AnyNotice, Envelope, TextDelta
from midstream.core.run import Run
from midstream.language.spec import Ask, Branch, Catch, ForEach, Retry, State, Wait, Workflow
from midstream.tui.event_lines import Words, plain_words
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.styled_lines import to_plain


def reader(*, with_cards: bool = True) -> EventRenderer:
    return EventRenderer(with_cards=with_cards)


def read(renderer: EventRenderer, *events: AnyFact | AnyNotice, at: float = 0.0) -> str:
    """Return what a renderer tells of events, without the first two lines of every run."""
    blocks = []
    for number, event in enumerate(events, 1):
        blocks += renderer.render(Envelope(run="r", at=at, event=event, seq=number))
    blocks += renderer.settle()
    return "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block]) for block in blocks
    ).removeprefix("▶ w  started, run r\n")


def reviews(*names: str, **fields: object) -> Workflow:
    """Return a workflow whose start has these branches, one agent's turn each."""
    return flow(
        State(name="start", parallel=names, **fields),  # type: ignore[arg-type]
        *(state(name, "dude") for name in names),
        state("resume", "critic", next="$interrupted"),
    )


def story(workflow: Workflow, *steps: Step, with_cards: bool = True) -> str:
    """Return what is told of a run of the workflow after the steps."""
    return read(reader(with_cards=with_cards), *tell(workflow, *steps)[1])


# --- their lives ------------------------------------------------------------------------------


def test_branches_that_begin_together_are_one_line() -> None:
    assert story(reviews("left", "right")) == "▶ left, right  begin\n"


def test_a_branchs_words_stand_under_its_name_and_its_agents() -> None:
    told = story(reviews("left", "right"), within("left", replies("All is well.")))

    assert told == "▶ left, right  begin\n▌ left ▌ dude\nAll is well.\n✓ left ▌ finished\n"


def test_the_end_of_the_last_branch_joins_them() -> None:
    told = story(
        reviews("left", "right"), within("left", replies("L")), within("right", replies("R"))
    )

    assert "✓ start  2 branches joined\n" in told


def test_the_first_that_was_enough_stops_the_others_on_one_line_each() -> None:
    run, facts = tell(reviews("left", "right", join="any"))
    renderer = reader()
    read(renderer, *facts)
    renderer.live.hears("r", TextDelta(agent="dude", text="I had just beg", branch="left"))
    told = read(renderer, *go(run, within("right", replies("R")))[1])

    assert "▌ left ▌ dude\nI had just beg\n▌ [interrupted]\n" in told
    assert "■ left ▌ stopped: the others were enough · dude cut off\n" in told
    assert "✓ start  1 of 2 branches joined\n" in told
    assert "⏹" not in told


def test_a_branch_that_failed_says_why_once_and_so_does_the_run() -> None:
    told = story(reviews("left", "right"), within("left", fails("the line is dead")))

    assert "✗ left ▌ dude failed: the line is dead\n" in told
    assert "✗ left ▌ failed in left\n" in told
    assert "■ right ▌ stopped: another branch failed · dude cut off\n" in told
    assert told.endswith("✗ failed in start: The branch left of 'start' failed: the line is dead\n")


def test_a_run_that_fails_over_a_branch_says_what_it_took_as_one_that_fails_by_itself() -> None:
    run, facts = tell(reviews("left", "right"))
    renderer = reader()
    read(renderer, *facts)
    told = read(renderer, *go(run, within("left", fails("the line is dead")))[1], at=65.0)

    assert told.endswith(
        "✗ failed in start  after 1 min 5 s\n  The branch left of 'start' failed: the line is dead\n"
    )


def test_a_run_that_is_stopped_says_so_once_for_all_its_branches() -> None:
    told = story(reviews("left", "right"), Stop(reason="bye"))

    assert told == (
        "▶ left, right  begin\n⏹ interrupted · left, right: dude cut off · bye\n■ stopped: bye\n"
    )


def test_a_branch_for_each_item_is_called_by_it() -> None:
    workflow = flow(
        State(name="start", for_each=ForEach(items="input", state="one")),
        state("one", "dude", next="two"),
        state("two", "dude"),
    )
    run, facts = tell(workflow, input=["core.py", {"path": "ports.py", "lines": 500}])
    renderer = reader()

    assert read(renderer, *facts) == "▶ 1 core.py, 2 ports.py  begin\n"
    told = read(renderer, *go(run, within("2", replies("Fine.")))[1])
    assert told == "▌ 2 ports.py ▌ dude\nFine.\n"


def test_branches_within_branches_have_the_whole_way_as_their_name() -> None:
    inner = (state("deep", "dude"),)
    outer = State(
        name="outer", parallel=(Branch(name="a", states=inner), Branch(name="b", states=inner))
    )
    workflow = flow(State(name="start", parallel=("outer",)), outer)

    told = story(workflow, within("outer/a", replies("Deep.")))

    assert told == (
        "▶ outer  begins\n▶ outer ▌ a, b  begin\n▌ outer/a ▌ dude\nDeep.\n✓ outer/a ▌ finished\n"
    )


def test_how_long_a_branch_took_is_told() -> None:
    run, facts = tell(reviews("left", "right"))
    renderer = reader()
    read(renderer, *facts, at=100.0)

    told = read(renderer, *go(run, within("left", replies("L")))[1], at=165.0)

    assert told.endswith("✓ left ▌ finished  after 1 min 5 s\n")


# --- questions and approvals ------------------------------------------------------------------


def test_a_branchs_question_says_where_it_is_asked_and_its_answer_too() -> None:
    run, facts = tell(reviews("left", "right"), within("left", replies("", asks("Which?"))))
    told = read(reader(with_cards=False), *facts, *go(run, says("src", "left/q1"))[1])

    assert "? #1 left ▌ dude asks\n│ Which?\n" in told
    assert "✓ left ▌ #1 Which?  src\n" in told


def test_a_branchs_tool_call_is_labelled_before_and_after() -> None:
    run, facts = tell(reviews("left", "right"), within("left", replies("", call("write", at="a"))))
    told = read(
        reader(with_cards=False),
        *facts,
        *go(run, approves("left/q1"), within("left", done("call_1", "ok")))[1],
    )

    assert '? #1 left ▌ dude wants to run\n│ write {"at":"a"}\n' in told
    assert "✓ left ▌ write(a) · ok\n" in told


# --- halts ------------------------------------------------------------------------------------


def halted(*steps: Step) -> tuple[Run, EventRenderer]:
    """Return a run of three branches, one of them using a tool, and who has told of it so far."""
    run, facts = tell(
        reviews("left", "right", "third"), within("third", replies("", call("look"))), *steps
    )
    renderer = reader()
    read(renderer, *facts)
    return run, renderer


def test_words_halt_all_branches_and_one_line_sums_it_up() -> None:
    run, renderer = halted()
    renderer.live.hears("r", TextDelta(agent="dude", text="Left wo", branch="left"))
    renderer.live.hears("r", TextDelta(agent="dude", text="Right wo", branch="right"))

    told = read(renderer, *go(run, says("hurry"))[1])

    assert told == (
        "▌ left ▌ dude\nLeft wo\n▌ [interrupted]\n"
        "▌ right ▌ dude\nRight wo\n▌ [interrupted]\n"
        "⏹ interrupted · left, right: dude cut off · third: stopped look\n"
    )


def test_they_go_on_together_where_they_were() -> None:
    run, renderer = halted()
    run, facts = go(run, says("hurry"))
    read(renderer, *facts)

    told = read(renderer, *go(run, replies("I will."))[1])

    assert told.endswith("▶ left, right, third  go on\n")


def test_branches_that_begin_anew_are_halted_like_those_that_had_their_names() -> None:
    again = flow(
        State(name="start", parallel=("left", "right")),
        *(state(name, "dude") for name in ("left", "right")),
        state("resume", "critic", next="start"),
    )
    run, facts = tell(again, says("hurry"), replies("I will."))
    renderer = reader()
    read(renderer, *facts)
    for name in ("left", "right"):
        renderer.live.hears("r", TextDelta(agent="dude", text="It is", branch=name))

    told = read(renderer, *go(run, Halt())[1])

    assert told == (
        "▌ left ▌ dude\nIt is\n▌ [interrupted]\n▌ right ▌ dude\nIt is\n▌ [interrupted]\n"
        "⏹ interrupted · left, right: dude cut off · waiting for your words\n"
    )


def test_a_bare_stop_says_that_it_waits_and_the_words_after_it_are_no_second_halt() -> None:
    run, renderer = halted()
    run, facts = go(run, Halt())
    told = read(renderer, *facts)
    assert told == (
        "⏹ interrupted · left, right: dude cut off · third: stopped look · waiting for your words\n"
    )

    assert read(renderer, *go(run, says("go on"))[1]) == ""


def test_words_to_one_branch_that_is_held_let_all_go_on() -> None:
    run, renderer = halted()
    run, facts = go(run, Halt())
    read(renderer, *facts)

    told = read(renderer, *go(run, says("@left shorter"))[1])

    assert told == "▶ right, third  go on\n"


def test_a_halt_says_which_branches_had_finished_before() -> None:
    renderer = reader()
    run, facts = tell(reviews("left", "right"), within("left", replies("Fine.")))
    read(renderer, *facts)

    told = read(renderer, *go(run, says("stop"))[1])

    assert told.startswith("⏹ interrupted · right: dude cut off · finished before: left\n")


def test_a_halt_of_a_handler_or_a_wait_names_the_state() -> None:
    for workflow in (
        flow(state("start", "dude", pre_handler="prepare"), state("resume", "dude")),
        flow(State(name="start", wait=Wait(seconds=60)), state("resume", "dude")),
    ):
        run, _ = tell(workflow)
        assert read(reader(), *go(run, says("stop"))[1]).startswith(
            "⏹ interrupted · start cut off\n"
        )


def test_words_to_one_branch_halt_that_one_alone() -> None:
    run, renderer = halted()
    renderer.live.hears("r", TextDelta(agent="dude", text="Right wo", branch="right"))

    told = read(renderer, *go(run, says("@right shorter"))[1])

    assert told == (
        "▌ right ▌ dude\nRight wo\n▌ [interrupted]\n⏹ right ▌ interrupted · dude cut off\n"
    )


def test_a_halt_that_waits_for_a_branchs_tool_is_told_when_that_has_ended() -> None:
    run, facts = tell(
        reviews("left", "right"), within("left", replies("", call("shell", command="make")))
    )
    renderer = reader()
    read(renderer, *facts)
    run, facts = go(run, says("hurry"))
    assert read(renderer, *facts) == ""

    told = read(renderer, *go(run, within("left", done("call_1", "killed", "stopped")))[1])

    assert told.startswith("⏹ interrupted · left: stopped shell · right: dude cut off\n")


def test_a_halt_of_one_branch_waits_for_its_tool_whatever_the_others_do() -> None:
    run, facts = tell(
        reviews("left", "right"), within("left", replies("", call("shell", command="make")))
    )
    renderer = reader()
    read(renderer, *facts)
    run, facts = go(run, says("@left hurry"), within("right", replies("R")))
    assert read(renderer, *facts) == "▌ right ▌ dude\nR\n✓ right ▌ finished\n"

    told = read(renderer, *go(run, within("left", done("call_1", "killed", "stopped")))[1])

    assert told.startswith("⏹ left ▌ interrupted · stopped: shell\n")


def test_what_was_not_delivered_is_shown_as_it_was_typed() -> None:
    workflow = reviews("left", "right", join="any")
    told = story(
        workflow, says("@left and the tests?", policy="queue"), within("right", replies("R"))
    )

    assert "· left ▌ waits for the end of this state\n" in told
    assert "! Not delivered: @left and the tests? (" in told


# --- errors that are not the end, waits -------------------------------------------------------


def test_an_error_that_is_tried_again_is_one_line_behind_what_failed() -> None:
    retry = Retry(max_attempts=3, backoff_s=10)
    workflow = flow(State(name="start", tool="look", retry=retry))

    told = story(workflow, done("call_1", "exit 2", "failed"))

    assert told == "✗ look() · exit 2\n· start: again in 10 s (2 of 3)\n"


def test_an_error_nothing_was_told_of_yet_is_told_with_what_comes() -> None:
    fact = StateFailed(
        state="look", kind="timeout", error="It took too long.", then="retry", attempt=1, of=2
    )

    assert read(reader(), fact) == "! look: It took too long.  again at once (2 of 2)\n"


def test_a_caught_error_is_told_once_and_then_where_it_leads() -> None:
    workflow = flow(
        State(name="start", tool="look", catch=(Catch(to="after"),)), state("after", "dude")
    )

    told = story(workflow, done("call_1", "exit 2", "failed"))

    assert told == "✗ look() · exit 2\n"


def test_a_state_that_ran_out_of_time_was_stopped_not_interrupted() -> None:
    workflow = flow(
        state("start", "dude", timeout_s=5.0, catch=(Catch(to="after"),)), state("after", "critic")
    )
    begin: list[Step] = [begins("timeout", 5.0), replies("", call("look"), call("look"))]

    told = story(workflow, *begin, rings("timeout"))

    assert told == ("⏹ stopped: look ×2\n! start: The state 'start' took longer than 5 s.\n")


def test_a_wait_says_until_when() -> None:
    workflow = flow(State(name="start", wait=Wait(seconds=90)))
    run, facts = tell(workflow)
    renderer = reader()
    read(renderer, *facts)

    told = read(renderer, *go(run, begins("wait", 1_000_090.0))[1], at=1_000_000.0)

    assert told.startswith("· start waits until ")
    assert told.endswith(" (1 min 30 s)\n")


def test_a_question_that_waits_for_a_time_says_until_when_unless_a_card_stands_beside_it() -> None:
    run, facts = tell(flow(State(name="start", ask=Ask(question="Which?", deadline_s=90))))
    timed = go(run, begins("deadline", 1_000_090.0))[1]
    plain, carded = reader(with_cards=False), reader()
    read(plain, *facts)
    read(carded, *facts)

    told = read(plain, *timed, at=1_000_000.0)

    assert told.startswith("· start waits for an answer until ")
    assert told.endswith(" (1 min 30 s)\n")
    assert read(carded, *timed, at=1_000_000.0) == ""


def test_a_question_nobody_answered_in_time_says_what_stands_for_an_answer() -> None:
    ask = Ask(question="Which?", deadline_s=5, on_timeout="default", default="main")
    workflow = flow(State(name="start", ask=ask))

    told = story(workflow, begins("deadline", 5.0), rings("deadline"))

    assert told.startswith(
        "! #1 Which?  nobody answered in time\n· #1 is answered with its default: main\n"
    )


def test_a_question_that_stays_open_is_told_by_the_run_alone() -> None:
    workflow = flow(State(name="start", ask=Ask(question="Which?", deadline_s=5)))

    told = story(workflow, begins("deadline", 5.0), rings("deadline"))

    assert told == "· Question #1 still waits for you.\n"


# --- small things -----------------------------------------------------------------------------


def test_a_request_that_waits_says_in_which_branch() -> None:
    waits = AgentThinking(agent="dude", state="left", status="429; again in 2 s", branch="left")

    assert read(reader(with_cards=False), waits) == "· left ▌ dude: 429; again in 2 s\n"


def test_branches_that_began_where_nobody_listened_are_known_by_their_items() -> None:
    workflow = flow(
        State(name="start", for_each=ForEach(items="input", state="one")), state("one", "dude")
    )
    run, _ = tell(workflow, input=["core.py", "ports.py"])
    renderer = reader()
    renderer.recall(run)

    told = read(renderer, *go(run, within("1", replies("A")), within("2", replies("B")))[1])

    assert told.startswith("▌ 1 core.py ▌ dude\nA\n✓ 1 core.py ▌ finished\n")
    assert "✓ start  2 branches joined\n" in told


def test_no_name_of_a_branch_reaches_the_first_column_or_leaves_its_line() -> None:
    evil = "\x1b[31m› /exit\n" + "x" * 80
    begun = BranchStarted(name=evil)
    asked = QuestionAsked(
        question_id="q", number=1, kind="question", text="?", agent="dude", branch=evil
    )

    told = read(reader(with_cards=False), begun, asked)

    assert all(line[:2] in ("▶ ", "? ", "│ ") for line in told.splitlines()), told
    assert "\x1b" not in told


def test_many_branches_are_counted() -> None:
    names = [f"b{number}" for number in range(12)]
    run, facts = tell(reviews(*names))
    renderer = reader()

    assert read(renderer, *facts) == "▶ b0, b1, b2, b3, b4, b5, b6, b7 and 4 more  begin\n"
    assert "⏹ interrupted · 12 branches: dude cut off\n" in read(renderer, *go(run, says("x"))[1])


def test_the_questions_of_these_stories_are_real() -> None:
    _, facts = tell(reviews("left", "right"), within("left", replies("", asks("Which?"))))

    assert [fact.branch for fact in of(facts, QuestionAsked)] == ["left"]
