"""Events of a run to listeners, which can be slow, raise or hang without harming the run.

Each listener has its own queue and a task of its own, in which an async one is awaited; a plain one is
called in a daemon thread, since nothing else can keep a plain function that hangs off the loop. The task
begins with the first event there is to hear, so that listening needs no running loop and a run that
never begins leaves nothing behind.
"""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from midstream.core.notices import AnyNotice, Envelope, ListenerFailed, Notice
from midstream.language.errors import in_words
from midstream.runtime.ports import Clock, Listener
from midstream.runtime.text_limits import short
from midstream.safety.redaction import Redactor
from midstream.system.offloop import in_thread, still_working

QUEUE_LIMIT = 10_000
"""Events a listener may lag behind before its notices are dropped. Facts are never dropped."""

DRAIN_S = 1.0
"""Seconds all listeners together get to hear the rest once the run has ended."""

EVERY = "*"
"""As an event name: every event."""


class RunEvents:
    """The events of a run, to all who listen.

    Args:
        run: the run's id.
        clock: dates notices.
        redactor: takes the secrets out of what listeners raise.
        tap: a trusted, quick listener on the loop; what it raises is shown, too.
    """

    __slots__ = ("_clock", "_is_closed", "_listeners", "_redactor", "_run", "_streams", "tap")

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
        self._listeners: tuple[_Listener, ...] = ()
        self._streams: tuple[Stream, ...] = ()
        self._is_closed = False
        self.tap = tap

    def emit(self, envelope: Envelope) -> None:
        """Hand an event to everyone who wants it. Returns at once; after `close` only the tap hears it."""
        if self.tap is not None:
            try:
                self.tap(envelope)
            except Exception as error:
                self._tap_failed(envelope, error)
        if self._is_closed:
            return
        for stream in self._streams:
            stream.put(envelope)
        for listener in self._listeners:
            if listener.name in (EVERY, envelope.type):
                listener.put(envelope)

    def notify(self, notice: AnyNotice) -> None:
        """Show what is not kept."""
        self.emit(Envelope(run=self._run, at=self._clock.now(), event=notice))

    def notify_of(self, branch: str, notice: AnyNotice) -> None:
        """Show it as of a branch, "" for the run itself."""
        self.notify(msgspec.structs.replace(notice, branch=branch) if branch else notice)

    def on(self, name: str, listener: Listener) -> None:
        """Let `listener` hear the events of that wire name (`*`: all) from now on."""
        self._listeners = (*self._listeners, _Listener(name, listener, self._complain))

    def subscribe(self) -> "Stream":
        """Return a queue of every event from now on. Give it back with `unsubscribe`."""
        stream = Stream()
        if self._is_closed:
            stream.put(None)
        self._streams = (*self._streams, stream)
        return stream

    def unsubscribe(self, stream: "Stream") -> None:
        """Forget a queue made by `subscribe`."""
        self._streams = tuple(each for each in self._streams if each is not stream)

    async def close(self) -> None:
        """Let everyone hear the rest; who takes over `DRAIN_S` seconds is left behind and named.

        A stream is read at its reader's own pace: it keeps no run from ending.
        """
        self._is_closed = True
        for stream in self._streams:
            stream.put(None)
        working = {each.task: each for each in self._listeners if each.task is not None}
        for listener in working.values():
            listener.put(None)
        late = await still_working(working, DRAIN_S)
        for task in late:
            task.cancel()
            self._complain(working[task].failed("it was still busy when the run had ended"))
        # Those that can be cancelled have one round to be; who refuses that too is let go.
        await still_working(late, DRAIN_S)

    def _tap_failed(self, envelope: Envelope, error: Exception) -> None:
        """Say that the tap raised, unless it raised over hearing just that."""
        if not isinstance(envelope.event, ListenerFailed):
            self._complain(ListenerFailed(listener="the tap", error=in_words(error)))

    def _complain(self, failure: ListenerFailed) -> None:
        """Show that a listener raised, or was left behind."""
        error = short(failure.error, self._redactor)
        self.notify(msgspec.structs.replace(failure, error=error))


class Stream:
    """A queue of events, read by one reader. Of notices those that fall behind are dropped."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Envelope | None] = asyncio.Queue()

    def put(self, envelope: Envelope | None) -> None:
        """Add an event; None says that was all."""
        is_notice = envelope is not None and isinstance(envelope.event, Notice)
        if not (is_notice and self._queue.qsize() >= QUEUE_LIMIT):
            self._queue.put_nowait(envelope)

    async def get(self) -> Envelope | None:
        """Return the next event, None when the run has ended."""
        return await self._queue.get()


class _Listener:
    """One listener, what waits for it, and the task in which it hears that."""

    def __init__(
        self, name: str, listener: Any, complain: Callable[[ListenerFailed], None]
    ) -> None:
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self._listener = listener
        self._complain = complain
        self._stream = Stream()
        called = getattr(listener, "__call__", None)  # noqa: B004 - an object's own async __call__
        self._is_async = any(map(inspect.iscoroutinefunction, (listener, called)))

    def put(self, envelope: Envelope | None) -> None:
        """Have it hear an event; None says that was all."""
        if self.task is None:
            self.task = asyncio.create_task(self._work())
        self._stream.put(envelope)

    def failed(self, words: str) -> ListenerFailed:
        """Return that it failed, and how."""
        name = getattr(self._listener, "__qualname__", type(self._listener).__name__)
        return ListenerFailed(listener=name, error=words)

    async def _work(self) -> None:
        while (envelope := await self._stream.get()) is not None:
            try:
                error = await self._heard(envelope)
            except asyncio.CancelledError as cancelled:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                error = cancelled
            except (Exception, SystemExit) as raised:
                error = raised
            if error is not None:
                self._complain(self.failed(in_words(error)))

    async def _heard(self, envelope: Envelope) -> BaseException | None:
        """Have it hear an event; return what a plain one raised."""
        if self._is_async:
            await self._listener(envelope)
            return None
        waiting, error = await in_thread(partial(self._called, envelope), name="midstream-listener")
        if inspect.isawaitable(waiting):
            # Async after all, such as a lambda around a coroutine function.
            await waiting
        return error

    def _called(self, envelope: Envelope) -> tuple[object, BaseException | None]:
        try:
            return self._listener(envelope), None
        except BaseException as error:  # an exit, too, ends no thread of ours
            return None, error
