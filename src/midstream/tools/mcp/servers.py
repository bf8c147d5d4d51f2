"""McpServers: the servers of a process, started when one of their tools is first called.

What agents are offered comes from the pins, not from the servers: nothing has to run for a tool to be
known, and no server can change what a model is told. When one is started, what it offers is held
against its pins; a tool that is no longer what a person approved is not called until a person has
looked at the difference.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.mcp_servers import McpServer
from midstream.language.errors import UserMistake, WorldTrouble, did_you_mean
from midstream.language.names import Json
from midstream.runtime.ports import ToolOutcome
from midstream.system.offloop import in_thread
from midstream.system.programs import path_outside
from midstream.tools.base import Tool
from midstream.tools.mcp.connection import Connection
from midstream.tools.mcp.mcp_tools import Offer, tool_of
from midstream.tools.mcp.pins import Pin, PinStore, fingerprint, key_of, look_at, stamps

_STARTS: Final = 2
"""How often it is tried: what it is made of may keep what it compiles beside it, the first time."""

REST_S: Final = 30.0
"""How long a server that failed to start is left alone."""


class _Held:
    """A server of ours: its connection, and what is known of it."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.lock = asyncio.Lock()
        self.connection: Connection | None = None
        self.offers: dict[str, Offer] = {}
        self.is_stale = False
        self.failed_at: float | None = None
        self.failure = ""


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a server stands. `state`: approved, changed (its command is another now), started (its
    tools were not looked at yet), or new.
    """

    server: McpServer
    state: str
    tools: tuple[str, ...] = ()
    is_running: bool = False
    failure: str = ""


class McpServers:
    """The servers that the settings name.

    Belongs to one event loop; `close` ends whatever was started.

    Args:
        servers: how each is reached, by name.
        pins: what was approved.
        workspace: the folder midstream works in.
        folder: where servers run that are given no folder: one nobody else writes into.
        environ: the person's environment; the process's own by default.
        notify: hears what a person should know, such as that a server's tools have changed.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        pins: PinStore,
        *,
        workspace: Path,
        folder: Path,
        environ: Mapping[str, str] | None = None,
        notify: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._held = {name: _Held(server) for name, server in servers.items()}
        self._pins = pins
        self._workspace = Path(os.path.realpath(workspace))
        self._folder = folder
        # A program of the workspace has to be named by its path: then it is pinned.
        own = os.environ if environ is None else environ
        path = path_outside(own.get("PATH", os.defpath), self._workspace)
        self._environ = {**own, "PATH": path}
        self.notify = notify

    # --- what is approved -------------------------------------------------------------------------

    def tools(self) -> tuple[Tool, ...]:
        """Return the approved tools of all servers, as they were approved. Reads files."""
        return tuple(tool for name in self._held for tool in self.tools_of(name))

    def tools_of(self, name: str) -> tuple[Tool, ...]:
        """Return the approved tools of one server, none where it has changed. Reads files."""
        pin = self.pin(name)
        if pin is None or not pin.has_tools:
            return ()
        return tuple(tool_of(self.server(name), offer, self.call) for offer in pin.offers)

    def pin(self, name: str) -> Pin | None:
        """Return what was approved of a server as it is now. Reads files."""
        server = self.server(name)
        pin = self._pins.get(key_of(server, self._workspace))
        return pin if pin is not None and pin.command == self.fingerprint_of(name) else None

    def fingerprint_of(self, name: str) -> str:
        """Return the hash of how a server is reached now. Reads files."""
        return fingerprint(self.server(name), self._workspace)

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Return how each server stands. Reads files."""
        return tuple(self._status(name, held) for name, held in sorted(self._held.items()))

    def unapproved(self) -> tuple[str, ...]:
        """Return a line for each server a person has not approved as it is now. Reads files."""
        return tuple(
            f"The MCP server {each.server.name} "
            f"{'has changed since you approved it' if each.state == 'changed' else 'is not approved'}"
            f"; its tools are not offered. Look at it: /mcp approve {each.server.name}"
            for each in self.statuses()
            if each.state != "approved"
        )

    def _status(self, name: str, held: _Held) -> ServerStatus:
        kept = self._pins.get(key_of(held.server, self._workspace))
        pin = self.pin(name)
        state = "new" if kept is None else "changed"
        if pin is not None:
            state = "approved" if pin.has_tools else "started"
        return ServerStatus(
            server=held.server,
            state=state,
            tools=tuple(offer.name for offer in pin.offers) if pin is not None else (),
            is_running=held.connection is not None and not held.connection.is_over,
            failure=held.failure,
        )

    def server(self, name: str) -> McpServer:
        """Return how a server is reached.

        Raises:
            UserMistake: the settings name no such server.
        """
        held = self._held.get(name)
        if held is None:
            hint = did_you_mean(name, self._held) if self._held else "Set mcpServers first."
            raise UserMistake(f"There is no MCP server {name!r:.60}.", hint=hint)
        return held.server

    def keep(self, name: str, pin: Pin) -> None:
        """Remember what was approved of a server."""
        self._pins.keep(key_of(self.server(name), self._workspace), pin)

    async def forget(self, name: str) -> bool:
        """Take back what was approved and end the server; return whether anything had been."""
        server = self.server(name)
        was = await in_thread(lambda: self._pins.forget(key_of(server, self._workspace)))
        async with self._held[name].lock:
            await self._end(self._held[name])
        return was

    # --- what runs --------------------------------------------------------------------------------

    async def look(self, name: str) -> tuple[Offer, ...]:
        """Return what a server offers now, started anew. Its command has to be approved before.

        Raises:
            UserMistake, WorldTrouble: it cannot be reached, or offers what is not taken.
        """
        held = self._held[name]
        held.failed_at = None
        async with held.lock:
            await self._end(held)
            pin = await in_thread(lambda: self.pin(name))
            await self._open(held, pin)
            return tuple(held.offers.values())

    async def call(
        self,
        server: McpServer,
        offer: Offer,
        arguments: dict[str, Json],
        progress: Callable[[str], None],
    ) -> ToolOutcome:
        """Return how a call of an approved tool ended; its server is started if need be.

        Raises:
            UserMistake: it is no longer what was approved; nothing was called.
            WorldTrouble: the server failed.
        """
        held = self._held[server.name]
        async with held.lock:
            pin = await in_thread(lambda: self.pin(server.name))
            if pin is None or offer not in pin.offers:
                raise _not_approved(server.name, "is not approved as it is now")
            connection = await self._connected(held, pin)
            now = held.offers.get(offer.name)
        if now != offer:
            how = "is gone" if now is None else "is not what it was when you approved it"
            self.notify(f"The tool {offer.name!r} of the MCP server {server.name} {how}.")
            raise _not_approved(server.name, f"has changed: the tool {offer.name!r} {how}")
        return await connection.call(offer.name, arguments, progress=progress)

    async def _connected(self, held: _Held, pin: Pin) -> Connection:
        if held.connection is None or held.connection.is_over:
            await self._end(held)
            await self._open(held, pin)
        elif held.is_stale:
            await self._list(held, held.connection)
        assert held.connection is not None
        return held.connection

    async def _open(self, held: _Held, pin: Pin | None) -> None:
        """Start a server of which this was approved, and see that it is what was started.

        A file could be swapped between the look and the start, and back. So what tells of that is looked
        at again once the server has spoken, which takes its program; nothing it says counts before.
        """
        server, workspace = held.server, self._workspace
        for _ in range(_STARTS):
            seen = await in_thread(lambda: look_at(server, workspace))
            if pin is not None and seen.print != pin.command:
                raise _not_approved(server.name, "is not approved as it is now")
            await self._begin(held)
            if await in_thread(lambda: stamps(server, workspace)) == seen.stamps:
                return
            await self._end(held)
        raise UserMistake(
            f"The MCP server {server.name} was ended: files of it, or the folder they are in, were "
            "changed while it was started; nothing was called.",
            hint="Look at them. One that writes beside its program at each start cannot be told from "
            "one that was exchanged: have it write into another folder.",
        )

    async def _begin(self, held: _Held) -> None:
        loop = asyncio.get_running_loop()
        if held.failed_at is not None and loop.time() - held.failed_at < REST_S:
            raise WorldTrouble(held.failure, hint=f"midstream tries again in {REST_S:g} s at most.")
        server = held.server
        connection = Connection(
            server,
            folder=self._workspace / server.cwd if server.cwd else self._folder,
            environ=self._environ,
            changed=lambda: self._has_changed(held),
        )
        try:
            await connection.open()
            held.connection = connection
            await self._list(held, connection)
        except (UserMistake, WorldTrouble) as error:
            held.failed_at, held.failure = loop.time(), error.what
            await self._end(held)
            raise
        except BaseException:
            await self._end(held)
            raise
        held.failed_at, held.failure = None, ""

    async def _list(self, held: _Held, connection: Connection) -> None:
        held.is_stale = False
        held.offers = {offer.name: offer for offer in await connection.offers()}

    def _has_changed(self, held: _Held) -> None:
        if not held.is_stale:
            held.is_stale = True
            self.notify(
                f"The MCP server {held.server.name} says that its tools have changed. "
                f"What you approved is still offered; to look: /mcp approve {held.server.name}"
            )

    async def _end(self, held: _Held) -> None:
        connection, held.connection = held.connection, None
        held.offers = {}
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        """End every server that was started, and what it started."""
        async with asyncio.TaskGroup() as group:
            for held in self._held.values():
                group.create_task(self._end(held))


def _not_approved(name: str, how: str) -> UserMistake:
    return UserMistake(
        f"The MCP server {name} {how}; nothing was called.",
        hint=f"A person may look at it and approve it: /mcp approve {name}",
    )
