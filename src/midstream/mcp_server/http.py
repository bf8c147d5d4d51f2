"""MCP over HTTP (Streamable HTTP) for a host of ours, who knows who may come in."""

from contextlib import AbstractAsyncContextManager

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import Route

from midstream.api.engine import Engine
from midstream.mcp_server.server import server_of

PATH = "/mcp"


def mcp_routes(engine: Engine) -> tuple[list[Route], AbstractAsyncContextManager[None]]:
    """Return the routes of the server, and what has to be entered for as long as they are served.

    Nothing is checked here: the host looks at Host, Origin and the caller's token before a request comes
    this far. A run goes on when its client has gone.

    Args:
        engine: the host's, and it stays so.
    """

    async def itself() -> Engine:
        return engine

    sessions = StreamableHTTPSessionManager(server_of(itself))
    return [Route(PATH, StreamableHTTPASGIApp(sessions))], sessions.run()
