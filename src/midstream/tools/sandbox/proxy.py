"""The one way out of a sandbox without a network: a proxy to the hosts that a command named.

The command has a network of its own with nothing in it. Before it begins, a few lines of ours open a port
on the loopback in there and hand the listening socket out: a socket stays in the network it was made in,
whoever accepts on it. What is asked for through it is dialled from outside, if it is a host that was named.

A name is resolved here, and the very address that was looked at is dialled: it cannot come to mean another
in between. An address that is not public has to be named itself. So no name, whoever it belongs to,
leads to this machine, to its neighbours or to a cloud's metadata.

What it cannot see is what is said within an encrypted connection: one machine that serves many names
serves all of them.
"""

import asyncio
import ipaddress
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NoReturn, TypeAlias

import h11

from midstream.config.portable import NotHere
from midstream.language.errors import clip
from midstream.safety.rules import WEB_PORTS, host_of
from midstream.tools.sandbox.bwrap import interpreter
from midstream.tools.web_addresses import is_public, resolved

MAX_CONNECTIONS: Final = 128
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_REFUSED: Final = 20
"""Refusals that are remembered; a program may try any number of hosts."""

_CHUNK: Final = 65_536
_HEAD_S: Final = 60.0
_DIAL_S: Final = 15.0
_AGAIN_S: Final = 0.1
_MAX_ADDRESSES: Final = 8
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""What a command reaches in its own network, without the proxy."""
_HOP_BY_HOP: Final = frozenset(
    {b"host", b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"upgrade"}
)

_WHOLE: Final = re.compile(r"(?i:http)://([^/?#]*)([^#]*)(?:#.*)?")

_DOOR: Final = """
import os, signal, socket, sys
_, way, local, *argv = sys.argv
with socket.socket(fileno=int(way)) as out, socket.create_server(("127.0.0.1", 0)) as door:
    socket.send_fds(out, [b"!"], [door.fileno()])
    at = "http://%s:%d" % door.getsockname()
more = {"HTTP_PROXY": at, "HTTPS_PROXY": at, "ALL_PROXY": at, "NO_PROXY": local}
more.update({name.lower(): value for name, value in more.items()})
for each in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(each, signal.SIG_DFL)
os.execve(argv[0], argv, {**os.environ, **more, "NODE_USE_ENV_PROXY": "1"})
"""
"""What runs inside before the command: opens the port, hands it out, and becomes the command."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name. Raises OSError where there are none."""


