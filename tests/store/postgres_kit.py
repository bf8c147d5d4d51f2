"""What the tests of the store in PostgreSQL share: opening it, and a network that loses things."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal
from urllib.parse import urlsplit

import psycopg
from deadline import DEADLINE_S

from midstream.store.postgres.store import PostgresStore


@contextlib.asynccontextmanager
async def opened(*addresses: str, blobs: str = "") -> AsyncIterator[list[PostgresStore]]:
    """Give a store at each of some addresses, with a deadline on all that is done with them."""
    async with asyncio.timeout(DEADLINE_S):
        stores = await asyncio.to_thread(
            lambda: [PostgresStore.opened(each, blobs=blobs) for each in addresses]
        )
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


class Pooler:
    """A connection pooler that gives a client a session for one transaction, as pgbouncer may.

    Args:
        address: of the database behind it.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._welcome = b""
        self._writers: list[asyncio.StreamWriter] = []
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._served: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, address: str) -> AsyncIterator[str]:
        """Give the address of a pooler."""
        pooler = cls(address)
        server = await asyncio.start_server(pooler._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        parts = urlsplit(address)
        try:
            yield parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
        finally:
            server.close()
            for task in pooler._served:
                task.cancel()
            await asyncio.wait(pooler._served)
            for writer in pooler._writers:
                writer.transport.abort()
            await asyncio.gather(
                *(each.wait_closed() for each in pooler._writers), return_exceptions=True
            )

    def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._writers.append(back)
        self._served.add(asyncio.create_task(self._pooled(near, back)))

    async def _pooled(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while (start := await self._start(near))[4:8] in _ENCRYPTIONS:
                back.write(b"N")
            session = await self._session(start)
            self._idle.append(session)
            back.write(self._welcome)
            status = b"I"
            while (message := await _message(near))[:1] != b"X":
                if status == b"I":
                    session = self._idle.pop() if self._idle else await self._session(start)
                    status = b"?"
                session[1].write(message)
                if message[:1] in b"SQ":
                    answer = b""
                    while answer[:1] != b"Z":
                        answer = await _message(session[0])
                        back.write(answer)
                    if (status := answer[-1:]) == b"I":
                        self._idle.append(session)
        back.close()

    @staticmethod
    async def _start(near: asyncio.StreamReader) -> bytes:
        head = await near.readexactly(4)
        return head + await near.readexactly(int.from_bytes(head) - 4)

    async def _session(self, start: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._address)
        session = await asyncio.open_connection(parts.hostname, parts.port)
        self._writers.append(session[1])
        session[1].write(start)
        welcome = b""
        while (message := await _message(session[0]))[:1] != b"Z":
            welcome += message
        self._welcome = welcome + message
        return session


_ENCRYPTIONS = ((80877103).to_bytes(4), (80877104).to_bytes(4))
"""What a client asks for first that would like TLS, or GSS."""


async def _message(source: asyncio.StreamReader) -> bytes:
    head = await source.readexactly(5)
    return head + await source.readexactly(int.from_bytes(head[1:]) - 4)


async def _ready(server: asyncio.StreamReader) -> None:
    """Return once the server says that it is ready for the next request."""
    while (await _message(server))[:1] != b"Z":
        continue
