"""How a worker is, for whoever operates it: `/healthz`, `/readyz` and `/metrics` on an address of its own.

Nothing of a run is told here but numbers. An answer alone says that the loop turns.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypeAlias

import h11

from midstream.language.errors import UserMistake
from midstream.system.offloop import cancel_all

Answer: TypeAlias = tuple[int, str]

_MAX_HEAD: Final = 8_192
_PATIENCE_S: Final = 5.0
_CONNECTIONS: Final = 64


def address_of(text: str) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`; the host may be left out, and is then this machine.

    Raises:
        UserMistake: it is none.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UserMistake(f"{text!r} is no address.", hint="Write one such as 127.0.0.1:8378.")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextlib.asynccontextmanager
async def answering(
    host: str, port: int, pages: Mapping[str, Callable[[], Answer]]
) -> AsyncIterator[str]:
    """Answer GET requests for some pages while the block runs; give the address.

    Raises:
        UserMistake: nothing can listen there.
    """
    open_now: set[asyncio.Task[None]] = set()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(open_now) < _CONNECTIONS:
            open_now.add(task)
            with contextlib.suppress(OSError, TimeoutError, h11.RemoteProtocolError):
                async with asyncio.timeout(_PATIENCE_S):
                    await _answered(reader, writer, pages)
            open_now.discard(task)
        writer.transport.abort()

    try:
        server = await asyncio.start_server(attend, host, port)
    except OSError as error:
        raise UserMistake(
            f"Nothing can listen at {host}:{port}: {error.strerror or error}.",
            hint="Name another address with --health.",
        ) from None
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await cancel_all(*open_now)


async def _answered(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    pages: Mapping[str, Callable[[], Answer]],
) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(4096))
    if not isinstance(event, h11.Request):
        return
    page = pages.get(event.target.decode("ascii", "replace").partition("?")[0])
    if event.method not in (b"GET", b"HEAD"):
        status, text = 405, "Only GET is answered here.\n"
    elif page is None:
        status, text = 404, f"There are {', '.join(pages)}.\n"
    else:
        status, text = page()
    body = text.encode()
    head = h11.Response(
        status_code=status,
        headers=[
            ("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ],
    )
    for each in (head, h11.Data(data=body), h11.EndOfMessage()):
        if data := connection.send(each):
            writer.write(data)
    await writer.drain()
    writer.close()
    await writer.wait_closed()
