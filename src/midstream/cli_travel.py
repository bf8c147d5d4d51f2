"""Commands about a run's past: fork, replay, export, import."""

import click

TRAVEL_COMMANDS: tuple[click.Command, ...] = ()
