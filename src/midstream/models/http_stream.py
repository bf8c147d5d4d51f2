"""One request over HTTP, and the server-sent events of its answer.

Nothing here knows a provider. An answer that is no stream of events is one of `provider_errors`; each byte
is shown to a watch before anything is made of it. The connection is kept for the next request where an
answer came to its end, and closed where it was cancelled, wherever that was.
"""

import asyncio
import codecs
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from midstream.language.names import Json
from midstream.models.prices import load_soon
from midstream.models.provider_errors import PACKED, WITHOUT_END, Failed, Refused
from midstream.models.reply_stream import Answer, Ended, Heard, SentCall, Tokens, Watch
from midstream.safety.decoding import clean
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

CONNECT_S: Final = 10.0
_DRAIN_S: Final = 0.1
"""How long the end of an answer may take after its last event, for the connection to be used again."""
_MAX_ERROR_BYTES: Final = 65_536
_PIECE: Final = 65_536
_ENCODING: Final = "utf-8-sig"
"""Of events: some begin with a mark of the order of bytes."""


ALWAYS: Final = {"accept": "application/json", "user-agent": "midstream"}
"""What every request says of itself."""

SPARSE: Final = 16
"""Bytes a line has at least, on average, in an answer that means well."""
SLICE: Final = 1_024


def http_client(transport: "httpx2.AsyncBaseTransport | None" = None) -> "httpx2.AsyncClient":
    """Return a client that follows no redirects (a key goes to the host it is meant for).

    Blocks (imports, certificates): call it off the loop.
    """
    import anyio
    import httpx2

    # What the first connection, and answer, would otherwise import on the loop.
    anyio.run(anyio.sleep, 0)
    _ = anyio.connect_tcp
    codecs.lookup(_ENCODING)

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        follow_redirects=False,
        # What comes packed grows after it was counted.
        headers={"accept-encoding": "identity"},
        transport=transport,
    )


