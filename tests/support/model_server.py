"""A real HTTP server that answers as a model's provider does, from a script.

It runs in its own thread and event loop on 127.0.0.1, so that tests of any kind (async ones, a
console in a pty, another process) can point a provider's base URL at it. What is common to all
providers is here: connections, the script, gates, faults and streams. How one of them speaks is a
`Speech`; `OpenAIServer`, `AnthropicServer` and `GoogleServer` are this server with theirs.

Each request takes the next step of the script: a `Reply`, a `Fault`, or a function from the
request's body to one of them. Then comes `default`, for ever. A request the real API would refuse
is refused in the same words and takes no step.

Nothing has to sleep: a `Gate` holds a stream open until the test opens it, and a `Moment` can be
awaited in any loop or waited for in any thread.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from itertools import takewhile
from types import TracebackType
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import msgspec

from midstream.language.names import Json

PIECE = 12
"""Characters in a piece of streamed text or arguments, unless the step cuts them itself."""
_TO_CONNECT = 5
"""Rounds of the loop after which whatever has been accepted is a connection; asyncio takes three."""


class Moment:
    """Something that happens once. Await it in any loop, or `wait` for it in any thread."""

    def __init__(self) -> None:
        self._future: Future[None] = Future()

    def happen(self) -> None:
        """Let it have happened; again changes nothing. From any thread."""
        with contextlib.suppress(InvalidStateError):
            self._future.set_result(None)

    @property
    def has_happened(self) -> bool:
        """Return whether it has happened."""
        return self._future.done()

    def wait(self, timeout_s: float = 120.0) -> None:
        """Return when it has happened; blocks the thread.

        Raises:
            TimeoutError: it has not, in time.
        """
        self._future.result(timeout_s)

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()


class Gate:
    """Holds a reply. `reached` happens when the reply stands before it; `open` lets it go on."""

    def __init__(self) -> None:
        self.reached = Moment()
        self.opened = Moment()

    def open(self) -> None:
        """Let the reply go on. From any thread."""
        self.opened.happen()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call in a reply. `arguments` as text are sent as they are, JSON or not."""

    name: str
    arguments: dict[str, Json] | str = {}
    id: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reply"):
    """An answer as a model would give it.

    `chunks` cuts the text in one's own way; `delay_s` passes before each piece. `gate` holds the
    stream after `gate_after` pieces of text; where it `holds_call`, after the first piece of a call's
    arguments. `finish_reason` is by default what follows from the
    reply. `usage` is (prompt tokens, completion tokens), None for a server that tells nothing; `cached` of
    the prompt's tokens came from the provider's cache.
    """

    text: str = ""
    chunks: tuple[str, ...] = ()
    thinking: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    delay_s: float = 0.0
    gate: Gate | None = None
    gate_after: int = 1
    holds_call: bool = False
    finish_reason: str = ""
    usage: tuple[int, int] | None = (11, 7)
    cached: int = 0

    @property
    def pieces(self) -> tuple[str, ...]:
        """Return the text as it is cut for streaming."""
        return self.chunks or cut(self.text)


