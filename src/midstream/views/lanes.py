"""Who is at work in a run, a line each, and how far it is, where that can be known before it ends.

Steps are counted where the states stand in a line: each leads to one other and none leads back. Where
a condition or a handler chooses nobody knows how long the way is, and nothing is claimed.
"""

import msgspec

from midstream.core.costs import counted
from midstream.core.routing import living
from midstream.core.run import AROUND, Run
from midstream.core.run_data import as_text, look_up
from midstream.language.names import RESUME, STOP, Json
from midstream.language.plan import branches_of
from midstream.language.spec import State
from midstream.views.cells import shortened
from midstream.views.run_status import doing_of, until_of


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """A branch at work, as one line shows it. One that has branches itself is shown by those.

    `path` is where in the run it stands, `about` the item it is for, shortened ("": for none).
    `is_parked`: only a person can move it on. `is_stalled`: its run stands still. The run's own lane has
    the path ""; one of another run than the active one says which by its `label`. `tokens` are those its
    agents have written in this visit to its state, the `step` of the run.
    """

    run: str
    path: str
    state: str
    doing: str
    about: str = ""
    agent: str = ""
    until: float | None = None
    is_parked: bool = False
    is_stalled: bool = False
    label: str = ""
    tokens: int = 0
    step: int = 0


def lanes(run: Run) -> tuple[Lane, ...]:
    """Return the branches at work, in the order they began; none while the run holds them all."""
    if run.visit.phase == "held":
        return ()
    return tuple(
        Lane(
            run=run.id,
            path=branch.branch.path,
            state=state_of(branch),
            doing=_needed(branch) if branch.is_parked else doing_of(branch),
            about=about(branch.input, branch.variables),
            agent="" if branch.visit.turn is None else branch.visit.turn.agent,
            until=until_of(branch),
            is_parked=branch.is_parked,
            tokens=_written(branch),
            step=branch.visit.step,
        )
        for branch in living(run)
        if branch.visit.phase not in AROUND
        or all(each.is_over for each in branch.visit.branches.values())
    )


def state_of(branch: Run) -> str:
    """Return the state a branch is in; "" of a task in a role, which has but one."""
    return "" if branch.branch.role else branch.visit.state


def _needed(branch: Run) -> str:
    """Return what a branch that only a person can move on waits for, in few words."""
    numbers = ", ".join(f"#{q.number}" for q in branch.inbox.open_questions if q.number)
    return f"waits for {numbers or 'your words'}"


_ABOUT = 24
"""Characters of an item that say which one it is."""


def about(input: Json, variables: dict[str, Json]) -> str:
    """Return what tells a branch `for_each` item from the others; "" for any other branch."""
    if "index" not in variables or input is None:
        return ""
    named = input.get("name") or input.get("path") or input if isinstance(input, dict) else input
    text = " ".join(as_text(named).split())
    if "/" in text and len(text) > _ABOUT:
        return f"…{text[1 - _ABOUT :]}"  # of a path the end says more
    return shortened(text, _ABOUT)


_IDLE = ("new", "waiting", "held", "leaving", "ended")


def at_work(run: Run) -> tuple[Lane, ...]:
    """Return a lane for each branch at work, or for the run itself where it has none.

    The run's own lane has the path "". One that waits for a person alone has none: what it waits for
    is shown as a question.
    """
    found = lanes(run)
    if found or run.suspended:
        return found
    own = _own_lane(run, label="")
    return () if own is None else (own,)


def behind(run: Run, *, named: str) -> Lane | None:
    """Return the one lane of a run in the background, None where nothing of it is at work."""
    return _own_lane(run, label=named)


def _own_lane(run: Run, *, label: str) -> Lane | None:
    is_idle = run.visit.phase in _IDLE and run.compacting is None
    if run.is_over or run.is_parked or is_idle:
        return None
    is_chat = run.definition is None or run.definition.kind == "chat"
    return Lane(
        run=run.id,
        path="",
        state="" if is_chat and not label else run.visit.state,
        doing=doing_of(run),
        # Nothing of a run in the background streams: nobody is "writing" there.
        agent="" if label or run.visit.turn is None else run.visit.turn.agent,
        until=until_of(run),
        label=label,
        tokens=_written(run),
        step=run.visit.step,
    )


def _written(run: Run) -> int:
    """Return the tokens models wrote in this visit to the run's state, what is streaming left out."""
    return sum(
        usage.output_tokens for _, usage in run.usage.requests[run.visit.budget_baseline[0] :]
    )


# --- how far it is ----------------------------------------------------------------------------------------


def progress_words(run: Run) -> str:
    """Return how far a run is, the whole first, then the state it is in; "" where nothing is known.

    Such as `step 2 of 5 · 3 of 12 items`.
    """
    if run.definition is None or run.definition.kind == "chat" or run.is_over:
        return ""
    return " · ".join(filter(None, (_steps(run), _within(run))))


def _line_of(states: tuple[State, ...], entry: str) -> tuple[str, ...]:
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


def _steps(run: Run) -> str:
    line = _line_of(tuple(run.plan.states.values()), run.branch.entry)
    if len(line) < 2 or run.visit.state not in line:
        return ""
    return f"step {line.index(run.visit.state) + 1} of {len(line)}"


def _within(run: Run) -> str:
    state = run.plan.states.get(run.visit.state)
    if state is None or run.visit.phase not in ("branches", "halting", "held"):
        return ""
    done = sum(branch.status == "finished" for branch in run.visit.branches.values())
    of = len(branches_of(state))
    things = counted(of, "branch", "branches")
    if state.for_each is not None:
        # Items begin as there is room: those that have not are no branches yet.
        items = look_up(run, state.for_each.items)
        of = len(items) if isinstance(items, list) else 0
        things = counted(of, "item")
    return f"{done} of {things}" if of > 1 else ""


def _leads_to_one(state: State) -> bool:
    """Return whether it is known before where a state leads when all goes well."""
    if state.transition_handler is not None or state.name == RESUME:
        return False
    return not state.transitions or state.transitions[0].when is None


def _onward(state: State) -> str:
    return state.transitions[0].to if state.transitions else state.next or STOP
