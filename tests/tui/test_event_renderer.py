"""Events as the lines a person reads, the same on the terminal and in a pipe."""

from collections.abc import Sequence
from typing import Any

import pytest

from midstream.app.ui import is_own, own_id
from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.notices import (
    AgentThinking,
    AnyNotice,
    Envelope,
    JournalStalled,
    JournalWorks,
    ListenerFailed,
    RunTaken,
    TextDelta,
)
from midstream.core.question import Question
from midstream.core.run import Halt, Inbox, InputRecord, Run
from midstream.language.names import Disposition, Outcome, QuestionKind
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition, Role, State, Workflow
from midstream.tui.event_lines import Block, Words, plain_words, question_lines
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.styled_lines import Line, rows, to_plain


def narrated(*events: e.AnyFact | AnyNotice, with_cards: bool = False) -> str:
    renderer = EventRenderer(with_cards=with_cards)
    blocks = []
    for number, event in enumerate(events, 1):
        blocks += renderer.render(Envelope(run="r1", at=0.0, event=event, seq=number))
    blocks += renderer.settle()
    return "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block]) for block in blocks
    )


def called(name: str = "read_files", call_id: str = "c1", **arguments: Any) -> e.ToolCalled:
    return e.ToolCalled(call_id=call_id, name=name, arguments=arguments, agent="ada")


def returned(
    result: str, *, name: str = "read_files", call_id: str = "c1", outcome: Outcome = "completed"
) -> e.ToolReturned:
    return e.ToolReturned(call_id=call_id, name=name, outcome=outcome, result=result)


def test_a_transition_is_told_to_those_who_want_all() -> None:
    fact = e.StateTransition(source="write", target="review", reason="no transition given")
    renderer = EventRenderer(with_cards=True)
    renderer.manner.is_verbose = True

    (line,) = renderer.render(Envelope(run="r1", at=0.0, event=fact, seq=1))
    assert isinstance(line, Line)
    assert to_plain([line]) == "→ write → review  no transition given\n"
    assert narrated(fact) == ""


def test_an_agents_words_stand_under_its_name_behind_a_gutter() -> None:
    fact = e.AgentResponded(agent="ada", text="Hello.\n› /exit")

    assert narrated(fact) == "▌ ada\nHello.\n  › /exit\n"


def test_a_reply_that_only_calls_tools_says_nothing() -> None:
    assert narrated(e.AgentResponded(agent="ada", text="", is_final=False)) == ""


def test_a_structured_reply_is_shown_as_its_values() -> None:
    call = ToolCall(
        id="c1", name="judge", arguments={"is_good": False, "advice": "shorter", "points": 3}
    )
    reply = e.AgentResponded(agent="critic", text="", calls=(call,), is_final=True)

    assert narrated(reply) == "▌ critic  is_good no · advice: shorter · points 3\n"


def test_a_tool_call_is_one_line_with_the_beginning_of_its_result() -> None:
    story = narrated(called(path="a.py"), returned("first\nsecond\nthird"))

    assert story == "✓ read_files(a.py) · 3 lines\n"


def test_what_is_left_out_of_a_result_is_counted() -> None:
    story = narrated(called(), returned("x" * 200))

    assert "(+40 more characters)" in story


def test_a_failed_call_says_so() -> None:
    story = narrated(called(), returned("no such file", outcome="failed"))

    assert story == "✗ read_files() · no such file\n"


def test_a_question_shows_its_number_and_choices() -> None:
    fact = e.QuestionAsked(
        question_id="q2", number=2, kind="question", text="Which?", agent="ada", choices=("a", "b")
    )

    assert narrated(fact) == "? #2 ada asks\n│ Which?\n│ 1 a\n│ 2 b\n"


def test_an_approval_shows_every_byte_with_controls_escaped() -> None:
    fact = e.QuestionAsked(
        question_id="q1", number=1, kind="approval", text="run " + "x" * 500 + "\x1b[8m; rm -rf /"
    )

    assert "x" * 500 + "␛[8m; rm -rf /" in narrated(fact)


