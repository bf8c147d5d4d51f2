"""Commands in the background, as the journal knows them: begun, ended, and lost with their process."""

import pytest
from decide_kit import Step, call, done, flow, replies, state, tell

from midstream.core.background import handle_of, lost_commands
from midstream.core.conversation import NOTE
from midstream.core.inputs import Recovered
from midstream.core.run import Run
from midstream.language.names import Json, Outcome

BEGUN = "task-1 runs in the background. `tasks` tells what becomes of it.\n\nready"


def begun(*steps: Step, result: str = BEGUN, outcome: Outcome = "completed") -> Run:
    """Return a run whose agent has begun a command, after the steps."""
    arguments: dict[str, Json] = {"command": "npm run\n dev", "background": True}
    run, _ = tell(
        flow(state("start", "dude")),
        replies("", call("execute_terminal", **arguments)),
        done("call_1", result, outcome),
        *steps,
    )
    return run


def asked(number: int, result: str) -> tuple[Step, Step]:
    return replies("", call("tasks", action="list")), done(f"call_{number}", result)


def handles(run: Run) -> list[tuple[str, str, bool]]:
    return [(each.handle, each.line, each.is_lost) for each in run.background]


def test_a_call_that_began_a_command_is_what_a_run_knows_of_it() -> None:
    assert handles(begun()) == [("task-1", "npm run dev", False)]
    assert handle_of("call_17") == "task-17"


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ("task-1 ended at once. Exit code: 0", "completed"),
        ("Exit code: 0\n\ntask-1 runs in the background", "completed"),
        ("task-2 runs in the background", "completed"),
        (BEGUN, "unknown"),
        (BEGUN, "denied"),
    ],
)
def test_what_did_not_begin_or_only_prints_that_it_did_is_none(
    result: str, outcome: Outcome
) -> None:
    assert begun(result=result, outcome=outcome).background == ()


def test_the_end_that_a_call_was_told_is_the_end() -> None:
    assert begun(*asked(2, "task-1 ended: Exit code: 0 (npm run dev)")).background == ()


def test_what_a_command_prints_ends_none() -> None:
    run = begun(*asked(2, "task-1 runs in the background for 3 s\n\ntask-1 ended: Exit code: 0"))

    assert handles(run) == [("task-1", "npm run dev", False)]


@pytest.mark.parametrize("was_cut", [True, False])
def test_another_process_starts_none_again_and_the_agent_is_told(was_cut: bool) -> None:
    run = begun(Recovered(was_cut=was_cut))

    assert handles(run) == [("task-1", "npm run dev", True)]
    assert lost_commands(run) == run.background
    last = run.contexts["talk"][-1]
    assert last.author == NOTE
    assert "how it ended is not known: task-1 (npm run dev)" in last.text
    assert run.visit.turn is not None
    assert run.visit.turn.calls == ()


def test_it_is_told_once() -> None:
    once = begun(Recovered())
    again = begun(Recovered(), Recovered())

    assert again.background == ()
    assert again.contexts == once.contexts


def test_without_commands_nothing_is_told() -> None:
    ended = asked(2, "task-1 ended: Exit code: 0 (npm run dev)")

    assert begun(*ended, Recovered()).contexts == begun(*ended).contexts
