"""The options every way of starting shares."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from midstream.assembly import Options

F = TypeVar("F", bound=Callable[..., Any])


def common_options(function: F) -> F:
    """Add the options every way of starting shares."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line, on stdout."),
        click.option(
            "--allow", multiple=True, metavar="TOOL", help="Let this tool run without asking."
        ),
        click.option(
            "--trust-workspace", is_flag=True, help="Use the workspace's .midstream/ this time."
        ),
        click.option(
            "--workspace",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="The folder to work in; by default the current one.",
        ),
        click.option("--model", metavar="MODEL", help="A model such as openai:gpt-5, or offline."),
    ):
        function = option(function)
    return function


def run_options(function: F) -> F:
    """Add the options of commands about runs, which need no model and read no settings."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line, on stdout."),
        click.option(
            "--workspace",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="The folder whose runs are meant; by default the current one.",
        ),
    ):
        function = option(function)
    return function


def options_of(common: dict[str, Any]) -> Options:
    """Return the options of a command, those before its name included."""
    outer: dict[str, Any] = click.get_current_context().obj or {}
    picked = {key: common[key] or outer.get(key) for key in common}
    return Options(
        workspace=(picked["workspace"] or Path()).resolve(),
        model=picked.get("model"),
        trusts_workspace=bool(picked.get("trust_workspace")),
        allowed=tuple(picked.get("allow") or ()),
        is_json=bool(picked["as_json"]),
    )


def json_option(function: F) -> F:
    """Add `--json` to a command that needs no other of the common options."""
    words = "One JSON object a line, on stdout."
    return click.option("--json", "as_json", is_flag=True, help=words)(function)


def plain_options(*, as_json: bool = False) -> Options:
    """Return the options of such a command: those before its name."""
    outer: dict[str, Any] = click.get_current_context().obj or {}
    return Options(
        workspace=(outer.get("workspace") or Path()).resolve(),
        is_json=as_json or bool(outer.get("as_json")),
    )