class Listening(ABC):
    """Makes an answer of the events of one stream; what they mean is a dialect's to say, in `take`."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._is_empty = True
        self._ended: Ended | None = None
        self._is_refusal = False
        self._model = ""

    def sent(self, size: int) -> None:
        """Take it that the request is out, which has so many bytes."""
        self._heard.sent_chars = size
        load_soon()

    @property
    def is_whole(self) -> bool:
        """Return whether the reply has ended, whatever may follow."""
        return self._ended is not None

    @abstractmethod
    def take(self, event: "httpx2.ServerSentEvent") -> bool:
        """Take the next event; return whether it was the last.

        Raises:
            Refused: it is an error.
            Failed, msgspec.MsgspecError: it is none of this dialect.
        """

    @abstractmethod
    def _sent(self) -> tuple[Iterable[tuple[str, list[str]]], Tokens | None]:
        """Return the calls, each by its name with the pieces of its arguments, and what was counted."""

    def answer(self) -> Answer:
        """Return what came of the stream, which has ended.

        Raises:
            Failed: there was no reply in it, or it ended before the reply did.
        """
        if self._is_empty:
            raise Failed("unreadable", "an answer that contains no reply")
        if self._ended is None:
            raise Failed("cut", WITHOUT_END)
        calls, tokens = self._sent()
        return Answer(
            ended="content_filter" if self._is_refusal else self._ended,
            calls=tuple(SentCall(name, "".join(pieces)) for name, pieces in calls),
            tokens=tokens,
            model=self._model,
            is_refusal=self._is_refusal,
        )


async def converse(
    http: "httpx2.AsyncClient",
    url: str,
    *,
    headers: Mapping[str, str],
    body: Callable[[], Iterable[bytes]],
    watch: Watch,
    listening: Listening,
) -> Answer:
    """Send a request; return what `listening` has made of the events of the answer.

    `body` is called off the loop: a long conversation takes its time to be written.

    Raises:
        Refused: the answer is an error.
        Failed: it is none that is followed, or read, or ended before it began.
        httpx2.TransportError: the connection failed, or broke off before the reply was whole.
        Exception: whatever `watch` and `listening` raise.
    """
    import httpx2

    parts = await in_thread(lambda: packed(body()), name="midstream-request")
    size = sum(map(len, parts))
    length = {"content-length": str(size), "content-type": "application/json"}
    content = _in_turn(parts, then=lambda: listening.sent(size))
    async with http.stream("POST", url, headers={**headers, **length}, content=content) as response:
        stream = watched(response, watch, then=b"\n\n")
        if 300 <= response.status_code < 400:
            raise Failed("redirect", str(response.headers.get("location") or "nowhere"))
        if response.status_code >= 400:
            raise await _refused(response)
        # Some call it something else.
        response.headers["content-type"] = "text/event-stream"
        response.encoding = _ENCODING
        events = aiter(httpx2.EventSource(response, max_event_size=None))
        try:
            async for event in events:
                if event.data and listening.take(event):
                    await _drain(events)
                    break
        except httpx2.TransportError:
            if not listening.is_whole:
                raise
        if not stream.has_begun:
            raise Failed("connection", "the answer ended before it began")
    return listening.answer()


def watched(response: "httpx2.Response", watch: Watch, *, then: bytes = b"") -> Any:
    """Have a watch see each byte of an answer before anybody else does; return its stream of these.

    `then` comes after the last: an event that no empty line follows is one. `has_begun` says whether
    there was a byte.

    Raises:
        Failed: it is packed, so that what comes is not what was counted.
    """
    if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise Failed("unreadable", PACKED)
    stream = response.stream = _watched_stream()(response.stream, watch, then)
    return stream


@cache
def _watched_stream() -> Any:
    from httpx2 import AsyncByteStream

    class Watched(AsyncByteStream):
        def __init__(self, stream: AsyncByteStream, watch: Watch, then: bytes) -> None:
            self.has_begun = False
            self._stream, self._watch, self._then = stream, watch, then

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for content in self._stream:
                self.has_begun = True
                self._watch(content)
                async for part in slices(content):
                    yield part
            yield self._then

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Watched


def packed(body: Iterable[bytes]) -> list[bytes]:
    """Return a body in parts that may go out at once: encrypting and copying them holds the loop."""
    parts: list[bytes] = []
    held: list[bytes] = []
    size = 0
    for part in body:
        held.append(part)
        size += len(part)
        if size >= _PIECE:
            whole = b"".join(held)
            parts += [whole[start : start + _PIECE] for start in range(0, size, _PIECE)]
            held, size = [], 0
    return [*parts, b"".join(held)] if held else parts


async def _in_turn(parts: Sequence[bytes], then: Callable[[], None]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    then()


async def slices(chunk: bytes) -> AsyncIterator[bytes]:
    """Yield what came, in parts none of which takes long to be read, with a breath between them."""
    if chunk.count(b"\n") * SPARSE <= len(chunk):
        yield chunk
        return
    # So many lines that reading them would hold the loop.
    for start in range(0, len(chunk), SLICE):
        await asyncio.sleep(0)
        yield chunk[start : start + SLICE]


async def _drain(events: AsyncIterator[object]) -> None:
    """Read what follows the last event, if it comes at once; else the connection is closed."""
    import httpx2

    with contextlib.suppress(TimeoutError, httpx2.HTTPError, Failed):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in events:
                pass


async def _refused(response: "httpx2.Response") -> Refused:
    held = bytearray()
    async for chunk in response.aiter_bytes():
        held += chunk
        if len(held) > _MAX_ERROR_BYTES:
            break
    text = bytes(held[:_MAX_ERROR_BYTES])
    body: Json
    try:
        body = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = text.decode("utf-8", "replace")
    return Refused(response.status_code, body, headers=dict(response.headers))


def decoded(data: str, kind: type[T]) -> T:
    """Return what an event's data says, as one of our structs.

    Raises:
        msgspec.MsgspecError: it is no JSON, or says something else.
    """
    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            if "\\ud" not in data.lower():
                raise
            # Half a surrogate pair: some cut their words there.
            text = json.dumps(json.loads(data), ensure_ascii=False)
            return msgspec.json.decode(clean(text), type=kind)
    except (RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None
