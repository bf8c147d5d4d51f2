"""Events of a run to listeners, which can be slow, raise or hang without harming the run.

Each listener has its own queue. An async one is awaited by a task of its own; a plain one runs in a
daemon thread of its own, since nothing else can keep a plain function that hangs off the loop. Task
and thread begin with the first event there is to hear, so that listening needs no running loop and
a run that never begins leaves nothing behind.
"""

import asyncio
import concurrent.futures
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from midstream.core.notices import AnyNotice, Envelope, ListenerFailed, Notice
from midstream.runtime.ports import Clock, Listener
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor
from midstream.system.offloop import call_soon

QUEUE_LIMIT = 10_000
"""Events a listener may lag behind before its notices are dropped. Facts are never dropped."""

DRAIN_S = 1.0
"""Seconds all listeners together get to hear the rest once the run has ended."""

EVERY = "*"
"""As an event name: every event."""

MAX_ERROR = 10_000
"""Characters of what a listener raised that are passed on."""


class RunEvents:
    """The events of a run, to all who listen. Its emitter is made when somebody first does.

    Args:
        run: the run's id.
        clock: dates notices.
        redactor: takes the secrets out of what listeners raise.
        tap: a trusted, quick listener on the loop; what it raises is shown, too.
    """

    __slots__ = ("_clock", "_emitter", "_redactor", "_run", "tap")

    def __init__(
        self,
        run: str,
        clock: Clock,
        redactor: Redactor,
        tap: Callable[[Envelope], None] | None,
    ) -> None:
        self._run = run
        self._clock = clock
        self._redactor = redactor
        self._emitter: Emitter | None = None
        self.tap = tap

    def emit(self, envelope: Envelope) -> None:
        """Hand an event to everyone who listens."""
        if self.tap is not None:
            try:
                self.tap(envelope)
            except Exception as error:
                self._tap_failed(envelope, error)
        if self._emitter is not None:
            self._emitter.emit(envelope)

    def notify(self, notice: AnyNotice) -> None:
        """Show what is not kept."""
        self.emit(Envelope(run=self._run, at=self._clock.now(), event=notice))

    def notify_of(self, branch: str, notice: AnyNotice) -> None:
        """Show it as of a branch, "" for the run itself."""
        self.notify(msgspec.structs.replace(notice, branch=branch) if branch else notice)

    def _tap_failed(self, envelope: Envelope, error: Exception) -> None:
        """Say that the tap raised, unless it raised over hearing just that."""
        if not isinstance(envelope.event, ListenerFailed):
            words = f"{type(error).__name__}: {error}"
            self._complain(ListenerFailed(listener="the tap", error=words))

    def _complain(self, failure: ListenerFailed) -> None:
        """Show that a listener raised."""
        # A secret that is cut in two here is beyond what is shown.
        error = self._redactor.redacted(readable(failure.error[: 2 * MAX_ERROR]))
        self.notify(msgspec.structs.replace(failure, error=error[:MAX_ERROR]))

    def listeners(self) -> "Emitter":
        """Return the emitter, made if there is none."""
        if self._emitter is None:
            self._emitter = Emitter(self._complain)
        return self._emitter


class Emitter:
    """Named events to listeners. `complain` hears of a listener that raised or was left behind."""

    __slots__ = ("_channels", "_complain", "_is_closed")

    def __init__(self, complain: Callable[[ListenerFailed], None]) -> None:
        self._channels: list[_Channel] = []
        self._complain = complain
        self._is_closed = False

    def on(self, name: str, listener: Listener) -> None:
        """Let `listener` hear the events of that wire name (`*`: all) from now on."""
        kind = _AsyncListener if _is_async(listener) else _PlainListener
        self._channels.append(kind(name, listener, self._complain))

    def emit(self, envelope: Envelope) -> None:
        """Hand an event to everyone who wants it. Returns at once; after `close` nobody hears it."""
        if self._is_closed:
            return
        for channel in self._channels:
            if channel.name in (EVERY, envelope.type):
                channel.put(envelope)

    def subscribe(self) -> "Stream":
        """Return a queue of every event from now on. Give it back with `unsubscribe`."""
        stream = Stream()
        if self._is_closed:
            stream.put(None)
        self._channels.append(stream)
        return stream

    def unsubscribe(self, stream: "Stream") -> None:
        """Forget a queue made by `subscribe`."""
        self._channels.remove(stream)

    async def close(self) -> None:
        """Let everyone hear the rest; who takes over `DRAIN_S` seconds is left behind and named."""
        self._is_closed = True
        working = {}
        for channel in self._channels:
            work = channel.finish()
            if work is not None:
                working[work] = channel
        if not working:
            return
        _, late = await asyncio.wait(working, timeout=DRAIN_S)
        for work in late:
            work.cancel()
            self._complain(working[work].left_behind())
        if late:
            # Those that can be cancelled have one round to be; who refuses that too is let go.
            await asyncio.wait(late, timeout=DRAIN_S)


