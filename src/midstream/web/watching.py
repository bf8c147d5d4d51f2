"""Runs that pages watch, each followed once for all of them; and what a page is sent, event by event.

A feed keeps what it has made of a run's facts, encoded, in their order, and the text of each reply that
streams. A page is a place in that: how far it has read the facts, and how much of each text it has. So

    nothing is lost or shown twice: a page that comes back says the last fact it had;
    a slow page slows nobody and nothing waits for it: there is no queue, it goes on where it is, and of a
    text that streams it gets at once what has come since.

The text that streams is forgotten with the fact that ends its reply, which has it whole.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

import msgspec

from midstream.api.engine import Engine, RunInfo
from midstream.api.run_handle import RunHandle
from midstream.core import events as e
from midstream.core.notices import (
    Envelope,
    JournalStalled,
    JournalWorks,
    RunTaken,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from midstream.core.routing import living
from midstream.language.errors import MidstreamError, UserMistake
from midstream.safety.sanitize import sanitized
from midstream.system.diff import file_diff
from midstream.system.offloop import in_thread
from midstream.views.side_effects import TREE, FileDiff, short_path
from midstream.web.items import Items
from midstream.web.shown import info_shown, run_shown

PING_S: Final = 15.0
"""Seconds of silence after which a page is told that it still listens."""

LINGER_S: Final = 30.0
"""Seconds for which a run is followed on that nobody watches: pages are reloaded."""

STATUS_S: Final = 0.05
"""Seconds between two looks at how a run stands, while facts come."""

LIST_S: Final = 0.25
"""Seconds between two looks at the list of runs, while anything is written."""

_LOOK_S: Final = 2.0
_LISTED: Final = 60
_AT_ONCE: Final = 64
_MAX_OUTPUT: Final = 64_000
_MAX_DIFFED: Final = 1_000_000
_AGAIN_S: Final = 0.25
_PIECE: Final = 4_000
"""Characters that streamed which are made harmless at once: of the worst that takes 4 ms."""

_encode = msgspec.json.Encoder().encode


def event(name: str, value: Any, *, id: int | None = None) -> bytes:
    """Return a server-sent event. JSON has no line breaks, so it is one line of data."""
    number = b"" if id is None else b"id: %d\n" % id
    return b"%sevent: %s\ndata: %s\n\n" % (number, name.encode(), _encode(value))


PING: Final = b": still here\n\n"


class _News:
    """Something to wait for, as many as like: it has happened again."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def next(self, timeout_s: float) -> bool:
        """Return whether it happened within so many seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(waiter)
        return True

    def tell(self) -> None:
        """Let it have happened."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()


class _Text:
    """What streams: a reply, its reasoning, or a call's output. `dropped` characters of it are gone."""

    __slots__ = ("about", "dropped", "text")

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.text = ""
        self.dropped = 0

    @property
    def length(self) -> int:
        return self.dropped + len(self.text)

    def add(self, more: str, *, most: int | None = None) -> None:
        self.text += more
        if most is not None and len(self.text) > 2 * most:
            gone = len(self.text) - most
            self.text, self.dropped = self.text[gone:], self.dropped + gone

    def since(self, had: int) -> str:
        return self.text[max(0, had - self.dropped) :]


