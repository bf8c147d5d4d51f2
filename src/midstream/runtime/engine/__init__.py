"""Where runs live: begun, kept in a store, talked to from any process, resumed, gone back in.

Begin with `local` (runs as tasks of this process) and `remote` (runs of another process, used like
one of this). `mailbox` is what other processes send, and how they wake the owner; `live` is what they
see of what streams. `open_run` folds a run from the store, `resume` goes on with one that was left or cut
off, `time_travel` forks and undoes, `redo` goes forward again, `run_files` puts files back.
"""
