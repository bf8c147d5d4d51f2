"""Tools: what agents may do to the workspace, and the manager every call goes through."""
