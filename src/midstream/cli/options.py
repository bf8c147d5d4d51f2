"""The options every way of starting shares."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from midstream.app.assembly import Options
from midstream.language.errors import UserMistake
from midstream.safety.capability import PermissionMode
from midstream.system.own_process import STDERR, STDIN, is_terminal, write_error
from midstream.tui.terminal_questions import asked

F = TypeVar("F", bound=Callable[..., Any])


def common_options(function: F) -> F:
    """Add the options every way of starting shares."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line, on stdout."),
        click.option(
            "--allow",
            multiple=True,
            metavar="WHAT",
            help="Let a tool, or a capability such as 'exec: make test', run without asking.",
        ),
        click.option(
            "--permission-mode",
            type=click.Choice(["plan", "ask", "auto", "full"]),
            help="What may happen unasked; full asks you to type a word first.",
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


def console_options(function: F) -> F:
    """Add the options of the console alone: which chat it goes on with."""
    for option in (
        click.option(
            "--resume",
            "resumes",
            is_flag=False,
            flag_value="",
            metavar="[CHAT]",
            help="Go on with a chat of this folder: its number in the list (1: the newest), its name or "
            "the beginning of its id, in this order; without one choose from the list.",
        ),
        click.option(
            "--continue",
            "continues",
            is_flag=True,
            help="Go on with the newest chat of this folder.",
        ),
    ):
        function = option(function)
    return function


journal_option = click.option(
    "--no-journal", is_flag=True, help="Keep nothing of the run; it cannot be resumed."
)


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
        permission_mode=_permission_mode(picked.get("permission_mode")),
        is_json=bool(picked["as_json"]),
        continues=bool(picked.get("continues")),
        resumes=common.get("resumes"),  # "" asks for the list
        journal="none" if picked.get("no_journal") else "wanted",
    )


def _permission_mode(mode: str | None) -> PermissionMode | None:
    """Return the mode; `full` only once a person has typed that they mean it.

    Raises:
        UserMistake: nobody did.
    """
    if mode != "full":
        return cast("PermissionMode | None", mode)
    if FULL_MEANT not in click.get_current_context().meta:
        if not (is_terminal(STDIN) and is_terminal(STDERR)):
            raise UserMistake(
                "--permission-mode full needs a word typed at a terminal.",
                hint="Without one, name what may run: --allow 'exec: make test'.",
            )
        write_error(f"{FULL_WARNING}\n")
        if asked(f"Type {FULL_WORD!r} to go on: ", to=STDERR) != FULL_WORD:
            raise UserMistake(
                "Not started: the word was not typed.",
                hint=f"Type {FULL_WORD}, or choose another --permission-mode, such as auto.",
            )
        click.get_current_context().meta[FULL_MEANT] = True
    return "full"


FULL_WORD = "everything"
FULL_MEANT = "midstream.full"
FULL_WARNING = (
    "In the permission mode full agents change files and run commands without asking, outside\n"
    "the sandbox, too. A web page or a file they read can tell them to. What you can\n"
    "reach, they can."
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
