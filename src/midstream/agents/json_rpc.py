"""JSON-RPC 2.0 over one pair of streams, a message a line: requests both ways, and notifications.

Both sides are the same. What comes in passes the one strict decoder and has a size cap; what is odd is
answered with an error and never ends the connection. Order is kept: messages are taken one by one, a
notification is done with before the next message is looked at, and a request has run up to its first
`await` by then. So a cancellation that follows its request finds it begun.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from midstream.language.errors import MidstreamError, WorldTrouble, clip
from midstream.language.names import Json
from midstream.safety.decoding import BadValue, decode_object
from midstream.system.offloop import in_thread

Params: TypeAlias = dict[str, Json]
Id: TypeAlias = str | int | None

MAX_MESSAGE_BYTES: Final = 16_000_000
"""Of one line; a longer one is dropped up to its end, and answered with an error."""
_OFF_LOOP_BYTES: Final = 65_536
"""What is longer is decoded in a thread."""
_SLICE_S: Final = 0.002

NOT_JSON: Final = -32700
BAD_REQUEST: Final = -32600
NO_METHOD: Final = -32601
BAD_PARAMS: Final = -32602
INTERNAL: Final = -32603
CANCELLED: Final = -32800
NOT_FOUND: Final = -32002

CANCEL_REQUEST: Final = "$/cancel_request"


class RpcError(Exception):
    """An error as it goes over the wire. Raised by a handler it is the answer; `Peer.request` raises it."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Disconnected(WorldTrouble):
    """The other side is gone: nothing more comes from it, and what was asked stays unanswered."""


class Reader(Protocol):
    """Where bytes come from, such as `asyncio.StreamReader`."""

    async def read(self, n: int = -1, /) -> bytes:
        """Return some bytes, none when there are no more."""
        ...


class Writer(Protocol):
    """Where bytes go to, such as `asyncio.StreamWriter`."""

    def write(self, data: bytes, /) -> None:
        """Take bytes, whole and in order; never wait."""
        ...

    async def drain(self) -> None:
        """Return when there is room for more."""
        ...


OnRequest: TypeAlias = Callable[[str, Params], Awaitable[object]]
"""Answers a request of the other side with JSON or a `msgspec.Struct`; raises `RpcError`."""
OnNotification: TypeAlias = Callable[[str, Params], None]

P = TypeVar("P")


async def no_method(method: str, params: Params) -> object:
    """Answer a method nobody has.

    Raises:
        RpcError: always.
    """
    raise RpcError(NO_METHOD, f"There is no method {clip(method)}.")


def params_of(kind: type[P], params: Params) -> P:
    """Return a request's parameters as their type.

    Raises:
        RpcError: they do not fit.
    """
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise RpcError(BAD_PARAMS, f"The parameters do not fit: {error}.") from None


