"""Two peers that speak to each other, and one that hears what it should not."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.wires import Wire

from midstream.agents import json_rpc
from midstream.agents.json_rpc import Disconnected, Params, Peer, RpcError
from midstream.language.errors import UserMistake
from midstream.language.names import Json


class Side:
    """A peer that notes what it hears, and answers by what its test says."""

    def __init__(self, reader: Wire, writer: Wire) -> None:
        self.heard: list[object] = []
        self.waits = asyncio.Event()
        self.go_on = asyncio.Event()
        self.peer = Peer(reader, writer, on_request=self.answer, on_notification=self.hear)

    def hear(self, method: str, params: Params) -> None:
        self.heard.append((method, params))

    async def answer(self, method: str, params: Params) -> Json:
        self.heard.append((method, params))
        match method:
            case "echo":
                return params
            case "wait":
                self.waits.set()
                try:
                    await self.go_on.wait()
                except asyncio.CancelledError:
                    self.heard.append("cancelled")
                    raise
                return "waited"
            case "mistake":
                raise UserMistake("There is no folder x.", hint="Name another.")
            case "bug":
                raise ValueError("seven")
        raise RpcError(json_rpc.NO_METHOD, f"no {method}")


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Side, Side, Wire, Wire]]:
    """Two sides and the wires to each."""
    to_one, to_other = Wire(), Wire()
    one, other = Side(to_one, to_other), Side(to_other, to_one)
    async with asyncio.TaskGroup() as group:
        group.create_task(one.peer.run())
        group.create_task(other.peer.run())
        yield one, other, to_one, to_other
        to_one.feed_eof()
        to_other.feed_eof()


@asynccontextmanager
async def alone() -> AsyncIterator[tuple[Side, Wire, Wire]]:
    """One side whose wires the test holds."""
    to_it, from_it = Wire(), Wire()
    side = Side(to_it, from_it)
    async with asyncio.TaskGroup() as group:
        group.create_task(side.peer.run())
        yield side, to_it, from_it
        to_it.feed_eof()


async def line(wire: Wire) -> dict[str, Json]:
    message: dict[str, Json] = json.loads(await wire.readline())
    return message


async def test_both_sides_ask_and_are_answered() -> None:
    async with pair() as (one, other, _, _):
        there = asyncio.create_task(one.peer.request("echo", {"n": 1}))
        back = await other.peer.request("echo", {"n": 2})

        assert (await there, back) == ({"n": 1}, {"n": 2})


async def test_order_is_kept_between_notifications_and_requests() -> None:
    async with pair() as (one, other, _, _):
        await one.peer.notify("first", {})
        waiting = asyncio.create_task(one.peer.request("wait"))
        await asyncio.sleep(0)
        await one.peer.notify("third", {})
        await one.peer.request("echo", {})
        other.go_on.set()
        await waiting

    assert [each[0] for each in other.heard if isinstance(each, tuple)] == [
        "first",
        "wait",
        "third",
        "echo",
    ]


async def test_a_request_nobody_waits_for_is_taken_back() -> None:
    async with pair() as (one, other, _, _):
        waiting = asyncio.create_task(one.peer.request("wait"))
        await other.waits.wait()
        waiting.cancel()
        await one.peer.request("echo", {})

    assert "cancelled" in other.heard


async def test_what_is_taken_back_is_answered_as_such() -> None:
    async with alone() as (_, to_it, from_it):
        to_it.feed_data(b'{"jsonrpc":"2.0","id":"a","method":"wait"}\n')
        to_it.feed_data(
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}\n'
        )
        answer = await line(from_it)

    assert answer["id"] == "a"
    assert answer["error"] == {"code": json_rpc.CANCELLED, "message": "The request was taken back."}


@pytest.mark.parametrize(
    ("method", "code", "words"),
    [
        ("nothing", json_rpc.NO_METHOD, "no nothing"),
        ("mistake", json_rpc.BAD_PARAMS, "There is no folder x."),
        ("bug", json_rpc.INTERNAL, "bug failed: ValueError."),
    ],
)
async def test_an_error_has_a_code_and_words(method: str, code: int, words: str) -> None:
    async with pair() as (one, _, _, _):
        with pytest.raises(RpcError) as failed:
            await one.peer.request(method)

    assert (failed.value.code, failed.value.message) == (code, words)


async def test_an_end_ends_what_is_outstanding() -> None:
    async with alone() as (side, to_it, _):
        asked = asyncio.create_task(side.peer.request("anything"))
        to_it.feed_data(b'{"jsonrpc":"2.0","id":1,"method":"wait"}\n')
        await side.waits.wait()
        to_it.feed_eof()
        with pytest.raises(Disconnected, match="has ended"):
            await asked
        with pytest.raises(Disconnected):
            await side.peer.request("more")

    assert side.heard[-1] == "cancelled"


@pytest.mark.parametrize(
    ("sent", "id", "code"),
    [
        (b"no json", None, json_rpc.NOT_JSON),
        (b"[]", None, json_rpc.NOT_JSON),
        (
            b'{"jsonrpc":"2.0","id":3,"method":"echo","params":{"a":"\\u0000"}}',
            3,
            json_rpc.NOT_JSON,
        ),
        (b'{"jsonrpc":"2.0","id":3,"method":"echo","params":[]}', 3, json_rpc.BAD_PARAMS),
        (b'{"jsonrpc":"2.0","id":3,"method":7}', None, json_rpc.BAD_REQUEST),
        (b'{"jsonrpc":"2.0","id":3}', None, json_rpc.BAD_REQUEST),
        (b"\xff\xfe", None, json_rpc.NOT_JSON),
        (b"[" * 100_000, None, json_rpc.NOT_JSON),
    ],
)
async def test_what_is_odd_is_answered_and_ends_nothing(sent: bytes, id: Json, code: int) -> None:
    async with alone() as (_, to_it, from_it):
        to_it.feed_data(sent + b"\n")
        answer = await line(from_it)
        to_it.feed_data(b'{"jsonrpc":"2.0","id":9,"method":"echo","params":{"ok":true}}\n')
        assert (await line(from_it))["result"] == {"ok": True}

    assert isinstance(answer["error"], dict)
    assert (answer["id"], answer["error"]["code"]) == (id, code)


async def test_a_message_that_is_too_long_is_dropped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rpc, "MAX_MESSAGE_BYTES", 100_000)
    async with alone() as (_, to_it, from_it):
        to_it.feed_data(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":"')
        to_it.feed_data(b"x" * 300_000 + b'"}}\n')
        to_it.feed_data(b'{"jsonrpc":"2.0","id":2,"method":"echo"}\n')
        first, second = await line(from_it), await line(from_it)

    assert "100,000 bytes" in str(first["error"])
    assert second["id"] == 2


async def test_an_unusable_answer_is_an_error_for_who_asked() -> None:
    async with alone() as (side, to_it, from_it):
        asked = asyncio.create_task(side.peer.request("anything"))
        id = (await line(from_it))["id"]
        to_it.feed_data(b'{"jsonrpc":"2.0","id":%d,"result":{"a":1,"a":2}}\n' % id)
        with pytest.raises(RpcError, match="stands twice"):
            await asked


async def test_a_long_message_comes_through_whole() -> None:
    async with pair() as (one, _, _, _):
        text = "ü" * 400_000
        assert await one.peer.request("echo", {"text": text}) == {"text": text}
