"""MCP from the command line: servers, a person's yes to what they offer, and midstream as one."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from midstream.app.assembly import Options, configured, mcp_of, trusted
from midstream.app.commands.permission_commands import NONE, SLOW_S
from midstream.cli.options import RUNS, SETTINGS, opening, takes
from midstream.cli.output import FAILED, FINISHED, note, say, say_object
from midstream.language.errors import UserMistake
from midstream.system.own_process import (
    HANGUPS,
    STDIN,
    STDOUT,
    is_terminal,
    load_without_collecting,
    run_until_signalled,
    settle_memory,
)
from midstream.tui.terminal_questions import is_yes

if TYPE_CHECKING:
    from midstream.api.engine import Engine
    from midstream.tools.mcp.approval import Approvals


@click.group("mcp", invoke_without_command=True)
@takes(*RUNS)
@click.pass_context
def mcp(context: click.Context, options: Options) -> int:
    """List MCP servers, approve what they offer, take that back, or be one for other agents."""
    return 0 if context.invoked_subcommand else _listed(options)


@mcp.command("list")
@takes(*RUNS)
def list_command(options: Options) -> int:
    """List your MCP servers and those a trusted workspace proposes."""
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
    """Look at a server's command and tools, and approve just these."""
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
    """Take an approval back. The server's tools are not offered any more."""

    async def work(made: "Approvals") -> int:
        say(await made.forget(name))
        return FINISHED

    return _with(options, work)


@mcp.command("serve")
@click.option(
    "--deny-approvals",
    is_flag=True,
    help="Refuse what needs a person's approval, in place of waiting for one.",
)
@takes(*SETTINGS)
def serve_command(options: Options, deny_approvals: bool) -> int:
    """Be an MCP server: other agents start and steer runs.

    The agent starts it and speaks on stdin and stdout: its settings name this command. Approvals are a
    person's, at midstream's own console, whoever started the run.
    """
    trusted(options)
    if is_terminal(STDIN):
        note("This speaks MCP on stdin and stdout: an agent starts it. Ctrl-C ends it.")
    load_without_collecting()
    try:
        from midstream.mcp_server.stdio import serve_stdio
    except ImportError as error:
        raise UserMistake(
            f"midstream mcp serve needs a library that is not installed ({error.name}).",
            hint="Run: pip install 'midstream[mcp]'",
        ) from None

    async def opened() -> "Engine":
        engine = await opening(options)
        settle_memory()
        note(*engine.notices)
        return engine

    work = serve_stdio(opened, approvals="deny" if deny_approvals else "ask")
    run_until_signalled(work, signals=(signal.SIGINT, *HANGUPS))
    return FINISHED


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
