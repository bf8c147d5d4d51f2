"""The client that started us, at the other end of stdin and stdout: nothing but the protocol stands there.

Both descriptors are taken away, so that a stray `print` or a child that reads meets neither. Threads of our
own read and write: one that hangs keeps nothing from ending.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Literal, cast

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

from midstream.api.engine import Engine
from midstream.mcp_server.server import server_of
from midstream.system.offloop import in_thread
from midstream.system.own_process import STDERR, STDIN, STDOUT

MAX_LINE: Final = 4_000_000
"""Bytes of one message."""

_PIECE: Final = 65_536
_NEAR: Final = 200
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")')


async def serve_stdio(
    opened: Callable[[], Awaitable[Engine]], *, approvals: Literal["ask", "deny"]
) -> None:
    """Serve the client on stdin and stdout until it is gone, and let go of the runs then.

    Args:
        opened: opens the engine; called when the client has had its first answer.
        approvals: as of `server_of`.
    """
    opening = _Opening(opened)
    server = server_of(opening.engine, approvals=approvals)

    async def open_soon(ctx: Any, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        asyncio.get_running_loop().call_later(_SOON_S, opening.begin)
        return result

    server.middleware.append(open_soon)
    try:
        read, write = _wire()
        lines, out = _Lines(read), _Out(write)
        async with stdio_server(cast(Any, lines), cast(Any, out)) as (incoming, outgoing):
            lines.refuse = outgoing.send
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await opening.close()


class _Opening:
    """The engine, which takes a while to open: nobody waits for it who needs none."""

    def __init__(self, opened: Callable[[], Awaitable[Engine]]) -> None:
        self._opened = opened
        self._task: asyncio.Task[Engine] | None = None
        self._is_closing = False

    def begin(self) -> None:
        """Begin to open it, unless that was begun and has not failed."""
        is_failed = self._task is not None and self._task.done() and self._task.exception()
        if (self._task is None or is_failed) and not self._is_closing:
            self._task = asyncio.create_task(self._open(), name="open the engine")

    async def engine(self) -> Engine:
        """Return it. Why it cannot be opened is raised to every call, each of which tries again."""
        self.begin()
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """Let go of its runs."""
        self._is_closing = True
        if self._task is not None:
            with contextlib.suppress(Exception):  # each call was told
                await (await self._task).close()

    async def _open(self) -> Engine:
        return await self._opened()


_SOON_S: Final = 0.05
"""Seconds in which an answer is written: loading the engine would hold it up."""


def _wire() -> tuple[int, int]:
    """Return descriptors of the client. From now on stdin is empty, and stdout is stderr.

    For good: what somebody has printed may be written no sooner than when the process ends.
    """
    wire = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    return wire


class _Lines:
    """The client's messages, a line each. One that is too long is refused without being held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.refuse: Callable[[SessionMessage], Awaitable[None]] | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await in_thread(self._next, name="midstream-mcp-read")) is not None:
            if len(line) <= MAX_LINE:
                yield line.decode("utf-8", "replace")
            elif self.refuse is not None and (id := _id_in(line)) is not None:
                words = f"A message may have {MAX_LINE:,} bytes at most."
                error = ErrorData(code=INVALID_REQUEST, message=words)
                await self.refuse(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error)))

    def _next(self) -> bytes | None:
        """Return the next line, of one that is too long its beginning and its end; None: no more."""
        pieces, size = [self._rest], len(self._rest)
        while b"\n" not in pieces[-1]:
            try:
                piece = os.read(self._descriptor, _PIECE)
            except OSError:
                piece = b""
            if not piece:
                return None
            pieces.append(piece)
            size += len(piece)
            if size > MAX_LINE:
                del pieces[2:-2]  # its ends are enough: its id stands there
        last, _, self._rest = pieces.pop().partition(b"\n")
        line = b"".join((*pieces, last))
        return line if size - len(self._rest) <= MAX_LINE else line.ljust(MAX_LINE + 1)


def _id_in(line: bytes) -> str | int | None:
    """Return the id of a request, which clients write first or last."""
    found = _ID.search(line[:_NEAR]) or next(
        iter([*_ID.finditer(line.rstrip()[-_NEAR:])][-1:]), None
    )
    if found is None:
        return None
    given = found[1].decode("ascii", "replace")
    return given[1:-1] if given.startswith('"') else int(given)


class _Out:
    """What goes to the client. One that does not read holds up its own answers."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        """Write a message."""
        left = memoryview(text.encode("utf-8", "replace"))

        def whole() -> None:
            nonlocal left
            while left:
                left = left[os.write(self._descriptor, left) :]

        try:
            await in_thread(whole, name="midstream-mcp-write")
        except OSError as error:
            raise anyio.ClosedResourceError from error  # it has gone; its stdin says so, too

    async def flush(self) -> None:
        """Do nothing: it is written."""
