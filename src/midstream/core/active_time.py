"""Time at work: which of a run's time its budgets count, and the run after some of it."""

from msgspec.structs import replace

from midstream.core.pending import AwaitTime, pending
from midstream.core.run import Run, definition_of
from midstream.language.spec import Branch, Definition, ForEach, State


def is_at_work(run: Run) -> bool:
    """Return whether a model, a tool or a handler of the run is under way.

    Else only a person, or a time that is waited for, can move it on.
    """
    return any(not isinstance(effect, AwaitTime) for effect in pending(run))


def worked(run: Run, seconds: float) -> Run:
    """Return the run after so many seconds, which count where it, or a branch of it, is at work."""
    if not is_at_work(run):
        return run
    branches = {
        name: branch if branch.is_over else worked(branch, seconds)
        for name, branch in run.visit.branches.items()
    }
    usage = replace(run.usage, active_s=run.usage.active_s + max(seconds, 0.0))
    return replace(run, usage=usage, visit=replace(run.visit, branches=branches))


def counts_minutes(run: Run) -> bool:
    """Return whether a budget of the run counts minutes; of a run that has started."""
    own = run.usage.limits is not None and run.usage.limits.minutes is not None
    return own or _counts(definition_of(run))


def _counts(definition: Definition) -> bool:
    workflow = definition.workflow
    if workflow.budget is not None and workflow.budget.minutes is not None:
        return True
    inner = any(_counts(each) for each in definition.workflows.values())
    return inner or any(_counts_in(state) for state in workflow.states)


def _counts_in(state: State) -> bool:
    if state.budget is not None and state.budget.minutes is not None:
        return True
    within = (*state.parallel, *(() if state.for_each is None else (state.for_each,)))
    return any(
        _counts_in(inner)
        for branch in within
        if isinstance(branch, Branch | ForEach)
        for inner in branch.states
    )
