"""Where a run stands, in words for a person: what it is doing, what Enter does, which lines wait."""

from collections.abc import Mapping
from typing import Final

import msgspec

from midstream.core.question import Question
from midstream.core.routing import (
    Destination,
    Returned,
    Route,
    Unclear,
    address_of,
    addressees,
    as_typed,
    branch_at,
    only_agent,
    policy_of,
)
from midstream.core.run import InputRecord, Run
from midstream.views.amounts import time_of_day

STANDS_STILL: Final = "stands still until the journal can be written"
NOBODY_RUNS_IT: Final = "stands still: no process runs it"
"""What a run is doing, whatever its facts say, while they cannot be kept."""


def asked(run: Run) -> tuple[Question, ...]:
    """Return the open questions a person sees, approvals included."""
    return tuple(q for q in run.inbox.open_questions if q.kind != "input")


def summary_words(run: Run, *, now: float) -> str:
    """Return what a run, or a branch, is doing, and until when: `start waits until 18:00`."""
    doing, until = doing_of(run), until_of(run)
    return doing if until is None else f"{doing} until {time_of_day(until, now=now)}"


def silent_words(name: str) -> str:
    """Return what is said while a process that has a run is waited for: it may have died."""
    return f"The process that runs {name} gives no answer. If it has died, {name} is free within seconds."


def way_on(run: Run, id: str, *, resume: str) -> str:
    """Return how a run is left that no process runs, and how a person goes on: a sentence's end.

    Args:
        run: the run, which has not ended.
        id: as much of its id as names it.
        resume: what takes it up, such as `midstream resume 4f2a`.
    """
    send = f"`midstream send {id} TEXT`"
    if run.suspended:
        return f"is suspended: {resume} goes on."
    if any(
        question.kind == "question" or not run.visit.state for question in run.inbox.open_questions
    ):
        return f"is kept: {send} answers it, and {resume} goes on."
    if any(question.kind == "approval" for question in run.inbox.open_questions):
        return f"is kept until you decide on its tool call: start midstream, then /resume {id}."
    if run.visit.phase == "held":
        return f"is stopped: {send} tells it what to do, and {resume} goes on then."
    return f"is kept where it stopped: {resume} goes on."


def is_at_work(run: Run) -> bool:
    """Return whether the run is in its state's work, be it one that waits for a person."""
    if run.compacting is not None:
        return True
    return run.visit.phase not in ("new", "waiting", "leaving", "halting", "held", "ended")


# --- what Enter does --------------------------------------------------------------------------


def what_enter_does(run: Run) -> str:
    """Return what a line would do now, "" where none is taken."""
    if run.visit.phase in ("new", "ended"):
        return ""
    if run.suspended:
        return "resumes it"
    if run.visit.phase == "waiting":
        does = (
            f"starts {run.workflow_name}".rstrip()
            if not run.visit.state
            else f"sends to {_listener(run)}"
        )
        return does if run.compacting is None else f"ends the summary, {does}"
    if run.visit.phase == "held":
        return "resumes"
    if run.visit.phase == "halting":
        return "joins the interruption" if run.halt.leads_to != "stop" else ""
    numbers = [f"#{q.number}" for q in run.inbox.open_questions if q.kind == "question"]
    if numbers:
        return f"answers {' or '.join(numbers)}"
    waiting = next((q.branch for q in run.inbox.open_questions if q.kind == "input"), "")
    if waiting:
        return f"sends to {waiting}"
    return _unasked(run, _busy(run))


def what_a_line_does(
    line: str,
    to: Route,
    *,
    numbers: Mapping[str, str],
    addressees: Mapping[str, str],
    otherwise: str,
) -> str:
    """Return what a typed line would do now, as `what_enter_does` says it.

    Args:
        line: the line.
        to: whom it is for, as it was judged.
        numbers: the questions on the screen, such as `#2`, by their ids there.
        addressees: what `@name words` do; see `what_addressing_does`.
        otherwise: what a line for nobody in particular does.
    """
    match to:
        case Destination() if to.shown_question in numbers:
            return f"answers {numbers[to.shown_question]}"
        case Destination(question=None):
            name, _ = address_of(line)
            return addressees.get(name, otherwise)
        case Unclear(question=question):
            return f"asks whether it answers {numbers.get(question, 'a question')}"
        case Returned(reason=reason):
            return f"comes back: {reason}"
        case _:  # It is what a branch waits for.
            return otherwise


