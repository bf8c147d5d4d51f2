"""A server's process: started with a clean environment, heard with limits, ended with all it started.

What it writes to stderr is kept for the last few lines alone, and read no faster than a person could
use it: who floods it waits. The process stays unreaped until everything of it is gone, so that its id
stays its own.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from midstream.config.mcp_servers import McpServer
from midstream.config.private_files import make_private
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.system import process_tree as tree
from midstream.system.offloop import in_thread

MAX_LINE: Final = 4_000_000
"""Bytes of one message."""
KEPT_WORDS: Final = 2_000
"""Bytes of stderr that are remembered."""

_CHUNK: Final = 65_536
_SLOW_S: Final = 0.05
_GENTLE_S: Final = 0.4
_TERM_S: Final = 0.6
_KILL_S: Final = 2.0
_TICK_S: Final = 0.02
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER")


class LineTooLong(Exception):
    """A server sent a message that does not end."""


def clean_environment(server: McpServer, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few harmless names, and what its settings name.

    Folders that depend on where one stands are not searched for programs.
    """
    found = {name: environ[name] for name in _PASSED_ON if name in environ}
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    found["PATH"] = os.pathsep.join(place for place in places if os.path.isabs(place))
    found |= {name: environ[name] for name in server.passed if name in environ}
    return found | server.env


class Child:
    """A running server. Use `start`, and always `end`."""

    def __init__(self, process: "subprocess.Popen[bytes]", tag: str) -> None:
        self._process = process
        self._tag = tag
        self._stderr = bytearray()
        self._closing: list[asyncio.BaseTransport] = []
        self._out = asyncio.StreamReader(limit=_CHUNK)
        self._err = asyncio.StreamReader(limit=_CHUNK)
        self._in: asyncio.StreamWriter | None = None

    @classmethod
    async def start(cls, server: McpServer, *, folder: Path, environ: Mapping[str, str]) -> "Child":
        """Return the started server.

        Raises:
            UserMistake: there is no such program.
            WorldTrouble: it could not be started.
        """
        tag = os.urandom(8).hex()
        environment = {**clean_environment(server, environ), tree.TAG: tag}
        # A cancelled start must not leave a process behind: whoever starts it knows of it.
        begun: list[subprocess.Popen[bytes]] = []
        is_wanted = [True]

        def popen() -> None:
            process = _popen(server, folder, environment)
            begun.append(process)
            if not is_wanted[0]:
                _ended(process, tag)

        try:
            await in_thread(popen, name="midstream-mcp-start")
        except (OSError, ValueError) as error:
            raise WorldTrouble(
                f"The MCP server {server.name} could not be started: {error}.",
                hint="Check its command in mcpServers of application.json.",
            ) from None
        except asyncio.CancelledError:
            is_wanted[0] = False
            if begun:
                await in_thread(lambda: _ended(begun[0], tag), name="midstream-mcp-end")
            raise
        child = cls(begun[0], tag)
        try:
            await child._connect()
        except BaseException:
            await child.end()
            raise
        return child

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        process = self._process
        for reader, pipe in ((self._out, process.stdout), (self._err, process.stderr)):
            assert pipe is not None
            protocol = _reading(reader)
            transport, _ = await loop.connect_read_pipe(protocol, pipe)
            self._closing.append(transport)
        assert process.stdin is not None
        into, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
        )
        self._in = asyncio.StreamWriter(into, flow, None, loop)
        self._closing.append(into)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each line of its stdout until it closes it.

        Raises:
            LineTooLong: one has more than `MAX_LINE` bytes.
        """
        parts: list[bytes] = []
        size = 0
        while data := await self._out.read(_CHUNK):
            *whole, rest = data.split(b"\n")
            for line in whole:
                yield b"".join((*parts, line))
                parts, size = [], 0
            size += len(rest)
            if size > MAX_LINE:
                raise LineTooLong
            if rest:
                parts.append(rest)

    async def keep_last_words(self) -> None:
        """Read its stderr until it closes it, at a person's speed, and keep the end of it."""
        while data := await self._err.read(_CHUNK):
            self._stderr += data
            del self._stderr[:-KEPT_WORDS]
            await asyncio.sleep(_SLOW_S)

    def last_words(self) -> str:
        """Return the end of what it wrote to stderr."""
        return self._stderr.decode(errors="replace").strip()

    async def write(self, line: bytes) -> None:
        """Send a line to its stdin; returns when it has room for more.

        Raises:
            OSError: it does not take any more.
        """
        assert self._in is not None
        self._in.write(line)
        await self._in.drain()

    async def end(self) -> None:
        """End it and everything it started: its stdin is closed, then come the signals."""
        for transport in reversed(self._closing):
            if transport.is_closing():
                continue
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            else:
                transport.close()
        await in_thread(lambda: _ended(self._process, self._tag), name="midstream-mcp-end")


def _reading(reader: asyncio.StreamReader) -> Callable[[], asyncio.StreamReaderProtocol]:
    return lambda: asyncio.StreamReaderProtocol(reader)


def _popen(
    server: McpServer, folder: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    program, *words = server.command
    # A relative folder of the PATH would be one of the workspace's, or of wherever the server runs.
    places = [each for each in environment["PATH"].split(os.pathsep) if os.path.isabs(each)]
    found = shutil.which(program, path=os.pathsep.join(places))
    if found is None and os.sep in program:
        found = str(folder / program)
    if found is None:
        raise UserMistake(
            f"The MCP server {server.name} cannot be started: there is no program {program!r:.100}.",
            hint="Install it, or change mcpServers in application.json.",
        )
    make_private(folder)
    return subprocess.Popen(
        [found, *words],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _ended(process: "subprocess.Popen[bytes]", tag: str) -> None:
    """End a process and its tree; blocks for up to three seconds."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    leader = process.pid
    _wait(leader, tag, _GENTLE_S)
    if tree.send(signal.SIGTERM, leader, tag):
        _wait(leader, tag, _TERM_S)
    until = time.monotonic() + _KILL_S
    while tree.send(signal.SIGKILL, leader, tag) and time.monotonic() < until:
        time.sleep(_TICK_S)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_TICK_S)


def _wait(leader: int, tag: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while tree.members(leader, tag) and time.monotonic() < until:
        time.sleep(_TICK_S)
