"""The git worktrees of a run are put away when nobody works in them any more.

Which are still needed follows from how the run stands: those of branches that have not ended, halted ones
included. What was not merged stays on its git branch. A crash in between leaves one standing: it is
put away when the run is taken up, or ends.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from midstream.core.events import (
    AnyFact,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    BranchStopped,
    RunFailed,
    RunFinished,
    RunStopped,
)
from midstream.core.routing import branch_at
from midstream.core.run import Run
from midstream.runtime.ports import World
from midstream.system.offloop import in_thread
from midstream.system.workspace_paths import worktrees_folder

_BRANCH_ENDS = (BranchFinished, BranchFailed, BranchStopped)
_RUN_ENDS = (RunFinished, RunFailed, RunStopped)


def begin(facts: Sequence[AnyFact]) -> bool:
    """Return whether a branch with a worktree began."""
    return any(isinstance(fact, BranchStarted) and fact.worktree for fact in facts)


async def has_any(run: Run, world: World) -> bool:
    """Return whether worktrees of a run are there, from an earlier process."""
    return world.has_worktrees and await in_thread((worktrees_folder() / run.id).is_dir)


def left(before: Run, facts: Sequence[AnyFact]) -> list[str] | None:
    """Return the worktrees nobody works in any more after these facts; None: all of the run."""
    if any(isinstance(fact, _RUN_ENDS) for fact in facts):
        return None
    ended = [branch_at(before, fact.branch) for fact in facts if isinstance(fact, _BRANCH_ENDS)]
    return [each.branch.worktrees[-1] for each in ended if each and each.branch.has_worktree]


async def put_away(run: Run, world: World, names: Sequence[str] | None = None) -> None:
    """Put worktrees of a run away: these, or all that nobody works in."""
    from midstream.system import worktree  # few runs have one

    if names is None:
        work = partial(worktree.put_away, world.workspace, run.id, but=set(_needed(run)))
        await in_thread(work)
    for name in names or ():
        await in_thread(partial(worktree.put_away, world.workspace, run.id, only=name))


def _needed(run: Run) -> Iterator[str]:
    for visit in (run.visit, *run.halt.cuts):
        for branch in visit.branches.values():
            if not branch.is_over:
                yield from branch.branch.worktrees
                yield from _needed(branch)
