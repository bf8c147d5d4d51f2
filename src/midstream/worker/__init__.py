"""A worker: it takes runs that are owed something out of a shared store and drives them as others do.

Begin with `worker.py`, its loop. `folders.py` has an engine for each folder it works in;
`health.py` tells whoever operates it how it is.
"""
