"""The work of states without an agent, and what comes of errors."""

from msgspec.structs import replace

from midstream.core.events import CallPlanned, StateFailed, WorkDone
from midstream.core.fold.fold_halts import held_if_due, was_prompted
from midstream.core.fold.fold_states import after_phase, in_phase, saved
from midstream.core.run import (
    OpenCall,
    Response,
    Run,
    Trouble,
    Turn,
    definition_of,
    plan_for,
    with_usage,
)
from midstream.language.data_paths import stored

_NONE: dict[str, Run] = {}

_NO_TIMERS: dict[str, float] = {}


def planned(run: Run, fact: CallPlanned) -> Run:
    """Return the run with its state's own call about to be made."""
    effect = definition_of(run).tools[fact.call.name].effect
    turn = Turn(agent="", calls=(OpenCall(call=fact.call, effect=effect),))
    run = with_usage(_out_of_doubt(run), calls_made=run.usage.calls_made + 1)
    return replace(run, turn=turn)


def _out_of_doubt(run: Run) -> Run:
    """Return the run with no call of its state in doubt any more: a person said what became of it."""
    cuts = tuple(replace(cut, call=None) if cut.state == run.state else cut for cut in run.cuts)
    return replace(run, cuts=cuts) if run.cuts else run


def work_done(run: Run, fact: WorkDone) -> Run:
    """Return the run after the work of a state without an agent."""
    common_data = {**run.common_data, **fact.changed}
    for key in fact.removed:
        common_data.pop(key, None)
    response = Response(agent="", text=fact.text, value=fact.value)
    run = replace(run, common_data=common_data, last_response=response, turn=None)
    run = saved(run, fact.value)
    if run.phase == "halting" and run.halting_for == "trouble":
        # It was done in time after all, while it was being stopped.
        run = replace(run, halting_for="", trouble=None, timers=_NO_TIMERS)
        return after_phase(run, "call")
    if run.phase == "halting":
        # The call the halt waited for has done the state's work: going back does not do it again.
        if not run.cuts or run.cuts[-1].state != run.state or run.cuts[-1].phase != "call":
            return held_if_due(run)
        after = plan_for(run).flow[run.state]["call"]
        cut = replace(run.cuts[-1], phase=after, last_response=response)
        return held_if_due(replace(run, cuts=(*run.cuts[:-1], cut)))
    return after_phase(replace(_out_of_doubt(run), branches=_NONE), run.phase)


def state_failed(run: Run, fact: StateFailed) -> Run:
    """Return the run after an error that is caught, or tried again after a while."""
    trouble = Trouble(kind=fact.kind, error=fact.error, hint=fact.hint)
    if fact.then == "catch":
        common_data = run.common_data
        if fact.save_as:
            value = {"kind": fact.kind, "error": fact.error, "state": fact.state}
            common_data = stored(common_data, fact.save_as, value)
        return replace(run, trouble=trouble, common_data=common_data, turn=None)
    again = run.phase if run.phase != "halting" else run.retry_phase
    if again == "retrying":
        again = run.retry_phase
    return replace(
        run,
        phase="retrying",
        retry_phase=again,
        trouble=trouble,
        attempts=fact.attempt,
        timers=_NO_TIMERS,
        turn=None,
        branches={n: b for n, b in run.branches.items() if b.status in ("finished", "running")},
        halting_for="",
    )


def tried_again(run: Run) -> Run:
    """Return the run at the beginning of the phase that failed."""
    phase = run.retry_phase
    is_prompted = was_prompted(run)
    run = in_phase(replace(run, timers=_NO_TIMERS), phase)
    if run.turn is not None and is_prompted:
        run = replace(run, turn=replace(run.turn, is_prompted=True))
    return run
