"""The UIs of the console: the terminal a person types at, plain lines, JSON lines.

Begin with `interface` (`ConsoleInterface`), where all meets, and `keymap`, which says what each key
does and when. `editor` is the line that is typed, `dialog` what stands open over it, `scrollback`
what is printed, and `event_renderer` says how events become lines.
"""
