"""An approved offer as a tool of ours: what it is called, what it may do, what a person is shown.

What a tool says of itself is a stranger's word. So every call may do anything, anywhere, and is made
once; only where the person's settings say `trustAnnotations` do the hints count, and even then they
never let a call through unasked: that is for rules.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from midstream.config.mcp_servers import McpServer
from midstream.language.errors import MidstreamError
from midstream.language.names import Effect, Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import Capability
from midstream.tools.base import Planned, Tool
from midstream.tools.mcp.offers import Offer, call_name, plain_schema, plain_words, visible

Caller: TypeAlias = Callable[
    [McpServer, Offer, dict[str, Json], Callable[[str], None]], Coroutine[Any, Any, ToolOutcome]
]


def tool_of(server: McpServer, offer: Offer, call: Caller) -> Tool:
    """Return an approved offer as a tool; `call` does its calls."""
    schema = plain_schema(offer.parameters)
    assert isinstance(schema, dict)
    spec = ToolSpec(
        name=call_name(server.name, offer.name),
        description=f"[MCP server {server.name}] {plain_words(offer.description)}".strip(),
        parameters={"type": "object", "properties": {}} | schema,
        effect=_effect(server, offer),
        timeout_s=server.timeout_s + server.start_timeout_s,
        reviewed=True,
    )

    def plan(arguments: dict[str, Json], context: ToolContext) -> Planned:
        return Planned(requests=_requests(server, offer), shows=_shows(server, offer, arguments))

    async def function(arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
        return await _until_stopped(call(server, offer, arguments, context.progress), context)

    return Tool(spec=spec, function=function, plan=plan)


def _effect(server: McpServer, offer: Offer) -> Effect:
    if server.trusts_annotations and offer.hints.get("readOnlyHint"):
        return "read"
    if server.trusts_annotations and offer.hints.get("idempotentHint"):
        return "idempotent"
    return "once"


def _requests(server: McpServer, offer: Offer) -> tuple[Capability, ...]:
    """Return what a call asks for: the tool, and the net unless a trusted hint says it stays home.

    The net is named by the server, not `*`: granting it must not open the net to anything else.
    """
    tool = Capability(kind="tool", target=call_name(server.name, offer.name))
    if server.trusts_annotations and offer.hints.get("openWorldHint") is False:
        return (tool,)
    host = urlsplit(server.url).hostname or "" if server.url else f"mcp__{server.name}"
    return (tool, Capability(kind="net", target=host))


def _shows(server: McpServer, offer: Offer, arguments: dict[str, Json]) -> str:
    words = json.dumps(arguments, indent=2, sort_keys=True)
    return f"MCP server {server.name}, tool {visible(offer.name)}, with\n{words}"


async def _until_stopped(
    call: Coroutine[Any, Any, ToolOutcome], context: ToolContext
) -> ToolOutcome:
    """Return how a call ended; once told to stop it is cancelled, which its server hears."""

    async def outcome() -> ToolOutcome | MidstreamError:
        try:
            return await call
        except MidstreamError as error:
            return error

    async with asyncio.TaskGroup() as group:
        work = group.create_task(outcome())
        halt = group.create_task(context.stop.wait())
        try:
            await asyncio.wait({work, halt}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            halt.cancel()
    if work.cancelled():
        words = "Stopped: the server was told so. It may have done it: verify before repeating it."
        return ToolOutcome(outcome="unknown", text=words)
    ended = work.result()
    if isinstance(ended, MidstreamError):
        raise ended
    return ended
