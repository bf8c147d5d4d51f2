"""Answering one request while watching whether its client is still there.

A client that goes away closes its connection, and says nothing else. Whoever only writes notices with the
next piece, which may be minutes from now. So that is listened for beside the work, which is cancelled then,
and what follows from that is done. Where the server ends nothing follows: runs are let go of as they are.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from midstream.api.engine import Engine
from midstream.language.errors import MidstreamError, UserMistake
from midstream.server.conversations import Spoken
from midstream.system.offloop import in_thread

PING_S: Final = 15.0
"""Seconds of silence after which a stream says that it lives: less than any proxy waits."""

Leave: TypeAlias = Callable[[], Awaitable[None]]
"""What is done once a client has gone."""

_AT_ONCE: Final = 100_000
"""Bytes that are decoded on the loop: what has more may hold it up."""


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object a request has.

    Raises:
        UserMistake: it is none.
    """
    data = await request.body()
    decode = partial(msgspec.json.decode, data, type=dict[str, Any])
    try:
        return decode() if len(data) < _AT_ONCE else await in_thread(decode)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserMistake(f"The body is no JSON object: {error}.", hint="Send one.") from None


async def picture_of(engine: Engine, text: str, where: str) -> str:
    """Return the mark of a picture that is given as base64.

    Raises:
        UserMistake: it is none that can be shown.
    """
    try:
        data = await in_thread(partial(base64.b64decode, text, validate=True))
    except (binascii.Error, ValueError):
        raise UserMistake(f"{where}: this is no base64.", hint="Send the picture anew.") from None
    return await engine.keep_picture(data)


class Answer:
    """The answer to a request that says something to a run: an ASGI application.

    Args:
        speaking: says it.
        tell: makes of what comes of that a stream of events, as bytes to send, or one answer.
        refused: makes the answer where it could not be said.
    """

    def __init__(
        self,
        speaking: AbstractAsyncContextManager[Spoken],
        tell: Callable[[Spoken], AsyncGenerator[bytes] | Awaitable[Response]],
        refused: Callable[[MidstreamError], Response],
    ) -> None:
        self._speaking = speaking
        self._tell = tell
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say it, and answer; a client that leaves, at any byte, halts the turn. See ASGI."""
        async with AsyncExitStack() as stack:
            try:
                spoken = await stack.enter_async_context(self._speaking)
            except MidstreamError as error:
                await self._refused(error)(scope, receive, send)
                return
            work = self._answered(spoken, scope, receive, send)
            await _while_there(receive, work, spoken.halt)

    async def _answered(self, spoken: Spoken, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"x-midstream-run": spoken.run.id}
        told = self._tell(spoken)
        if isinstance(told, AsyncGenerator):
            async with aclosing(_alive(told)) as events:
                stream = StreamingResponse(events, headers=_STREAM | headers)
                await stream.stream_response(send)
        else:
            response = await told
            response.headers.update(headers)
            await response(scope, receive, send)


_STREAM: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


async def _alive(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield events, and in between, where there are none for a while, that the stream lives."""
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await asyncio.wait((coming,), timeout=PING_S)
            if not coming.done():
                yield b": still there\n\n"
            elif (event := coming.result()) is None:
                return
            else:
                yield event
                coming = asyncio.ensure_future(anext(events, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await events.aclose()


async def _while_there(receive: Receive, work: Coroutine[Any, Any, None], gone: Leave) -> None:
    """Do work for a client until it goes away: then cancel it, and do what follows from that."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
            await gone()
            return
        await doing
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