Trouble: TypeAlias = Literal[
    "hang", "hang_mid", "close", "close_mid", "cut_mid", "bad_json", "error_mid", "endless", "html"
]
"""How a fault that is no error status goes wrong; see `Fault`."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="fault"):
    """An answer that goes wrong, `times` times.

    With `status` an error answer (`retry_after` and `headers` go with it). Otherwise `how`:
    `hang` answers nothing, `hang_mid` streams `text` (headers alone when empty) and then nothing,
    `close` hangs up at once, `close_mid` streams `text` and ends the stream properly but unfinished,
    `cut_mid` streams `text` and drops the connection, `bad_json` sends a broken event, `error_mid` an
    error event, `endless` one line that never ends, `html` a page that is no API answer.
    """

    status: int = 0
    how: Trouble = "hang"
    text: str = ""
    message: str = "The server had an error while processing your request."
    code: str | None = None
    error_type: str = "server_error"
    retry_after: str | None = None
    headers: dict[str, str] = {}
    times: int = 1
    gate: Gate | None = None


Step: TypeAlias = Reply | Fault
Body: TypeAlias = dict[str, Json]
Scripted: TypeAlias = Step | Callable[[Body], Step]


class Exchange:
    """One request and what became of it. `ended` happens when the server is done with it.

    `client_left`: the client hung up before the answer was complete.
    """

    def __init__(self, body: Body, headers: dict[str, str]) -> None:
        self.body = body
        self.headers = headers
        self.status = 0
        self.ended = Moment()
        self.client_left = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for, wherever its provider says it: in the URL, a header or the body."""

    model: str
    body: Body
    key: str = ""
    is_streamed: bool = False


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is an error: its status, and its body as the provider words it."""

    status: int = 400
    body: Json


Place: TypeAlias = Literal["before", "text", "after", "arguments"]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a streamed answer, as it goes over the wire.

    `place`: a piece of the words, or what comes before or after them all; of what comes after, the
    `arguments` of calls but for their first pieces.
    """

    content: bytes
    place: Place = "before"


class Speech(Protocol):
    """How one provider's API is spoken.

    `path` is what its base URL has after the host, `broken` an event whose JSON is cut off.
    """

    path: str
    broken: bytes

    def asked(self, target: str, headers: dict[str, str], body: Body) -> Asked | None:
        """Return what a request asks for; None when the API has no such URL.

        `target` is method and path, such as "POST /v1/messages"; names of headers are lower case.
        """

    def refused(self, asked: Asked) -> Refused | None:
        """Return the API's refusal of a request, None when it would take it."""

    def error(self, status: int, message: str, *, code: str | None = None, kind: str = "") -> Json:
        """Return the body of an error answer. `kind` is its type, where it is not the status's."""

    def error_event(self, message: str, *, code: str | None = None, kind: str = "") -> bytes:
        """Return an error that comes in the middle of a stream."""

    def wrong_key(self, key: str) -> str:
        """Return the words for a key that is not taken."""

    def unknown_model(self, model: str) -> str:
        """Return the words for a model there is not."""

    def stream(self, reply: Reply, asked: Asked) -> Iterator[Event]:
        """Return the events of a streamed reply, in order."""

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """Return a reply that is not streamed."""


