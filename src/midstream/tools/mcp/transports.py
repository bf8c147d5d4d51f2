"""Messages between us and a server, whichever way it is reached, through the strict decoder.

The library reads what comes over these streams; before that, each message has been decoded strictly
and counted, so that nothing a server sends grows without limit here or there.
"""

import asyncio
import codecs
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from midstream.config.mcp_servers import McpServer, filled
from midstream.language.names import Json
from midstream.safety.decoding import BadValue, checked, decode_object
from midstream.system.offloop import in_thread
from midstream.tools.mcp.server_process import ServerProcess

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport

T = TypeVar("T")

MAX_LINE: Final = 4_000_000
"""Bytes of one message."""
MAX_GARBAGE: Final = 50
"""Lines that are no message: some servers greet, or log to the wrong place."""
MAX_MESSAGES: Final = 10_000
"""Messages of a server between two of our calls, whatever they are."""
MAX_REQUESTS: Final = 500
"""Requests of a server to us, as long as it runs: each is refused, which costs an answer."""
MAX_STREAM: Final = 64_000_000
"""Bytes of one answer over HTTP, events included."""
CONNECT_S: Final = 10.0
_ENDING_S: Final = 5.0
"""How long a server that takes no more may need to end, before it is said to be still there."""

_THREADED: Final = 100_000
"""From so many bytes on, a message is decoded off the loop."""


class Traffic:
    """What has come over a connection, and why it ended, in words that go on from "the server"."""

    def __init__(self) -> None:
        self.ended = ""
        self.garbage = 0
        self.messages = 0
        self.requests = 0
        self.sent = 0
        self._unsent: set[int] = set()
        self.over = asyncio.Event()
        self.process: ServerProcess | None = None

    def end(self, why: str) -> None:
        """Remember why nothing more comes; the first reason counts."""
        self.ended = self.ended or why
        self.over.set()

    def not_sent(self, number: int) -> None:
        """Remember of a message, by its number among `sent`, that no connection was made for it."""
        self._unsent.add(number)

    def was_nothing_sent(self, since: int) -> bool:
        """Return whether messages were to be sent since there were so many, and none was."""
        return self.sent > since and self._unsent.issuperset(range(since + 1, self.sent + 1))

    def why(self, redacted: Callable[[str], str]) -> str:
        """Return why the connection ended, with the server's last words, their secrets redacted."""
        words = self.process.last_words(redacted) if self.process is not None else ""
        return f"{self.ended or 'closed the connection'}{f'. It said: {words}' if words else ''}"


class _TooMuch(Exception):
    """A server sends more than is taken; the message says what."""


def transport(
    server: McpServer, traffic: Traffic, *, folder: Path, environ: Mapping[str, str] | None = None
) -> "Transport":
    """Return how the library reaches a server."""
    env = os.environ if environ is None else environ
    _be_quiet()
    return (
        _over_http(server, traffic, env)
        if server.url
        else _over_pipes(server, traffic, folder, env)
    )


def _be_quiet() -> None:
    """Keep the library's log, which quotes servers, off the screen."""
    for name in ("mcp", "client"):
        log = logging.getLogger(name)
        if not log.handlers:
            log.addHandler(logging.NullHandler())
            log.propagate = False


class _NoMessage(ValueError):
    """A line is no message at all, such as a greeting, or a log in the wrong place."""


async def _off_loop(decode: Callable[[bytes], T], data: bytes) -> T:
    """Return what `decode` makes of data, in a thread where that takes a while."""
    return await in_thread(lambda: decode(data)) if len(data) > _THREADED else decode(data)


def _message(line: bytes) -> Any:
    """Return a line as a message.

    Raises:
        _NoMessage: it is none.
        BadValue: it is one that must not come in.
    """
    from mcp_types import jsonrpc_message_adapter
    from pydantic import ValidationError

    value = _decoded(line)
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        if "jsonrpc" in value:
            raise BadValue("they are no message of JSON-RPC") from None
        raise _NoMessage from None


