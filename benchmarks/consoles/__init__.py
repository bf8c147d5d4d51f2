"""Other coding consoles beside ours: installed, run in a terminal, asked the same. See docs/compared.md.

`python -m benchmarks.consoles [NAME ...] [--runs N]` installs them into a temporary folder, then cuts the
network off but for loopback, and prints the tables. Begin reading at `table`, the consoles as data;
`steps` is what is done with each, `start` and `screen` are how, `wire` is the model they talk to, `report`
the tables. It needs Linux, `npm`, and `unshare` and `setsid` of util-linux.
"""
