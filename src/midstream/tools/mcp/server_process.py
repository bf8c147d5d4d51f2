"""A server's process, and what it gets of our environment."""

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from midstream.config.mcp_servers import McpServer
from midstream.config.private_files import make_private
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.system.piped_child import CHUNK, PipedChild
from midstream.system.supervisor import PIPED, Child

_GENTLE_S: Final = 0.4
_TERM_S: Final = 0.6
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER")


def clean_environment(server: McpServer, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few harmless names, and what its settings name.

    Folders that depend on where one stands are not searched for programs.
    """
    found = {name: environ[name] for name in _PASSED_ON if name in environ}
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    found["PATH"] = os.pathsep.join(place for place in places if os.path.isabs(place))
    found |= {name: environ[name] for name in server.passed if name in environ}
    return found | server.env


class ServerProcess(PipedChild):
    """A running server. Use `start`, and always `end`."""

    @classmethod
    async def start(
        cls, server: McpServer, *, folder: Path, environ: Mapping[str, str]
    ) -> "ServerProcess":
        """Return the started server.

        Raises:
            UserMistake: there is no such program.
            WorldTrouble: it could not be started.
        """
        environment = clean_environment(server, environ)
        try:
            return await cls.connected(partial(start_server, server, folder, environment))
        except (OSError, ValueError) as error:
            raise WorldTrouble(
                f"The MCP server {server.name} could not be started: {error}.",
                hint="Check its command in mcpServers of application.json.",
            ) from None

    async def contents(self) -> AsyncIterator[bytes]:
        """Yield what it writes to its stdout until it closes it."""
        while data := await self._out.read(CHUNK):
            yield data

    async def write(self, line: bytes) -> None:
        """Send a line to its stdin; returns when it has room for more.

        Raises:
            OSError: it does not take any more.
        """
        self._in.write(line)
        await self._in.drain()

    async def end(self) -> None:
        """End it and everything it started: its stdin is closed, then come the signals."""
        await self._end(in_s=_GENTLE_S, grace_s=_TERM_S)


def start_server(server: McpServer, folder: Path, environment: Mapping[str, str]) -> Child:
    """Return the process of a server, started. Blocks.

    Raises:
        UserMistake: there is no such program.
        OSError, ValueError: it could not be started.
    """
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
    return Child([found, *words], folder=folder, environment=environment, stdin=PIPED, stderr=PIPED)
