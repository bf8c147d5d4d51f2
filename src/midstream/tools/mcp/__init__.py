"""MCP: tools of other programs. Nothing of a server counts before a person has approved it.

Begin with `servers` (`McpServers`): which there are, started when one of their tools is first called.
`connection` holds one of them from start to end, over `server_process` (a program of this machine) or
HTTP: `transports` brings both through the strict decoder. `offers` makes what a server says of its tools
fit to be shown, `approval` asks, `pins` keeps what was approved, and `mcp_tools` makes a tool of it, whose
answers `mcp_results` bounds.
"""