def what_addressing_does(run: Run) -> dict[str, str]:
    """Return what `@name words` would do now, as `what_enter_does` says it, by the name."""
    agent = only_agent(run)
    if agent:
        return {agent: _unasked(run, agent) or f"is not accepted by {agent} now"}
    return {name: _told_to(branch, _named(branch)) for name, branch in addressees(run).items()}


def _named(branch: Run) -> str:
    """Return what a branch is called in a sentence."""
    name = branch.branch.path.rpartition("/")[2]
    return f"branch {name}" if name.isdecimal() else name


def _told_to(branch: Run, name: str) -> str:
    if branch.visit.phase == "waiting":
        return f"sends to {name}"
    if branch.visit.phase == "held":
        return f"resumes {name}"
    if branch.visit.phase == "halting":
        return f"joins the interruption of {name}"
    return _unasked(branch, name) or f"is not accepted by {name} now"


def _listener(run: Run) -> str:
    return run.plan.states[run.visit.state].agent or run.visit.state


def _busy(run: Run) -> str:
    """Return what words cut off, in a word or two."""
    if run.visit.phase == "branches":
        inner = [branch for branch in run.visit.branches.values() if not branch.is_over]
        if len(inner) == 1:
            return _named(inner[0])
        if inner:
            return f"{len(inner)} branches"
    return run.visit.state if run.visit.turn is None else run.visit.turn.agent or run.visit.state


def _unasked(run: Run, busy: str) -> str:
    match policy_of(run):
        case "interrupt":
            return f"interrupts {busy}"
        case "steer":
            return f"steers {busy}"
        case "queue":
            return f"waits until {run.visit.state} is done"
        case "reject":
            return ""


# --- what it is doing -------------------------------------------------------------------------


def doing_of(run: Run) -> str:
    """Return what a run, or a branch, is doing: a phrase."""
    if run.suspended and not run.is_over:
        return f"suspended: {run.suspended}"
    match run.visit.phase:
        case "waiting" | "held" if run.compacting is not None:
            return f"{run.compacting.agent} summarises the older turns"
        case "new":
            return "not started"
        case "waiting":
            return "waiting for your words"
        case "held":
            return "stopped here, waiting for your words"
        case "halting" if run.visit.turn is not None and run.visit.turn.prompted:
            return f"stopping {run.visit.turn.agent}"
        case "halting":
            return f"stopping {_tools(run)}".rstrip()
        case "turn":
            return _turn(run)
        case "call":
            return (
                _waits(run, run.visit.state) if run.is_parked else f"calling {_tools(run)}".rstrip()
            )
        case "asking":
            return _waits(run, run.visit.state)
        case "resting":
            return f"{run.visit.state} waits"
        case "retrying":
            return f"{run.visit.state} waits to be tried again{_attempt(run)}"
        case "branches":
            return _branches(run)
        case "ended":
            return f"failed: {run.error}" if run.status == "failed" else run.status
        case _:
            return f"running {run.visit.state}'s {_HANDLERS.get(run.visit.phase, run.visit.phase)}"


_HANDLERS = {"pre": "pre_handler", "post": "post_handler", "transition": "transition_handler"}

_WAITS_FOR = {"resting": "wait", "retrying": "retry", "asking": "deadline"}
"""The timer that ends a phase, by the phase."""


def until_of(run: Run) -> float | None:
    """Return until when it waits, in seconds since 1970; None where it does not."""
    until = run.visit.timers.get(_WAITS_FOR.get(run.visit.phase, ""), 0.0)
    return until if until > 0 else None


def _attempt(run: Run) -> str:
    retry = run.plan.states[run.visit.state].retry
    return "" if retry is None else f" ({run.visit.attempts + 1} of {retry.max_attempts})"


def _turn(run: Run) -> str:
    assert run.visit.turn is not None
    if not run.visit.turn.calls:
        if run.is_parked:
            return _waits(run, run.visit.turn.agent)
        made = [call for call in run.visit.turn.external if call.status == "running"]
        if made:
            return f"{run.visit.turn.agent} is using {', '.join(c.call.name for c in made)}"
        return f"{run.visit.turn.agent} is thinking"
    if any(not branch.is_over for branch in run.visit.branches.values()):
        return _branches(run)
    if not run.is_parked:
        return f"{run.visit.turn.agent} is using {_tools(run)}"
    return _waits(run, run.visit.turn.agent)


