"""Tools: what agents may do to the workspace, and the manager every call goes through.

Begin with `base` (a tool is a function marked with `@tool`) and `manager` (`ToolManager`: reviewed,
called, ended; it lists what midstream ships). `file_tools`, `search`, `shell`, `code_tools` and
`small_tools` are those; `user_tools` are a person's own, `mcp` other programs'. `shell` runs commands, in
the `sandbox` where there is one.
"""
