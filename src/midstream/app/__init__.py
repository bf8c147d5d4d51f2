"""The session behind whatever UI it has: the mode, the active run and those out of sight, /commands.

Begin with `ai_coder_console`: a line typed in the UI comes there, and is a command or words for a run.
`session` has the parts, each built on those before it: `runs` (all that are known), `switching` (which
one lines go to), `background_runs`, `chats`, `history`, `input`, `status_line`. `commands` has everything
that begins with a slash and acts on the session. `ui` says what a UI is asked for, and may ask.
`assembly` is the parts list: the one place that knows every adapter.
"""
