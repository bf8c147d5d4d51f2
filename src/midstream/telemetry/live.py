"""While runs run: what ends is sent a little later, and nothing of it holds a run up.

A listener only notes which run has new facts; a task reads them from the journal, folds them in a thread
and sends them. So what is sent live is what an export sends later, and a collector that is slow, full or
gone costs a run nothing. Of what could not be sent one line is told, once. What goes on after a crash is
sent from its first fact on: whoever died may not have sent all of it, and twice is once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from midstream.core.events import RunRecovered
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError
from midstream.runtime.storage import Store
from midstream.system.offloop import cancel_all, in_thread, still_working
from midstream.telemetry.sending import (
    MOST_S,
    Collector,
    Destination,
    NotTaken,
    Signal,
    batches,
    ended_spans,
    fresh_trace,
)
from midstream.telemetry.spans import Trace

DELAY_S: Final = 1.0
"""Seconds in which what ends is gathered."""

FLUSH_S: Final = 2.0
"""Seconds that the end of the program waits for a collector."""

MAX_WAITING: Final = 16_000_000
"""Bytes of spans that wait for a collector; what comes beyond is left to a later export."""


class LiveTraces:
    """Sends the spans and metrics of every run of an engine. Made off the loop or on it; lives on it.

    Args:
        store: what keeps the runs.
        to: where to send to.
        tell: hears, once, that something could not be sent: the run it was noticed with, and a line.
    """

    def __init__(
        self,
        store: Store,
        to: Destination,
        tell: Callable[[str, str], None],
        *,
        delay_s: float = DELAY_S,
        flush_s: float = FLUSH_S,
    ) -> None:
        self._store = store
        self._collector = Collector(to)
        self._tell = tell
        self._delay_s = delay_s
        self._flush_s = flush_s
        self._due: dict[str, None] = {}
        self._first: dict[str, int] = {}
        self._traces: dict[str, Trace] = {}
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._figures: dict[str, list[bytes]] = {}
        self._wait_s = 0.0
        self._has_told = False
        self._last_run = ""
        self._closing = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def hear(self, envelope: Envelope) -> None:
        """Note that a run has a new fact. Returns at once."""
        if envelope.seq is None or self._closing.is_set():
            return
        self._due[envelope.run] = None
        self._first.setdefault(envelope.run, envelope.seq)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="traces")
        self._wake.set()

    async def close(self) -> None:
        """Send the rest, as far as that is possible in a moment. The store is still open."""
        self._closing.set()
        self._wake.set()
        if self._task is not None:
            is_late = bool(await still_working({self._task}, self._flush_s))
            await cancel_all(self._task)
            if is_late or self._waiting or self._figures:
                self._say(f"the collector did not take it within {self._flush_s:g} s")
        await self._collector.aclose()

    # --- inside -----------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            if not (self._waiting or self._figures or self._closing.is_set()):
                await self._wake.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._delay_s, self._wait_s)):
                    await self._closing.wait()
            self._wake.clear()
            is_last = self._closing.is_set()
            try:
                await self._take_in()
                await self._send()
            except Exception as error:  # a listener's edge: whatever it is, runs go on
                self._waiting.clear()
                self._figures.clear()
                self._bytes = 0
                self._say(f"{type(error).__name__} ended it")
            if is_last:
                return

    async def _take_in(self) -> None:
        """Read what is new of each run, and make it what is to be sent."""
        due, self._due = self._due, {}
        for run in due:
            self._last_run = run
            try:
                await self._read(run)
            except MidstreamError as error:
                self._traces.pop(run, None)
                self._say(f"run {run} cannot be read: {error.what}")

    async def _read(self, run: str) -> None:
        trace = self._traces.get(run)
        is_new = trace is None
        if trace is None:
            trace = await fresh_trace(self._store, run, content=self._collector.to.content)
            self._traces[run] = trace
        facts = await self._store.read(run, trace.run.seq)
        spans, figures = await in_thread(partial(ended_spans, trace, facts))
        if is_new:
            first = self._first[run]
            recovered = (fact.event for fact in facts if (fact.seq or 0) >= first)
            if not any(isinstance(each, RunRecovered) and each.was_cut for each in recovered):
                spans = [(seq, span) for seq, span in spans if seq >= first]
        for _, span in spans:
            if self._bytes + len(span) > MAX_WAITING:
                self._say("the collector has not taken what was sent before")
                break
            self._waiting.append(span)
            self._bytes += len(span)
        self._figures[run] = figures
        if trace.run.is_over:
            del self._traces[run]

    async def _send(self) -> None:
        """Send what waits; what a collector has no room for yet waits on."""
        try:
            for batch in [*batches(self._waiting)]:
                await self._sent("traces", batch)
                del self._waiting[: len(batch)]
                self._bytes -= sum(map(len, batch))
            for run, figures in [*self._figures.items()]:
                await self._sent("metrics", figures)
                del self._figures[run]
        except NotTaken as error:
            self._say(error.what)
            self._wait_s = min(max(error.again_s or 0.0, 2 * self._wait_s, self._delay_s), MOST_S)
        else:
            self._wait_s = 0.0

    async def _sent(self, signal: Signal, items: list[bytes]) -> None:
        """Send a batch. What is refused for good is lost here, and said so."""
        try:
            await self._collector.send(signal, items)
        except NotTaken as error:
            if error.again_s is not None:
                raise
            self._say(error.what)

    def _say(self, why: str) -> None:
        if not self._has_told:
            self._has_told = True
            later = f"midstream export {self._last_run or 'RUN'} --otlp sends a run later."
            self._tell(self._last_run, f"not all traces could be sent: {why.rstrip('.')}. {later}")
