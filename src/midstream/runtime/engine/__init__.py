"""Where runs live: begun, kept in a store, talked to from any process, resumed, gone back in.

Begin with `local` (runs as tasks of this process) and `remote` (runs of another process, used like
one of this). `mailbox` takes what other processes send, `wakeup` tells them to look. `resume` goes
on with a run that was left or cut off, `time_travel` forks, undoes and redoes.
"""
