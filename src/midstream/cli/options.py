"""The options many commands share, each by its name in the one value they become (`Options`)."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from midstream.app.assembly import Options
from midstream.language.errors import UserMistake
from midstream.language.names import python_file
from midstream.safety.capability import PermissionMode
from midstream.system.own_process import STDERR, STDIN, is_terminal, write_error
from midstream.tui.terminal_questions import asked

if TYPE_CHECKING:
    from midstream.api.engine import Begun, Engine

F = TypeVar("F", bound=Callable[..., Any])

_Adds: TypeAlias = Callable[[Any], Any]
"""Adds an option to a command."""


def _workspace(words: str) -> _Adds:
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.option("--workspace", type=folder, help=f"{words}; by default the current one.")


JSON: Final = (
    click.option(
        "--json",
        "is_json",
        is_flag=True,
        default=None,
        help="One JSON object a line, on stdout.",
    ),
)
RUNS: Final = (_workspace("The folder that is meant"), *JSON)
"""Those of commands about runs, which need no model and read no settings."""

SETTINGS: Final = (
    click.option("--model", metavar="MODEL", help="A model such as openai:gpt-5, or offline."),
    _workspace("The folder to work in"),
    click.option(
        "--trust-workspace/--no-trust-workspace",
        "trusts_workspace",
        default=None,
        help="Use the workspace's .midstream/ this time, or leave it alone.",
    ),
    click.option(
        "--permission-mode",
        type=click.Choice(["plan", "ask", "auto", "full"]),
        help="What may happen unasked; full asks you to type a word first.",
    ),
)
"""Those of what works with settings and models, for as long as it is there."""

ALLOW: Final = click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="WHAT",
    help="Let a tool, or a capability such as 'exec: make test', run without asking.",
)
COMMON: Final = (*SETTINGS, ALLOW, *JSON)
"""Those of everything that works with settings and models."""

JOURNALED: Final = (
    click.option(
        "--no-journal",
        "journal",
        flag_value="none",
        help="Keep nothing of the run; it cannot be resumed.",
    ),
    *COMMON,
)
CONSOLE: Final = (
    click.option(
        "--screen-reader",
        "is_screen_reader",
        is_flag=True,
        default=None,
        help="Plain lines, each said once, for a screen reader.",
    ),
    click.option(
        "--continue",
        "continues",
        is_flag=True,
        default=None,
        help="Go on with the newest chat of this folder.",
    ),
    click.option(
        "--resume",
        "resumes",
        is_flag=False,
        flag_value="",
        metavar="[CHAT]",
        help="Go on with a chat of this folder: its number in the list (1: the newest), its name or "
        "the beginning of its id, in this order; without one choose from the list.",
    ),
    *COMMON,
)


def read_if_dash(text: str) -> str:
    """Return what a command is given, read from stdin where it is just `-`."""
    if text != "-":
        return text
    return sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")


def workflow_named(text: str) -> str:
    """Return a workflow as the command line names it: the path of a file is from where one stands."""
    file = python_file(text)
    return text if file is None else f"{Path(file[0]).absolute()}:{file[1]}".removesuffix(":")


def with_options(*shared: _Adds) -> Callable[[F], F]:
    """Add shared options to a command, in that order."""

    def added(function: F) -> F:
        for add in reversed(shared):
            function = add(function)
        return function

    return added


def takes(*shared: _Adds) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add shared options to a command, whose function gets first the `Options` they become."""

    def given(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def command(**values: Any) -> int:
            own: dict[str, Any] = {
                key: values.pop(key) for key in Options.__struct_fields__ if key in values
            }
            return function(options_of(own), **values)

        return with_options(*shared)(command)

    return given


def opening(options: Options) -> "Begun[Engine]":
    """Return an engine that is opened as the command line says, to be awaited or entered."""
    from midstream.api.engine import open

    return open(
        options.workspace,
        model=options.model,
        trust=options.trusts_workspace,
        permissions=options.permission_mode,
    )


_UNSAID: Final = (None, ())
"""What click gives for an option that was not there."""


def options_of(own: dict[str, Any]) -> Options:
    """Return the options of a command.

    Those before its name count as well, as far as it takes them; where it works and how it writes
    may be said there for any.
    """
    outer: dict[str, Any] = click.get_current_context().obj or {}
    given = {
        key: outer.get(key) if own.get(key) in _UNSAID else own[key]
        for key in {*own, "workspace", "is_json"}
    }
    said = {key: value for key, value in given.items() if value not in _UNSAID}
    said["workspace"] = said.get("workspace", Path()).resolve()
    _require_meant(said.get("permission_mode"))
    return Options(**said)


def _require_meant(mode: PermissionMode | None) -> None:
    """Return for `full` only once a person has typed that they mean it.

    Raises:
        UserMistake: nobody did.
    """
    meta = click.get_current_context().meta
    if mode != "full" or _FULL_MEANT in meta:
        return
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
    meta[_FULL_MEANT] = True


FULL_WORD: Final = "everything"
_FULL_MEANT: Final = "midstream.full"
FULL_WARNING: Final = (
    "In the permission mode full agents change files and run commands without asking, outside\n"
    "the sandbox, too. A web page or a file they read can tell them to. What you can\n"
    "reach, they can."
)