class _Channel(Protocol):
    """A queue of one listener."""

    name: str

    def put(self, envelope: Envelope) -> None: ...

    def finish(self) -> "asyncio.Future[None] | None":
        """Say that was all, and return what is done once everything is heard, if that takes time."""

    def left_behind(self) -> ListenerFailed: ...


class _Listener:
    """What async and plain listeners share: the queue's end and the complaints."""

    def __init__(
        self, name: str, listener: Any, complain: Callable[[ListenerFailed], None]
    ) -> None:
        self.name = name
        self._listener = listener
        self._complain = complain

    def left_behind(self) -> ListenerFailed:
        return self._failed("it was still busy when the run had ended")

    def _failed(self, error: BaseException | str) -> ListenerFailed:
        name = getattr(self._listener, "__qualname__", type(self._listener).__name__)
        words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return ListenerFailed(listener=name, error=words)


class _AsyncListener(_Listener):
    def __init__(
        self, name: str, listener: Any, complain: Callable[[ListenerFailed], None]
    ) -> None:
        super().__init__(name, listener, complain)
        self._queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def put(self, envelope: Envelope) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        if not _is_dropped(envelope, self._queue.qsize()):
            self._queue.put_nowait(envelope)

    async def _work(self) -> None:
        while (envelope := await self._queue.get()) is not None:
            try:
                await self._listener(envelope)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._complain(self._failed(error))
            except (Exception, SystemExit) as error:
                self._complain(self._failed(error))

    def finish(self) -> "asyncio.Future[None] | None":
        self._queue.put_nowait(None)
        return self._task


class _PlainListener(_Listener):
    def __init__(
        self, name: str, listener: Any, complain: Callable[[ListenerFailed], None]
    ) -> None:
        super().__init__(name, listener, complain)
        self._queue: queue.SimpleQueue[Envelope | None] = queue.SimpleQueue()
        self._done: asyncio.Future[None] | None = None
        self._task: asyncio.Future[object] | None = None
        self._is_left = False

    def put(self, envelope: Envelope) -> None:
        if self._done is None:
            loop = asyncio.get_running_loop()
            self._done = loop.create_future()
            name = "midstream-listener"
            threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        if not _is_dropped(envelope, self._queue.qsize()):
            self._queue.put(envelope)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (envelope := self._queue.get()) is not None and not self._is_left:
            try:
                waiting = self._listener(envelope)
                if inspect.isawaitable(waiting):
                    # Async after all, such as a lambda around a coroutine function.
                    ended: concurrent.futures.Future[None] = concurrent.futures.Future()
                    loop.call_soon_threadsafe(self._begin, waiting, ended)
                    ended.result()
            except BaseException as error:
                call_soon(loop, self._complain, self._failed(error))
        call_soon(loop, self._finished)

    def _begin(self, waiting: Awaitable[object], ended: "concurrent.futures.Future[None]") -> None:
        # On the loop, where we are left behind, too: what has begun is always known there.
        self._task = asyncio.ensure_future(waiting)
        self._task.add_done_callback(partial(_tell, ended))
        if self._is_left:
            self._task.cancel()

    def _finished(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def finish(self) -> "asyncio.Future[None] | None":
        self._queue.put(None)
        return self._done

    def left_behind(self) -> ListenerFailed:
        self._is_left = True
        if self._task is not None:
            self._task.cancel()
        return super().left_behind()


class Stream:
    """A queue of every event, read by one reader."""

    def __init__(self) -> None:
        self.name = EVERY
        self._queue: asyncio.Queue[Envelope | None] = asyncio.Queue()

    def put(self, envelope: Envelope | None) -> None:
        """Add an event; None says that was all."""
        if not _is_dropped(envelope, self._queue.qsize()):
            self._queue.put_nowait(envelope)

    async def get(self) -> Envelope | None:
        """Return the next event, None when the run has ended."""
        return await self._queue.get()

    def finish(self) -> None:
        """Say that was all; the reader reads at its own pace."""
        self._queue.put_nowait(None)

    def left_behind(self) -> ListenerFailed:
        """Return a complaint nobody makes: a stream never keeps a run from ending."""
        return ListenerFailed(listener="events()", error="")


def _is_async(listener: Any) -> bool:
    called = getattr(listener, "__call__", None)  # noqa: B004 - an object's own async __call__
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(called)


def _tell(ended: "concurrent.futures.Future[None]", task: "asyncio.Future[object]") -> None:
    """Tell the thread that waits for a task how that has ended."""
    if task.cancelled():
        ended.cancel()
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(None)


def _is_dropped(envelope: Envelope | None, lag: int) -> bool:
    return lag >= QUEUE_LIMIT and envelope is not None and isinstance(envelope.event, Notice)