class Feed:
    """A run, followed. Made by `Watching`.

    `run` is the handle it is known by now: another one once it has been taken up here.
    """

    def __init__(self, engine: Engine, run: RunHandle, info: RunInfo) -> None:
        self.run = run
        self.info = info
        self.readers = 0
        self._engine = engine
        self._items = Items()
        self._seqs: list[int] = []
        self._sent: list[bytes] = []
        self._texts: dict[tuple[str, str, str], _Text] = {}
        self._known = 0
        self._status = b""
        self._is_over = False
        self._is_stalled = False
        self._is_closed = False
        self.trouble = ""
        self._news = _News()
        self._dirty = asyncio.Event()
        self._dirty.set()
        self._tasks = (
            asyncio.create_task(self._follow(), name=f"feed {run.id}"),
            asyncio.create_task(self._keep_status(), name=f"status {run.id}"),
        )

    async def close(self) -> None:
        """Follow it no more; the streams of pages end."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.run.close()
        self._news.tell()

    async def turn_to(self, run: RunHandle) -> None:
        """Follow the run by another handle from now on: it was taken up here."""
        before, self.run = self.run, run
        if before is not run and not before.is_here:
            await before.close()  # its stream ends, and the new one goes on behind its last fact

    # --- for a page ---------------------------------------------------------------------------

    async def stream(self, since: int) -> AsyncGenerator[bytes]:
        """Yield what a page is sent that has had fact `since`, until the run has ended."""
        self.readers += 1
        had: dict[tuple[str, str, str], tuple[_Text, int]] = {}
        status = b""
        try:
            yield b"retry: 1000\n\n"
            at = 0
            while True:
                at = max(at, bisect_right(self._seqs, since))
                if status != self._status:
                    status = self._status
                    yield status
                if at < len(self._sent):
                    part = self._sent[at : at + _AT_ONCE]
                    at += len(part)
                    yield b"".join(part)
                    continue
                # All facts are told: what streams comes after the last of them.
                has_more = False
                for key, text in tuple(self._texts.items()):
                    kept, length = had.get(key, (text, 0))
                    # What it has is of an earlier reply, or the beginning is gone: it begins anew.
                    is_anew = kept is not text or not length or length < text.dropped
                    length = 0 if is_anew else length
                    if text.length > length:
                        piece = text.since(length)[:_PIECE]
                        had[key] = text, max(length, text.dropped) + len(piece)
                        has_more |= had[key][1] < text.length
                        more = {"text": sanitized(piece), "so_far": is_anew}
                        yield event("delta", text.about | more)
                if has_more:
                    await asyncio.sleep(0)
                    continue
                if at < len(self._sent) or status != self._status:
                    continue
                if self._is_closed:
                    return  # the server ends, not the run: the page comes back
                if self._is_over:
                    break
                if not await self._news.next(PING_S):
                    yield PING
            yield event("end", {"seq": self._known, "error": self.trouble})
        finally:
            self.readers -= 1

    # --- following ------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Read the run from its first fact to its end, whoever runs it meanwhile."""
        try:
            while True:
                run = self.run
                async with contextlib.aclosing(run.numbered(self._known)) as numbered:
                    async for envelope in numbered:
                        await self._take(envelope)
                if run.run.is_over:
                    break
                if self.run is run:
                    # Its process has let go of it: it goes on elsewhere, or nowhere for now.
                    await asyncio.sleep(_AGAIN_S)
                    if self.run is run:
                        await self.turn_to(await self._engine.get(run.id))
        except MidstreamError as error:
            self.trouble = str(error)
        finally:
            self._texts.clear()
            with contextlib.suppress(MidstreamError):
                await self._look()
            self._is_over = True
            self._news.tell()

    async def _take(self, envelope: Envelope) -> None:
        fact = envelope.event
        if envelope.seq is None:
            self._hear(fact)
            self._news.tell()
            return
        diff = None
        if isinstance(fact, e.FileWritten) and fact.call_id != TREE:
            diff = await self._diff(fact)
        item = self._items.of(envelope, diff)
        self._forget_text(fact)
        self._known = envelope.seq
        if item is not None:
            self._seqs.append(envelope.seq)
            self._sent.append(event("item", item, id=envelope.seq))
        self._dirty.set()
        self._news.tell()
        if not envelope.seq % _AT_ONCE:
            await asyncio.sleep(0)  # a long past does not hold up the loop

    def _hear(self, notice: object) -> None:
        match notice:
            case TextDelta() if self.run.is_here:
                self._look_at_replies()
            case TextDelta(agent=agent, branch=branch, text=text):
                self._text("text", branch, agent, who=agent).add(text)
            case ThinkingDelta(agent=agent, branch=branch, text=text):
                self._text("thinking", branch, agent, who=agent, thinking=True).add(
                    text, most=_MAX_OUTPUT
                )
            case ToolProgress(call_id=id, branch=branch, text=text):
                self._text("call", branch, id, call_id=id).add(text, most=_MAX_OUTPUT)
            case JournalStalled():
                self._is_stalled = True
                self._tell_status()
            case JournalWorks() | RunTaken():
                self._is_stalled = False
                self._tell_status()
            case _:
                pass

    def _text(self, kind: str, branch: str, name: str, **about: Any) -> _Text:
        key = (kind, branch, name)
        if key not in self._texts:
            self._texts[key] = _Text({"who": "", "branch": branch, **about})
        return self._texts[key]

    def _look_at_replies(self) -> None:
        """Have all that was shown of open replies: of this process, or kept of one that is gone."""
        for each in self.run.streaming():
            if each.text:
                self._text("text", each.branch, each.agent, who=each.agent).text = each.text
        run = self.run.run
        if self.run.is_here or self.info.is_running:
            return
        for part in (run, *living(run)):
            turn = part.visit.replying
            if turn is not None and turn.shown:
                kept = self._text("text", part.branch.path, turn.agent, who=turn.agent)
                kept.text = max(kept.text, turn.shown, key=len)

    def _forget_text(self, fact: object) -> None:
        """Forget what streamed of what a fact has whole. Which calls are being written a fact says, too."""
        match fact:
            case e.AgentResponded() | e.AgentFailed() | e.ReplyCut():
                for kind in ("text", "thinking", "calling"):
                    self._texts.pop((kind, fact.branch, fact.agent), None)
            case e.ReplyShown(calling=names) if names:
                self._texts.pop(("calling", fact.branch, fact.agent), None)
                calls = self._text("calling", fact.branch, fact.agent, who=fact.agent, calling=True)
                calls.add(names)
            case e.ToolReturned():
                self._texts.pop(("call", fact.branch, fact.call_id), None)
            case e.Interrupted() | e.RunRecovered():
                inner = f"{fact.branch}/" if fact.branch else ""
                for key in tuple(self._texts):
                    if key[1] == fact.branch or key[1].startswith(inner):
                        del self._texts[key]
            case _:
                pass

    async def _diff(self, fact: e.FileWritten) -> FileDiff | None:
        try:
            sides = [
                None if key is None else await self._engine.controls.contents(key)
                for key in (fact.before, fact.after)
            ]
        except MidstreamError:
            return FileDiff(path=fact.path, added=0, removed=0, diff="[what it held is not kept]")
        if sum(len(side or b"") for side in sides) > _MAX_DIFFED:
            return FileDiff(path=fact.path, added=0, removed=0, diff="[too large to compare]")
        path = short_path(fact.path, self.run.run.workspace)
        return await in_thread(partial(file_diff, path, *sides))

    # --- how it stands ----------------------------------------------------------------------------

    async def _keep_status(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):  # who runs it is no fact
                    await self._dirty.wait()
            self._dirty.clear()
            with contextlib.suppress(MidstreamError):
                await self._look()
            await asyncio.sleep(STATUS_S)

    async def _look(self) -> None:
        self.info = await self._engine.info(self.run.id) or self.info
        self._look_at_replies()
        self._tell_status()

    def _tell_status(self) -> None:
        status = event("status", self.shown())
        if status != self._status:
            self._status = status
            self._news.tell()

    def shown(self) -> dict[str, Any]:
        """Return how the run stands, without its data."""
        controls = self._engine.controls
        is_here = self.run.is_here
        return run_shown(
            self.run.run,
            # It may have been taken up a moment ago.
            msgspec.structs.replace(self.info, is_running=self.info.is_running or is_here),
            mode=controls.permission_mode if is_here else "",
            model=controls.model if is_here else "",
            is_stalled=self._is_stalled and is_here,
        )


