"""Servers of models on this machine, found by asking the usual ports of 127.0.0.1 and nobody else.

One GET each, with an end: whatever stands there instead is left alone after it. What comes back is
foreign: capped, decoded as data, and shown as text only.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from midstream.models.endpoints import OLLAMA_ADDRESS, OLLAMA_HERE
from midstream.views.welcome_screen import OLLAMA, Endpoint

USUAL: Final = ((OLLAMA, 11434), ("LM Studio", 1234), ("vLLM", 8000), ("llama.cpp", 8080))
"""The programs that serve models, and the ports they have unless they are told otherwise."""

PATIENCE_S: Final = 0.3
"""How long all of them have, together."""

AGAIN_S: Final = 10.0
"""After how long somebody is asked again who said nothing."""

_MAX_BYTES: Final = 200_000
_MAX_MODELS: Final = 200


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model] | None


async def servers_here(
    places: Sequence[tuple[str, int]] = USUAL, *, patience_s: float = PATIENCE_S
) -> tuple[Endpoint, ...]:
    """Return the servers that say in time which models they have, in the order of `places`."""
    found: dict[int, Endpoint] = {}

    async def ask(program: str, port: int) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(patience_s):
                answer = await _answer(port)
            endpoint = _read(program, port, answer)
            if endpoint is not None:
                found[port] = endpoint

    async with asyncio.TaskGroup() as group:
        for program, port in places:
            group.create_task(ask(program, port))
    return tuple(found[port] for _, port in places if port in found)


class NamesHere:
    """The names under which a model on this machine can be chosen as things are set up, once asked for.

    Ollama is asked where it is known to be, and a server of OpenAI's protocol where `OPENAI_BASE_URL`
    says, if that is on this machine: nobody else.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._asking = asyncio.Lock()
        self._asked_at: float | None = None
        self.names: tuple[str, ...] = ()

    async def look(self) -> None:
        """Ask, unless names are known or nobody answered just before; see `PATIENCE_S`."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            is_early = self._asked_at is not None and now < self._asked_at + AGAIN_S
            if self.names or is_early:
                return
            found = await servers_here(_places(self._environ))
            self.names = tuple(f"{e.program}:{name}" for e in found for name in e.talking)
            self._asked_at = now


def _places(environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the ports of this machine that providers are set to, with the provider of each."""
    said = (
        (
            "ollama",
            environ.get(OLLAMA_ADDRESS, "").strip() or OLLAMA_HERE,
        ),
        ("openai", environ.get("OPENAI_BASE_URL", "").strip()),
    )
    return [(provider, port) for provider, address in said if (port := _port_here(address))]


def _port_here(address: str) -> int | None:
    try:
        parts = urlsplit(address)
        is_here = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
        return (parts.port or 80) if is_here and parts.path.rstrip("/") == "/v1" else None
    except ValueError:
        return None


async def _answer(port: int) -> bytes:
    """Return the body of the answer, b"" for what is none that was asked for."""
    import h11  # not before somebody is asked

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_BYTES)
    headers = [
        ("Host", f"127.0.0.1:{port}"),
        ("Accept", "application/json"),
        ("Connection", "close"),
    ]
    asked = h11.Request(method="GET", target="/v1/models", headers=headers)
    body = b""
    try:
        writer.write((peer.send(asked) or b"") + (peer.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        while len(body) <= _MAX_BYTES:
            match peer.next_event():
                case h11.NEED_DATA:
                    peer.receive_data(await reader.read(65_536))
                case h11.Data(data=data):
                    body += data
                case h11.Response(status_code=200) | h11.InformationalResponse():
                    continue
                case h11.EndOfMessage():
                    return body
                case _:
                    return b""
        return b""
    except h11.RemoteProtocolError:
        return b""
    finally:
        writer.transport.abort()


def _read(program: str, port: int, answer: bytes) -> Endpoint | None:
    """Return what an answer says, None if it is none of a server of models."""
    try:
        listed = msgspec.json.decode(answer, type=_Models).data or []
    except msgspec.MsgspecError:
        return None
    names = [model.id for model in listed[:_MAX_MODELS] if _is_name(model.id)]
    return Endpoint(program=program, port=port, models=tuple(names))


def _is_name(name: str) -> bool:
    """Return whether a name can be typed: it will be offered as part of a command."""
    return (
        bool(name)
        and name.isprintable()
        and not any(c.isspace() or c in "'\"`$;&|<>()" for c in name)
    )
