"""Stores: what keeps runs, in memory and in SQLite; `midstream.runtime.storage` says what one
owes.

Begin with `sqlite`, which puts the parts together: `facts` and `rows` are its tables, `writer` the
thread that writes, `schema` the file. `memory` is the same without a file. How facts are chained to
each other, in a file as in a database, is in `chains`.
"""
