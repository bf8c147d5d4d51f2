"""A real HTTP server that speaks the OpenAI chat-completions protocol and answers from a script.

It runs in its own thread and event loop on 127.0.0.1, so that tests of any kind (async ones, a
console in a pty, another process) can point `OPENAI_BASE_URL` at it:

    with OpenAIServer([Reply(text="hi"), Fault(status=429)]) as server:
        environ["OPENAI_BASE_URL"] = server.base_url

Each request takes the next step of the script: a `Reply`, a `Fault`, or a function from the
request's body to one of them. Then comes `default`, for ever. A request the real API would refuse
is refused in the same words (`openai_rules`) and takes no step.

Nothing has to sleep: a `Gate` holds a stream open until the test opens it, and a `Moment` can be
awaited in any loop or waited for in any thread.

As a program, `python -m midstream.testing.openai_server --script FILE.json --port 0` prints its base
URL and serves until it is told to end. The file holds a list of steps, such as
`[{"type": "reply", "text": "hi"}, {"type": "fault", "status": 429}]`.
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterable
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import msgspec

from midstream.core.names import Json
from midstream.testing.openai_rules import Refusal, refusal

PIECE = 12
"""Characters in a piece of streamed text or arguments, unless the step cuts them itself."""


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

    def wait(self, timeout_s: float = 10.0) -> None:
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
    stream after `gate_after` pieces of text. `finish_reason` is by default what follows from the
    reply. `usage` is (prompt tokens, completion tokens), None for a server that tells nothing.
    """

    text: str = ""
    chunks: tuple[str, ...] = ()
    thinking: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    delay_s: float = 0.0
    gate: Gate | None = None
    gate_after: int = 1
    finish_reason: str = ""
    usage: tuple[int, int] | None = (11, 7)

    @property
    def pieces(self) -> tuple[str, ...]:
        """Return the text as it is cut for streaming."""
        return self.chunks or _cut(self.text)


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


class OpenAIServer:
    """The server. Use it as a context manager, or `start` and `stop` it.

    With `api_key` every other key is refused, with `models` every other model. `requests` and
    `exchanges` grow in the order of arrival, refused requests included.
    """

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
        """Return what to set `OPENAI_BASE_URL` to."""
        return f"http://127.0.0.1:{self._port}/v1"

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
        self._thread = threading.Thread(target=self._run, name="openai-server", daemon=True)
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
        lines: set[asyncio.Task[None]] = set()

        def connected(line: _Line) -> None:
            task = asyncio.get_running_loop().create_task(self._converse(line))
            lines.add(task)
            task.add_done_callback(lines.discard)

        server = await self._loop.create_server(lambda: _Line(connected), "127.0.0.1", self._port)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.happen()
        await self._stop.wait()
        server.close()
        for task in lines:
            task.cancel()
        await asyncio.gather(*lines, return_exceptions=True)

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
        exchange = self._note(body if isinstance(body, dict) else {}, headers)
        refused = self._refusal(target, headers, body)
        answering = asyncio.ensure_future(self._reply(line.writer, exchange, refused))
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

    def _refusal(self, target: str, headers: dict[str, str], body: Json) -> Refusal | None:
        if target != "POST /v1/chat/completions":
            return Refusal(status=404, message=f"Invalid URL ({target})")
        key = headers.get("authorization", "").removeprefix("Bearer ")
        if self._api_key is not None and key != self._api_key:
            return Refusal(
                status=401,
                message=f"Incorrect API key provided: {key}. You can find your API key at "
                "https://platform.openai.com/account/api-keys.",
                code="invalid_api_key",
            )
        refused = refusal(body)
        if refused is None and self._models is not None and body["model"] not in self._models:
            return Refusal(
                status=404,
                message=f"The model `{body['model']}` does not exist or you do not have access to it.",
                code="model_not_found",
            )
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
        self, writer: asyncio.StreamWriter, exchange: Exchange, refused: Refusal | None
    ) -> None:
        exchange.status = 200
        if refused is not None:
            exchange.status = refused.status
            await _answer(writer, refused.status, refused.body())
            return
        step = self._next(exchange.body)
        if isinstance(step, Fault):
            exchange.status = step.status or 200
            await _Wire(writer, exchange.body).go_wrong(step)
        elif exchange.body.get("stream"):
            await _Wire(writer, exchange.body).stream(step)
        else:
            await _answer(writer, 200, _completion(step, exchange.body))


