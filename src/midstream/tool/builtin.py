"""The tools midstream ships."""

from midstream.tool import files, measure, search, shell, small
from midstream.tool.base import Tool


def built_in_tools() -> tuple[Tool, ...]:
    """Return every tool midstream ships, in a stable order."""
    return (*files.TOOLS, *search.TOOLS, *shell.TOOLS, *measure.TOOLS, *small.TOOLS)
