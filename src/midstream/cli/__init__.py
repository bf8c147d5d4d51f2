"""The command line: one module a family of commands, with their options and their work.

Begin with `main`: the table of commands, and what a bare `midstream` does (`console`). What families share
is in `options` (the options many commands take, as one value), `output` (what is written, and the exit
codes) and `journal`. `headless` is work without a person; it needs no command line.
"""
