"""What a person can do with MCP servers."""

from typing import Protocol

import msgspec


class McpAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked to approve of an MCP server: `text` is all of it, `code` what a yes gives
    back. Without a code there is nothing to approve, and the text says why.
    """

    text: str
    code: str = ""


class McpOperator(Protocol):
    """What a person can do with MCP servers."""

    async def listing(self) -> str:
        """Return how each server stands, in lines."""

    async def ask(self, name: str) -> McpAsked:
        """Return what there is to approve of a server: first its command, then what it offers."""

    async def approve(self, name: str, code: str) -> str:
        """Approve exactly what was shown with a code; return what is true now."""

    async def forget(self, name: str) -> str:
        """Take an approval back and end the server; return what is true now."""
