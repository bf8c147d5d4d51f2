"""MCP: tools of other programs, kept at arm's length."""
