"""Tasks that agents hand on, as the lines a person reads."""

import msgspec
from decide_kit import call, define, done, flow, replies, says, state, tell, within
from test_branch_events import read, reader
from test_decide_delegating import ALL, WORKERS, chat, hands_on

from midstream.core.inputs import Recovered, ReplyCheckpoint
from midstream.core.notices import Envelope
from midstream.core.pending import request_key
from midstream.tui.desktop import Calls
from midstream.tui.event_lines import Words, plain_words
from midstream.tui.styled_lines import to_plain
from midstream.tui.talk_events import past_blocks
from midstream.views.graph import graph_of
from midstream.views.graph_marks import marks_from, marks_of
from midstream.views.lanes import at_work
from midstream.views.run_status import doing_of
from midstream.views.state_tree import state_tree, tree_lines
from midstream.views.turns import history_of

TWO = replies("I have it done.", hands_on("coder"), hands_on("reader", "read it"))


def test_a_task_is_told_when_it_begins_and_its_result_by_who_did_it() -> None:
    _, facts = chat(
        TWO, within("reader", replies("Read.")), within("coder", replies("Mended.")), replies("OK.")
    )
    told = read(reader(), *facts)
    assert told == (
        "▌ dude\nI have it done.\n▶ coder  mend it\n▶ reader  read it\n"
        "▌ reader\nRead.\n✓ reader ▌ finished\n"
        "▌ coder\nMended.\n✓ coder ▌ finished\n▌ dude\nOK.\n"
    )


def test_a_call_that_began_no_task_is_told_as_every_call_that_failed() -> None:
    _, facts = chat(replies("", hands_on("codr")))
    assert "Did you mean 'coder'?" in read(reader(), *facts)


def test_a_halt_tells_of_the_tasks_it_stopped_and_of_no_call() -> None:
    _, facts = chat(
        TWO,
        within("coder", replies("I look.", call("look"))),
        within("coder", done("call_3")),
        within("reader", replies("Read.")),
        says("no!"),
    )
    told = read(reader(), *facts)
    assert "⏹ interrupted · dude cut off · coder: coder cut off\n" in told
    assert "delegate" not in told


def test_a_chat_that_was_killed_shows_its_open_turn_and_what_its_tasks_had_said() -> None:
    run, _ = chat(
        TWO,
        within("coder", lambda run: ReplyCheckpoint(key=request_key(run), text="I am at")),
        Recovered(),
    )
    told = "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block])
        for block in past_blocks(run)
    )
    assert told == (
        "· Where you were: 1 turn.\n› hello\n▌ dude\nI have it done.\n"
        "▌ coder\nI am at\n▌ [interrupted]\n"
    )


def test_a_task_has_a_lane_and_stands_in_the_state_of_its_chat() -> None:
    run, _ = chat(TWO, within("reader", replies("", hands_on("coder"))))

    assert [(lane.path, lane.state) for lane in at_work(run)] == [
        ("coder", ""),
        ("reader/coder", ""),
    ]
    assert doing_of(run) == "coder, reader at work"
    drawn = tree_lines(state_tree(run, title="r", now=0.0), width=80)
    assert any("▌ coder  coder is thinking" in line for line in drawn)


def test_what_was_handed_on_stands_in_no_state_of_the_graph() -> None:
    definition = msgspec.structs.replace(
        define(flow(state("start", "dude", next="stop"))), tools=ALL, delegates=WORKERS
    )
    run, facts = tell(
        definition, replies("", hands_on("coder")), within("coder", replies("", call("look")))
    )
    graph = graph_of(definition)
    told = [Envelope(run="r", at=float(n), event=fact) for n, fact in enumerate(facts)]

    assert marks_of(run, graph).visits == {("start",): 1}
    assert marks_from(told, graph, now=9.0).visits == {("start",): 1}


def test_the_words_of_a_person_stand_with_the_turn_of_their_chat() -> None:
    _, facts = chat(
        TWO,
        within("coder", replies("Mended.")),
        says("@reader be brief"),
        within("reader", replies("Read.")),
        replies("OK."),
    )
    told = [Envelope(run="r", at=float(n), event=f, seq=n) for n, f in enumerate(facts, 1)]
    turns = [(turn.agent, turn.asked, turn.begins) for turn in history_of(told)]
    assert turns == [
        ("coder", (), False),
        ("reader", (), False),
        ("reader", (), False),
        ("dude", ("hello", "be brief"), True),
    ]


def test_a_task_that_is_done_is_no_answer_of_its_chat() -> None:
    calling = Calls("bell", {}, away_s=0.0)
    _, facts = chat(TWO, within("coder", replies("Mended.")), within("reader", replies("Read.")))
    told = [Envelope(run="r", at=float(n), event=fact) for n, fact in enumerate(facts)]
    assert not any(calling.on_event(each, now=1e4 * each.at, idle_s=9.0) for each in told)
