"""One HTTP server for every door of midstream that speaks HTTP. Begin with `host.py`.

`access.py` judges each request before a door sees it: whose it is, and from which page it comes. `host.py`
makes one application of the doors that are wanted, and serves it until it is told to end. Needs the extra
`web`, and is imported by the commands that serve alone.
"""
