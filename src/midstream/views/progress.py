"""How far a run is, where that can be known before it ends: steps of a line of states, items, branches.

Steps are counted where the states stand in a line: each leads to one other and none leads back. Where
a condition or a handler chooses nobody knows how long the way is, and nothing is claimed.
"""

import msgspec

from midstream.core.run import Run, plan_for
from midstream.core.run_data import look_up
from midstream.language.branch_spec import branches_of
from midstream.language.names import RESUME, STOP
from midstream.language.spec import State
from midstream.views.amounts import counted


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """So many `done` `of` so many `things` (`steps`, `items`, `branches`)."""

    done: int
    of: int
    things: str


def progress_of(run: Run) -> tuple[Progress, ...]:
    """Return what is known of how far a run is, the whole first, then the state it is in."""
    if run.definition is None or run.plan is None or run.definition.kind == "chat" or run.is_over:
        return ()
    found = (_steps(run), _within(run))
    return tuple(each for each in found if each is not None)


def progress_words(run: Run) -> str:
    """Return it in words, such as `step 2 of 5 · 3 of 12 items`; "" where nothing is known."""
    words = [
        f"step {min(each.done + 1, each.of)} of {each.of}"
        if each.things == "steps"
        else f"{each.done} of {counted(each.of, *_NAMED[each.things])}"
        for each in progress_of(run)
    ]
    return " · ".join(words)


_NAMED = {"items": ("item",), "branches": ("branch", "branches")}


def line_of(states: tuple[State, ...], entry: str) -> tuple[str, ...]:
    """Return the states from the first one to `stop`, without it, if they stand in a line; else none."""
    known = {state.name: state for state in states}
    found: list[str] = []
    name = entry
    while name != STOP:
        state = known.get(name)
        if state is None or name in found or not _leads_to_one(state):
            return ()
        found.append(name)
        name = _onward(state)
    return tuple(found)


def _steps(run: Run) -> Progress | None:
    line = line_of(tuple(plan_for(run).states.values()), run.branch.entry)
    if len(line) < 2 or run.visit.state not in line:
        return None
    return Progress(done=line.index(run.visit.state), of=len(line), things="steps")


def _within(run: Run) -> Progress | None:
    state = plan_for(run).states.get(run.visit.state)
    if state is None or run.visit.phase not in ("branches", "halting", "held"):
        return None
    done = sum(branch.status == "finished" for branch in run.visit.branches.values())
    things, of = "branches", len(branches_of(state))
    if state.for_each is not None:
        # Items begin as there is room: those that have not are no branches yet.
        items = look_up(run, state.for_each.items)
        things, of = "items", len(items) if isinstance(items, list) else 0
    return Progress(done=done, of=of, things=things) if of > 1 else None


def _leads_to_one(state: State) -> bool:
    """Return whether it is known before where a state leads when all goes well."""
    if state.transition_handler is not None or state.name == RESUME:
        return False
    return not state.transitions or state.transitions[0].when is None


def _onward(state: State) -> str:
    return state.transitions[0].to if state.transitions else state.next or STOP
