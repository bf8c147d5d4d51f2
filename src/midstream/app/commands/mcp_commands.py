"""Commands about MCP servers: how they stand, approving what they offer, taking it back."""

import asyncio
from typing import Final

from midstream.app.commands.command import Command
from midstream.app.session import Session
from midstream.language.errors import UserMistake
from midstream.tools.mcp.approval import Approvals

SLOW_S: Final = 1.0
"""How long a server may take to answer before a person is told that it is waited for."""

NONE = "No MCP servers: name them in mcpServers of your application.json."


def _mcp_of(session: Session) -> Approvals:
    if session.equipment.mcp is None:
        raise UserMistake(NONE, hint="midstream config edit opens it.")
    return session.equipment.mcp


async def _mcp(session: Session, argument: str) -> None:
    if session.equipment.mcp is None and not argument:
        session.ui.say(NONE)
        return
    mcp = _mcp_of(session)
    match argument.split():
        case []:
            session.ui.say(await mcp.listing())
        case ["approve", name]:
            # A server that is to say what it offers may take its time to start.
            loop = asyncio.get_running_loop()
            patience = loop.call_later(SLOW_S, session.ui.say, f"Waiting for {name} ...")
            try:
                asked = await mcp.ask(name)
            finally:
                patience.cancel()
            words = f"\n\nTo approve exactly this: /mcp approve {name} {asked.code}"
            session.ui.say(f"{asked.text}{words if asked.code else ''}")
        case ["approve", name, code]:
            session.ui.say(await mcp.approve(name, code))
        case ["forget", name]:
            session.ui.say(await mcp.forget(name))
        case _:
            raise UserMistake("/mcp has no such command.", hint="/mcp [approve | forget] NAME")


def _ways(_session: Session) -> list[tuple[str, str]]:
    return [
        ("approve", "look at a server and what it offers"),
        ("forget", "take an approval back"),
    ]


MCP_COMMANDS = (
    Command(
        name="mcp",
        arguments="[approve | forget] [NAME]",
        summary="list MCP servers, approve what one offers, or take that back",
        action=_mcp,
        complete=_ways,
    ),
)
