"""What tests of the MCP client need: servers as settings name them, and a person who says yes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deadline import DEADLINE_S
from msgspec.structs import replace

from midstream.config.mcp_servers import McpServer
from midstream.language.names import Json
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.tools.manager import ToolManager
from midstream.tools.mcp.approval import Approvals
from midstream.tools.mcp.pins import PinStore
from midstream.tools.mcp.servers import McpServers

HERE = Path(__file__).parent
REAL = str(HERE / "mcp_real_server.py")
QUICK = str(HERE.parent / "attacks" / "mcp" / "hostile_server.py")
"""One that behaves, unless told otherwise, and starts at once; it offers the tool `t`."""


def python_server(script: str, *words: str, name: str = "real", **fields: Any) -> McpServer:
    """Return a server that may take the time to start that a busy machine takes."""
    patient = {"start_timeout_s": DEADLINE_S}
    return McpServer(name=name, command=(sys.executable, script, *words), **(patient | fields))


class Bench:
    """Servers with their pins, a manager that is offered their tools, and what was told."""

    def __init__(
        self, folder: Path, *servers: McpServer, environ: Mapping[str, str] | None = None
    ) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.pins = PinStore(folder / "state")
        self.told: list[str] = []
        self.servers = McpServers(
            {server.name: server for server in servers},
            self.pins,
            workspace=self.workspace,
            folder=folder / "state" / "mcp",
            environ={"PATH": "/usr/bin:/bin", **(environ or {})},
            notify=self.told.append,
        )
        self.progress: list[str] = []
        self.stop = asyncio.Event()
        self.has_progressed = asyncio.Event()
        self.approvals = Approvals(self.servers, workspace=self.workspace)

    def context(self) -> ToolContext:
        return ToolContext(
            workspace=self.workspace,
            run="r1",
            agent="dude",
            stop=self.stop,
            progress=self._hear,
        )

    def _hear(self, piece: str) -> None:
        self.progress.append(piece)
        self.has_progressed.set()

    async def approve(self, name: str) -> str:
        """Say yes to whatever is asked until nothing is; return all that was shown."""
        shown = ""
        while (asked := await self.approvals.ask(name)).code:
            shown += asked.text
            await self.approvals.approve(name, asked.code)
        return shown

    async def call(self, name: str, arguments: dict[str, Json] | None = None) -> ToolOutcome:
        """Call an approved tool as the manager does once it has been allowed."""
        allowed = (replace(tool, plan=None) for tool in self.servers.tools())
        manager = ToolManager(allowed, built_in=())
        return await manager.call(name, arguments or {}, self.context())


@asynccontextmanager
async def bench(
    folder: Path, *servers: McpServer, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Bench]:
    made = Bench(folder, *servers, environ=environ)
    try:
        yield made
    finally:
        await made.servers.close()
