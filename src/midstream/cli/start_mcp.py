"""MCP servers from the command line: how they stand, and a person's yes to what they offer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from midstream.app.assembly import Options, configured, mcp_of
from midstream.app.commands.mcp_commands import NONE, SLOW_S
from midstream.cli.headless.exit_codes import FAILED, FINISHED
from midstream.language.errors import UserMistake
from midstream.system.own_process import (
    STDIN,
    STDOUT,
    is_terminal,
    write_error,
    write_out,
)
from midstream.tui.terminal_questions import is_yes

if TYPE_CHECKING:
    from midstream.tools.mcp.approval import Approvals


def servers(options: Options) -> int:
    """Write how each server stands; return the exit code. Starts none."""
    config = configured(options)
    made, notices = mcp_of(config)
    for notice in (*config.notices, *notices):
        write_error(f"{notice}\n")
    found = () if made is None else made.servers.standing()
    if options.is_json:
        rows = [
            {
                "name": each.server.name,
                "from": each.server.source,
                "state": each.state,
                "tools": list(each.tools),
            }
            for each in found
        ]
        write_out(f"{json.dumps(rows)}\n")
    else:
        write_out(f"{NONE if made is None else asyncio.run(made.listing())}\n")
    return FINISHED


def approve(options: Options, name: str) -> int:
    """Show what there is to approve and ask at the terminal; return the exit code.

    Raises:
        UserMistake: nobody is there to be asked, or there is no such server.
    """
    if not (is_terminal(STDIN) and is_terminal(STDOUT)):
        raise UserMistake(
            "Approving an MCP server needs a person at a terminal.",
            hint=f"Run midstream mcp approve {name} in one; later runs without one may use it.",
        )
    return _with(options, lambda made: _approved(made, name))


async def _approved(made: "Approvals", name: str) -> int:
    is_first = True
    while True:
        # A server that is to say what it offers may take its time to start.
        loop = asyncio.get_running_loop()
        patience = loop.call_later(SLOW_S, write_error, f"Waiting for {name} ...\n")
        try:
            asked = await made.ask(name)
        finally:
            patience.cancel()
        if is_first or asked.code:
            write_out(f"{asked.text}\n")
        is_first = False
        if not asked.code:
            return FINISHED
        # Nothing else goes on meanwhile: the loop may wait for the person.
        if not is_yes("Approve exactly this?"):
            return FAILED
        write_out(f"{await made.approve(name, asked.code)}\n")


def forget(options: Options, name: str) -> int:
    """Take an approval back; return the exit code."""

    async def work(made: "Approvals") -> int:
        write_out(f"{await made.forget(name)}\n")
        return FINISHED

    return _with(options, work)


def _with(options: Options, work: "Callable[[Approvals], Awaitable[int]]") -> int:
    made, _ = mcp_of(configured(options))
    if made is None:
        raise UserMistake(NONE, hint="midstream config edit opens it.")

    async def whole() -> int:
        try:
            return await work(made)
        finally:
            await made.close()

    return asyncio.run(whole())
