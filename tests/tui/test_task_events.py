"""Tasks that agents hand on, as the lines a person reads."""

from decide_kit import call, done, replies, says, within
from test_branch_events import read, reader
from test_decide_delegating import chat, hands_on

from midstream.views.lanes import at_work
from midstream.views.run_status import doing_of
from midstream.views.state_tree import state_tree, tree_lines

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


def test_a_task_has_a_lane_and_stands_in_the_state_of_its_chat() -> None:
    run, _ = chat(TWO, within("reader", replies("", hands_on("coder"))))

    assert [lane.path for lane in at_work(run)] == ["coder", "reader/coder"]
    assert doing_of(run) == "coder, reader at work"
    drawn = tree_lines(state_tree(run, title="r", now=0.0), width=80)
    assert any("▌ coder [start]  coder is thinking" in line for line in drawn)