def test_with_cards_a_question_is_told_when_it_is_answered() -> None:
    asked = e.QuestionAsked(question_id="q1", number=1, kind="question", text="Which?", agent="ada")
    answered = e.QuestionAnswered(question_id="q1", answer="red")

    assert narrated(asked, with_cards=True) == ""
    assert narrated(asked, answered, with_cards=True) == "✓ #1 Which?  red\n"


@pytest.mark.parametrize(
    ("kind", "answer", "mark"),
    [("approval", "no", "✗"), ("approval", "yes", "✓"), ("question", "no", "✓")],
)
def test_a_refusal_has_no_tick(kind: QuestionKind, answer: str, mark: str) -> None:
    asked = e.QuestionAsked(question_id="q1", number=1, kind=kind, text="edit_file", agent="ada")
    answered = e.QuestionAnswered(question_id="q1", answer=answer)

    assert narrated(asked, answered, with_cards=True) == f"{mark} #1 edit_file  {answer}\n"


def test_a_superseded_question_says_why() -> None:
    asked = e.QuestionAsked(question_id="q1", number=1, kind="question", text="Which?")
    closed = e.QuestionSuperseded(question_id="q1", reason="interrupted")

    story = narrated(asked, closed, with_cards=True)

    assert story == "· #1 Which?  closed unanswered: interrupted\n"


def test_an_interruption_is_one_line_that_says_what_became_of_each_call() -> None:
    story = narrated(
        called("read_files", "c1"),
        called("execute_terminal", "c2"),
        called("write_file", "c3"),
        e.Interrupted(epoch=1, text="stop", agent="ada"),
        returned("", name="read_files", call_id="c1", outcome="stopped"),
        returned("", name="measure_code", call_id="c4", outcome="not_run"),
        returned("", name="write_file", call_id="c3", outcome="completed"),
        returned("", name="execute_terminal", call_id="c2", outcome="unknown"),
        e.StateTransition(source="write", target="resume", reason="interrupted"),
    )

    assert story == (
        "⏹ interrupted · stopped: read_files · not run: measure_code · finished: write_file"
        " · outcome unknown: execute_terminal\n"
    )


def test_words_that_were_cut_stay_in_view_and_are_marked() -> None:
    story = narrated(e.Interrupted(epoch=1, text="no", agent="ada", partial="I would li"))

    assert story == "▌ ada\nI would li\n▌ [interrupted]\n⏹ interrupted · ada cut off\n"


def interrupting(epoch: int, agent: str = "ada", **fields: Any) -> list[e.AnyFact]:
    cut = e.Interrupted(epoch=epoch, text="no", agent=agent, **fields)
    onwards = e.StateTransition(source="start", target="start", reason="interrupted")
    return [cut, onwards]


def test_words_in_a_burst_are_one_interruption_until_something_comes_of_them() -> None:
    told = "⏹ interrupted · ada cut off\n"
    burst = [*interrupting(1), *interrupting(2), *interrupting(3)]

    assert narrated(*burst) == told
    replied = e.AgentResponded(agent="ada", text="Well.")
    assert narrated(*burst, replied, *interrupting(4)) == f"{told}▌ ada\nWell.\n{told}"
    shown = interrupting(4, partial="We")
    assert narrated(*burst, *shown) == f"{told}▌ ada\nWe\n▌ [interrupted]\n{told}"
    assert narrated(*burst, *interrupting(4, "bob")) == f"{told}⏹ interrupted · bob cut off\n"
    held = interrupting(4, leads_to="hold")
    assert narrated(*burst, *held).endswith(
        "⏹ interrupted · ada cut off · waiting for your words\n"
    )
    stopped = [called(), *interrupting(4)[:1], returned("", outcome="stopped")]
    assert narrated(*burst, *stopped) == f"{told}⏹ interrupted · stopped: read_files\n"


def test_a_workflow_that_holds_is_stopped_without_a_word_of_interruption() -> None:
    held = interrupting(1, leads_to="hold", state="write")[:1]
    stops: list[e.AnyFact] = [
        e.Interrupted(epoch=2, text=None, leads_to="stop", state="write", reason="enough"),
        e.RunStopped(reason="enough"),
    ]
    onwards = e.StateTransition(source="write", target="write", reason="going on")
    told = "⏹ interrupted · ada cut off · waiting for your words\n"

    assert narrated(*held, *stops) == f"{told}■ stopped: enough\n"
    cut = "⏹ interrupted · write cut off · enough\n"
    assert narrated(*held, onwards, *stops) == f"{told}{cut}■ stopped: enough\n"


