"""The user's words, and halting: where a run was cut, and what it is halted for."""

from msgspec.structs import replace

from midstream.core.append_only import booked
from midstream.core.events import InputDisposed, InputReceived, Interrupted
from midstream.core.fold.fold_contexts import with_shown, with_used
from midstream.core.pictures import by_id
from midstream.core.run import (
    WAITED,
    Halt,
    InputRecord,
    OpenCall,
    Run,
    RunUsage,
    Span,
    Trouble,
    Turn,
    Visit,
    branch_for,
    with_inbox,
    with_visit,
)
from midstream.language.names import RESUME

_NONE: dict[str, Run] = {}
_NO_TIMERS: dict[str, float] = {}


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
    if fact.pictures:
        run = replace(run, pictures=run.pictures | by_id(fact.pictures))
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
        undelivered=tuple([r for r in run.inbox.undelivered if r.id != fact.input_id]),
    )


def interrupted(run: Run, fact: Interrupted) -> Run:
    """Return the run being halted."""
    if fact.usage is not None:
        run = with_used(run, fact.agent, fact.usage)
    if fact.leads_to == "trouble":
        return _troubled(run, fact)
    common_data, halt = dict(run.common_data), run.halt
    cuts, state = halt.cuts, halt.interrupted_state
    if fact.epoch != halt.epoch or halt.leads_to == "trouble":
        cuts = _cuts_after(run, fact)
        state = cuts[-1].state if cuts else fact.state
        run = _stopping(_with_words(run, fact))
        common_data["interrupted_state"] = state
        common_data["interrupted_text"] = fact.partial
    if fact.text is not None:
        common_data["resume_input"] = fact.text
    run = replace(
        run,
        common_data=common_data,
        visit=replace(run.visit, phase="halting"),
        halt=Halt(
            epoch=fact.epoch,
            leads_to=fact.leads_to,
            reason=fact.reason,
            cuts=cuts,
            resume_input=halt.resume_input if fact.text is None else fact.text,
            is_heard=halt.is_heard and fact.text is None,
            interrupted_state=state,
        ),
        usage=_not_over_budget(run.usage),
    )
    return held_if_due(run)


def _with_words(run: Run, fact: Interrupted) -> Run:
    """Return the run with what was shown kept. An external agent is still being stopped: what it does
    until then belongs to the same words.
    """
    turn = run.visit.turn
    if turn is not None and turn.prompted:
        return with_visit(run, turn=replace(turn, text=fact.partial))
    return with_shown(run, fact.agent, fact.partial, fact.calling)


def _not_over_budget(usage: RunUsage) -> RunUsage:
    return replace(usage, is_over_budget=False) if usage.is_over_budget else usage


def _troubled(run: Run, fact: Interrupted) -> Run:
    """Return the run with its state's work being ended over an error: nobody interrupted it."""
    is_unsure = run.visit.turn is not None and _unsure_call(run.visit.turn) is not None
    run = _stopping(_with_words(run, fact))
    return replace(
        run,
        visit=replace(
            run.visit,
            phase="halting",
            retry_phase=run.visit.phase,
            trouble=Trouble(kind=fact.trouble or "any", error=fact.reason, is_unsure=is_unsure),
        ),
        halt=replace(run.halt, epoch=fact.epoch, leads_to="trouble"),
        usage=_not_over_budget(run.usage),
    )


def _cuts_after(run: Run, fact: Interrupted) -> tuple[Visit, ...]:
    """Return the cuts with this halt's on top.

    A halt of `resume` adds none: the halt enters `resume` anew with the new words, and going back
    into it afterwards would do its work twice. A branch that is only held gets no new words: it goes on
    in its `resume` where it was.
    """
    is_anew = fact.state == RESUME and not (run.branch.path and fact.leads_to == "hold")
    cuts = run.halt.cuts
    if is_anew or (fact.resumes and cuts):
        return cuts
    # A state that is cut again loses what was cut since: going back leads to the first time, once.
    for place, earlier in enumerate(cuts):
        if earlier.state == fact.state:
            cuts = cuts[:place]
            break
    return (*cuts, _cut(run, fact.state))


