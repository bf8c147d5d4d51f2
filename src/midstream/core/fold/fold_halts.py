"""The user's words, and halting: where a run was cut, and what it is halted for."""

from msgspec.structs import replace

from midstream.core.append_only import booked
from midstream.core.events import InputDisposed, InputReceived, Interrupted
from midstream.core.fold.fold_contexts import with_shown
from midstream.core.run import (
    Cut,
    InputRecord,
    OpenCall,
    Run,
    RunUsage,
    Span,
    Trouble,
    Turn,
    with_inbox,
)
from midstream.core.timer_names import WAITED
from midstream.language.names import RESUME, Phase


def received(run: Run, fact: InputReceived) -> Run:
    """Return the run with a line of the user in its inbox."""
    record = InputRecord(
        id=fact.input_id,
        text=fact.text,
        handling=fact.handling,
        reason=fact.reason,
        to=fact.to,
    )
    times = (
        run.inbox.interrupted_at if fact.at is None else (*run.inbox.interrupted_at[-9:], fact.at)
    )
    return with_inbox(
        run,
        lines=booked(run.inbox.lines, fact.input_id, record),
        undelivered=(*run.inbox.undelivered, record),
        interrupted_at=times,
    )


def disposed(run: Run, fact: InputDisposed) -> Run:
    """Return the run with what became of a line."""
    known = run.inbox.lines[fact.input_id]
    record = replace(known, disposition=fact.disposition, reason=fact.reason or known.reason)
    return with_inbox(
        run,
        lines=booked(run.inbox.lines, fact.input_id, record),
        undelivered=tuple(r for r in run.inbox.undelivered if r.id != fact.input_id),
    )


def interrupted(run: Run, fact: Interrupted) -> Run:
    """Return the run being halted."""
    if fact.leads_to == "trouble":
        return _troubled(run, fact)
    common_data, cuts, state = dict(run.common_data), run.cuts, run.interrupted_state
    if fact.epoch != run.epoch or run.halting_for == "trouble":
        cuts = _cuts_after(run, fact)
        state = cuts[-1].state if cuts else fact.state
        run = _stopping(with_shown(run, fact.agent, fact.partial))
        common_data["interrupted_state"] = state
        common_data["interrupted_text"] = fact.partial
    if fact.text is not None:
        common_data["resume_input"] = fact.text
    run = replace(
        run,
        common_data=common_data,
        cuts=cuts,
        interrupted_state=state,
        resume_input=run.resume_input if fact.text is None else fact.text,
        is_heard=run.is_heard and fact.text is None,
        epoch=fact.epoch,
        phase="halting",
        usage=_not_over_budget(run.usage),
        halting_for=fact.leads_to,
        stop_reason=fact.reason,
    )
    return held_if_due(run)


def _not_over_budget(usage: RunUsage) -> RunUsage:
    return replace(usage, is_over_budget=False) if usage.is_over_budget else usage


def _troubled(run: Run, fact: Interrupted) -> Run:
    """Return the run with its state's work being ended over an error: nobody interrupted it."""
    is_unsure = run.turn is not None and _unsure_call(run.turn) is not None
    run = _stopping(with_shown(run, fact.agent, fact.partial))
    return replace(
        run,
        epoch=fact.epoch,
        phase="halting",
        usage=_not_over_budget(run.usage),
        retry_phase=run.phase,
        halting_for="trouble",
        trouble=Trouble(kind=fact.trouble or "any", error=fact.reason, is_unsure=is_unsure),
    )


def _cuts_after(run: Run, fact: Interrupted) -> tuple[Cut, ...]:
    """Return the cuts with this halt's on top.

    A halt of `resume` adds none: the halt enters `resume` anew with the new words, and going back
    into it afterwards would do its work twice. A branch that is only held gets no new words: it goes on
    in its `resume` where it was.
    """
    is_anew = fact.state == RESUME and not (run.branch.path and fact.leads_to == "hold")
    if is_anew or (fact.resumes and run.cuts):
        return run.cuts
    phase: Phase | None = run.phase
    if fact.state != run.state or run.phase == "leaving":
        phase = None
    is_prompted = run.turn is not None and run.turn.is_prompted
    if phase == "retrying":
        is_prompted = was_prompted(run)
    if phase is not None and phase in ("halting", "retrying"):
        phase = run.retry_phase
    turn = run.turn or Turn(agent="")
    usages, calls, seconds = run.marks
    span = Span(
        start=usages,
        end=len(run.usage.requests),
        tool_calls=run.usage.tool_calls - calls,
        worked_s=run.usage.active_s - seconds,
    )
    is_visit = phase is not None
    in_doubt = next((c.call for c in run.cuts if c.state == fact.state), None)
    cut = Cut(
        state=fact.state,
        phase=phase,
        request=turn.request + bool(turn.calls),
        last_response=run.last_response,
        is_prompted=is_prompted,
        call=_unsure_call(turn) or in_doubt,
        attempts=run.attempts if is_visit else 0,
        spent=(*run.spent, span) if is_visit else (),
        wait_until=run.timers.get(WAITED) if is_visit else None,
    )
    if not run.cuts:
        return (cut,)
    known = [earlier.state for earlier in run.cuts]
    below = run.cuts[: known.index(fact.state)] if fact.state in known else run.cuts
    return (*below, cut)


def was_prompted(run: Run) -> bool:
    """Return whether the prompt of a turn that is tried again stands in the conversation."""
    return run.trouble is not None and run.trouble.kind != "template"


def _unsure_call(turn: Turn) -> OpenCall | None:
    """Return the state's own call whose outcome a person is being asked for."""
    call = turn.calls[0] if turn.calls and not turn.agent else None
    is_unsure = call is not None and call.effect == "once"
    if call is None or not is_unsure or call.outcome not in ("unknown", "stopped"):
        return None
    return replace(call, status="done")


def may_have_happened(run: Run) -> bool:
    """Return whether trying again could repeat a `once` call of a state that had its effect."""
    if run.trouble is not None and run.trouble.is_unsure and run.phase == "halting":
        return True
    if run.turn is not None and _unsure_call(run.turn) is not None:
        return True
    lost = (branch for branch in run.branches.values() if branch.status == "failed")
    return any(branch.trouble is not None and branch.trouble.is_unsure for branch in lost)


def _stopping(run: Run) -> Run:
    """Return the run with its running `once` calls marked as being stopped."""
    if run.turn is None or not run.turn.calls:
        return run
    if _unsure_call(run.turn) is not None:
        return replace(run, turn=None)  # it has ended before: only what became of it was asked
    calls = tuple(
        replace(call, status="stopping")
        if call.status == "running" and call.effect == "once"
        else call
        for call in run.turn.calls
    )
    return replace(run, turn=replace(run.turn, calls=calls))


def is_at_rest(branch: Run) -> bool:
    """Return whether a branch of a run that is held is, too; one not begun yet waits for words."""
    return branch.phase in ("held", "ended") or (branch.phase == "waiting" and branch.state == "")


def held_if_due(run: Run) -> Run:
    """Return the run held where it was to be, and nothing is being stopped any more."""
    if run.phase != "halting" or run.halting_for != "hold":
        return run
    if run.turn is not None and run.turn.calls:
        return run
    if not all(is_at_rest(branch) for branch in run.branches.values()):
        return run
    return replace(run, phase="held", turn=None)
