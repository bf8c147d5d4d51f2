"""Commands about runs of any process: list, show, follow, send, resume, stop."""

import click

RUN_COMMANDS: tuple[click.Command, ...] = ()
