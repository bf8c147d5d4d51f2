"""Commands that test a workflow without a model: rehearse, test."""

import click

REHEARSE_COMMANDS: tuple[click.Command, ...] = ()
