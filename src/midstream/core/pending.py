"""pending(run): what the run is owed now, read off its state alone.

The loop keeps exactly these effects in flight: it begins what is new and cancels what is gone. So a
halt needs no cancelling code: the halted run is owed nothing any more.
"""

from typing import TypeAlias

import msgspec

from midstream.core.conversation import ToolCall
from midstream.core.events import ToolEnded
from midstream.core.inputs import EffectKey
from midstream.core.run import (
    DEADLINE,
    FREE,
    RETRY,
    TIMEOUT,
    WAITED,
    WITHIN,
    Compacting,
    OpenCall,
    Run,
    branch_for,
)
from midstream.core.summaries import summary_key
from midstream.language.names import Json, Slot
from midstream.language.plan import wait_of
from midstream.language.spec import Ask


class AskModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One model request of the agent's turn, or the one for a summary of what was said before.

    Of an external agent it is one prompt: `external` are the calls it has made itself meanwhile, as they
    stand; `stopping`: it was halted, and what it still does is awaited.
    """

    key: EffectKey
    agent: str
    external: tuple[OpenCall, ...] = ()
    stopping: bool = False


class CallTool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool call, with `arguments` as the model or, where it changed them, a person gave them.

    `stopping`: it runs and is to be stopped softly; its outcome is awaited. `ended`: so it has ended, and
    only hooks are yet to have their say.
    """

    key: EffectKey
    agent: str
    call: ToolCall
    arguments: dict[str, Json]
    granted: tuple[str, ...] = ()
    stopping: bool = False
    ended: ToolEnded | None = None


class ReviewCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One look at what a tool call would do, now that its turn has come. Changes nothing."""

    key: EffectKey
    agent: str
    name: str
    arguments: dict[str, Json]


class RunHandler(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of a function of the workflow's script."""

    key: EffectKey
    handler: str
    slot: Slot


