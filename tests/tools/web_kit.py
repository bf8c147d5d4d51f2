"""A site on the loopback that answers each path with exactly the bytes it is given."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from toolbench import Bench

from midstream.safety.capability import PermissionMode
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager


def answer(
    body: bytes | str = b"",
    content_type: str = "text/html; charset=utf-8",
    *more: str,
    status: str = "200 OK",
) -> bytes:
    """Return an answer that ends with its connection."""
    head = [f"HTTP/1.1 {status}", f"content-type: {content_type}", "connection: close", *more]
    content = body.encode() if isinstance(body, str) else body
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def redirect(location: str) -> bytes:
    return answer("", "text/plain", f"location: {location}", status="302 Found")


class Site:
    """`host` is what its rules name; `asked` has the heads of requests as they came."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.port = port
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.said = asyncio.Event()
        self.left = asyncio.Event()

    def at(self, path: str) -> str:
        return f"http://{self.host}{path}"


@contextlib.asynccontextmanager
async def site(
    pages: Mapping[str, bytes | Iterable[bytes]],
    *,
    holds: bool = False,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Site]:
    """Give a site; it `holds` the line when all is said, or hangs up. `%SITE%` is its host."""
    answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answering[task] = writer
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            here.asked.append(head)
            lengths = [line for line in head.lower().split("\r\n") if "content-length" in line]
            here.bodies.append(
                await reader.readexactly(int(lengths[0].split(":")[1]) if lengths else 0)
            )
            page = pages[head.split()[1].partition("?")[0]]
            for piece in (page,) if isinstance(page, bytes) else page:
                writer.write(piece.replace(b"%SITE%", here.host.encode()))
                await writer.drain()
            here.said.set()
            if holds:
                await reader.read()
            here.left.set()
        except ConnectionError:
            here.left.set()
        finally:
            writer.close()
            answering.pop(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    here = Site(server.sockets[0].getsockname()[1])
    try:
        yield here
    finally:
        server.close()
        tasks = dict(answering)
        for writer in tasks.values():
            writer.transport.abort()
        await asyncio.gather(*tasks)


def allowed(folder: Path, *hosts: str, mode: PermissionMode = "ask") -> Bench:
    """Return a bench whose rules allow these hosts and nothing else."""
    policy = Policy(mode=mode, allow=tuple(f"net: {host}" for host in hosts))
    return Bench(folder, ToolManager(policy=lambda: policy))