class _Line(asyncio.StreamReaderProtocol):
    """A connection that says when its client has left, whatever is being read or not."""

    def __init__(self, connected: Callable[["_Line"], None]) -> None:
        self.reader = asyncio.StreamReader(limit=2**20)
        self.left = asyncio.Event()
        self._connected = connected
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

    def __init__(self, writer: asyncio.StreamWriter, body: Body) -> None:
        self._writer = writer
        self._body = body
        self._has_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    async def stream(self, reply: Reply) -> None:
        await self._begin()
        await self._delta({"role": "assistant", "content": ""})
        for piece in _cut(reply.thinking):
            await self._delta({"reasoning_content": piece}, reply.delay_s)
        for piece in _cut(reply.refusal):
            await self._delta({"refusal": piece}, reply.delay_s)
        for number, piece in enumerate(reply.pieces):
            await self._stand_before(reply.gate if number == reply.gate_after else None)
            await self._delta({"content": piece}, reply.delay_s)
        if len(reply.pieces) <= reply.gate_after:
            await self._stand_before(reply.gate)
        for index, call in enumerate(_with_ids(reply.calls)):
            function = {"name": call["function"]["name"], "arguments": ""}
            head = {"index": index, "id": call["id"], "type": "function", "function": function}
            await self._delta({"tool_calls": [head]}, reply.delay_s)
            for piece in _cut(call["function"]["arguments"]):
                part = {"index": index, "function": {"arguments": piece}}
                await self._delta({"tool_calls": [part]}, reply.delay_s)
        await self._chunk([{"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}])
        if self._has_usage and reply.usage is not None:
            await self._chunk([], usage=_usage(reply.usage))
        await self._data(b"[DONE]")
        await self._end()

    async def go_wrong(self, fault: Fault) -> None:
        """Answer as the fault says. One that hangs goes on until the client leaves."""
        if fault.status:
            after = {} if fault.retry_after is None else {"retry-after": fault.retry_after}
            await self._stand_before(fault.gate)
            await _answer(self._writer, fault.status, _error(fault), after | fault.headers)
            return
        if fault.how == "html":
            await _answer(self._writer, 200, b"<html><body>Welcome to the proxy</body></html>")
            return
        if fault.how not in ("hang", "close"):
            await self._begin()
            for piece in _cut(fault.text):
                await self._delta({"content": piece})
        await self._stand_before(fault.gate)
        match fault.how:
            case "hang" | "hang_mid":
                await asyncio.Event().wait()
            case "close" | "cut_mid":
                self._writer.transport.abort()
            case "close_mid":
                await self._end()
            case "bad_json":
                await self._data(b'{"id": "chatcmpl-1", "choices": [{')
                await self._end()
            case "error_mid":
                await self._data(msgspec.json.encode(_error(fault)))
                await self._end()
            case _:
                while True:
                    await self._raw(b"x" * 65536)

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

    async def _delta(self, delta: dict[str, Json], delay_s: float = 0.0) -> None:
        if delay_s:
            await asyncio.sleep(delay_s)
        await self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    async def _chunk(self, choices: list[Json], usage: Json = None) -> None:
        chunk = _head("chat.completion.chunk", self._body) | {"choices": choices}
        if self._has_usage:
            chunk["usage"] = usage
        await self._data(msgspec.json.encode(chunk))

    async def _data(self, content: bytes) -> None:
        await self._raw(b"data: " + content + b"\n\n")

    async def _raw(self, content: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(content), content))
        await self._writer.drain()

    async def _end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


def _error(fault: Fault) -> dict[str, Json]:
    return Refusal(message=fault.message, code=fault.code, type=fault.error_type).body()


def _cut(text: str) -> tuple[str, ...]:
    return tuple(text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _with_ids(calls: tuple[Call, ...]) -> list[dict[str, Json]]:
    return [
        {
            "id": call.id or f"call_scripted_{number}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": call.arguments
                if isinstance(call.arguments, str)
                else msgspec.json.encode(call.arguments).decode(),
            },
        }
        for number, call in enumerate(calls, 1)
    ]


def _finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    sent, made = usage
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}


def _head(kind: str, body: Body) -> dict[str, Json]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1767225600, "model": body["model"]}


def _completion(reply: Reply, body: Body) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "assistant", "content": "".join(reply.pieces) or None}
    if reply.calls:
        message["tool_calls"] = _with_ids(reply.calls)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    whole = _head("chat.completion", body) | {"choices": [choice]}
    return whole if reply.usage is None else whole | {"usage": _usage(reply.usage)}


def refused_url() -> str:
    """Return a base URL on which nothing listens: connections to it are refused."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def read_script(text: bytes) -> list[Step]:
    """Return the steps of a script in JSON.

    Raises:
        msgspec.ValidationError: a step is not one.
    """
    return msgspec.json.decode(text, type=list[Reply | Fault])


def main(arguments: list[str] | None = None) -> None:
    """Serve a script until SIGINT or SIGTERM, after printing the base URL."""
    parser = argparse.ArgumentParser(prog="python -m midstream.testing.openai_server")
    parser.add_argument("--script", type=Path, help="a JSON list of steps")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--default", default="OK", help="what to answer when the script runs out")
    given = parser.parse_args(arguments)
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    script = read_script(given.script.read_bytes()) if given.script else []
    with OpenAIServer(script, default=Reply(text=given.default), port=given.port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        signal.sigwait(ending)


if __name__ == "__main__":
    main()