def _waits(run: Run, who: str) -> str:
    needs = _needs(run)
    return f"{who} is waiting for {needs}" if needs else f"{who} asks"


def _needs(run: Run) -> str:
    return ", ".join(
        f"{_NEEDS[q.kind]}{f' #{q.number}' if q.number else ''}" for q in run.inbox.open_questions
    )


_NEEDS = {"question": "your answer to", "approval": "your approval of", "input": "your words"}

_NAMED = 3
"""Branches at work that are named, not counted."""


def _branches(run: Run) -> str:
    inner = [branch for branch in run.visit.branches.values() if not branch.is_over]
    if len(inner) == 1 and len(run.visit.branches) == 1:
        return doing_of(inner[0])
    busy = [branch.branch.path.rpartition("/")[2] for branch in inner if not branch.is_parked]
    names = ", ".join(busy) if len(busy) <= _NAMED else f"{len(busy)} branches"
    needs = _needs(run)
    parts = (f"{names} at work" if busy else "", f"waiting for {needs}" if needs else "")
    return "; ".join(part for part in parts if part) or f"{run.visit.state} begins"


def _tools(run: Run) -> str:
    calls = () if run.visit.turn is None else run.visit.turn.due
    return ", ".join(c.call.name for c in calls if c.status != "parked")


# --- lines that were taken and not yet delivered, and what each of them waits for --------------------


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A line that waits. `text` is as it was typed, with the branch it is for before it.

    `fate` says what becomes of it, such as "waits until review is done", `brief` the same in two or
    three words for a narrow screen. `can_be_withdrawn`: nothing has been done about it yet.
    """

    id: str
    text: str
    fate: str
    brief: str
    can_be_withdrawn: bool = True


def waiting(run: Run) -> tuple[Waiting, ...]:
    """Return the lines that wait, the oldest first."""
    return tuple(_waiting(run, record) for record in run.inbox.undelivered)


def kept(id: str, text: str) -> Waiting:
    """Return a line that is kept for a run nobody runs."""
    return Waiting(id=id, text=text, fate="kept until the run is resumed", brief="kept")


def entered(text: str) -> Waiting:
    """Return a line that no run has yet."""
    return Waiting(
        id="", text=text, fate="is on its way", brief="on its way", can_be_withdrawn=False
    )


def _waiting(run: Run, record: InputRecord) -> Waiting:
    place = branch_at(run, record.to) or run
    who = _awaited(place)
    held = " once it goes on" if run.visit.phase == "held" else ""
    match record.handling:
        case "steer":
            agent = who if place.visit.turn is None else place.visit.turn.agent or who
            fate, brief = f"joins the next request of {agent}{held}", "next request"
        case "queue":
            fate, brief = f"waits until {who} is done{held}", f"after {who}"
        case "interrupt":
            tools = _stopping(place)
            what = (
                f"{tools} {'have' if ', ' in tools else 'has'} stopped" if tools else "all stopped"
            )
            fate, brief = f"is delivered once {what}", "once stopped"
        case _:
            fate, brief = "is on its way", "on its way"
    return Waiting(
        id=record.id,
        text=as_typed(record.text, record.to),
        fate=fate,
        brief=brief,
        can_be_withdrawn=record.handling in ("steer", "queue"),
    )


def _awaited(place: Run) -> str:
    """Return what a line waits for: in a chat who speaks, else the state."""
    if place.is_chat and place.visit.turn is not None and place.visit.turn.agent:
        return place.visit.turn.agent
    if place.is_chat and place.definition is not None:
        return next(iter(place.definition.roles), "this")
    return place.visit.state or "this"


def _stopping(place: Run) -> str:
    calls = () if place.visit.turn is None else place.visit.turn.calls
    return ", ".join(call.call.name for call in calls if call.status == "stopping")


DELIVERED: Final[Mapping[str, str]] = {
    "answer": "is the answer",
    "interrupt": "interrupts it now",
    "steer": "joins its next request",
    "queue": "is delivered when its state is done",
}
"""What becomes of a line a run has taken, by the `handling` of its receipt."""
