"""The tools midstream ships."""

from typing import TYPE_CHECKING

from midstream.tool import explain, files, measure, search, shell, small
from midstream.tool.base import Tool

if TYPE_CHECKING:
    from midstream.tool.sandbox.sandbox import Sandbox


def built_in_tools(sandbox: "Sandbox | None" = None) -> tuple[Tool, ...]:
    """Return every tool midstream ships, in a stable order. Commands run in the sandbox, if any."""
    terminal = shell.terminal_tool(sandbox)
    looking = (*search.TOOLS, *explain.TOOLS)
    return (*files.TOOLS, *looking, terminal, *measure.TOOLS, *small.TOOLS)
