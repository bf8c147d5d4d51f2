"""Other people's programs that speak the Agent Client Protocol, and the wire both sides of it speak.

Begin with `json_rpc` (`Peer`: requests both ways over one pair of streams, each line through the strict
decoder); `acp_messages` has the protocol's messages as types of our own.

Agents as workers: `external_agents` (`AcpAgents`) keeps a `conversation` for each agent of a run, whose
program is an `agent_process` and each of whose prompts is a `turn`, which knows its calls; `presets` are
the agents known by name.
"""