class Peer:
    """One side of a connection. `run` reads until the other side is gone.

    Args:
        reader: what the other side sends.
        writer: what it hears; nothing else may be written there.
        on_request: answers its requests, each in a task of its own, which is cancelled where the other
            side takes its request back or is gone.
        on_notification: hears its notifications, in order with all else; must not wait.
        name: who the other side is, for words about it.
        warn: hears of what went wrong in a handler.
    """

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        *,
        on_request: OnRequest = no_method,
        on_notification: OnNotification = lambda method, params: None,
        name: str = "the other side",
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_request = on_request
        self._on_notification = on_notification
        self._name = name
        self._warn = warn
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._answering: dict[Id, asyncio.Task[None]] = {}
        self._next_id = 1
        self._end: Disconnected | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the other side is gone."""
        return self._end is not None

    async def request(self, method: str, params: object = None) -> Json:
        """Return the other side's answer. Cancelled, it tells the other side that nobody waits any more.

        Raises:
            RpcError: its answer is an error.
            Disconnected: it is gone, or went before it answered.
        """
        if self._end is not None:
            raise self._end
        id, self._next_id = self._next_id, self._next_id + 1
        given = {} if params is None else params
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[id] = answer
        try:
            await self._send({"id": id, "method": method, "params": given})
            return await answer
        except asyncio.CancelledError:
            self.send(CANCEL_REQUEST, {"requestId": id})
            raise
        finally:
            self._asked.pop(id, None)
            # Whoever waited may be gone when the connection ends.
            if answer.done() and not answer.cancelled():
                answer.exception()

    async def notify(self, method: str, params: object) -> None:
        """Tell the other side something, nobody if it is gone; return when there is room for more."""
        with contextlib.suppress(Disconnected):
            await self._send({"method": method, "params": params})

    def send(self, method: str, params: object) -> None:
        """Tell it without waiting for room: for what is small and rare."""
        self._write({"method": method, "params": params})

    async def run(self) -> None:
        """Take messages until the other side is gone; then what is outstanding ends, in both directions."""
        try:
            await self._read()
        finally:
            self.end()
            left = [*self._answering.values()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    def end(self, why: str = "") -> None:
        """Take the other side as gone: what it was asked ends with an error, what it asked with `run`."""
        if self._end is None:
            self._end = Disconnected(
                why or f"The connection to {self._name} has ended.",
                hint="What was asked and not answered has to be asked again.",
            )
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(self._end)

    # --- out --------------------------------------------------------------------------------

    async def _send(self, message: dict[str, object]) -> None:
        self._write(message)
        if self._end is not None:
            raise self._end
        try:
            await self._writer.drain()
        except (OSError, RuntimeError):
            self.end()

    def _write(self, message: dict[str, object]) -> None:
        if self._end is not None:
            return
        line = msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"
        try:
            self._writer.write(line)
        except (OSError, RuntimeError):
            self.end()

    # --- in ---------------------------------------------------------------------------------

    async def _read(self) -> None:
        rest = bytearray()
        is_skipping = False
        while data := await self._some():
            *lines, last = data.split(b"\n")
            began = time.monotonic()
            for line in lines:
                if time.monotonic() - began > _SLICE_S:
                    # A flood of small messages is not all that goes on.
                    await asyncio.sleep(0)
                    began = time.monotonic()
                whole = bytes(rest) + line
                rest.clear()
                if not is_skipping and len(whole) <= MAX_MESSAGE_BYTES:
                    await self._take(whole)
                elif not is_skipping:
                    self._refuse_size()
                is_skipping = False
            if not is_skipping:
                rest += last
                if len(rest) > MAX_MESSAGE_BYTES:
                    is_skipping = True
                    rest.clear()
                    self._refuse_size()

    async def _some(self) -> bytes:
        try:
            return await self._reader.read(_OFF_LOOP_BYTES)
        except OSError:
            return b""

    def _refuse_size(self) -> None:
        self._fail(None, RpcError(BAD_REQUEST, f"A message has over {MAX_MESSAGE_BYTES:,} bytes."))

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            if len(line) > _OFF_LOOP_BYTES:
                message = await in_thread(lambda: _decoded(line))
            else:
                message = _decoded(line)
        except BadValue as error:
            self._unusable(line, error)
            return
        method, id, params = message.get("method"), message.get("id"), message.get("params")
        if method is None and ("result" in message or "error" in message):
            self._answered(id, message)
        elif not isinstance(method, str) or not isinstance(id, str | int | None):
            self._fail(
                None, RpcError(BAD_REQUEST, "A message is no request, notification or answer.")
            )
        elif not isinstance(params, dict | None):
            if "id" in message:
                self._fail(id, RpcError(BAD_PARAMS, "The parameters are no object."))
        elif "id" in message:
            await self._requested(id, method, params or {})
        elif method == CANCEL_REQUEST:
            self._taken_back((params or {}).get("requestId"))
        else:
            try:
                self._on_notification(method, params or {})
            # An edge: nobody could be answered.
            except Exception as error:
                self._warn(f"{clip(method)} failed: {error}")

    def _unusable(self, line: bytes, error: BadValue) -> None:
        """Answer a message that did not pass the decoder, by its id if that can be told: somebody waits."""
        id: Id = None
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            head = msgspec.json.decode(line, type=_Head)
            if head.method is None:
                answer = self._asked.get(head.id) if isinstance(head.id, int) else None
                if answer is not None and not answer.done():
                    answer.set_exception(RpcError(NOT_JSON, f"{self._name} answered: {error}."))
                return
            id = head.id
        self._fail(id, RpcError(NOT_JSON, f"A message cannot be used: {error}."))

    def _answered(self, id: Json, message: Params) -> None:
        answer = self._asked.get(id) if isinstance(id, int) else None
        if answer is None or answer.done():
            return  # nobody waits for it any more
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
            return
        told = error if isinstance(error, dict) else {}
        code, words = told.get("code"), told.get("message")
        answer.set_exception(
            RpcError(
                code if isinstance(code, int) else INTERNAL,
                words if isinstance(words, str) else f"{self._name} answered with an error.",
                told.get("data"),
            )
        )

    async def _requested(self, id: Id, method: str, params: Params) -> None:
        if id in self._answering:
            self._fail(id, RpcError(BAD_REQUEST, "A request of this id is being answered."))
            return
        task = asyncio.create_task(self._answer(id, method, params), name=f"rpc-{clip(method)}")
        self._answering[id] = task
        await asyncio.sleep(0)  # it begins before the next message is looked at

    def _taken_back(self, id: Json) -> None:
        task = self._answering.get(id) if isinstance(id, str | int) else None
        if task is not None:
            task.cancel()

    async def _answer(self, id: Id, method: str, params: Params) -> None:
        try:
            result = await self._on_request(method, params)
        except asyncio.CancelledError:
            self._fail(id, RpcError(CANCELLED, "The request was taken back."))
        except RpcError as error:
            self._fail(id, error)
        except MidstreamError as error:
            code = INTERNAL if error.fault in ("world", "bug") else BAD_PARAMS
            self._fail(id, RpcError(code, error.what, {"hint": error.hint}))
        # An edge: a bug of ours in one request is that request's answer.
        except Exception as error:
            self._warn(f"{clip(method)} failed: {type(error).__name__}: {error}")
            self._fail(id, RpcError(INTERNAL, f"{clip(method)} failed: {type(error).__name__}."))
        else:
            self._write({"id": id, "result": {} if result is None else result})
            with contextlib.suppress(OSError, RuntimeError):
                await self._writer.drain()
        finally:
            self._answering.pop(id, None)

    def _fail(self, id: Id, error: RpcError) -> None:
        told: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            told["data"] = error.data
        self._write({"id": id, "error": told})


class _Head(msgspec.Struct):
    id: Id = None
    method: str | None = None


def _decoded(line: bytes) -> Params:
    """Return one message.

    Raises:
        BadValue: it is none, or holds what must not come in.
    """
    text = line.decode("utf-8", "replace")
    if text.lstrip().startswith("["):
        raise BadValue("batches are not taken, one message a line is")
    return decode_object(text, max_chars=MAX_MESSAGE_BYTES)
