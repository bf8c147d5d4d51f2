"""Commands about settings: list, get, set, unset, edit."""

from typing import Any

import click

from midstream.cli.options import options_of, run_options
from midstream.cli.start_config import edit, get, listed, put, unset


@click.group("config", invoke_without_command=True)
@run_options
@click.pass_context
def config_group(context: click.Context, /, **common: Any) -> int:
    """List the settings and where each comes from, or change your own."""
    return 0 if context.invoked_subcommand else listed(options_of(common))


@config_group.command("list")
@run_options
def list_command(**common: Any) -> int:
    """List every setting with its value and where that comes from."""
    return listed(options_of(common))


@config_group.command("get")
@click.argument("key")
@run_options
def get_command(key: str, **common: Any) -> int:
    """Say what a setting is, where that comes from, and what it hides."""
    return get(options_of(common), key)


@config_group.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("value")
@run_options
def set_command(key: str, value: str, **common: Any) -> int:
    """Set a setting in your own application.json; comments in it stay.

    VALUE is a text or JSON: offline, true, 5, '["exec: make test"]'. KEY models sets every level.
    """
    return put(options_of(common), key, value)


@config_group.command("unset")
@click.argument("key")
@run_options
def unset_command(key: str, **common: Any) -> int:
    """Take a setting out of your own application.json."""
    return unset(options_of(common), key)


@config_group.command("edit")
@run_options
def edit_command(**common: Any) -> int:
    """Open your own application.json in $EDITOR; what does not fit is said before it is kept."""
    return edit(options_of(common))


CONFIG_COMMANDS: tuple[click.Command, ...] = (config_group,)
