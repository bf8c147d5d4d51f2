"""The calls a branch with a git worktree begins and ends with: that it has one, and that it is merged.

Merging writes files of the work tree as any other tool does: what it would write is judged and shown,
recorded, and put in place where the file still holds what was looked at. Made again after a crash it finds
what it has written already, and says the same. No agent is offered these.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from midstream.core.call_notes import NOT_AS_SEEN
from midstream.core.costs import counted
from midstream.language.errors import UserMistake
from midstream.language.names import JOIN_WORKTREE, OPEN_WORKTREE
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.system.diff import file_diff
from midstream.system.offloop import in_thread
from midstream.system.own_process import beginning
from midstream.system.put_in_place import guards
from midstream.system.worktree import Merge, Worktree, found, merges, set_merged
from midstream.tools.base import Planned, Tool, tool, tool_from
from midstream.tools.file_changes import Change, make, planned_together

_MAX_SIDES: Final = 4_000
"""Characters of both sides of a conflict that are told."""
_NAMED: Final = 8


@tool(effect="idempotent", name=OPEN_WORKTREE, timeout_s=600)
def open_worktree(context: ToolContext) -> str:
    """Say where the branch works; it was made for this call."""
    made = found(context.run, context.worktrees[-1])
    return f"Works in a git worktree, on the branch {made.branch if made else '?'}."


class _Join(msgspec.Struct, frozen=True, kw_only=True):
    """What merging a worktree comes to."""

    of: Worktree
    commit: str
    merges: tuple[Merge, ...]

    @property
    def clean(self) -> list[Merge]:
        return [each for each in self.merges if not each.why]

    @property
    def conflicts(self) -> list[Merge]:
        return [each for each in self.merges if each.why]

    def changes(self) -> list[Change]:
        """Return what is to be written, and what holds already what it would."""
        return [
            Change(place=each.place, before=each.ours, after=each.merged, guards=guards(each.place))
            for each in self.clean
            if each.place is not None
        ]


def _looked_at(context: ToolContext) -> _Join | None:
    """Return what merging the worktree of a call comes to now, None where there is none. Blocks."""
    name = context.worktrees[-1]
    of = found(context.run, name)
    if of is None:
        return None
    # The folder the repository is in is the workspace, also where this worktree is made from another one.
    merged, commit = merges(Path(of.repository).parent, of, context.workspace)
    return _Join(of=of, commit=commit, merges=merged)


def _plan_of_joining(context: ToolContext) -> Planned:
    join = _looked_at(context)
    if join is None:
        return Planned(requests=(), is_done=True)
    plan = planned_together(join.changes())
    lines = [f"{_counted(join.clean)} from {join.of.branch}"]
    lines += [f"Not merged, kept on the branch: {each.name}: {each.why}" for each in join.conflicts]
    return msgspec.structs.replace(plan, shows="\n".join((*lines, plan.shows)))


@tool(effect="idempotent", name=JOIN_WORKTREE, timeout_s=600)
async def join_worktree(context: ToolContext) -> ToolOutcome:
    """Merge what was changed in the worktree into the work tree it was made from."""
    join = await in_thread(partial(_looked_at, context), name="midstream-tool-joining")
    if join is None or not join.merges:
        return ToolOutcome(outcome="completed", text="No file was changed.")
    changes = await in_thread(join.changes)
    if context.binds and planned_together(changes).binds != context.binds:
        return ToolOutcome(outcome="failed", text=NOT_AS_SEEN)
    failed: dict[str, str] = {}
    for change in changes:
        own = msgspec.structs.replace(context, binds=context.binds and change.binds)
        try:
            await make(change, own)
        except UserMistake as error:
            failed[change.place.name] = error.what
    kept = [*join.conflicts, *(e for e in join.clean if e.name in failed)]
    clean = [each for each in join.clean if each.name not in failed]
    if not kept:
        noted = partial(set_merged, join.of, context.run, context.worktrees[-1], join.commit)
        await in_thread(noted)
    text = await in_thread(partial(_report, join.of.branch, clean, kept, failed))
    return ToolOutcome(outcome="failed" if kept else "completed", text=text)


def _report(
    branch: str, clean: Sequence[Merge], kept: Sequence[Merge], failed: dict[str, str]
) -> str:
    names = ", ".join(each.name for each in clean[:_NAMED])
    more = f" and {len(clean) - _NAMED} more" if len(clean) > _NAMED else ""
    lines = [f"Merged {_counted(clean)}: {names}{more}."] if clean else []
    if kept:
        where = ", ".join(each.name for each in kept[:_NAMED])
        lines.insert(0, f"{counted(len(kept), 'conflict')} in {where}: kept on {branch}.")
        lines.append("Not merged, and left in the work tree as it was:")
    for each in kept:
        lines.append(f"{each.name}: {failed.get(each.name, each.why)}")
        if each.sides:
            left = len(each.sides) - _MAX_SIDES
            lines.append(
                beginning(each.sides, _MAX_SIDES).rstrip()
                + (f"\n[+{left:,} more]" if left > 0 else "")
            )
    return "\n".join(lines)


def _counted(merges: Sequence[Merge]) -> str:
    """Return how much was changed in the worktree: `3 files +40 -2`."""
    diffs = [file_diff(each.name, each.base, each.theirs) for each in merges]
    added, removed = sum(each.added for each in diffs), sum(each.removed for each in diffs)
    return f"{counted(len(diffs), 'file')} +{added} -{removed}"


TOOLS: tuple[Tool, ...] = (
    tool_from(open_worktree),
    tool_from(join_worktree, plan=_plan_of_joining),
)
