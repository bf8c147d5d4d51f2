"""The tools midstream ships."""

from typing import TYPE_CHECKING

from midstream.tools import explain_codebase, file_tools, measure_code, search, shell, small_tools
from midstream.tools.base import Tool

if TYPE_CHECKING:
    from midstream.tools.sandbox.sandbox import Sandbox


def built_in_tools(sandbox: "Sandbox | None" = None) -> tuple[Tool, ...]:
    """Return every tool midstream ships, in a stable order. Commands run in the sandbox, if any."""
    terminal = shell.terminal_tool(sandbox)
    looking = (*search.TOOLS, *explain_codebase.TOOLS)
    return (*file_tools.TOOLS, *looking, terminal, *measure_code.TOOLS, *small_tools.TOOLS)
