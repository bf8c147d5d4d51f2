"""Servers of models on this machine: asked once, briefly, and believed in nothing but names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from deadline import DEADLINE_S

from midstream.models.localhost import USUAL, NamesHere, servers_here


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who is asked here take the time a busy machine takes."""
    asked = partial(servers_here, patience_s=DEADLINE_S)
    monkeypatch.setattr("midstream.models.localhost.servers_here", asked)


OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@asynccontextmanager
async def serving(answer: bytes, *, stays: bool = False) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answer every request so on a free port; `stays`: and let the connection stay."""
    heard: list[bytes] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        if stays:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard
        over.set()


async def test_the_models_a_server_names_are_found() -> None:
    body = b'{"object": "list", "data": [{"id": "qwen3:8b", "owned_by": "x"}, {"id": "org/llama"}]}'
    async with serving(OK + b"\r\n" + body) as (port, heard):
        [found] = await servers_here([("Ollama", port)], patience_s=DEADLINE_S)

    assert found.models == ("qwen3:8b", "org/llama")
    assert found.address == f"http://127.0.0.1:{port}/v1"
    assert heard[0].startswith(b"GET /v1/models HTTP/1.1\r\n")


async def test_an_answer_that_says_its_length_is_not_waited_for_longer() -> None:
    body = b'{"data": [{"id": "m"}]}'
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    async with serving(OK + length + body, stays=True) as (port, _):
        [found] = await servers_here([("vLLM", port)], patience_s=DEADLINE_S)

    assert found.models == ("m",)


async def test_a_server_without_models_is_there_all_the_same() -> None:
    async with (
        serving(OK + b'\r\n{"object": "list", "data": null}') as (port, _),
    ):
        [found] = await servers_here([("Ollama", port)], patience_s=DEADLINE_S)

    assert (found.models, found.chats_with) == ((), "")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\n\r\n",
        OK + b"\r\n<html>a page</html>",
        OK + b'\r\n{"data": "no list"}',
        OK + b'\r\n["data"]',
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
async def test_whatever_else_listens_there_is_left_alone(answer: bytes) -> None:
    async with serving(answer) as (port, _):
        assert await servers_here([("llama.cpp", port)], patience_s=DEADLINE_S) == ()


async def test_one_that_says_nothing_holds_nobody_up() -> None:
    async with serving(b"", stays=True) as (port, _):
        assert await servers_here([("vLLM", port)], patience_s=0.05) == ()


async def test_names_that_could_not_be_typed_are_left_out() -> None:
    body = b'{"data": [{"id": "a b"}, {"id": "x\\u001b[2J"}, {"id": "$(rm)"}, {"id": "good"}, {"id": ""}]}'
    async with serving(OK + b"\r\n" + body) as (port, _):
        [found] = await servers_here([("Ollama", port)], patience_s=DEADLINE_S)

    assert found.models == ("good",)


async def test_an_answer_without_end_is_cut() -> None:
    async with serving(OK + b"\r\n" + b"x" * 3_000_000) as (port, _):
        assert await servers_here([("Ollama", port)], patience_s=DEADLINE_S) == ()


MODELS = OK + b'\r\n{"data": [{"id": "qwen3:8b"}, {"id": "nomic-embed-text"}, {"id": "phi4"}]}'


async def test_the_names_to_choose_from_are_asked_for_once_however_many_want_them() -> None:
    async with serving(MODELS) as (port, heard):
        here = NamesHere({"OLLAMA_BASE_URL": f"http://localhost:{port}/v1/"})
        before = here.names
        await asyncio.gather(here.look(), here.look())
        await here.look()

    assert (before, here.names) == ((), ("ollama:qwen3:8b", "ollama:phi4"))
    assert len(heard) == 1


async def test_another_server_here_is_asked_where_openai_is_set_to_it() -> None:
    async with serving(MODELS) as (port, _):
        address = f"http://127.0.0.1:{port}/v1"
        here = NamesHere({"OPENAI_BASE_URL": address, "OLLAMA_BASE_URL": "http://far.example/v1"})
        await here.look()

    assert here.names == ("openai:qwen3:8b", "openai:phi4")


async def test_who_said_nothing_is_not_asked_again_with_every_key() -> None:
    async with (
        serving(b"HTTP/1.1 404 Not Found\r\n\r\n") as (port, heard),
    ):
        here = NamesHere({"OLLAMA_BASE_URL": f"http://127.0.0.1:{port}/v1"})
        await here.look()
        await here.look()

    assert (here.names, len(heard)) == ((), 1)


@pytest.mark.parametrize(
    "address",
    [
        *("https://127.0.0.1:{}/v1", "http://127.0.0.1:{}/other", "http://192.0.2.1:{}/v1"),
        *("http://localhost.example:{}/v1", "http://[::1:{}/v1", "http://localhost:1{}99999/v1"),
    ],
)
async def test_nobody_is_asked_who_is_elsewhere_or_speaks_otherwise(address: str) -> None:
    async with serving(MODELS) as (port, heard):
        here = NamesHere({"OLLAMA_BASE_URL": address.format(port)})
        await here.look()

    assert (here.names, heard) == ((), [])


def test_only_the_usual_ports_are_asked() -> None:
    assert [port for _, port in USUAL] == [11434, 1234, 8000, 8080]
