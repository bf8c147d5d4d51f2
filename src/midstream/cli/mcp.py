"""Commands about MCP servers: list, approve, forget."""

from typing import Any

import click

from midstream.cli.options import options_of, run_options
from midstream.cli.start_mcp import approve, forget, servers


@click.group("mcp", invoke_without_command=True)
@run_options
@click.pass_context
def mcp_group(context: click.Context, /, **common: Any) -> int:
    """List MCP servers, approve what they offer, or take that back."""
    return 0 if context.invoked_subcommand else servers(options_of(common))


@mcp_group.command("list")
@run_options
def list_command(**common: Any) -> int:
    """List the MCP servers of your settings and what a trusted workspace proposes."""
    return servers(options_of(common))


@mcp_group.command("approve")
@click.argument("name")
@run_options
def approve_command(name: str, **common: Any) -> int:
    """Look at a server, its command and its tools, and approve exactly that."""
    return approve(options_of(common), name)


@mcp_group.command("forget")
@click.argument("name")
@run_options
def forget_command(name: str, **common: Any) -> int:
    """Take an approval back: the server's tools are not offered any more."""
    return forget(options_of(common), name)


MCP_COMMANDS: tuple[click.Command, ...] = (mcp_group,)
