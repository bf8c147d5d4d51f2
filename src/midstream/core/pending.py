"""pending(run): what the run is owed now, read off its state alone.

The loop keeps exactly these effects in flight: it begins what is new and cancels what is gone. So a
halt needs no cancelling code: the halted run is owed nothing any more.
"""

from typing import TypeAlias

import msgspec

from midstream.core.conversation import ToolCall
from midstream.core.inputs import EffectKey
from midstream.core.names import Slot
from midstream.core.run import Run, plan_for


class AskModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One model request of the agent's turn."""

    key: EffectKey
    agent: str


class CallTool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool call. `stopping`: it runs and is to be stopped softly; its outcome is awaited."""

    key: EffectKey
    agent: str
    call: ToolCall
    stopping: bool = False


class RunHandler(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of a function of the workflow's script."""

    key: EffectKey
    handler: str
    slot: Slot


AnyEffect: TypeAlias = AskModel | CallTool | RunHandler


def pending(run: Run) -> tuple[AnyEffect, ...]:
    """Return the effects the run is owed, in a stable order. Empty: only a person can move it on."""
    if run.suspended:
        return ()
    match run.phase:
        case "pre" | "post" | "transition":
            return (_handler(run),)
        case "turn":
            assert run.turn is not None
            if not run.turn.calls:
                return (AskModel(key=request_key(run), agent=run.turn.agent),)
            return _calls(run)
        case "halting":
            return _calls(run)
        case _:
            return ()


def request_key(run: Run) -> EffectKey:
    """Return the key of the model request the turn is owed."""
    assert run.turn is not None
    return (run.step, "model", run.turn.request)


def handler_key(run: Run) -> EffectKey:
    """Return the key of the handler the phase is owed."""
    return (run.step, run.phase, 0)


def call_key(run: Run, call_id: str) -> EffectKey:
    """Return the key of a tool call."""
    return (run.step, "tool", call_id)


def handler_of(run: Run) -> tuple[str, Slot]:
    """Return which handler the phase is owed, and which of the state's three it is."""
    state = plan_for(run).states[run.state]
    handler: str | None
    slot: Slot
    if run.phase == "transition":
        handler, slot = state.transition_handler, "transition_handler"
    elif run.phase == "pre":
        handler, slot = state.pre_handler, "pre_handler"
    else:
        handler, slot = state.post_handler, "post_handler"
    assert handler is not None
    return handler, slot


def _handler(run: Run) -> RunHandler:
    handler, slot = handler_of(run)
    return RunHandler(key=handler_key(run), handler=handler, slot=slot)


def _calls(run: Run) -> tuple[AnyEffect, ...]:
    if run.turn is None:
        return ()
    return tuple(
        CallTool(
            key=call_key(run, open_call.call.id),
            agent=run.turn.agent,
            call=open_call.call,
            stopping=open_call.status == "stopping",
        )
        for open_call in run.turn.calls
        if open_call.status in ("running", "stopping")
    )
