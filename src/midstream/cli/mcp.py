"""MCP servers from the command line: how they stand, and a person's yes to what they offer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from midstream.app.assembly import Options, configured, mcp_of
from midstream.app.commands.permission_commands import NONE, SLOW_S
from midstream.cli.options import RUNS, takes
from midstream.cli.output import FAILED, FINISHED, note, say, say_object
from midstream.language.errors import UserMistake
from midstream.system.own_process import STDIN, STDOUT, is_terminal
from midstream.tui.terminal_questions import is_yes

if TYPE_CHECKING:
    from midstream.tools.mcp.approval import Approvals


@click.group("mcp", invoke_without_command=True)
@takes(*RUNS)
@click.pass_context
def mcp(context: click.Context, options: Options) -> int:
    """List MCP servers, approve what they offer, or take that back."""
    return 0 if context.invoked_subcommand else _listed(options)


@mcp.command("list")
@takes(*RUNS)
def list_command(options: Options) -> int:
    """List the MCP servers of your settings and what a trusted workspace proposes."""
    return _listed(options)


def _listed(options: Options) -> int:
    """Write how each server stands; return the exit code. Starts none."""
    config = configured(options)
    made, notices = mcp_of(config)
    note(*config.notices, *notices)
    if options.is_json:
        found = () if made is None else made.servers.statuses()
        say_object(
            [
                {
                    "name": each.server.name,
                    "from": each.server.source,
                    "state": each.state,
                    "tools": list(each.tools),
                }
                for each in found
            ]
        )
    else:
        say(NONE if made is None else asyncio.run(made.listing()))
    return FINISHED


@mcp.command("approve")
@click.argument("name")
@takes(*RUNS)
def approve_command(options: Options, name: str) -> int:
    """Look at a server, its command and its tools, and approve exactly that."""
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
        patience = loop.call_later(SLOW_S, note, f"Waiting for {name} ...")
        try:
            asked = await made.ask(name)
        finally:
            patience.cancel()
        if is_first or asked.code:
            say(asked.text)
        is_first = False
        if not asked.code:
            return FINISHED
        # Nothing else goes on meanwhile: the loop may wait for the person.
        if not is_yes("Approve exactly this?"):
            return FAILED
        say(await made.approve(name, asked.code))


@mcp.command("forget")
@click.argument("name")
@takes(*RUNS)
def forget_command(options: Options, name: str) -> int:
    """Take an approval back: the server's tools are not offered any more."""

    async def work(made: "Approvals") -> int:
        say(await made.forget(name))
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
            await made.servers.close()

    return asyncio.run(whole())