def _cut(run: Run, state: str) -> Visit:
    """Return the run's visit as a cut at `state`: what going back there goes on with."""
    visit = run.visit
    turn, in_doubt = visit.turn or Turn(agent=""), None
    if (call := _unsure_call(turn)) is None and run.halt.cuts:
        # It stays in doubt until a person has said what became of it, however often the state is cut.
        earlier = (cut.call_in_doubt for cut in run.halt.cuts if cut.state == state)
        call = next(earlier, None)
    if call is not None:
        in_doubt = Turn(agent="", calls=(call,))
    if state != visit.state or visit.phase == "leaving":
        return Visit(state=state, last_response=visit.last_response, turn=in_doubt)
    # A state that is being stopped, or waits for its next try, goes on where it went wrong.
    is_between = visit.phase in ("halting", "retrying")
    phase = visit.retry_phase if is_between else visit.phase
    goes_on = Turn(
        agent=turn.agent,
        request=turn.request + bool(turn.calls),
        is_prompted=was_prompted(run) if visit.phase == "retrying" else turn.is_prompted,
    )
    requests, calls, seconds = visit.budget_baseline
    span = Span(
        start=requests,
        end=len(run.usage.requests),
        tool_calls=run.usage.tool_calls - calls,
        active_s=run.usage.active_s - seconds,
    )
    return replace(
        visit,
        phase=phase,
        chosen=None,
        chosen_by="",
        turn=in_doubt or (goes_on if phase == "turn" else None),
        trouble=None,
        timers={WAITED: visit.timers[WAITED]} if WAITED in visit.timers else _NO_TIMERS,
        branches=_NONE,
        usage=(*visit.usage, span),
    )


def was_prompted(run: Run) -> bool:
    """Return whether the prompt of a turn that is tried again stands in the conversation."""
    return run.visit.trouble is not None and run.visit.trouble.kind != "template"


def _unsure_call(turn: Turn) -> OpenCall | None:
    """Return the state's own call whose outcome a person is being asked for."""
    call = turn.calls[0] if turn.calls and not turn.agent else None
    is_unsure = call is not None and call.effect == "once"
    if call is None or not is_unsure or call.outcome not in ("unknown", "stopped"):
        return None
    return replace(call, status="done")


def may_have_happened(run: Run) -> bool:
    """Return whether trying again could repeat a `once` call of a state that had its effect."""
    if (
        run.visit.trouble is not None
        and run.visit.trouble.is_unsure
        and run.visit.phase == "halting"
    ):
        return True
    if run.visit.turn is not None and _unsure_call(run.visit.turn) is not None:
        return True
    lost = (branch for branch in run.visit.branches.values() if branch.status == "failed")
    return any(
        branch.visit.trouble is not None and branch.visit.trouble.is_unsure for branch in lost
    )


def _stopping(run: Run) -> Run:
    """Return the run with those of its running calls marked that take a while to stop."""
    if run.visit.turn is None or not run.visit.turn.calls:
        return run
    if _unsure_call(run.visit.turn) is not None:
        return with_visit(run, turn=None)  # it has ended before: only what became of it was asked
    calls = tuple(
        replace(call, status="stopping")
        if call.status == "running" and (call.effect == "once" or branch_for(run, call) is not None)
        else call
        for call in run.visit.turn.calls
    )
    return with_visit(run, turn=replace(run.visit.turn, calls=calls))


def is_at_rest(branch: Run) -> bool:
    """Return whether a branch of a run that is held is, too; one not begun yet waits for words."""
    return branch.visit.phase in ("held", "ended") or (
        branch.visit.phase == "waiting" and branch.visit.state == ""
    )


def held_if_due(run: Run) -> Run:
    """Return the run held where it was to be, and nothing is being stopped any more."""
    if run.visit.phase != "halting" or run.halt.leads_to != "hold":
        return run
    if run.visit.turn is not None and (run.visit.turn.calls or run.visit.turn.prompted):
        return run
    if not all(is_at_rest(branch) for branch in run.visit.branches.values()):
        return run
    return with_visit(run, phase="held", turn=None)
