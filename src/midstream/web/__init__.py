"""The console in a browser. Begin with `routes.py`.

`routes.py` is what a page can ask and do; `watching.py` follows runs once for all pages that watch them;
`items.py` makes of each fact the one thing a page shows of it; `shown.py` is a run as a page has it; and
`page/` is the page. It is a door over the public API (`midstream.api`), served by `midstream.server`.
"""
