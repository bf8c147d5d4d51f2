"""A worker: it takes runs that are owed something out of a shared store and drives them as others do.

Begin with `worker.py`, its loop. `folders.py` has an engine for each folder it works in; `watchdog.py` is a
small program beside it that ends its tools, should it hang, before anybody else may go on with its runs;
`health.py` tells whoever operates it how it is.
"""