def _decoded(line: bytes) -> dict[str, Json]:
    if not line.lstrip().startswith(b"{"):
        raise _NoMessage
    try:
        return decode_object(line.decode(), max_chars=MAX_LINE)
    except UnicodeDecodeError:
        raise BadValue("they are not UTF-8") from None


@contextlib.asynccontextmanager
async def _over_pipes(
    server: McpServer, traffic: Traffic, folder: Path, environ: Mapping[str, str]
) -> AsyncIterator[Any]:
    import anyio
    from mcp.shared.message import SessionMessage

    process = traffic.process = await ServerProcess.start(server, folder=folder, environ=environ)
    heard, hear = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    say, said = anyio.create_memory_object_stream[SessionMessage](0)
    is_silent = anyio.Event()

    async def listen() -> None:
        async with heard:
            try:
                async for line in _lines(process.contents()):
                    # What it was about to say when it ended is none.
                    is_whole = line.endswith(b"\n") and line.strip()
                    if is_whole and (message := await _taken(line, traffic)) is not None:
                        await heard.send(SessionMessage(message))
                traffic.end("ended, or closed its stdout")
            except BadValue:
                traffic.end(f"sent a message of more than {MAX_LINE:,} bytes")
            except _TooMuch as error:
                traffic.end(str(error))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                traffic.end("can no longer be read")
            finally:
                is_silent.set()

    async def speak() -> None:
        async with said:
            try:
                async for message in said:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.write(f"{text}\n".encode())
            except (OSError, anyio.ClosedResourceError):
                # One that has ended takes none either: that it has, its stdout says.
                with anyio.move_on_after(_ENDING_S):
                    await is_silent.wait()
                traffic.end("no longer accepts messages")
                await heard.aclose()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(speak)
            group.start_soon(process.keep_last_words)
            try:
                yield hear, say
            finally:
                group.cancel_scope.cancel()
    finally:
        for stream in (heard, hear, say, said):
            stream.close()
        # Shielded: whoever is impatient must not leave processes behind.
        with anyio.CancelScope(shield=True):
            await process.end()


async def _taken(line: bytes, traffic: Traffic) -> Any:
    try:
        message = await _off_loop(_message, line)
    except BadValue as error:
        raise _TooMuch(f"sent a message that is not accepted: {error}") from None
    except _NoMessage:
        traffic.garbage += 1
        if traffic.garbage > MAX_GARBAGE:
            raise _TooMuch(f"sent more than {MAX_GARBAGE} lines that are no messages") from None
        return None
    _count(message, traffic)
    return message


def _count(message: Any, traffic: Traffic) -> None:
    traffic.messages += 1
    if hasattr(message, "method") and hasattr(message, "id"):
        traffic.requests += 1
        if traffic.requests > MAX_REQUESTS:
            raise _TooMuch(f"asked for more than {MAX_REQUESTS} things")
    if traffic.messages > MAX_MESSAGES:
        raise _TooMuch(f"sent more than {MAX_MESSAGES:,} messages nobody asked for")


# --- over HTTP --------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _over_http(
    server: McpServer, traffic: Traffic, environ: Mapping[str, str]
) -> AsyncIterator[Any]:
    import anyio
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.message import SessionMessage

    values = environ if server.source == "user" else {}
    headers = {name: filled(value, values) for name, value in server.headers.items()}
    async with (
        await in_thread(lambda: _http_client(headers, traffic)) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_LINE) as (
            hear,
            say,
        ),
    ):
        heard, passed_on = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def check() -> None:
            async with heard:
                try:
                    async for item in hear:
                        if isinstance(item, Exception):
                            traffic.garbage += 1
                            if traffic.garbage > MAX_GARBAGE:
                                raise _TooMuch("keeps sending what is no message")
                            continue
                        try:
                            checked(item.message.model_dump(by_alias=True, mode="python"))
                        except BadValue as error:
                            raise _TooMuch(
                                f"sent a message that is not accepted: {error}"
                            ) from None
                        _count(item.message, traffic)
                        await heard.send(item)
                    traffic.end("")  # Why, the library says.
                except _TooMuch as error:
                    traffic.end(str(error))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    traffic.end("can no longer be read")

        async with anyio.create_task_group() as group:
            group.start_soon(check)
            try:
                yield passed_on, say
            finally:
                group.cancel_scope.cancel()
                for stream in (heard, passed_on):
                    stream.close()


