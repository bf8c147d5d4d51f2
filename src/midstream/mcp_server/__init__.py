"""Other agents start and steer our runs: an MCP server, through the official library.

Begin with `tools` (what a client can do) and `server` (a call from the wire to its result). `told` is what
a client is told of a run, `waiting` how a call waits for one: progress, and questions by elicitation.
`stdio` serves the client that started us, `server` also gives the routes for a host of ours.

Whoever calls is a program, and its words are foreign. It starts what a person has set up by name, says and
answers under its own name (`mcp:NAME`), and decides nothing that is a person's: no tool approves a call of
an agent, raises a budget, says what became of a call that a crash cut, or chooses a permission mode.
"""