class ModelServer:
    """The server. Use it as a context manager, or `start` and `stop` it.

    With `api_key` every other key is refused, with `models` every other model. `requests` and
    `exchanges` grow in the order of arrival, refused requests included; `connections` counts those that
    were made. A subclass says which
    `speech` it has, and nothing else.
    """

    speech: ClassVar[Speech]

    def __init__(
        self,
        script: Iterable[Scripted] = (),
        *,
        default: Scripted | None = None,
        api_key: str | None = None,
        models: Collection[str] | None = None,
        port: int = 0,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._script: list[Scripted] = []
        self._default = default
        self._api_key = api_key
        self._models = models
        self._port = port
        self._lock = threading.Lock()
        self._arrivals: dict[int, Moment] = {}
        self._ready = Moment()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.add(*script)

    # --- for the test ---------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """Return what to set the variable of the provider's base URL to."""
        return f"http://127.0.0.1:{self._port}{self.speech.path}"

    @property
    def requests(self) -> list[Body]:
        """Return the bodies of all requests so far."""
        return [exchange.body for exchange in self.exchanges]

    def add(self, *steps: Scripted) -> None:
        """Put further steps at the end of the script."""
        with self._lock:
            for step in steps:
                self._script += [step] * (step.times if isinstance(step, Fault) else 1)

    def arrival(self, number: int) -> Moment:
        """Return the moment the request of that number (from 1) has arrived."""
        with self._lock:
            moment = self._arrivals.setdefault(number, Moment())
            if len(self.exchanges) >= number:
                moment.happen()
            return moment

    def start(self) -> Self:
        """Serve in a thread of its own; returns when connections are taken."""
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def stop(self) -> None:
        """Drop every connection and end the thread."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- serving ----------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        talks: dict[_Line, asyncio.Task[None]] = {}

        def connected(line: _Line) -> None:
            self.connections += 1
            talks[line] = asyncio.get_running_loop().create_task(self._converse(line))

        server = await self._loop.create_server(
            lambda: _Line(connected, talks.pop), "127.0.0.1", self._port
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.happen()
        await self._stop.wait()
        # A server that is closed forgets whom it has just accepted (CPython 3.11).
        self._loop.remove_reader(server.sockets[0])
        for _ in range(_TO_CONNECT):
            await asyncio.sleep(0)
        server.close()
        tasks = [*talks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A talk that had not begun has closed nothing, and a close waits for a client that reads nothing.
        for line in talks:
            line.writer.transport.abort()

    async def _converse(self, line: "_Line") -> None:
        try:
            while (request := await _read_request(line.reader)) is not None:
                await self._exchange(line, *request)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            line.writer.close()

    async def _exchange(
        self, line: "_Line", target: str, headers: dict[str, str], content: bytes
    ) -> None:
        if target.startswith("GET "):
            await _answer(line.writer, 200, {"object": "list", "data": []})
            return
        try:
            body = msgspec.json.decode(content)
        except msgspec.DecodeError:
            body = None
        if not isinstance(body, dict):
            body = {}
        exchange = self._note(body, headers)
        asked = self.speech.asked(target, headers, body)
        answering = asyncio.ensure_future(self._reply(line.writer, exchange, target, asked))
        leaving = asyncio.ensure_future(line.left.wait())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            exchange.client_left = not answering.done()
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
            exchange.ended.happen()
        if line.writer.is_closing():
            raise ConnectionAbortedError

    def _note(self, body: Body, headers: dict[str, str]) -> Exchange:
        exchange = Exchange(body, headers)
        with self._lock:
            self.exchanges.append(exchange)
            self._arrivals.setdefault(len(self.exchanges), Moment()).happen()
        return exchange

    def _refused(self, target: str, asked: Asked | None) -> Refused | None:
        speech = self.speech
        if asked is None:
            return Refused(status=404, body=speech.error(404, f"Invalid URL ({target})"))
        if self._api_key is not None and asked.key != self._api_key:
            words = speech.wrong_key(asked.key)
            return Refused(status=401, body=speech.error(401, words, code="invalid_api_key"))
        refused = speech.refused(asked)
        if refused is None and self._models is not None and asked.model not in self._models:
            words = speech.unknown_model(asked.model)
            return Refused(status=404, body=speech.error(404, words, code="model_not_found"))
        return refused

    def _next(self, body: Body) -> Step:
        with self._lock:
            step = self._script.pop(0) if self._script else self._default
        if step is None:
            return Fault(status=400, message="The test server's script has run out.")
        if not callable(step):
            return step
        try:
            return step(body)
        except Exception as error:
            return Fault(status=400, message=f"The test server's script raised {error!r}.")

    async def _reply(
        self, writer: asyncio.StreamWriter, exchange: Exchange, target: str, asked: Asked | None
    ) -> None:
        refused = self._refused(target, asked)
        if asked is None or refused is not None:
            assert refused is not None
            exchange.status = refused.status
            await _answer(writer, refused.status, refused.body)
            return
        step = self._next(exchange.body)
        exchange.status = 200
        wire = _Wire(writer, self.speech, asked)
        if isinstance(step, Fault):
            exchange.status = step.status or 200
            await wire.go_wrong(step)
        elif asked.is_streamed:
            await wire.stream(step)
        else:
            await _answer(writer, 200, self.speech.whole(step, asked))


class _Line(asyncio.StreamReaderProtocol):
    """A connection that says when its client has left, whatever is being read or not."""

    def __init__(
        self, connected: Callable[["_Line"], None], lost: Callable[["_Line"], object]
    ) -> None:
        self.reader = asyncio.StreamReader(limit=2**20)
        self.left = asyncio.Event()
        self._connected, self._lost = connected, lost
        super().__init__(self.reader, self._begin)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._connected(self)

    def eof_received(self) -> bool:
        self.left.set()
        super().eof_received()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()
        self._lost(self)
        super().connection_lost(exc)


async def _read_request(
    reader: asyncio.StreamReader,
) -> tuple[str, dict[str, str], bytes] | None:
    """Return the target (such as "POST /v1/chat/completions"), the headers and the body."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").strip().split("\r\n")
    fields = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return first.rpartition(" ")[0], headers, content


