"""Answering one request while watching whether its client is still there.

A client that goes away closes its connection, and says nothing else. Whoever only writes notices with the
next piece, which may be minutes from now. So that is listened for beside the work, which is cancelled then,
and what follows from that is done. Where the server ends nothing follows: runs are let go of as they are.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from midstream.api.engine import Engine
from midstream.language.errors import UserMistake
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


async def while_there(request: Request, work: Coroutine[Any, Any, None], gone: Leave) -> None:
    """Do work for a client until it goes away: then cancel it, and do what follows from that."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request.receive))
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


class EventStream:
    """A response of server-sent events, whose client may leave at any byte.

    Args:
        request: whom it answers.
        events: the events, as bytes to send. Closed when the client has left.
        gone: what is done then.
        headers: more headers.
    """

    def __init__(
        self,
        request: Request,
        events: AsyncIterator[bytes],
        gone: Leave,
        headers: Mapping[str, str],
    ) -> None:
        self._request = request
        self._events = events
        self._gone = gone
        self._headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            **headers,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; see ASGI."""
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await while_there(self._request, self._sent(send), self._gone)

    async def _sent(self, send: Send) -> None:
        iterator = aiter(self._events)
        coming = asyncio.ensure_future(anext(iterator, None))
        try:
            while True:
                await asyncio.wait((coming,), timeout=PING_S)
                if not coming.done():
                    await send(_body(b": still there\n\n"))
                elif (event := coming.result()) is None:
                    break
                else:
                    await send(_body(event))
                    coming = asyncio.ensure_future(anext(iterator, None))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _body(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}