class Watching:
    """The runs that pages watch, and the list of all."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._feeds: dict[str, Feed] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._listed: dict[str, dict[str, Any]] = {}
        self._changes: list[tuple[int, str]] = []
        self._version = 0
        self._list_news = _News()
        self._list_readers = 0
        self._list_task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_over = False

    async def close(self) -> None:
        """Let every page's stream end, and follow nothing any more."""
        self._is_over = True
        self._list_news.tell()
        if self._list_task is not None:
            self._list_task.cancel()
        feeds, self._feeds = tuple(self._feeds.values()), {}
        await asyncio.gather(*(feed.close() for feed in feeds), *self._closing)

    async def feed(self, id: str) -> Feed:
        """Return a run, followed from now on for a while at least.

        Raises:
            UserMistake: there is no run of exactly this id.
        """
        async with self._locks.setdefault(id, asyncio.Lock()):
            found = self._feeds.get(id)
            if found is None:
                info = await self._engine.info(id)
                if info is None or self._is_over:
                    self._locks.pop(id, None)
                    raise UserMistake(
                        f"There is no run {id}.", hint="The list has those there are."
                    )
                found = self._feeds[id] = Feed(self._engine, await self._engine.get(id), info)
                self._look_after(found)
            return found

    def _look_after(self, feed: Feed) -> None:
        asyncio.get_running_loop().call_later(LINGER_S, self._let_go, feed)

    def _let_go(self, feed: Feed) -> None:
        """Follow a run no more that nobody watches."""
        if self._is_over:
            return
        if feed.readers:
            self._look_after(feed)
            return
        self._feeds.pop(feed.run.id, None)
        self._locks.pop(feed.run.id, None)
        closing = asyncio.create_task(feed.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    # --- the list ---------------------------------------------------------------------------------

    async def list_stream(self) -> AsyncGenerator[bytes]:
        """Yield each run of the list as it stands, and again whenever that has changed."""
        self._list_readers += 1
        if self._list_task is None:
            await self._look_at_list()
            self._list_task = asyncio.create_task(self._keep_list(), name="list of runs")
        at = 0
        try:
            yield b"retry: 1000\n\n"
            while not self._is_over:
                changed = {id: version for version, id in self._changes if version > at}
                at = self._version
                if changed:
                    yield b"".join(event("run", self._listed[id]) for id in changed)
                elif not await self._list_news.next(PING_S):
                    yield PING
        finally:
            self._list_readers -= 1
            if not self._list_readers and self._list_task is not None:
                self._list_task.cancel()
                self._list_task = None

    async def _keep_list(self) -> None:
        while True:
            await self._engine.changed(_LOOK_S)
            with contextlib.suppress(MidstreamError):
                await self._look_at_list()
            await asyncio.sleep(LIST_S)

    async def _look_at_list(self) -> None:
        for info in reversed(await self._engine.runs(limit=_LISTED)):
            shown = info_shown(info)
            if self._listed.get(info.id) != shown:
                self._listed[info.id] = shown
                self._version += 1
                others = [each for each in self._changes if each[1] != info.id]
                self._changes = [*others, (self._version, info.id)]
        self._list_news.tell()
