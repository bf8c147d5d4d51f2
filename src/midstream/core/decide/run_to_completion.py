"""What follows by itself: transitions, the work of states that need no model, delivered steers."""

from midstream.core.decide import steering
from midstream.core.decide.compacting import hand_over_queued
from midstream.core.decide.state_handlers import begin_work, pause_if_over
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import await_input, leave

MAX_SILENT_TRANSITIONS = 1000
"""Transitions in one decision, with nothing to do in between, before the run fails as a loop."""


def settle(story: Story, *, is_new_request: bool) -> None:
    """Tell what follows without anything happening, until the run is owed something or waits."""
    run = story.run
    if run.visit.phase in ("halting", "held"):
        steering.finish_halt(story)
        run = story.run
    hand_over_queued(story)
    run = story.run
    first = run.visit.step
    while run.visit.phase != "ended":
        if run.visit.step - first >= MAX_SILENT_TRANSITIONS:
            story.fail(
                f"{MAX_SILENT_TRANSITIONS} transitions in a row, and no state had work to do.",
                "Give one of the states in the loop an agent or a handler, or let one lead to stop.",
                fault="author",
            )
        elif run.visit.phase == "leaving":
            leave(story)
            is_new_request = True
            pause_if_over(story)
        elif not begin_work(story, begin_branch, is_new_request=is_new_request):
            break
        run = story.run
    if run.visit.phase == "waiting" and not any(q.kind == "input" for q in story.own_questions()):
        await_input(story)
    elif (
        run.visit.phase == "turn"
        and run.visit.turn is not None
        and not run.visit.turn.calls
        and is_new_request
    ):
        steering.deliver_steers(story)


def begin_branch(story: Story) -> None:
    """Let a branch begin, or go on."""
    settle(story, is_new_request=True)
