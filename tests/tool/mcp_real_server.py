"""A real MCP server over stdio, written with the `mcp` package: what people's servers look like."""

import os
import sys

import anyio
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
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
