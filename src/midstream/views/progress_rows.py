"""Who is at work in a run: one line each, whether it is a branch or the run itself."""

import msgspec

from midstream.core.branch_address import branch_at
from midstream.core.run import Run
from midstream.views.run_status import Lane, lanes, where

_IDLE = ("new", "waiting", "held", "leaving", "ended")


def at_work(run: Run) -> tuple[Lane, ...]:
    """Return a lane for each branch at work, or for the run itself where it has none.

    Each knows the tokens its agents have written in this visit to their state (`Lane.tokens`). The
    run's own lane has the path "". One that waits for a person alone has none: what it waits for is
    shown as a question.
    """
    found = lanes(run)
    if found:
        return tuple(
            lane if branch is None else msgspec.structs.replace(lane, tokens=written(branch))
            for lane in found
            for branch in (branch_at(run, lane.path),)
        )
    is_idle = run.visit.phase in _IDLE and run.compacting is None
    if is_idle or run.is_parked or run.suspended:
        return ()
    stands = where(run)
    return (
        Lane(
            run=run.id,
            path="",
            state="" if run.definition is None or run.definition.kind == "chat" else stands.state,
            doing=stands.doing,
            agent="" if run.visit.turn is None else run.visit.turn.agent,
            until=stands.until,
            tokens=written(run),
        ),
    )


def behind(run: Run, *, named: str) -> Lane | None:
    """Return the one lane of a run in the background, None where nothing of it is at work."""
    is_idle = run.visit.phase in _IDLE and run.compacting is None
    if run.is_over or run.is_parked or is_idle:
        return None
    stands = where(run)
    return Lane(
        run=run.id,
        path="",
        state=stands.state,
        doing=stands.doing,
        until=stands.until,
        label=named,
        tokens=written(run),
    )


def written(run: Run) -> int:
    """Return the tokens models wrote in this visit to the run's state, what is streaming left out."""
    return sum(
        usage.output_tokens for _, usage in run.usage.requests[run.visit.budget_baseline[0] :]
    )
