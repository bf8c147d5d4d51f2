"""Rehearsals: a run written down, and played again against the workflow of today, without a model.

Begin with `format` (the file: what happened from outside, in order, and what came of it) and `comparison`
(what differs first, when it is played). `record` makes a rehearsal of a run's facts, by way of
`inputs_from_facts`. `playback` plays one: `scenario_driver` does what each step says, in the `fake_world`
where everything a run is owed stands still until it is let end.

`disturb_everywhere` breaks a playing at every point where one can be broken, and `invariants` says what
must be true afterwards; `auto_responder` answers what no step foresaw. `workspace` finds the rehearsals
of a folder.
"""