def test_what_was_on_the_screen_is_kept_even_if_the_run_knew_of_less() -> None:
    renderer = EventRenderer(with_cards=True)
    renderer.live.hears("r1", TextDelta(agent="ada", text="I would like"))
    fact = e.Interrupted(epoch=1, text="no", agent="ada", partial="I wou")

    blocks = renderer.render(Envelope(run="r1", at=0.0, event=fact, seq=1))

    assert Words("I would like") in blocks


def test_an_interruption_waits_for_the_tools_that_still_stop() -> None:
    renderer = EventRenderer(with_cards=True)
    for event in (called("execute_terminal"), e.Interrupted(epoch=1, text=None, leads_to="hold")):
        renderer.render(Envelope(run="r1", at=0.0, event=event, seq=1))

    assert renderer.settle() == []


def test_a_failed_run_says_where_why_and_what_to_do() -> None:
    story = narrated(
        e.RunFailed(error="boom", hint="Fix script.py.", fault="author", state="write")
    )

    assert story == "✗ failed in write: boom\n  Fix script.py.\n"


def test_the_other_ends_of_a_run() -> None:
    assert narrated(e.RunFinished(output="x")) == "✓ finished\n"
    assert narrated(e.RunStopped(reason="by the user")) == "■ stopped: by the user\n"


def test_a_workflow_says_that_it_started_and_a_chat_does_not() -> None:
    workflow = Workflow(workflow_name="review", states=(State(name="start"), State(name="stop")))
    started = e.RunStarted(workflow="review", definition=Definition(workflow=workflow, roles={}))
    chat = e.RunStarted(workflow="role:dude", definition=chat_definition("dude", Role(), {}))

    assert narrated(started) == "▶ review  started, run r1\n"
    assert narrated(chat, e.StateTransition(source="", target="start", reason="started")) == ""


def test_output_of_a_workflow_and_its_result() -> None:
    story = narrated(
        e.WorkflowOutput(text="1 of 3"), e.WorkflowOutput(text="# Report", kind="result")
    )

    assert story == "· 1 of 3\n▌ result\n# Report\n"


def test_a_line_that_was_never_delivered_is_shown_again() -> None:
    story = narrated(
        e.InputReceived(input_id="i1", text="and rename it", source="user", handling="queue"),
        e.InputDisposed(input_id="i1", disposition="rejected", reason="the run ended first"),
    )

    assert story.endswith("! Not delivered: and rename it (the run ended first)\n")


def test_words_whose_turn_has_come_are_told_as_no_interruption() -> None:
    story = narrated(
        e.InputReceived(input_id="i1", text="and the tests?", source="user", handling="queue"),
        e.AgentResponded(agent="ada", text="Done."),
        e.Interrupted(epoch=1, text="and the tests?", state="start"),
        e.InputDisposed(input_id="i1", disposition="queued"),
        e.StateTransition(source="start", target="resume", reason="queued words"),
    )

    assert story == (
        "· waits for the end of this state\n▌ ada\nDone.\n· sent now: and the tests?\n"
    )


def test_a_line_that_joins_is_told_where_it_is_heard_and_not_where_it_was_typed() -> None:
    story = narrated(
        e.InputReceived(
            input_id="i1", text="in German\nplease\nnow", source="user", handling="steer"
        ),
        called(),
        returned("one"),
        e.WordsJoined(context="chat", text="in German\nplease\nnow"),
        e.InputDisposed(input_id="i1", disposition="steered"),
        e.AgentResponded(agent="ada", text="Ja."),
    )

    assert story == (
        "· joins the next request\n✓ read_files() · one\n"
        "· sent now: in German (+2 more lines)\n▌ ada\nJa.\n"
    )


