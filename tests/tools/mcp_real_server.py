"""A real MCP server with the `mcp` package: over stdio, or over HTTP on a listening socket it is given."""

import os
import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("real")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool()
def environment() -> str:
    """Tell the names of the variables there are."""
    return " ".join(sorted(os.environ))


@server.tool()
def fails() -> str:
    """Fail."""
    raise ToolError("out of cheese")


@server.tool()
async def slow(ctx: Context) -> str:
    """Tell that it has begun, then take for ever."""
    await ctx.report_progress(1, 2, "begun")
    try:
        await anyio.sleep_forever()
    finally:
        print("slow was cancelled", file=sys.stderr, flush=True)
    return "never"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run([socket.socket(fileno=int(sys.argv[1]))])
    else:
        server.run("stdio")
