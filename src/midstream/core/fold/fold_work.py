"""The work of states without an agent, what comes of errors, and time at work."""

from msgspec.structs import replace

from midstream.core.events import CallPlanned, StateFailed, WorkDone
from midstream.core.fold.fold_halts import held_if_due, was_prompted
from midstream.core.fold.fold_states import after_phase, in_phase, saved
from midstream.core.pending import is_at_work
from midstream.core.run import (
    OpenCall,
    Response,
    Run,
    Trouble,
    Turn,
    Visit,
    definition_of,
    with_halt,
    with_usage,
    with_visit,
)
from midstream.language.data_paths import stored
from midstream.language.names import CONFLICT, STOP

_NONE: dict[str, Run] = {}

_NO_TIMERS: dict[str, float] = {}


def planned(run: Run, fact: CallPlanned) -> Run:
    """Return the run with its state's own call about to be made."""
    effect = definition_of(run).tools[fact.call.name].effect
    turn = Turn(agent="", calls=(OpenCall(call=fact.call, effect=effect),))
    run = with_usage(_out_of_doubt(run), calls_made=run.usage.calls_made + 1)
    return with_visit(run, turn=turn)


def _out_of_doubt(run: Run) -> Run:
    """Return the run with no call of its state in doubt any more: a person said what became of it."""
    if not run.halt.cuts:
        return run
    state = run.visit.state
    cuts = (
        replace(cut, turn=None) if cut.state == state and cut.call_in_doubt is not None else cut
        for cut in run.halt.cuts
    )
    return with_halt(run, cuts=tuple(cuts))


def work_done(run: Run, fact: WorkDone) -> Run:
    """Return the run after the work of a state without an agent."""
    common_data = {**run.common_data, **fact.changed}
    for key in fact.removed:
        common_data.pop(key, None)
    response = Response(agent="", text=fact.text, value=fact.value)
    if run.visit.state == STOP:
        run, response = _joined(run, fact)
    run = with_visit(run, last_response=response, turn=None)
    run = saved(replace(run, common_data=common_data), fact.value)
    if run.visit.phase == "halting" and run.halt.leads_to == "trouble":
        # It was done in time after all, while it was being stopped.
        run = with_visit(with_halt(run, leads_to=""), trouble=None, timers=_NO_TIMERS)
        return after_phase(run, "call")
    if run.visit.phase == "halting":
        # The call the halt waited for has done the state's work: going back does not do it again.
        *below, cut = run.halt.cuts or (Visit(),)
        if (cut.state, cut.phase) != (run.visit.state, "call"):
            return held_if_due(run)
        after = run.plan.flow[cut.state]["call"]
        cut = replace(cut, phase=after, last_response=response)
        return held_if_due(with_halt(run, cuts=(*below, cut)))
    return after_phase(with_visit(_out_of_doubt(run), branches=_NONE), run.visit.phase)


def _joined(run: Run, fact: WorkDone) -> tuple[Run, Response]:
    """Return a branch whose worktree was joined, or was not, and what it leaves: what it said last.

    An agent that handed its task on hears what became of the files, too.
    """
    last = run.visit.last_response or Response(agent="", text="")
    if run.branch.call_id:
        text = "\n\n".join(filter(None, (last.text, fact.text)))
        last = replace(last, text=text, value=None if isinstance(last.value, str) else last.value)
    unjoined = fact.text if fact.value == CONFLICT else ""
    return replace(run, branch=replace(run.branch, unjoined=unjoined)), last


def state_failed(run: Run, fact: StateFailed) -> Run:
    """Return the run after an error that is caught, or tried again after a while."""
    trouble = Trouble(kind=fact.kind, error=fact.error, hint=fact.hint)
    if fact.then == "catch":
        common_data = run.common_data
        if fact.save_as:
            value = {"kind": fact.kind, "error": fact.error, "state": fact.state}
            common_data = stored(common_data, fact.save_as, value)
        return replace(with_visit(run, trouble=trouble, turn=None), common_data=common_data)
    visit = run.visit
    again = visit.retry_phase if visit.phase in ("halting", "retrying") else visit.phase
    return with_visit(
        with_halt(run, leads_to=""),
        phase="retrying",
        retry_phase=again,
        trouble=trouble,
        attempts=fact.attempt,
        timers=_NO_TIMERS,
        turn=None,
        branches={n: b for n, b in visit.branches.items() if b.status in ("finished", "running")},
    )


def tried_again(run: Run) -> Run:
    """Return the run at the beginning of the phase that failed."""
    phase = run.visit.retry_phase
    is_prompted = was_prompted(run)
    run = in_phase(with_visit(run, timers=_NO_TIMERS), phase)
    if run.visit.turn is not None and is_prompted:
        run = with_visit(run, turn=replace(run.visit.turn, is_prompted=True))
    return run


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
