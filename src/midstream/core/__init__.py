"""The heart: three pure functions, and the values they are about.

    decide(run, input)  -> facts      what does this make true?     decide/
    apply(run, fact)    -> run        how do things stand then?     fold/
    pending(run)        -> effects    what is the run owed now?     pending.py

Begin with `run` (all that is true of a run), `events` (the facts) and `inputs` (what can happen to
it from outside). The loop around them is `midstream.runtime.state_machine`. No clock, no chance, no
files, no threads: what comes from outside arrives in an input.
"""
