"""A call that has made its change, and looks at what came of it: what a halt or a crash leaves."""

import pytest
from decide_kit import Step, call, done, flow, go, keys, of, replayed, replies, says, state, tell

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.pending import call_key, pending, request_key
from midstream.core.run import Run

PLAIN = flow(state("start", "dude"), state("resume", "dude"))
ENDED = e.ToolEnded(call_id="call_1", outcome="completed", result="Edited.")


def changed() -> Step:
    """A running call has changed what it was to change."""
    return lambda run: inputs.ToolEnded(key=call_key(run, "call_1"), ended=ENDED)


def results(run: Run) -> list[tuple[str, str]]:
    """Return how the calls of the last message that has some ended."""
    message = next(m for m in reversed(run.contexts["talk"]) if m.calls)
    return [(result.outcome, result.text) for result in message.results]


EDITS = pytest.mark.parametrize("tool", ["put", "shell"])


@EDITS
def test_the_call_goes_on_until_its_check_has_come(tool: str) -> None:
    run, _ = tell(PLAIN, replies("", call(tool)), changed())

    assert keys(run) == [call_key(run, "call_1")]
    run, _ = go(run, done("call_1", "Edited.\n\n[1 new problem: ruff]"))
    assert results(run) == [("completed", "Edited.\n\n[1 new problem: ruff]")]
    assert keys(run) == [request_key(run)]


@EDITS
@pytest.mark.parametrize("halt", [says("no"), inputs.Halt(), inputs.Stop(reason="enough")])
def test_a_halt_waits_for_no_check_and_the_change_counts_as_made(tool: str, halt: Step) -> None:
    run, before = tell(PLAIN, replies("", call(tool)), changed())
    run, facts = go(run, halt)

    assert of(facts, e.ToolReturned) == [
        e.ToolReturned(call_id="call_1", name=tool, outcome="completed", result="Edited.")
    ]
    assert results(run) == [("completed", "Edited.")]
    assert run.visit.phase != "halting"
    assert replayed([*before, *facts]).contexts == run.contexts


@EDITS
@pytest.mark.parametrize("was_cut", [True, False])
def test_after_a_crash_nobody_is_asked_and_it_is_owed_as_what_has_ended(
    tool: str, was_cut: bool
) -> None:
    run, _ = tell(PLAIN, replies("", call(tool)), changed())
    run, _ = go(run, inputs.Recovered(was_cut=was_cut))

    assert run.inbox.open_questions == ()
    (owed,) = pending(run)
    assert getattr(owed, "ended", None) == ENDED


def test_a_person_gets_a_line_of_their_own() -> None:
    run, _ = tell(PLAIN, replies("", call("put")), changed())
    _, facts = go(
        run,
        lambda run: inputs.ToolFinished(
            key=call_key(run, "call_1"), outcome="completed", text="Edited.", note="1 new problem"
        ),
    )

    (returned,) = of(facts, e.ToolReturned)
    assert (returned.result, returned.note) == ("Edited.", "1 new problem")