@asynccontextmanager
async def proxy_to(hosts: Iterable[str], resolve: Resolve | None = None) -> AsyncIterator["Proxy"]:
    """Open a way to some hosts for one command, and close it with all that goes through it.

    Args:
        hosts: targets of `net` capabilities, such as "pypi.org" or "127.0.0.1:8080".
        resolve: what looks names up instead of the system.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        proxy = Proxy(hosts, theirs, resolve or resolved)
        serving = asyncio.create_task(proxy.serve(ours))
        try:
            yield proxy
        finally:
            serving.cancel()
            # It is waited for even where we are being cancelled ourselves: connections end before we do.
            await asyncio.wait({serving})
            if not serving.cancelled():
                serving.result()


class Proxy:
    """A proxy for one command. `refused` says which hosts it was asked for in vain, and why."""

    def __init__(self, hosts: Iterable[str], theirs: socket.socket, resolve: Resolve) -> None:
        self._hosts = frozenset(found for found in map(host_of, hosts) if found is not None)
        self._resolve = resolve
        self.refused: dict[str, str] = {}
        self.theirs = theirs

    def inside(self, argv: Sequence[str], way: int) -> list[str]:
        """Return what to start inside for a command to have this proxy; `way` is its `theirs` there."""
        # What the command itself listens on is its own; a host of ours of that name has been named.
        named = {name for name, _ in self._hosts}
        local = ",".join(name.strip("[]") for name in _LOCAL if name not in named)
        return [interpreter(), "-I", "-S", "-c", _DOOR, str(way), local, *argv]

    async def serve(self, ours: socket.socket) -> None:
        """Take connections until cancelled; all of them end then."""
        with await _handed(ours) as door:
            door.setblocking(False)
            room = asyncio.Semaphore(MAX_CONNECTIONS)
            async with asyncio.TaskGroup() as group:
                while True:
                    await room.acquire()
                    try:
                        inner, _ = await asyncio.get_running_loop().sock_accept(door)
                    except OSError:
                        # Out of descriptors, say: the command waits as it would for a busy server.
                        room.release()
                        await asyncio.sleep(_AGAIN_S)
                        continue
                    taken = group.create_task(self._taken(inner))
                    taken.add_done_callback(lambda _: room.release())

    async def _taken(self, inner: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=inner)
        try:
            with suppress(OSError):
                try:
                    await self._served(reader, writer)
                except _Refused as refused:
                    writer.write(refused.answer())
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            async with asyncio.timeout(_HEAD_S):
                request = await _event(inner, reader)
        except h11.RemoteProtocolError as error:
            raise _Refused(error.error_status_hint, f"that is no request: {error}") from error
        if not isinstance(request, h11.Request):
            return
        name, port, path = self._where(request)
        # Dialled before anything is answered or read on: a refusal is the answer to this very request.
        if request.method == b"CONNECT":
            outside, out = await self._dialled(name, port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            # A client that did not wait for the answer has begun already.
            out.write(inner.trailing_data[0])
            both = _pumped(reader, out), _pumped(outside, writer)
        else:
            forwarded = _forwarded(request, name, port, path)
            outside, out = await self._dialled(name, port)
            both = _sent_on(forwarded, inner, reader, out), _pumped(outside, writer)
        try:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(both[0])
                await both[1]
                if request.method != b"CONNECT":
                    # It is answered, whatever was still to come.
                    asking.cancel()
        finally:
            out.transport.abort()

    def _where(self, request: h11.Request) -> tuple[str, int, str]:
        """Return the host, the port and the path a request is for."""
        target, path = request.target.decode("ascii", "replace"), ""
        is_tunnel = request.method == b"CONNECT"
        if not is_tunnel:
            match = _WHOLE.fullmatch(target)
            if match is None:
                raise _Refused(400, "a proxy is asked for CONNECT, or for a whole http:// address")
            target, path = match.group(1), match.group(2)
        found = host_of(target)
        if found is None or (is_tunnel and not found[1]):
            self._refuse(target, "that is not a host as midstream reads one", 400)
        return found[0], int(found[1] or 80), path if path.startswith("/") else f"/{path}"

    async def _dialled(
        self, name: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._is_named(name, port):
            self._refuse(_spelled(name, port), "the command did not name it")
        try:
            addresses = await self._resolve(name.strip("[]"), port)
        except (OSError, UnicodeError) as error:
            raise _Refused(502, f"{clip(name)} has no address: {error}") from error
        trouble = "it has none"
        for address in list(dict.fromkeys(addresses))[:_MAX_ADDRESSES]:
            is_free = self._is_free(name, address, port)
            if not is_free and not is_public(address):
                self._refuse(_spelled(name, port), f"it leads to {address}, which is not public")
            try:
                async with asyncio.timeout(_DIAL_S):
                    outside, out = await asyncio.open_connection(address, port)
            except OSError as error:
                trouble = str(error) or "it does not answer"
                continue
            # An address of this machine that looks public is known by this: both ends are the same one.
            here, there = (out.get_extra_info(each) for each in ("sockname", "peername"))
            if is_free or here[0] != there[0]:
                return outside, out
            out.transport.abort()
            self._refuse(_spelled(name, port), f"it leads to this machine, {address}")
        raise _Refused(502, f"{_spelled(name, port)} cannot be reached: {trouble}")

    def _is_named(self, name: str, port: int) -> bool:
        return (name, str(port)) in self._hosts or (
            (name, "") in self._hosts and str(port) in WEB_PORTS
        )

    def _is_free(self, name: str, address: str, port: int) -> bool:
        """Return whether an address was named itself, so that it need not be public."""
        if name == "localhost":
            return ipaddress.ip_address(address).is_loopback
        found = host_of(f"[{address}]" if ":" in address else address)
        return found is not None and self._is_named(found[0], port)

    def _refuse(self, host: str, why: str, status: int = 403) -> NoReturn:
        host = clip(host)
        if len(self.refused) < MAX_REFUSED:
            self.refused.setdefault(host, why)
        raise _Refused(status, f"{host} is refused: {why}")


class _Refused(Exception):
    """What was asked for is not done: the status and the words of the answer."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status

    def answer(self) -> bytes:
        """Return the answer. Many programs show its first line alone, so that says it all."""
        words = " ".join(str(self).encode("ascii", "replace").decode("ascii").split())
        body = f"midstream: {words}. A command reaches the hosts it names in `network`.\n"
        head = f"HTTP/1.1 {self.status} {words}\r\nContent-Type: text/plain\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


def _spelled(name: str, port: int) -> str:
    return name if str(port) in WEB_PORTS else f"{name}:{port}"


async def _handed(ours: socket.socket) -> socket.socket:
    """Return the listening socket that is handed out."""
    if sys.platform != "linux":
        raise NotHere
    loop = asyncio.get_running_loop()
    has_come = asyncio.Event()
    loop.add_reader(ours, has_come.set)
    try:
        await has_come.wait()
    finally:
        loop.remove_reader(ours)
    _, (descriptor, *_), _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
    return socket.socket(fileno=descriptor)


async def _event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(_CHUNK))
    return event


def _forwarded(request: h11.Request, name: str, port: int, path: str) -> h11.Request:
    """Return a request as the host gets it: for that host, whatever its own header says, and alone."""
    said = dict(request.headers)
    # Whoever goes by the other of the two would take the rest of the body for a request of its own.
    if b"content-length" in said and b"transfer-encoding" in said:
        raise _Refused(400, "the request has two lengths")
    dropped = {
        *_HOP_BY_HOP,
        *(each.strip().lower() for each in said.get(b"connection", b"").split(b",")),
    }
    kept = [pair for pair in request.headers.raw_items() if pair[0].lower() not in dropped]
    host = name if port == 80 else f"{name}:{port}"
    headers = [(b"Host", host.encode()), (b"Connection", b"close"), *kept]
    return h11.Request(method=request.method, target=path, headers=headers)


async def _sent_on(
    request: h11.Request,
    inner: h11.Connection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Send one request and its body; nothing that follows it."""
    outer = h11.Connection(h11.CLIENT)
    try:
        event: object = request
        while isinstance(event, h11.Request | h11.Data | h11.EndOfMessage):
            writer.write(outer.send(event) or b"")
            await writer.drain()
            if isinstance(event, h11.EndOfMessage):
                return
            event = await _event(inner, reader)
    except (OSError, h11.ProtocolError):
        pass
    writer.transport.abort()


async def _pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on all that comes, then its end; what breaks one way breaks the other."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()