async def _answer(
    writer: asyncio.StreamWriter, status: int, body: Json, headers: dict[str, str] | None = None
) -> None:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    kind = "text/html" if isinstance(body, bytes) else "application/json"
    fields = {"content-type": kind, "content-length": str(len(content))} | (headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode() + content)
    await writer.drain()


class _Wire:
    """Writes one streamed answer."""

    def __init__(self, writer: asyncio.StreamWriter, speech: Speech, asked: Asked) -> None:
        self._writer = writer
        self._speech = speech
        self._asked = asked

    async def stream(self, reply: Reply) -> None:
        """Send the reply's events. Its gate stands before a piece of text, after them all, or in a call."""
        await self._begin()
        held, pieces = reply.gate, 0
        for event in self._speech.stream(reply, self._asked):
            if reply.holds_call:
                is_here = event.place == "arguments"
            elif event.place == "text":
                is_here = pieces == reply.gate_after
            else:
                is_here = event.place == "after"
            if held is not None and is_here:
                await self._stand_before(held)
                held = None
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s)
            await self._raw(event.content)
            pieces += event.place == "text"
        await self._end()

    async def go_wrong(self, fault: Fault) -> None:
        """Answer as the fault says. One that hangs goes on until the client leaves."""
        if fault.status:
            after = {} if fault.retry_after is None else {"retry-after": fault.retry_after}
            await self._stand_before(fault.gate)
            error = self._speech.error(
                fault.status, fault.message, code=fault.code, kind=fault.error_type
            )
            await _answer(self._writer, fault.status, error, after | fault.headers)
            return
        if fault.how == "html":
            await _answer(self._writer, 200, b"<html><body>Welcome to the proxy</body></html>")
            return
        if fault.how not in ("hang", "close"):
            await self._begin()
            for event in self._begun(fault.text):
                await self._raw(event.content)
        await self._stand_before(fault.gate)
        match fault.how:
            case "hang" | "hang_mid":
                await asyncio.Event().wait()
            case "close" | "cut_mid":
                self._writer.transport.abort()
            case "close_mid":
                await self._end()
            case "bad_json":
                await self._raw(self._speech.broken)
                await self._end()
            case "error_mid":
                await self._raw(
                    self._speech.error_event(fault.message, code=fault.code, kind=fault.error_type)
                )
                await self._end()
            case _:
                while True:
                    await self._raw(b"x" * 65536)

    def _begun(self, text: str) -> Iterator[Event]:
        events = self._speech.stream(Reply(text=text), self._asked) if text else iter(())
        return takewhile(lambda event: event.place != "after", events)

    async def _stand_before(self, gate: Gate | None) -> None:
        if gate is not None:
            gate.reached.happen()
            await gate.opened

    async def _begin(self) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        await self._writer.drain()

    async def _raw(self, content: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(content), content))
        await self._writer.drain()

    async def _end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


def cut(text: str) -> tuple[str, ...]:
    """Return a text in pieces of `PIECE` characters."""
    return tuple(text[start : start + PIECE] for start in range(0, len(text), PIECE))


def arguments_text(call: Call) -> str:
    """Return a call's arguments as they go over the wire, as text."""
    if isinstance(call.arguments, str):
        return call.arguments
    return msgspec.json.encode(call.arguments).decode()
