"""Tools of other programs: MCP servers, through the official library, as tools of ours.

Begin with `servers` (`McpServers`: started when a tool of theirs is first called) and `approval` (nothing
of a server runs, and no tool of it is offered, without a person's yes). `pins` is what was approved, to
the byte; `mcp_tools` makes tools of what is offered, and text of what is answered. `connection` is one
conversation with one server, `transports` its messages through the strict decoder, `server_process` the
program behind them.
"""