def test_words_heard_take_one_row() -> None:
    renderer = EventRenderer(with_cards=True)
    received = e.InputReceived(input_id="i1", text="word " * 99, source="user", handling="queue")
    renderer.render(Envelope(run="r1", at=0.0, event=received, seq=1))
    heard = e.InputDisposed(input_id="i1", disposition="queued")

    (line,) = renderer.render(Envelope(run="r1", at=0.0, event=heard, seq=2))

    assert isinstance(line, Line)
    assert all(len(rows(line, width)) == 1 for width in (40, 80))


@pytest.mark.parametrize("disposition", ["withdrawn", "answered", "interrupted"])
def test_a_line_that_waited_for_nothing_or_was_taken_back_is_not_heard(
    disposition: Disposition,
) -> None:
    received = e.InputReceived(input_id="i1", text="no", source="user", handling="interrupt")

    assert narrated(received, e.InputDisposed(input_id="i1", disposition=disposition)) == ""


def test_words_from_elsewhere_say_where_they_came_from() -> None:
    fact = e.InputReceived(input_id="i1", text="hurry", source="web", handling="interrupt")

    assert narrated(fact) == "· web says: hurry\n"


def test_a_line_of_another_console_is_told_and_one_that_was_typed_here_stands_there_already() -> (
    None
):
    renderer = EventRenderer(with_cards=True, is_own=is_own)
    told: list[Block] = []
    for seq, id in enumerate((own_id(), "another"), 1):
        said = e.InputReceived(
            input_id=id, text=f"hurry {seq}", source="user", handling="interrupt"
        )
        told += renderer.render(Envelope(run="r", at=0.0, seq=seq, event=said))

    assert (
        to_plain(line for line in told if isinstance(line, Line)) == "· said elsewhere: hurry 2\n"
    )


def test_the_rest_of_what_can_be_seen() -> None:
    story = narrated(
        e.PermissionGranted(tool="write_file"),
        e.PermissionGranted(tool="run", capabilities=("exec: make", "net: \\*")),
        e.AgentFailed(agent="ada", error="HTTP 500.", hint="Try again.", partial="half"),
        ListenerFailed(listener="spy", error="boom"),
        ListenerFailed(listener="hook bell (Stop)", error="it ended with exit code 1"),
    )

    assert story == (
        "· Allowed for this run: the tool write_file. /permissions lists it.\n"
        "· Allowed for this run: exec: make, net: any host. /permissions lists it.\n"
        "▌ ada\nhalf\n▌ [interrupted]\n"
        "✗ ada failed: HTTP 500. Try again.\n"
        "! The listener spy failed: boom\n"
        "! The hook bell (Stop) failed: it ended with exit code 1\n"
    )


def test_a_request_that_waits_to_be_tried_again_says_so() -> None:
    waits = AgentThinking(agent="bob", state="start", status="openai:x: 429; trying again in 1.3 s")

    assert narrated(waits) == "· bob: openai:x: 429; trying again in 1.3 s\n"
    assert narrated(AgentThinking(agent="bob", state="start")) == ""


def test_a_failure_is_told_once() -> None:
    told = narrated(
        e.AgentFailed(agent="bob", error="The line is dead.", hint="Try again."),
        e.RunFailed(error="The line is dead.", hint="Try again.", fault="world", state="start"),
    )

    assert told.count("The line is dead.") == 1
    assert "failed in start" in told
    assert "The disk is full." in narrated(
        e.AgentFailed(agent="bob", error="The line is dead."),
        e.RunFailed(error="The disk is full."),
    )


# --- runs that one process leaves and another goes on with ---------------------------------------


FLOW = Definition(workflow=Workflow(workflow_name="w", states=(State(name="start"),)), roles={})


def taken_up(definition: Definition, fact: e.RunRecovered) -> str:
    """Return what is told once it is known what run it is, whichever comes first."""
    known = Run(id="r1", definition=definition)
    late, early = EventRenderer(with_cards=True), EventRenderer(with_cards=True)
    envelope = Envelope(run="r1", at=0.0, event=fact, seq=1)
    assert late.render(envelope) == []
    blocks = late.recall(known)
    assert early.recall(known) == []
    assert early.render(envelope) == blocks
    return to_plain([block for block in blocks if isinstance(block, Line)])


