"""Other people's programs that speak the Agent Client Protocol, and the wire both sides of it speak.

Begin with `json_rpc` (`Peer`: requests both ways over one pair of streams, each line through the strict
decoder); `acp_messages` has the protocol's messages as types of our own.
"""
