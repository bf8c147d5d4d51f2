"""The library's door: `midstream.open()` and what it gives. Begin with `engine.py`.

`engine.py` opens an engine, which starts, finds and forks runs; `run_handle.py` is a run as a program
holds it, wherever it lives; `sync.py` is both for code without an event loop, over the same engine in a
thread. Everything here is importable from `midstream`.
"""
