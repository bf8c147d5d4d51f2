"""What the tests of the store in PostgreSQL share: opening it, and a network that loses things."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Literal
from urllib.parse import urlsplit

import psycopg
from deadline import DEADLINE_S

from midstream.store.postgres.store import PostgresStore


@contextlib.asynccontextmanager
async def opened(*addresses: str) -> AsyncIterator[list[PostgresStore]]:
    """Give a store at each of some addresses, with a deadline on all that is done with them."""
    async with asyncio.timeout(DEADLINE_S):
        stores = await asyncio.to_thread(lambda: [PostgresStore.opened(each) for each in addresses])
        try:
            yield stores
        finally:
            for store in stores:
                await store.aclose()


def lives(address: str, owner: str) -> bool:
    """Return whether the server takes an owner for alive."""
    with psycopg.connect(address) as connection:
        found = connection.execute("select midstream.lives(%s)", (owner,)).fetchone()
    return bool(found and found[0])


class Network:
    """Stands between a store and its server, on the loop of the test.

    Args:
        address: of the database behind it.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._marker = b""
        self._losing: Literal["request", "answer"] = "answer"
        self._writers: set[asyncio.StreamWriter] = set()
        self._served: set[asyncio.Task[None]] = set()
        self.is_down = False
        self.lost = asyncio.Semaphore(0)

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, address: str) -> AsyncIterator[tuple["Network", str]]:
        """Give a network and the address of its near end."""
        network = cls(address)
        server = await asyncio.start_server(network._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        parts = urlsplit(address)
        try:
            yield network, parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
        finally:
            network.is_down = True
            network.cut()
            server.close()
            await asyncio.gather(*network._served)

    def lose(self, marker: str, losing: Literal["request", "answer"]) -> None:
        """Cut the connection of the next request that has this in it, before it arrives or after it."""
        self._marker, self._losing = marker.encode(), losing

    def cut(self) -> None:
        """Cut every connection."""
        self._marker = b""
        for writer in self._writers:
            writer.transport.abort()

    def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._served.add(asyncio.create_task(self._between(near, back)))

    async def _between(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.is_down:
            back.transport.abort()
            return
        parts = urlsplit(self._address)
        far, on = await asyncio.open_connection(parts.hostname, parts.port)
        self._writers |= {back, on}
        answers = asyncio.create_task(self._carry(far, back))
        seen = b""
        with contextlib.suppress(ConnectionError):
            while data := await near.read(65536):
                seen = seen[-200:] + data
                if self._marker and self._marker in seen:
                    self._marker = b""
                    if self._losing == "answer":
                        answers.cancel()
                        await asyncio.wait((answers,))
                        on.write(data)
                        await _ready(far)
                    self.lost.release()
                    break
                on.write(data)
        answers.cancel()
        self._writers -= {back, on}
        back.transport.abort()
        on.close()

    @staticmethod
    async def _carry(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                to.write(data)
        to.close()


async def _ready(server: asyncio.StreamReader) -> None:
    """Return once the server says that it is ready for the next request."""
    while True:
        kind, length = struct.unpack("!cI", await server.readexactly(5))
        await server.readexactly(length - 4)
        if kind == b"Z":
            return