async def _whole(contents: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield an answer once all of it is there and has been looked at.

    Raises:
        BadValue: it must not come in.
    """
    data = b"".join([content async for content in contents])
    await _look_at(data)
    yield data


async def _events(contents: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream of events, each once it has been looked at.

    Raises:
        BadValue: one must not come in.
    """
    event: list[bytes] = []
    size = 0
    async for line in _lines(contents):
        event.append(line)
        size += len(line)
        if size > MAX_LINE:
            raise BadValue(_TOO_LONG)
        if not line.strip(b"\r\n"):
            yield await _looked_at(event)
            event, size = [], 0
    yield await _looked_at(event)


async def _lines(contents: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield lines with their ends."""
    pieces: list[bytes] = []
    size = 0
    async for content in contents:
        *ended, rest = content.split(b"\n")
        for end in ended:
            yield b"".join((*pieces, end, b"\n"))
            pieces, size = [], 0
        pieces.append(rest)
        size += len(rest)
        if size > MAX_LINE:
            raise BadValue(_TOO_LONG)
    yield b"".join(pieces)


_TOO_LONG = f"they have more than {MAX_LINE:,} bytes"


async def _looked_at(event: list[bytes]) -> bytes:
    fields = [line.removesuffix(b"\n").removesuffix(b"\r") for line in event]
    fields[:1] = [first.removeprefix(codecs.BOM_UTF8) for first in fields[:1]]
    if any(b"\r" in field for field in fields):
        raise BadValue("a carriage return stands alone in them")  # a line may end there, or not
    data = [each[5:].removeprefix(b" ") for each in fields if each.startswith(b"data:")]
    await _look_at(b"\n".join(data))
    return b"".join(event)


async def _look_at(data: bytes) -> None:
    """Raise what keeps a message out; what is none the library says itself."""
    with contextlib.suppress(_NoMessage):
        await _off_loop(_decoded, data)


def _http_client(headers: Mapping[str, str], traffic: Traffic) -> "httpx2.AsyncClient":
    """Return a client that follows nothing, takes nothing packed and no answer without end.

    What it hands on has passed the strict decoder.
    """
    import httpx2

    class Looked(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream, most: int, kind: str) -> None:
            self._stream = stream
            self._most = most
            self._kind = kind

        async def __aiter__(self) -> AsyncIterator[bytes]:
            contents = self._counted()
            if self._kind == "text/event-stream":
                contents = _events(contents)
            elif self._kind == "application/json":
                contents = _whole(contents)
            try:
                async for content in contents:
                    yield content
            except BadValue as error:
                traffic.end(f"sent a message that is not accepted: {error}")
                raise httpx2.ReadError(f"a message that is not accepted: {error}") from None

        async def _counted(self) -> AsyncIterator[bytes]:
            size = 0
            async for content in self._stream:
                size += len(content)
                if size > self._most:
                    raise httpx2.ReadError(f"more than {self._most:,} bytes")
                yield content

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Counting(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
            # Messages alone: the library asks again and again to listen, too.
            traffic.sent += request.method == "POST"
            number = traffic.sent
            try:
                return await super().send(request, **how)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if request.method == "POST":
                    traffic.not_sent(number)
                raise

    async def look(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise httpx2.ReadError("the answer is compressed, which was not asked for")
        if response.has_redirect_location:
            raise httpx2.ReadError("a redirect, which is not followed")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        most = MAX_STREAM if kind == "text/event-stream" else MAX_LINE
        response.stream = Looked(response.stream, most, kind)

    return Counting(
        headers={"accept-encoding": "identity", **headers},
        timeout=httpx2.Timeout(None, connect=CONNECT_S),
        follow_redirects=False,
        event_hooks={"response": [look]},
    )
