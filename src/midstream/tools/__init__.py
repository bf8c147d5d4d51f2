"""Tools: what agents may do to the workspace, and the manager every call goes through.

Begin with `base` (the shape of a tool) and `manager` (`ToolManager`: reviewed, called, ended; it
lists what midstream ships). `user_tools` are a person's own, `mcp` other programs'.
`shell` runs commands, in the `sandbox` where there is one.
"""
