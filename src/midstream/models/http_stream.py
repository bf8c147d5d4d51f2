"""One request over HTTP, and the server-sent events of its answer.

Nothing here knows a provider. An answer that is no stream of events is one of `provider_errors`; each byte
is shown to a watch before anything is made of it. The connection is kept for the next request where an
answer came to its end, and closed where it was cancelled, wherever that was.
"""

import asyncio
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from midstream.language.names import Json
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

    # What the first connection would otherwise import on the loop.
    anyio.run(anyio.sleep, 0)
    _ = anyio.connect_tcp

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        follow_redirects=False,
        # What comes packed grows after it was counted.
        headers={"accept-encoding": "identity"},
        transport=transport,
    )


class Event(NamedTuple):
    """A server-sent event. `data` is its lines of data, joined."""

    name: str
    data: bytes


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

    @property
    def is_whole(self) -> bool:
        """Return whether the reply has ended, whatever may follow."""
        return self._ended is not None

    @abstractmethod
    def take(self, event: Event) -> bool:
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


class EventReader:
    """Makes events of bytes as they come, cut anywhere. A line may end in CR, LF or both."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._is_after_cr = False
        self._is_first = True

    def feed(self, content: bytes) -> Iterator[Event]:
        """Return the events that are whole now."""
        if self._is_after_cr and content.startswith(b"\n"):
            content = content[1:]
            self._is_after_cr = False
        if b"\r" in content:
            self._is_after_cr = content.endswith(b"\r")
            content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        elif content:
            self._is_after_cr = False
        first, *others = content.split(b"\n")
        self._line.append(first)
        for line in others:
            event = self._ended(b"".join(self._line))
            self._line = [line]
            if event is not None:
                yield event

    def end(self) -> Iterator[Event]:
        """Return the last event, if the stream ended after its last word without an empty line."""
        yield from self.feed(b"\n\n")

    def _ended(self, line: bytes) -> Event | None:
        if self._is_first:
            line, self._is_first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            event = Event(self._name, b"\n".join(self._data)) if self._data else None
            self._data, self._name = [], ""
            return event
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None


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
        packing = response.headers.get("content-encoding", "").strip().lower()
        if packing not in ("", "identity"):
            raise Failed("unreadable", PACKED)
        if 300 <= response.status_code < 400:
            raise Failed("redirect", str(response.headers.get("location") or "nowhere"))
        chunks = response.aiter_bytes()
        if response.status_code >= 400:
            raise await _refused(response, chunks, watch)
        try:
            await _listen(chunks, watch, listening)
        except httpx2.TransportError:
            if not listening.is_whole:
                raise
    return listening.answer()


async def _listen(chunks: AsyncIterator[bytes], watch: Watch, listening: Listening) -> None:
    reader, has_begun = EventReader(), False
    async for chunk in chunks:
        has_begun = True
        watch(chunk)
        async for part in slices(chunk):
            if any(map(listening.take, reader.feed(part))):
                await _drain(chunks)
                return
    if not has_begun:
        raise Failed("connection", "the answer ended before it began")
    any(map(listening.take, reader.end()))


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


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, if it comes at once; else the connection is closed."""
    import httpx2

    size = 0
    with contextlib.suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(_DRAIN_S):
            async for chunk in chunks:
                size += len(chunk)
                if size > _MAX_ERROR_BYTES:
                    return


async def _refused(
    response: "httpx2.Response", chunks: AsyncIterator[bytes], watch: Watch
) -> Refused:
    held: list[bytes] = []
    async for chunk in chunks:
        watch(chunk)
        held.append(chunk)
        if sum(map(len, held)) > _MAX_ERROR_BYTES:
            break
    text = b"".join(held)[:_MAX_ERROR_BYTES]
    body: Json
    try:
        body = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = text.decode("utf-8", "replace")
    return Refused(response.status_code, body, headers=dict(response.headers))


def decoded(data: bytes, kind: type[T]) -> T:
    """Return what an event's data says, as one of our structs.

    Raises:
        msgspec.MsgspecError: it is no JSON, or says something else.
    """
    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            if b"\\ud" not in data.lower():
                raise
            # Half a surrogate pair: some cut their words there.
            text = json.dumps(json.loads(data), ensure_ascii=False)
            return msgspec.json.decode(clean(text), type=kind)
    except (RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None
