"""A run is pinned to its definition: what has changed since, and whether the run could follow."""

import difflib
from collections.abc import Iterable, Mapping

from midstream.core.fold.fold_branches import inner_definition
from midstream.core.run import Run
from midstream.language.plan import flow_of
from midstream.language.spec import Definition, Workflow


def changes(pinned: Definition, now: Definition) -> tuple[str, ...]:
    """Return what is different in `now`, a line each; empty: nothing the run could notice."""
    found = [
        *_workflow_changes(pinned.workflow, now.workflow),
        *_changed_names("role", pinned.roles, now.roles),
        *_changed_names("tool", pinned.tools, now.tools),
        *_changed_names("sub-workflow", pinned.workflows, now.workflows),
    ]
    if pinned.script != now.script:
        found.append(script_change(pinned.script, now.script))
    if not (found or pinned.found_as or now.found_as) and pinned.digest != now.digest:
        # Of one built in code the digest covers what they do; see `runtime/state_functions.py`.
        found.append("its functions, or the module they stand in, changed")
    return tuple(found)


def _workflow_changes(pinned: Workflow, now: Workflow) -> Iterable[str]:
    for field in pinned.__struct_fields__:
        before, after = getattr(pinned, field), getattr(now, field)
        if field == "states":
            yield from _changed_names(
                "state", {s.name: s for s in before}, {s.name: s for s in after}
            )
        elif before != after:
            yield f"{field}: changed"


def _changed_names(
    what: str, pinned: Mapping[str, object], now: Mapping[str, object]
) -> Iterable[str]:
    for name in sorted({*pinned, *now}):
        if name not in now:
            yield f"the {what} {name} is gone"
        elif name not in pinned:
            yield f"the {what} {name} is new"
        elif pinned[name] != now[name]:
            yield f"the {what} {name} changed"


def script_change(pinned: str | None, now: str | None, *, file: str = "script.py") -> str:
    """Return how a script differs from the pinned one, in a line; `file` is what it is called."""
    if pinned is None or now is None:
        return "the script is new" if pinned is None else "the script is gone"
    lines = list(difflib.unified_diff(pinned.splitlines(), now.splitlines(), n=0, lineterm=""))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return f"{file} changed (+{added} -{removed} lines)"


_PHASES = (
    "waiting",
    "pre",
    "turn",
    "call",
    "asking",
    "resting",
    "branches",
    "post",
    "transition",
)
"""Where a run can stand in a state that its spec has to have."""


def misfit_of(run: Run, definition: Definition) -> str:
    """Return why a run cannot go on with a definition where it stands, "" if it can."""
    workflow = definition.workflow
    states = {state.name: state for state in workflow.states}
    agents = {agent.key for agent in workflow.agents}
    contexts = {context.name for context in workflow.contexts}
    if run.is_over:
        return "the run has ended"
    visits = (run.visit, *run.halt.cuts)
    for visit in visits:
        if visit.state and visit.state not in states:
            return f"it has no state {visit.state!r}, where the run is now"
    stands = [(visit.state, visit.phase) for visit in visits]
    if run.visit.phase == "retrying":
        stands.append((run.visit.state, run.visit.retry_phase))
    for name, phase in stands:
        if name and phase in _PHASES and phase not in flow_of(states[name]).values():
            return f"the state {name!r} has no {phase} any more"
    pinned = run.plan.states
    for name, branches in [(visit.state, visit.branches) for visit in visits]:
        own = [branch for branch in branches.values() if not branch.branch.call_id]
        if own and pinned.get(name) != states[name]:
            return f"the state {name!r}, whose branches are under way, changed"
        if own and run.definition and run.definition.workflows != definition.workflows:
            return "a sub-workflow changed"
        for branch in branches.values():
            role = branch.branch.role
            if role and not branch.is_over and role not in definition.delegates:
                return f"it has no role {role!r}, in which a task is being done"
            inner = inner_definition(definition, states[name], branch)
            if not branch.is_over and (misfit := misfit_of(branch, inner)):
                return f"in its branch {branch.branch.path}: {misfit}"
    if (
        run.visit.phase == "turn"
        and run.visit.turn is not None
        and run.visit.turn.agent != states[run.visit.state].agent
    ):
        return f"the state {run.visit.state!r} has another agent"
    if run.visit.turn is not None and run.visit.turn.agent and run.visit.turn.agent not in agents:
        return f"it has no agent {run.visit.turn.agent!r}, whose turn it is"
    for agent in workflow.agents:
        if agent.context not in contexts:
            return f"it has no context {agent.context!r}"
    return ""