class AwaitTime(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A wait for a time: `until` (seconds since 1970), or first to find out when that is.

    `until` None: the wait of so many `seconds` begins now. 0 seconds: it is for a time of day, not for
    so long.
    """

    key: EffectKey
    seconds: float = 0.0
    until: float | None = None


AnyEffect: TypeAlias = AskModel | ReviewCall | CallTool | RunHandler | AwaitTime


def pending(run: Run) -> tuple[AnyEffect, ...]:
    """Return the effects the run is owed, in a stable order. Empty: only a person can move it on."""
    if run.suspended or (run.usage.is_over_budget and run.visit.phase in FREE):
        return ()
    owed = _of_state(run)
    return owed if run.compacting is None else (*owed, _summary(run.compacting))


def is_at_work(run: Run) -> bool:
    """Return whether a model, a tool or a handler of the run is under way.

    Else only a person, or a time that is waited for, can move it on.
    """
    return any(not isinstance(effect, AwaitTime) for effect in pending(run))


def due_at(run: Run) -> float | None:
    """Return when a run goes on by itself, in seconds since 1970: 0 for now, None where only a person can
    move it on. One whose facts are not known may have something to do, as far as is known.
    """
    if run.is_over:
        return None
    if run.definition is None:
        return 0.0
    waits = [each.until if isinstance(each, AwaitTime) else None for each in pending(run)]
    return min((until or 0.0 for until in waits), default=None)


def _summary(compacting: Compacting) -> AskModel:
    return AskModel(key=summary_key(compacting.number), agent=compacting.agent)


def _of_state(run: Run) -> tuple[AnyEffect, ...]:
    owed: tuple[AnyEffect, ...]
    match run.visit.phase:
        case "transition" | "pre" | "post":
            owed = (_handler(run),)
        case "turn":
            assert run.visit.turn is not None
            if run.usage.is_over_budget:
                owed = ()
            elif not run.visit.turn.calls:
                turn = run.visit.turn
                owed = (AskModel(key=request_key(run), agent=turn.agent, external=turn.external),)
            else:
                owed = (*_calls(run), *_within(run))
        case "call":
            owed = _calls(run)
        case "halting":
            return (*_calls(run), *_stopping(run), *_within(run))
        case "branches":
            owed = _within(run)
        case "asking" | "resting" | "retrying":
            owed = ()
        case _:
            return ()
    timed = timers_owed(run)
    return (*owed, *_timers(run, timed)) if timed else owed


def _stopping(run: Run) -> tuple[AnyEffect, ...]:
    turn = run.visit.turn
    if turn is None or not turn.prompted:
        return ()
    key = request_key(run)
    return (AskModel(key=key, agent=turn.agent, external=turn.external, stopping=True),)


_NO_TIMERS: dict[str, float] = {}
_TIMED = frozenset({"asking", "resting", "retrying"})
"""The phases that wait for a time of their own; any other only has the state's `timeout_s`."""


def timers_owed(run: Run) -> dict[str, float]:
    """Return what the state waits for, in seconds from when it began to, by the timer's name."""
    phase, state = run.visit.phase, run.plan.states[run.visit.state]
    if state.timeout_s is None and phase not in _TIMED:
        return _NO_TIMERS
    if phase in ("waiting", "halting", "held", "leaving", "ended"):
        return _NO_TIMERS
    owed: dict[str, float] = {}
    if state.timeout_s is not None and run.visit.phase != "retrying":
        owed[TIMEOUT] = state.timeout_s
    match run.visit.phase:
        case "resting":
            owed[WAITED] = wait_of(state).seconds or 0.0
        case "asking" if isinstance(state.ask, Ask) and state.ask.deadline_s is not None:
            if run.inbox.open_questions:
                owed[DEADLINE] = state.ask.deadline_s
        case "retrying":
            backoff = 0.0 if state.retry is None else state.retry.backoff_s
            owed[RETRY] = min(backoff * 2 ** min(run.visit.attempts - 1, 30), MAX_BACKOFF_S)
        case _:
            pass
    return {name: s for name, s in owed.items() if run.visit.timers.get(name, 0.0) >= 0.0}


MAX_BACKOFF_S = 3600.0
"""The longest a state waits before it is tried again."""


def _timers(run: Run, owed: dict[str, float]) -> tuple[AnyEffect, ...]:
    return tuple(
        AwaitTime(key=set_key(run, name), seconds=seconds)
        if name not in run.visit.timers
        else AwaitTime(key=timer_key(run, name), seconds=seconds, until=run.visit.timers[name])
        for name, seconds in owed.items()
    )


def set_key(run: Run, timer: str) -> EffectKey:
    """Return the key of finding out when a timer rings."""
    return (run.visit.step, "set", f"{timer} {run.visit.attempts}")


def timer_key(run: Run, timer: str) -> EffectKey:
    """Return the key of a wait."""
    return (run.visit.step, "timer", f"{timer} {run.visit.attempts}")


def _within(run: Run) -> tuple[AnyEffect, ...]:
    return tuple(
        msgspec.structs.replace(effect, key=(run.visit.step, WITHIN, name, *effect.key))
        for name, branch in run.visit.branches.items()
        if branch.visit.phase != "ended"
        for effect in pending(branch)
    )


def open_calls(run: Run) -> dict[EffectKey, OpenCall]:
    """Return the open tool calls of the run and its branches, by the keys of their effects."""
    calls = () if run.visit.turn is None else run.visit.turn.calls
    found: dict[EffectKey, OpenCall] = {call_key(run, c.call.id): c for c in calls}
    for name, branch in run.visit.branches.items():
        for key, call in open_calls(branch).items():
            found[(run.visit.step, WITHIN, name, *key)] = call
    return found


def request_key(run: Run) -> EffectKey:
    """Return the key of the model request the turn is owed."""
    assert run.visit.turn is not None
    return (run.visit.step, "model", run.visit.turn.request)


def handler_key(run: Run) -> EffectKey:
    """Return the key of the handler the phase is owed."""
    return (run.visit.step, run.visit.phase, 0)


def review_key(run: Run, call_id: str) -> EffectKey:
    """Return the key of the look at what a tool call would do."""
    return (run.visit.step, "review", call_id)


def call_key(run: Run, call_id: str) -> EffectKey:
    """Return the key of a tool call."""
    return (run.visit.step, "tool", call_id)


def handler_of(run: Run) -> tuple[str, Slot]:
    """Return which handler the phase is owed, and which of the state's three it is."""
    return run.plan.handlers[run.visit.state][run.visit.phase]


def _handler(run: Run) -> RunHandler:
    handler, slot = handler_of(run)
    return RunHandler(key=handler_key(run), handler=handler, slot=slot)


def _calls(run: Run) -> tuple[AnyEffect, ...]:
    if run.visit.turn is None:
        return ()
    new = run.visit.turn.next_new
    owed: list[AnyEffect] = []
    for open_call in run.visit.turn.due:
        if branch_for(run, open_call) is not None:
            continue  # what it is owed, its branch is
        if open_call.status in ("running", "stopping"):
            effect = CallTool(
                key=call_key(run, open_call.call.id),
                agent=run.visit.turn.agent,
                call=open_call.call,
                arguments=open_call.arguments,
                granted=open_call.granted,
                stopping=open_call.status == "stopping",
                ended=open_call.ended,
            )
            owed.append(effect)
        elif open_call is new:
            owed.append(
                ReviewCall(
                    key=review_key(run, open_call.call.id),
                    agent=run.visit.turn.agent,
                    name=open_call.call.name,
                    arguments=open_call.arguments,
                )
            )
    return tuple(owed)
