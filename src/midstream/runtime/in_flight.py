"""What is in flight for a run: begun, stopped softly, cut off; each effect a task of its own.

`InFlight.keep` holds it to exactly what the run is owed, and that is all there is to halting: the
effects of a run that was halted are gone from what it is owed.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeAlias, assert_never

from midstream.core.inputs import EffectKey, ReplyCheckpoint, Shown
from midstream.core.notices import AgentThinking, AnyNotice
from midstream.core.pending import (
    AnyEffect,
    AskModel,
    AwaitTime,
    CallTool,
    ReviewCall,
    RunHandler,
    pending,
)
from midstream.core.run import Run, owner_of
from midstream.core.summaries import is_summary_key
from midstream.runtime.effect_handle import EffectHandle, StreamingEffect
from midstream.runtime.effects import (
    Deliver,
    Post,
    Put,
    ask_model,
    await_time,
    call_tool,
    checkpoint,
    review_call,
    run_handler,
    stop_for_good,
)
from midstream.runtime.ports import Clock, Handlers, World

NotifyOf: TypeAlias = Callable[[str, AnyNotice], None]
"""Shows a notice of a branch, "" for the run itself."""

CLOSING_S = 5.0
"""Seconds the effects of an ended run get to clean up after themselves."""


class InFlight:
    """The effects of one run under way, by their keys.

    Args:
        post: takes what an effect came to.
        put: takes it, and returns once it is journaled.
        deliver: takes what a handler came to, in the handler's own task.
        notify: shows what effects stream.
    """

    __slots__ = ("_closing", "_context", "_deliver", "_flying", "_notify", "_post", "_put")

    def __init__(self, post: Post, put: Put, deliver: Deliver, notify: NotifyOf) -> None:
        self._post = post
        self._put = put
        self._deliver = deliver
        self._notify = notify
        self._flying: dict[EffectKey, EffectHandle] = {}
        self._closing: set[asyncio.Task[None]] | None = None
        self._context: Context | None = None

    def __bool__(self) -> bool:
        return bool(self._flying)

    def get(self, key: EffectKey) -> EffectHandle | None:
        """Return an effect under way, None if nobody is owed it any more."""
        return self._flying.get(key)

    def reply(self, key: EffectKey) -> StreamingEffect | None:
        """Return a reply under way, None if nobody is owed it any more."""
        flight = self._flying.get(key)
        return flight if isinstance(flight, StreamingEffect) else None

    def key_of(self, task: "asyncio.Task[Any] | None") -> EffectKey | None:
        """Return which effect a task is, None if it is none."""
        return next((key for key, each in self._flying.items() if each.task is task), None)

    def run_here(self) -> None:
        """Let effects see the context this is called in, whoever begins them."""
        self._context = copy_context()

    # --- begun and ended ------------------------------------------------------------------------

    def keep(self, run: Run, world: World, handlers: Handlers, *, begins: bool) -> None:
        """Keep exactly what the run is owed in flight: begin what is new, cancel what is gone.

        `begins` False: nothing new begins.
        """
        owed, flying = pending(run), self._flying
        gone: list[EffectHandle] = []
        if flying:
            keys = {effect.key for effect in owed}
            gone = [flying.pop(key) for key in tuple(flying) if key not in keys]
        for flight in gone:
            flight.close()
        for effect in owed:
            if effect.key not in flying:
                if begins:
                    self._begin(effect, run, world, handlers)
            elif isinstance(effect, CallTool) and effect.stopping:
                self._stop_softly(flying[effect.key], world)
        # Closed already, so nothing of them is shown any more: that they unwind can wait for the new.
        for flight in gone:
            self._abandon(flight)

    def _begin(self, effect: AnyEffect, run: Run, world: World, handlers: Handlers) -> None:
        allowed, run = run.allowed, owner_of(run, effect.key)
        flight: EffectHandle
        match effect:
            case RunHandler():
                flight = EffectHandle(effect.key)
                redactor = world.redactor
                work = run_handler(effect, run, handlers, redactor, self._post, self._deliver)
            case AskModel():
                flight = streaming = self._streaming(effect.key, effect.agent, run, world)
                if not is_summary_key(effect.key):
                    state = run.visit.state
                    self._notify(run.branch.path, AgentThinking(agent=effect.agent, state=state))
                    streaming.checkpoint_soon = partial(
                        self.checkpoint_soon, streaming, world.clock
                    )
                work = ask_model(effect, run, world, streaming, self._post)
            case CallTool():
                flight = streaming = self._streaming(effect.key, effect.agent, run, world)
                streaming.stop = asyncio.Event()
                if effect.stopping:
                    self._stop_softly(streaming, world)
                work = call_tool(effect, run, allowed, world, streaming, self._post, self._put)
            case ReviewCall():
                flight = EffectHandle(effect.key)
                work = review_call(effect, run, allowed, world, self._post)
            case AwaitTime():
                flight = EffectHandle(effect.key)
                work = await_time(effect, world.clock, self._post)
            case _:
                assert_never(effect)
        # Begun by the end of another effect or not, it sees the context the run was started in.
        assert self._context is not None
        self._flying[effect.key] = flight
        flight.task = asyncio.create_task(work, context=self._context.copy())

    def _streaming(self, key: EffectKey, agent: str, run: Run, world: World) -> StreamingEffect:
        notify = partial(self._notify, run.branch.path)
        return StreamingEffect(key, agent, run.visit.state, notify, world.redactor)

    def _streams(self) -> Iterator[StreamingEffect]:
        return (each for each in self._flying.values() if isinstance(each, StreamingEffect))

    def landed(self, key: EffectKey) -> None:
        """Take an effect as done whose task is at its end: to be awaited, but not to be cancelled."""
        del self._flying[key]

    def forget(self, key: EffectKey) -> None:
        """Cut off an effect as if it had never come to anything."""
        flight = self._flying.pop(key, None)
        if flight is not None:
            self._abandon(flight)

    def leave(self, once: Collection[EffectKey], world: World) -> None:
        """Stop calls softly that may be made once only; cut off the rest, to be made again later."""
        for key, flight in tuple(self._flying.items()):
            if key in once:
                self._stop_softly(flight, world)
            else:
                del self._flying[key]
                self._abandon(flight)

    # --- what is shown --------------------------------------------------------------------------

    def hold(self) -> None:
        """Hold back what streams in, until `release`."""
        for flight in self._streams():
            flight.hold()

    def release(self) -> None:
        """Show what was held back, and go on showing."""
        for flight in self._streams():
            flight.release()

    def checkpoint_soon(self, flight: StreamingEffect, clock: Clock) -> None:
        """Have what is shown of a reply journaled soon."""
        flight.checkpoint = asyncio.create_task(checkpoint(flight, clock, self._post))

    def unkept(self) -> tuple[ReplyCheckpoint, ...]:
        """Return what was shown of the replies under way and is not journaled yet."""
        models = [(f.key, f.next_checkpoint()) for f in self._streams() if f.key[-2] == "model"]
        return tuple(ReplyCheckpoint(key=key, text=text) for key, text in models if text)

    def shown(self) -> tuple[Shown, ...]:
        """Return what a reader has seen of each reply under way."""
        return tuple(f.shown() for f in self._streams() if f.key[-2] == "model")

    # --- stopped --------------------------------------------------------------------------------

    def _stop_softly(self, flight: EffectHandle, world: World) -> None:
        """Tell a tool to stop; one that does not listen is cut off in the end."""
        if not isinstance(flight, StreamingEffect):
            return
        if flight.stop is not None and flight.stopper is None:
            flight.stop.set()
            flight.stopper = asyncio.create_task(stop_for_good(flight, world, self._post))

    def _abandon(self, flight: EffectHandle) -> None:
        """Cancel an effect nobody is owed any more; its cleaning up is awaited at the end."""
        flight.close()
        for task in flight.tasks():
            self.cancel(task)

    def cancel(self, task: asyncio.Task[None] | None) -> None:
        """Cancel a task, which `cleaned_up` waits for."""
        if task is None or task.done():
            return
        task.cancel()
        if self._closing is None:
            self._closing = set()
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def close(self) -> None:
        """Cut off everything."""
        for flight in self._flying.values():
            self._abandon(flight)
        self._flying.clear()

    async def cleaned_up(self) -> None:
        """Return once all that was cut off has ended, or `CLOSING_S` seconds have passed."""
        if self._closing:
            await asyncio.wait(tuple(self._closing), timeout=CLOSING_S)