def test_a_run_that_is_taken_up_says_whether_it_was_cut() -> None:
    assert taken_up(FLOW, e.RunRecovered(was_cut=True)) == (
        "· Run r1 goes on in this process. It had been cut off.\n"
    )
    for whole in (e.RunRecovered(), e.RunRecovered(was_cut=True, was_idle=True)):
        assert taken_up(FLOW, whole) == "· Run r1 goes on in this process.\n"


def test_of_a_chat_that_is_taken_up_only_that_it_was_cut_is_news() -> None:
    chat = chat_definition("dude", Role(), {})

    assert taken_up(chat, e.RunRecovered()) == ""
    assert taken_up(chat, e.RunRecovered(was_cut=True, was_idle=True)) == ""
    assert taken_up(chat, e.RunRecovered(was_cut=True)) == "· It had been cut off.\n"


def test_a_suspended_run_says_why_and_how_it_goes_on() -> None:
    shown = narrated(e.RunSuspended(reason="crash_loop"), e.RunResumed())

    assert shown == (
        "! Run r1 is suspended: its process died several times without progress. "
        "Type a line or /resume r1 to go on.\n"
        "· Run r1 goes on.\n"
    )


def test_a_journal_without_room_is_told_and_so_is_room() -> None:
    shown = narrated(JournalStalled(error="The disk is full.", hint="Make room."), JournalWorks())

    assert shown == (
        "! Run r1 waits: The disk is full. Make room. Until then it accepts no input.\n"
        "· The journal works again: run r1 goes on.\n"
    )


def test_a_run_another_process_took_says_where_to_find_it() -> None:
    assert narrated(RunTaken()) == ("! Run r1 goes on in another process: /attach r1 watches it.\n")


def test_a_new_definition_is_told_and_a_written_file_is_not() -> None:
    definition = Definition(
        workflow=Workflow(workflow_name="w", states=(State(name="start"),)), roles={}
    )
    written = e.FileWritten(call_id="c1", path="/w/a.py", before=None, after="0" * 64)

    assert narrated(e.DefinitionChanged(definition=definition), written) == (
        "· Run r1 follows the workflow as it is now.\n"
    )


def test_what_was_asked_and_said_before_anybody_listened_is_remembered() -> None:
    renderer = EventRenderer(with_cards=True)
    question = Question(id="q1", number=1, kind="question", text="Which one?", call_id="c1")
    waiting = InputRecord(id="i1", text="and the tests?", handling="queue")
    renderer.recall(
        Run(
            id="r1",
            definition=chat_definition("dude", Role(), {}),
            inbox=Inbox(open_questions=(question,), undelivered=(waiting,)),
        )
    )
    events: list[e.AnyFact] = [
        e.StateTransition(source="start", target="start", reason="a chat never says where it goes"),
        e.QuestionAnswered(question_id="q1", answer="blue"),
        e.InputDisposed(input_id="i1", disposition="rejected", reason="the run ended"),
    ]
    blocks = []
    for number, event in enumerate(events, 1):
        blocks += renderer.render(Envelope(run="r1", at=0.0, event=event, seq=number))

    assert "".join(to_plain([b]) for b in blocks if not isinstance(b, Words)) == (
        "✓ #1 Which one?  blue\n! Not delivered: and the tests? (the run ended)\n"
    )


def test_a_plan_that_was_proposed_before_anybody_listened_stays_to_be_read() -> None:
    renderer = EventRenderer(with_cards=True)
    plan = Question(
        id="q1",
        number=1,
        kind="approval",
        text="propose_plan\nMend calc\n1. Write a test",
        agent="ada",
        call_id="c1",
        about="plan",
    )
    renderer.recall(Run(id="r1", inbox=Inbox(open_questions=(plan,))))

    blocks = renderer.render(
        Envelope(run="r1", at=0.0, event=e.QuestionAnswered(question_id="q1", answer="yes"), seq=1)
    )

    said = to_plain([block for block in blocks if isinstance(block, Line)])
    assert said.startswith("✓ #1 Mend calc  yes\n")


