"""What lines that wait are waiting for, in words."""

from decide_kit import call, flow, go, replies, says, state, tell

from midstream.core.inputs import Halt
from midstream.core.run import Run
from midstream.language.plan import chat_definition
from midstream.language.spec import Role, State, Workflow
from midstream.views.run_status import waiting


def works(**fields: object) -> Workflow:
    return flow(state("start", "dude"), state("resume", "dude"), **fields)


def waits(run: Run) -> list[tuple[str, str, bool]]:
    return [(line.text, line.fate, line.can_be_withdrawn) for line in waiting(run)]


def test_a_queued_line_waits_for_the_state() -> None:
    run, _ = tell(works(on_input="queue"), says("and the tests?"))

    assert waits(run) == [("and the tests?", "waits until start is done", True)]


def test_a_line_that_steers_joins_the_next_request_of_who_is_at_work() -> None:
    run, _ = tell(works(on_input="steer"), replies("", call("look")), says("in German"))

    assert waits(run) == [("in German", "joins the next request of dude", True)]


def test_held_lines_wait_until_it_goes_on() -> None:
    run, _ = tell(works(on_input="queue"), says("later"), Halt())

    assert waits(run) == [("later", "waits until start is done once it goes on", True)]


def test_a_line_that_halts_is_heard_once_the_tool_has_stopped_and_cannot_be_taken_back() -> None:
    run, _ = tell(works(), replies("", call("shell")), says("stop that"))

    assert waits(run) == [("stop that", "is delivered once shell has stopped", False)]


def test_a_line_for_one_branch_says_whose_it_is() -> None:
    flowing = flow(
        State(name="start", parallel=("left", "right")),
        state("left", "dude", on_input="queue"),
        state("right", "dude"),
    )
    run = go(tell(flowing)[0], says("@left and the tests?"))[0]

    assert waits(run) == [("@left and the tests?", "waits until left is done", True)]


def test_delivered_lines_do_not_wait() -> None:
    run, _ = tell(works(), says("now"))

    assert waiting(run) == ()


def test_in_a_chat_a_line_waits_for_the_role_and_never_for_a_state() -> None:
    chat = chat_definition("dude", Role(), {})
    steps = (says("hi", id="a"), says("later", id="b", policy="queue"))
    for more in ((), (Halt(),)):
        (line,) = waiting(tell(chat, *steps, *more, input=None)[0])
        assert line.fate.startswith("waits until dude is done")
        assert line.brief == "after dude"
