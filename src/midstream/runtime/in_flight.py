"""What is in flight for a run: begun, stopped softly, cut off; each effect a task of its own.

`InFlight.keep` holds it to exactly what the run is owed, and that is all there is to halting: the
effects of a run that was halted are gone from what it is owed.
"""

import asyncio
import sys
from collections.abc import Collection, Coroutine, Mapping
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, assert_never

from midstream.core.inputs import EffectKey, ReplyCheckpoint, Shown
from midstream.core.notices import AgentThinking
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
from midstream.runtime.background import Background
from midstream.runtime.effect_handle import StreamingEffect
from midstream.runtime.effects import (
    Deliver,
    Post,
    Put,
    ask_model,
    await_time,
    call_tool,
    checkpoint,
    cut_off,
    review_call,
    run_handler,
    stop_for_good,
)
from midstream.runtime.emitter import RunEvents
from midstream.runtime.ports import Clock, Handlers, World
from midstream.system.offloop import still_working

if TYPE_CHECKING:
    from midstream.runtime.file_watch import FileWatch

_NONE: Final[Mapping[Any, Any]] = {}
"""What most runs never have is replaced, and never changed: those that wait share this one."""

CLOSING_S = 5.0
"""Seconds the effects of an ended run get to clean up after themselves."""


class InFlight:
    """The effects of one run under way, by their keys.

    Args:
        post: takes what an effect came to.
        put: takes it, and returns once it is journaled.
        deliver: takes what a handler came to, in the handler's own task.
        events: show what effects stream.
        background: keeps what calls begin that goes on after them.
    """

    __slots__ = (
        "_background",
        "_beginning",
        "_closing",
        "_context",
        "_deliver",
        "_events",
        "_post",
        "_prompts",
        "_put",
        "_streams",
        "_tasks",
        "_watches",
    )

    def __init__(
        self,
        post: Post,
        put: Put,
        deliver: Deliver,
        events: RunEvents,
        background: Background,
    ) -> None:
        self._background = background
        self._beginning: EffectKey | None = None
        self._post = post
        self._put = put
        self._deliver = deliver
        self._events = events
        # Every effect is a task. Most show nothing before they end: only those that do have more.
        self._tasks: dict[EffectKey, asyncio.Task[None]] = {}
        self._streams: dict[EffectKey, StreamingEffect] = {}
        self._closing: set[asyncio.Task[None]] | None = None
        self._context: Context | None = None
        self._prompts: Mapping[tuple[str, str], asyncio.Task[None]] = _NONE
        self._watches: Mapping[str, FileWatch] = _NONE

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def reply(self, key: EffectKey) -> StreamingEffect | None:
        """Return a reply under way, None if nobody is owed it any more."""
        return self._streams.get(key)

    def key_of(self, task: "asyncio.Task[Any] | None") -> EffectKey | None:
        """Return which effect a task is, None if it is none."""
        return next((key for key, each in self._tasks.items() if each is task), self._beginning)

    def run_here(self) -> None:
        """Let effects see the context this is called in, whoever begins them."""
        self._context = copy_context()

    # --- begun and ended ------------------------------------------------------------------------

    def keep(
        self,
        run: Run,
        world: World,
        handlers: Handlers,
        *,
        begins: bool,
        besides: Collection[EffectKey] = (),
        at_once: bool = False,
    ) -> None:
        """Keep exactly what the run is owed in flight: begin what is new, cancel what is gone.

        `begins` False: nothing new begins, but what is named `besides`. `at_once`: what is new may take its
        first steps right here, up to where it waits, for nothing is on its way that could cut it off.
        """
        # By keys alone: an effect is the same one as long as the run is owed it, however much else
        # of the run has changed since it began.
        owed, tasks = pending(run), self._tasks
        gone: list[EffectKey] = []
        if tasks:
            keys = {effect.key for effect in owed}
            gone = [key for key in tasks if key not in keys]
            # Nothing of them is shown from here on, and what they still post has a key nobody is owed. So
            # that they unwind can wait for what is new, which somebody waits for.
            for key in gone:
                self._silence(key)
        for effect in owed:
            if effect.key not in tasks:
                if begins or effect.key in besides:
                    self._begin(effect, run, world, handlers, at_once=at_once)
            elif isinstance(effect, CallTool):
                if effect.stopping:
                    self._stop_softly(effect.key, world)
            elif isinstance(effect, AskModel):
                self._keep_asking(effect, world)
        for key in gone:
            self._cut_off(key)
        if not owed:
            # A dict keeps the room it once had; a run that waits for a person may wait long.
            tasks.clear()
            self._streams.clear()

    def _keep_asking(self, effect: AskModel, world: World) -> None:
        """Tell an external agent at work how its calls stand, or that it is to stop."""
        stream = self._streams.get(effect.key)
        if stream is None or stream.stop is None:
            return
        if effect.stopping:
            self._silence(effect.key)
            self._stop_softly(effect.key, world)
        if stream.on_calls is not None:
            stream.on_calls(effect.external)

    def _begin(
        self, effect: AnyEffect, run: Run, world: World, handlers: Handlers, *, at_once: bool
    ) -> None:
        key, allowed = effect.key, run.allowed
        if len(key) > 3:
            run = owner_of(run, key)
        prompted: tuple[str, str] | None = None
        match effect:
            case RunHandler():
                work = run_handler(effect, run, handlers, world, self._post, self._deliver)
            case AskModel():
                stream = self._stream(key, effect.agent, run, world)
                if not is_summary_key(key):
                    state = run.visit.state
                    thinking = AgentThinking(agent=effect.agent, state=state)
                    self._events.notify_of(run.branch.path, thinking)
                    stream.checkpoint_soon = partial(self._checkpoint_soon, stream, world.clock)
                if world.agents is None or is_summary_key(key) or not _is_external(effect, run):
                    work = ask_model(effect, run, world, stream, self._post)
                else:
                    from midstream.runtime.external_agent import ask_external  # few runs have one

                    prompted = (run.branch.path, effect.agent)
                    stream.stop = asyncio.Event()
                    watch = None if run.branch.worktrees else self.watch(run, world)
                    last = self._prompts.get(prompted)
                    work = ask_external(
                        effect, run, allowed, world, stream, self._post, self._put, watch, last
                    )
            case CallTool():
                stream = self._stream(key, effect.agent, run, world)
                stream.stop = asyncio.Event()
                if effect.stopping:
                    self._stop_softly(key, world)
                work = call_tool(
                    effect, run, allowed, world, stream, self._post, self._put, self._background
                )
            case ReviewCall():
                work = review_call(effect, run, allowed, world, self._post)
            case AwaitTime():
                work = await_time(effect, world.clock, self._post)
            case _:
                assert_never(effect)
        self._beginning = key
        self._tasks[key] = self._task(work, str(key[-2]), at_once=at_once)
        self._beginning = None
        if prompted is not None:
            self._prompts = {**self._prompts, prompted: self._tasks[key]}

    def _task(
        self, work: Coroutine[Any, Any, None], name: str, *, at_once: bool
    ) -> "asyncio.Task[None]":
        # Begun by the end of another effect or not, it sees the context the run was started in.
        assert self._context is not None
        loop, context = asyncio.get_running_loop(), self._context.copy()
        if at_once and sys.version_info >= (3, 12):  # earlier ones cost a pass of the loop
            return asyncio.Task(work, loop=loop, name=name, context=context, eager_start=True)
        return loop.create_task(work, name=name, context=context)

    def watch(self, run: Run, world: World) -> "FileWatch":
        """Return what sees changes in the workspace while external agents of a run, or branch, work."""
        from midstream.runtime.file_watch import FileWatch

        path = run.branch.path
        if path not in self._watches:
            watch = FileWatch(world.workspace, world, run.manifest)
            self._watches = {**self._watches, path: watch}
        return self._watches[path]

    def _stream(self, key: EffectKey, agent: str, run: Run, world: World) -> StreamingEffect:
        notify = partial(self._events.notify_of, run.branch.path)
        stream = StreamingEffect(key, agent, run.visit.state, notify, world.redactor)
        self._streams[key] = stream
        return stream

    def landed(self, key: EffectKey) -> "asyncio.Task[None] | None":
        """Take a handler as done, and return its task, which is at its end and not to be cancelled.

        None: it is none of those under way, nobody is owed it any more.
        """
        return self._tasks.pop(key, None)

    def forget(self, key: EffectKey) -> None:
        """Cut off an effect as if it had never come to anything; its cleaning up is awaited at the end."""
        self._silence(key)
        self._cut_off(key)

    def _cut_off(self, key: EffectKey) -> None:
        stream = self._streams.pop(key, None)
        self.cancel(self._tasks.pop(key, None))
        if stream is not None:
            self.cancel(stream.stopper)
            self.cancel(stream.checkpoint)

    def leave(self, once: Collection[EffectKey], world: World) -> None:
        """Stop calls softly that may be made once only; cut off the rest, to be made again later."""
        for key in tuple(self._tasks):
            if key in once:
                self._stop_softly(key, world)
            else:
                self.forget(key)

    def forget_timers(self) -> None:
        """Wait for no time any more: whoever goes on with the run does."""
        for key in tuple(self._tasks):
            if key[-2] == "timer":
                self.forget(key)

    # --- what is shown --------------------------------------------------------------------------

    def hold(self) -> None:
        """Hold back what streams in, until `release`."""
        for stream in self._streams.values():
            stream.hold()

    def release(self) -> None:
        """Show what was held back, and go on showing."""
        for stream in self._streams.values():
            stream.release()

    def _checkpoint_soon(self, stream: StreamingEffect, clock: Clock) -> None:
        """Have what is shown of a reply journaled soon."""
        stream.checkpoint = asyncio.create_task(checkpoint(stream, clock, self._post))

    def unkept(self) -> tuple[ReplyCheckpoint, ...]:
        """Return what was shown of the replies under way and is not journaled yet."""
        models = [(each, each.next_checkpoint(), each.next_calls()) for each in self._replies()]
        return tuple(
            ReplyCheckpoint(key=each.key, text=text, so_far=each.used(), calling=calling)
            for each, text, calling in models
            if text or calling
        )

    def shown(self) -> tuple[Shown, ...]:
        """Return what a reader has seen of each reply under way; of a summary nothing, but what it used."""
        streams = self._streams.values()
        return tuple([each.shown() for each in streams if each.key[-2] in ("model", "summary")])

    def streaming(self, run: Run) -> "list[tuple[str, StreamingEffect]]":
        """Return the replies under way that are shown, each with the branch it belongs to."""
        told = (each for each in self._replies() if not is_summary_key(each.key))
        return [(owner_of(run, each.key).branch.path, each) for each in told]

    def _replies(self) -> "list[StreamingEffect]":
        return [each for each in self._streams.values() if each.key[-2] == "model"]

    def _silence(self, key: EffectKey) -> None:
        stream = self._streams.get(key)
        if stream is not None:
            stream.close()

    # --- stopped --------------------------------------------------------------------------------

    def _stop_softly(self, key: EffectKey, world: World) -> None:
        """Tell a tool to stop; one that does not listen is cut off in the end."""
        stream = self._streams.get(key)
        if stream is not None and stream.stop is not None and stream.stopper is None:
            stream.stop.set()
            stream.stopper = asyncio.create_task(stop_for_good(stream, world, self._post))

    def cancel(self, task: "asyncio.Task[None] | None") -> None:
        """Cancel a task, which `cleaned_up` waits for."""
        if task is None or task.done():
            return
        cut_off(task)
        self.await_in_the_end(task)

    def await_in_the_end(self, task: "asyncio.Task[None]") -> None:
        """Have `cleaned_up` wait for a task: what cleans up after itself has a while for it."""
        if self._closing is None:
            self._closing = set()
        self._closing.add(task)
        task.add_done_callback(self._cleaned_up)

    def _cleaned_up(self, task: "asyncio.Task[None]") -> None:
        if self._closing is not None:
            self._closing.discard(task)
            if not self._closing:
                self._closing = None

    def close(self) -> None:
        """Cut off everything."""
        for key in tuple(self._tasks):
            self.forget(key)

    async def cleaned_up(self) -> None:
        """Return once all it is to wait for has ended, or `CLOSING_S` seconds have passed."""
        if self._closing:
            await still_working(self._closing, CLOSING_S)


def _is_external(effect: AskModel, run: Run) -> bool:
    return run.plan.agents[effect.agent].is_external