def test_a_card_of_a_merge_says_once_what_is_merged() -> None:
    text = "join_worktree\n1 file +1 -0 from midstream/r/ada\n--- /dev/null\n+++ a.txt"
    merge = Question(id="q1", number=1, kind="approval", text=text, branch="ada", call_id="c1")

    assert to_plain(question_lines(merge)).startswith(
        "? #1 ada wants to merge 1 file +1 -0 from midstream/r/ada\n│ --- /dev/null\n│ +++ a.txt\n"
    )


def test_a_refused_call_says_what_it_was_and_how_it_could_be_allowed() -> None:
    reason = f"The deny rule refuses it. {'Because. ' * 30}Take it out."
    call = ToolCall(id="c1", name="run", arguments={"command": "rm"})

    story = narrated(
        e.AgentResponded(agent="ada", text="", calls=(call,), is_final=False),
        e.ToolReturned(call_id="c1", name="run", outcome="denied", result=f"Refused: {reason}"),
    )

    assert story == f"✗ run(rm) · denied: {reason}\n"


# --- runs out of sight --------------------------------------------------------------------------


def envelope(event: e.AnyFact | AnyNotice, run: str = "r2") -> Envelope:
    return Envelope(run=run, at=0.0, event=event, seq=1)


def text_of(blocks: Sequence[Block]) -> str:
    return "".join(to_plain(plain_words(b) if isinstance(b, Words) else [b]) for b in blocks)


def test_what_a_run_does_out_of_sight_is_kept_until_lines_go_to_it() -> None:
    renderer = EventRenderer(with_cards=True)
    behind = (
        e.AgentResponded(agent="bob", text="Behind."),
        e.Interrupted(epoch=1, text=None, agent="bob", partial="half", leads_to="hold"),
    )
    for event in behind:
        assert renderer.render(envelope(event), is_behind=True) == []
    said = renderer.render(envelope(e.AgentResponded(agent="ada", text="Here."), run="r1"))
    assert text_of([*said, *renderer.settle()]) == "▌ ada\nHere.\n"

    assert text_of(renderer.kept("r2")) == (
        "▌ bob\nBehind.\n▌ bob\nhalf\n▌ [interrupted]\n"
        "⏹ interrupted · bob cut off · waiting for your words\n"
    )
    assert renderer.kept("r2") == []


def test_the_next_that_a_run_does_in_sight_comes_after_what_it_did_out_of_it() -> None:
    renderer = EventRenderer(with_cards=True)
    renderer.render(envelope(e.AgentResponded(agent="bob", text="One.")), is_behind=True)

    said = renderer.render(envelope(e.AgentResponded(agent="bob", text="Two.")))
    assert text_of(said) == "▌ bob\nOne.\n▌ bob\nTwo.\n"


def test_what_a_run_did_that_ended_out_of_sight_is_the_last_thing_asked_for() -> None:
    renderer = EventRenderer(with_cards=True)
    for event in (e.AgentResponded(agent="bob", text="Done."), e.RunFinished()):
        renderer.render(envelope(event), is_behind=True)

    assert text_of(renderer.last_in_full()) == "▌ bob\nDone.\n✓ finished\n"
    assert "no earlier tool result" in text_of(renderer.last_in_full())


def test_what_is_wrong_with_a_run_is_told_wherever_it_is() -> None:
    renderer = EventRenderer(with_cards=True)

    told = renderer.render(envelope(e.RunSuspended(reason="crash_loop")), is_behind=True)
    assert "Run r2 is suspended" in text_of(told)


def test_words_that_join_a_halt_from_before_anybody_listened_are_no_interruption() -> None:
    held = e.Interrupted(epoch=1, text=None, leads_to="hold", state="start", agent="dude")
    joining = e.Interrupted(epoch=1, text="go on", leads_to="words", state="start")
    renderer = EventRenderer(with_cards=True)
    renderer.recall(Run(id="r1", halt=Halt(epoch=1, leads_to="hold")))

    said = renderer.render(Envelope(run="r1", at=0.0, event=joining, seq=2))
    assert [*said, *renderer.settle()] == []
    assert narrated(held, joining) == "⏹ interrupted · dude cut off · waiting for your words\n"
