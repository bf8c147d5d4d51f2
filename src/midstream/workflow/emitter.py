"""The emitter: events to listeners, which can be slow, raise or hang without harming the run.

Each listener has its own queue. An async one is awaited by a task of its own; a plain one runs in a
daemon thread of its own, since nothing else can keep a plain function that hangs off the loop.
"""

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

from midstream.core.notices import Envelope, ListenerFailed, Notice
from midstream.offloop import call_soon
from midstream.ports import Listener

QUEUE_LIMIT = 10_000
"""Events a listener may lag behind before its notices are dropped. Facts are never dropped."""

DRAIN_S = 1.0
"""Seconds a listener gets to hear the rest once the run has ended."""

EVERY = "*"
"""As an event name: every event."""


class Emitter:
    """Named events to listeners. `complain` hears of a listener that raised."""

    __slots__ = ("_channels", "_complain")

    def __init__(self, complain: Callable[[ListenerFailed], None]) -> None:
        self._channels: list[_Channel] = []
        self._complain = complain

    def on(self, name: str, listener: Listener) -> None:
        """Let `listener` hear the events of that wire name (`*`: all) from now on."""
        kind = _AsyncListener if inspect.iscoroutinefunction(listener) else _PlainListener
        self._channels.append(kind(name, listener, self._complain))

    def emit(self, envelope: Envelope) -> None:
        """Hand an event to everyone who wants it. Returns at once."""
        for channel in self._channels:
            if channel.name in (EVERY, envelope.type):
                channel.put(envelope)

    def subscribe(self) -> "Stream":
        """Return a queue of every event from now on. Give it back with `unsubscribe`."""
        stream = Stream()
        self._channels.append(stream)
        return stream

    def unsubscribe(self, stream: "Stream") -> None:
        """Forget a queue made by `subscribe`."""
        self._channels.remove(stream)

    async def close(self) -> None:
        """Let everyone hear the rest; one that takes over `DRAIN_S` seconds is left behind."""
        for channel in self._channels:
            channel.put(None)
        for channel in tuple(self._channels):
            await channel.drained()


class _Channel(Protocol):
    """A queue of one listener. `None` in it means: that was all."""

    name: str

    def put(self, envelope: Envelope | None) -> None: ...

    async def drained(self) -> None: ...


class _AsyncListener:
    def __init__(
        self, name: str, listener: Any, complain: Callable[[ListenerFailed], None]
    ) -> None:
        self.name = name
        self._queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        self._listener = listener
        self._complain = complain
        self._task = asyncio.create_task(self._work())

    def put(self, envelope: Envelope | None) -> None:
        if not _is_dropped(envelope, self._queue.qsize()):
            self._queue.put_nowait(envelope)

    async def _work(self) -> None:
        while (envelope := await self._queue.get()) is not None:
            try:
                await self._listener(envelope)
            except Exception as error:
                self._complain(_failure(self._listener, error))

    async def drained(self) -> None:
        await asyncio.wait({self._task}, timeout=DRAIN_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class _PlainListener:
    def __init__(
        self, name: str, listener: Any, complain: Callable[[ListenerFailed], None]
    ) -> None:
        self.name = name
        self._queue: queue.SimpleQueue[Envelope | None] = queue.SimpleQueue()
        self._listener = listener
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._done = self._loop.create_future()
        threading.Thread(target=self._work, name="midstream-listener", daemon=True).start()

    def put(self, envelope: Envelope | None) -> None:
        if not _is_dropped(envelope, self._queue.qsize()):
            self._queue.put(envelope)

    def _work(self) -> None:
        while (envelope := self._queue.get()) is not None:
            try:
                self._listener(envelope)
            except Exception as error:
                call_soon(self._loop, self._complain, _failure(self._listener, error))
        call_soon(self._loop, self._finish)

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def drained(self) -> None:
        await asyncio.wait({self._done}, timeout=DRAIN_S)


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

    async def drained(self) -> None:
        """Return at once: the reader reads at its own pace."""


def _is_dropped(envelope: Envelope | None, lag: int) -> bool:
    return lag >= QUEUE_LIMIT and envelope is not None and isinstance(envelope.event, Notice)


def _failure(listener: Any, error: Exception) -> ListenerFailed:
    name = getattr(listener, "__qualname__", type(listener).__name__)
    return ListenerFailed(listener=name, error=f"{type(error).__name__}: {error}")
