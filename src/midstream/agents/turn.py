"""One prompt under way: what is told of it to the listener, in the order in which it was said.

An agent tells of a call in pieces: first often a title alone, then what it is about, then how it ended. A
call is told on once more than its title is known, or once it matters. What cannot be read of it is left
out, never the call itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from midstream.agents.acp_messages import (
    Content,
    Diff,
    TextContent,
    ToolCallUpdate,
    ToolKind,
    Usage,
)
from midstream.agents.json_rpc import CANCELLED, Params, RpcError
from midstream.language.names import Json, Outcome
from midstream.runtime.ports import ExternalCall, ExternalListener, ProposedText
from midstream.system.own_process import beginning

MAX_REPLY_CHARS: Final = 4_000_000
"""Of words and thoughts of one turn, and of the results of calls."""
MAX_CALLS: Final = 2_000
"""Of one turn."""
MAX_RESULT_CHARS: Final = 100_000
_MAX_ID = 200
_MAX_TITLE = 2_000
_MAX_PATHS = 100
_CHANGES: Final = frozenset(("edit", "delete", "move"))


class Known(msgspec.Struct):
    """What is known of a call. `is_told`: the listener has heard of it; `outcome` is how it ended."""

    call: ExternalCall
    is_told: bool = False
    outcome: Outcome | None = None
    is_over: bool = False
    text: str = ""

    def take(self, update: ToolCallUpdate) -> None:
        """Know what an update says of it, too."""
        self.call = _with(self.call, update)
        if (text := _result(update)) and not self.is_over:
            self.text = text
        if update.status == "completed" or update.status == "failed":
            self.outcome = update.status

    @property
    def is_plain(self) -> bool:
        """Return whether no more than a title is known of it."""
        call = self.call
        is_titled = call.command in ("", call.title)
        return is_titled and not (call.paths or call.url or call.texts or call.arguments)


def read_update(told: Params) -> ToolCallUpdate:
    """Return what an update of a call says; what does not fit is left out.

    Raises:
        msgspec.ValidationError: it has no id.
    """
    try:
        return msgspec.convert(told, ToolCallUpdate)
    except msgspec.ValidationError:
        less: Params = {"toolCallId": told.get("toolCallId")}
    for key, value in told.items():
        if isinstance(value, list):
            value = [each for each in value if _fits(key, [each])]
        elif key == "kind" and isinstance(value, str) and value not in get_args(ToolKind):
            value = "other"
        if _fits(key, value):
            less[key] = value
    return msgspec.convert(less, ToolCallUpdate)


def _fits(key: str, value: Json) -> bool:
    try:
        msgspec.convert({"toolCallId": "", key: value}, ToolCallUpdate)
    except msgspec.ValidationError:
        return False
    return True


def _with(call: ExternalCall, update: ToolCallUpdate) -> ExternalCall:
    """Return a call with what is new of it."""
    given = update.raw_input if isinstance(update.raw_input, dict) else {}
    if given:
        call = replace(call, arguments=given)
    if update.title:
        call = replace(call, title=_cut(update.title, _MAX_TITLE))
    if update.kind is not None:
        call = replace(call, kind=update.kind)
    diffs = [each for each in update.content or () if isinstance(each, Diff)]
    if diffs:
        texts = (ProposedText(path=d.path, new=d.new_text, old=d.old_text) for d in diffs)
        call = replace(call, texts=tuple(texts))
    paths = dict.fromkeys(
        [
            *call.paths,
            *(each.path for each in update.locations or ()),
            *(each.path for each in diffs),
        ]
    )
    call = replace(call, paths=tuple(paths)[:_MAX_PATHS], url=_text(given, "url") or call.url)
    # A file is changed by commands of another sort ("create"). Where files are looked at, or nobody knows
    # what is done, a command line is one, whatever the call is said to be.
    command = "" if call.kind in _CHANGES else _text(given, "command", "cmd")
    if call.kind == "execute":
        # Some say the command line in the title alone. What was said last counts: that is asked about.
        command = command or (update.title and call.title) or ""
    return replace(call, command=command or call.command)


def _text(given: dict[str, Json], *keys: str) -> str:
    for key in keys:
        value = given.get(key)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = " ".join(map(str, value))
        if isinstance(value, str) and value:
            return value
    return ""


def _result(update: ToolCallUpdate) -> str:
    """Return the words of a result."""
    words = [
        each.content.text
        for each in update.content or ()
        if isinstance(each, Content) and isinstance(each.content, TextContent)
    ]
    if not words:
        raw = update.raw_output
        if isinstance(raw, dict):
            raw = next((raw[key] for key in ("output", "text", "error") if raw.get(key)), None)
        words = [raw] if isinstance(raw, str) else []
    text = "\n".join(words)
    return text if len(text) <= MAX_RESULT_CHARS else f"{_cut(text, MAX_RESULT_CHARS)}\n[cut]"


def _cut(text: str, chars: int) -> str:
    """Return a text's first characters; what is secret in one that is cut is redacted before."""
    return text if len(text) <= chars else beginning(text, chars)


# --- told ---------------------------------------------------------------------------------------


class TooMuch(Exception):
    """An agent went beyond a limit: which one, as words that say "it"."""


Step: TypeAlias = Callable[[], Awaitable[None]]


class Turn:
    """One prompt under way, and what is told of it."""

    def __init__(self, listener: ExternalListener) -> None:
        self.listener = listener
        self._calls: dict[str, Known] = {}
        """By the agent's ids."""
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
        return any(known.is_told and not known.is_over for known in self._calls.values())

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
        if not known.is_told and known.outcome is None and known.is_plain:
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
        update = read_update(told)
        id = update.tool_call_id[:_MAX_ID]
        known = self._calls.setdefault(id, Known(ExternalCall(id=id, title="")))
        known.take(update)
        if len(self._calls) > MAX_CALLS:
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
            self.listener.calling(known.call.title)
            await self.listener.called(known.call)
        if known.is_told and known.outcome is not None and not known.is_over:
            known.is_over = True
            await self.listener.returned(known.call.id, known.outcome, known.text)

    def _count(self, chars: int) -> None:
        self._size += chars
        if self._size > MAX_REPLY_CHARS:
            raise TooMuch(f"it said over {MAX_REPLY_CHARS:,} characters in one turn.")
