"""Approving a server, whatever UI asks: what is shown is what a yes is given to.

First how it is reached (nothing has run yet, and nothing does without this yes), then what it offers.
Each answer comes with a code that was shown with exactly that text, counts once, and not for long: a
line that was pasted, or typed before the text was there, cannot know it.
"""

import secrets
import time
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.mcp_servers import McpServer
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.tools.base import Tool
from midstream.tools.mcp.mcp_tools import Offer, describe_offer, difference, visible
from midstream.tools.mcp.pins import Pin, named_files
from midstream.tools.mcp.servers import McpServers, ServerStatus

CODE_S: Final = 600.0
"""How long a code counts."""


class McpQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked to approve of an MCP server: `text` is all of it, `code` what a yes gives
    back. Without a code there is nothing to approve, and the text says why.
    """

    text: str
    code: str = ""


class _Open(msgspec.Struct, frozen=True):
    name: str
    pin: Pin
    until: float


class Approvals:
    """Approves servers and forgets them.

    `on_tools` hears the tools a server has from now on, all of them; `now` tells the seconds.
    """

    def __init__(self, servers: McpServers, *, workspace: Path) -> None:
        self.servers = servers
        self._workspace = workspace
        self.on_tools: Callable[[str, tuple[Tool, ...]], None] = lambda _name, _tools: None
        self.now = time.monotonic
        self._open: dict[str, _Open] = {}

    async def listing(self) -> str:
        """Return how each server stands, in lines."""
        found = await in_thread(self.servers.statuses)
        if not found:
            return "No MCP servers: name them in mcpServers of your application.json."
        return "\n".join(map(_line, found))

    async def ask(self, name: str) -> McpQuestion:
        """Return what there is to approve of a server. Starts it if its command was approved.

        Raises:
            UserMistake: there is no such server, or it cannot be started.
            WorldTrouble: it failed.
        """
        server = self.servers.server(name)
        command = await in_thread(lambda: self.servers.fingerprint_of(name))
        pin = await in_thread(lambda: self.servers.pin(name))
        if pin is None and server.source == "workspace":
            # A yes to the command is a yes to run it, and to nothing it will say.
            text = await in_thread(lambda: _command_question(server, self._workspace))
            return self._question(name, Pin(command=command), text)
        offers = await self.servers.look(name)
        if pin is not None and pin.has_tools and pin.offers == offers:
            await self._offer(name)
            return McpQuestion(text=f"{name} offers what you approved; nothing has changed.")
        text = await in_thread(lambda: _tools_question(server, self._workspace, pin, offers))
        return self._question(name, Pin(command=command, offers=offers, has_tools=True), text)

    def _question(self, name: str, pin: Pin, text: str) -> McpQuestion:
        code = secrets.token_hex(3)
        # Only what was shown last can be approved.
        self._open = {code: _Open(name, pin, self.now() + CODE_S)}
        return McpQuestion(text=text, code=code)

    async def approve(self, name: str, code: str) -> str:
        """Approve what was shown with a code; return what is true now.

        Raises:
            UserMistake: the code is none, was used, is too old, or the server's command has changed
                since; nothing was approved.
        """
        found = self._open.pop(code, None)
        if found is None or found.name != name or self.now() > found.until:
            raise UserMistake(
                "That code was not shown with this server, was used, or is too old.",
                hint=f"/mcp approve {name} shows what there is to approve.",
            )
        if await in_thread(lambda: self.servers.fingerprint_of(name)) != found.pin.command:
            raise UserMistake(
                f"{name} has changed since you looked.", hint=f"/mcp approve {name} shows it."
            )
        await in_thread(lambda: self.servers.keep(name, found.pin))
        if not found.pin.has_tools:
            return f"{name} may be started. Its tools: /mcp approve {name}"
        await self._offer(name)
        return f"{name}: {_count(found.pin.offers)} approved. Each call is still asked about."

    async def forget(self, name: str) -> str:
        """Take an approval back and end the server; return what is true now."""
        was = await self.servers.forget(name)
        self.on_tools(name, ())
        return f"{name} is forgotten." if was else f"{name} was not approved."

    async def _offer(self, name: str) -> None:
        self.on_tools(name, await in_thread(lambda: self.servers.tools_of(name)))


def _count(offers: Sized) -> str:
    return f"{len(offers)} tool{'' if len(offers) == 1 else 's'}"


def _line(found: ServerStatus) -> str:
    server = found.server
    words = {
        "approved": f"{_count(found.tools)} approved",
        "changed": "CHANGED since it was approved: /mcp approve " + server.name,
        "started": "may be started, its tools are not approved: /mcp approve " + server.name,
        "new": "not approved: /mcp approve " + server.name,
    }[found.state]
    who = "yours" if server.source == "user" else "proposed by this workspace"
    now = ", running" if found.is_running else ""
    failed = f"\n    {visible(found.failure)}" if found.failure else ""
    return f"{server.name}  ({who}{now})  {words}{failed}"


def describe_server(server: McpServer) -> str:
    """Return how a server is reached, exactly, each word of its own line; secrets by name alone."""
    lines = [f"url: {server.url}"] if server.url else ["command:"]
    lines += [f"  {visible(word)!r}" for word in server.command]
    lines.append(f"folder: {visible(server.cwd) or 'one of its own'}" if server.command else "")
    if server.source == "user":
        lines += [f"variable: {name} (as set)" for name in server.env]
        lines += [f"header: {name} (as set)" for name in server.headers]
    else:
        lines += [f"variable: {name} = {value!r}" for name, value in server.env.items()]
        lines += [f"header: {name}: {value!r}" for name, value in server.headers.items()]
    lines += [f"variable: {name} (from your environment)" for name in server.passed]
    if server.url.startswith("http://"):
        lines.append("The address is not encrypted.")
    return "\n".join(line for line in lines if line)


def _command_question(server: McpServer, workspace: Path) -> str:
    files = "".join(
        f"\nfile of the workspace: {word!r}" for word, _ in named_files(server, workspace)
    )
    return (
        f"The workspace proposes the MCP server {server.name}. It would run with your rights, "
        f"outside the sandbox:\n{describe_server(server)}{files}"
    )


def _tools_question(
    server: McpServer, workspace: Path, pin: Pin | None, offers: tuple[Offer, ...]
) -> str:
    if pin is not None and pin.has_tools:
        return f"The MCP server {server.name} has changed:\n{difference(pin.offers, offers)}"
    head = f"The MCP server {server.name} offers {_count(offers)}.\n{describe_server(server)}"
    return "\n\n".join((head, *map(describe_offer, offers)))
