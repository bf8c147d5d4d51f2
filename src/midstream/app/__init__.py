"""The session behind whatever UI it has: the mode, the active run and those out of sight, /commands.

Begin with `ai_coder_console`: what the UI and the commands call. `destinations` holds whom lines go
to, `user_lines` brings a line there, `switching` turns from one run to another, `background_runs`
holds those that are not on the screen. `commands` has everything that begins with a slash.
`assembly` is the parts list: the one place that knows every adapter.
"""
