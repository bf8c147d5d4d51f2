"""Where a run stands, in words for a person: what it is doing, and what Enter would do now."""

import msgspec

from midstream.core.names import Policy
from midstream.core.question import Question
from midstream.core.run import Run, definition_of, plan_for


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands.

    `doing` is a phrase such as "reviewer is thinking". `enter` says what a line would do, as a verb
    phrase after "Enter", such as "interrupts reviewer"; empty where no line is taken. `questions` are
    the open ones a person sees, approvals included.
    """

    state: str
    doing: str
    enter: str
    questions: tuple[Question, ...] = ()


def where(run: Run) -> Where:
    """Return where the run stands."""
    return Where(
        state=run.state,
        doing=_doing(run),
        enter=what_enter_does(run),
        questions=tuple(q for q in run.open_questions if q.kind != "input"),
    )


def policy_of(run: Run) -> Policy:
    """Return what unasked words do in the run's state, going by its workflow alone."""
    state = plan_for(run).states.get(run.state)
    return (state and state.on_input) or definition_of(run).workflow.on_input


def what_enter_does(run: Run) -> str:
    """Return what a line would do now, "" where none is taken."""
    if run.phase in ("new", "ended"):
        return ""
    if run.suspended:
        return "lets it go on"
    if run.phase == "waiting":
        agent = plan_for(run).states[run.state].agent if run.state else None
        return "starts" if not run.state else f"sends to {agent or run.state}"
    if run.phase == "held":
        return "resumes"
    if run.phase == "halting":
        return "joins the interruption" if run.halting_for != "stop" else ""
    numbers = [f"#{q.number}" for q in run.open_questions if q.kind == "question"]
    if numbers:
        return f"answers {' or '.join(numbers)}"
    return _unasked(run)


def _unasked(run: Run) -> str:
    busy = run.turn.agent if run.turn is not None else run.state
    match policy_of(run):
        case "interrupt":
            return f"interrupts {busy}"
        case "steer":
            return f"steers {busy}"
        case "queue":
            return f"waits until {run.state} is done"
        case "reject":
            return ""


def _doing(run: Run) -> str:
    if run.suspended and not run.is_over:
        return f"suspended: {run.suspended}"
    match run.phase:
        case "new":
            return "not started"
        case "waiting":
            return "waiting for your words"
        case "held":
            return "stopped here, waiting for your words"
        case "halting":
            return f"stopping {_tools(run)}".rstrip()
        case "turn":
            return _turn(run)
        case "ended":
            return f"failed: {run.error}" if run.status == "failed" else run.status
        case _:
            return f"running {run.state}'s {_HANDLERS.get(run.phase, run.phase)}"


_HANDLERS = {"pre": "pre_handler", "post": "post_handler", "transition": "transition_handler"}


def _turn(run: Run) -> str:
    assert run.turn is not None
    if not run.turn.calls:
        return f"{run.turn.agent} is thinking"
    if not run.is_parked:
        return f"{run.turn.agent} is using {_tools(run)}"
    needs = [f"{_NEEDS[q.kind]} #{q.number}" for q in run.open_questions]
    return f"{run.turn.agent} is waiting for {', '.join(needs)}"


_NEEDS = {"question": "your answer to", "approval": "your approval of", "input": "your words"}


def _tools(run: Run) -> str:
    calls = () if run.turn is None else run.turn.calls
    return ", ".join(c.call.name for c in calls if c.status in ("running", "stopping"))
