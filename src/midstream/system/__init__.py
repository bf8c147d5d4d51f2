"""The machine midstream runs on: this process, its threads, and the files of a workspace.

Everything here is handed plain values and knows nothing of runs, models or tools. Begin with
`workspace_paths`: where a path leads, and how it is opened without following a link. `put_in_place`
changes what stands there, whole or not at all; `diff` says what was changed. `offloop` runs what
may never return in threads that can be left behind; `own_process` holds the standard streams,
signals and secrets of this process; `supervisor` starts every other one, and ends it with all that it
started, as `watchdog` does, a small program beside us, when we cannot; `programs`, `git`, `walk` and
`workspace_files` find and ask what else is there.
"""
