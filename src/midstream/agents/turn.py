"""One prompt under way: what is told of it to the listener, in the order in which it was said."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from midstream.agents.acp_messages import Usage
from midstream.agents.json_rpc import CANCELLED, Params, RpcError
from midstream.agents.tool_calls import Calls, Known, is_plain
from midstream.runtime.ports import ExternalListener

MAX_REPLY_CHARS: Final = 4_000_000
"""Of words and thoughts of one turn, and of the results of calls."""
MAX_CALLS: Final = 2_000
"""Of one turn."""


class TooMuch(Exception):
    """An agent went beyond a limit: which one, as words that say "it"."""


Step: TypeAlias = Callable[[], Awaitable[None]]


class Turn:
    """One prompt under way, and what is told of it."""

    def __init__(self, listener: ExternalListener) -> None:
        self.listener = listener
        self.calls = Calls()
        self.stopped = asyncio.Event()
        self.asking: set[asyncio.Task[object]] = set()
        """Requests of the agent that wait for the listener."""
        self.usage: list[Usage] = []
        self._steps: asyncio.Queue[Step] = asyncio.Queue()
        self._words: list[str] = []
        self._size = 0
        self._message: str | None = None
        self._has_called = False
        self._held: Known | None = None

    @property
    def text(self) -> str:
        """Return the words so far, as the listener was told them."""
        return "".join(self._words)

    @property
    def is_working(self) -> bool:
        """Return whether a call of the agent's own is under way."""
        return any(known.is_told for known in self.calls.open())

    async def tell(self) -> None:
        """Tell the listener what comes, for ever.

        Raises:
            Exception: what the listener raises, or `TooMuch`.
        """
        while True:
            step = await self._steps.get()
            await step()

    def put(self, step: Step) -> None:
        """Put a step in the line."""
        self._steps.put_nowait(step)

    async def caught_up(self, step: Step | None = None) -> None:
        """Return when all is told that was said until now, and a last step is done.

        Raises:
            RpcError: the turn has been stopped instead.
        """
        reached = asyncio.Event()

        async def reach() -> None:
            await (step or self._release)()
            reached.set()

        self.put(reach)
        waits = [asyncio.ensure_future(each.wait()) for each in (reached, self.stopped)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if not reached.is_set():
            raise RpcError(CANCELLED, "The turn was stopped.")

    # --- steps ------------------------------------------------------------------------------------

    async def say(self, text: str, message: str | None, *, is_thought: bool) -> None:
        """Tell the next piece of the reply, or of the reasoning."""
        if not text or self.stopped.is_set():
            return
        await self._release()
        self._count(len(text))
        if is_thought:
            self.listener.thinking(text)
            return
        is_new = self._has_called or (message is not None and message != self._message)
        if is_new and self._words and not self._words[-1].endswith("\n\n"):
            text = ("\n" if self._words[-1].endswith("\n") else "\n\n") + text.lstrip("\n")
        self._message, self._has_called = message or self._message, False
        self._words.append(text)
        self.listener.text(text)

    async def update(self, told: Params) -> None:
        """Tell what is new of a call."""
        try:
            known = await self._taken(told)
        except msgspec.ValidationError:
            return
        if not known.is_told and known.outcome is None and is_plain(known.call):
            # More of it is about to be said; agents begin with a title.
            self._held = known
            return
        await self._told(known)

    async def asked(self, told: Params) -> Known:
        """Tell of a call that the agent asks about; return what is known of it.

        Raises:
            msgspec.ValidationError: it has no id.
        """
        known = await self._taken({**told, "status": "pending"})
        await self._told(known)
        return known

    async def _taken(self, told: Params) -> Known:
        known = self.calls.take(told)
        if len(self.calls) > MAX_CALLS:
            raise TooMuch(f"it made over {MAX_CALLS:,} calls in one turn.")
        self._count(len(known.text))
        if known is not self._held:
            await self._release()
        return known

    async def _release(self) -> None:
        if (held := self._held) is not None:
            await self._told(held)

    async def _told(self, known: Known) -> None:
        if known is self._held:
            self._held = None
        if not known.is_told and not self.stopped.is_set():
            known.is_told = self._has_called = True
            self.listener.calling()
            await self.listener.called(known.call)
        if known.is_told and known.outcome is not None and not known.is_over:
            known.is_over = True
            await self.listener.returned(known.call.id, known.outcome, known.text)

    def _count(self, chars: int) -> None:
        self._size += chars
        if self._size > MAX_REPLY_CHARS:
            raise TooMuch(f"it said over {MAX_REPLY_CHARS:,} characters in one turn.")
