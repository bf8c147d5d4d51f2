"""The command line: arguments in, exit code out. Begin with `_COMMANDS`, then `cli`.

A family of commands is imported once one of it is called: the console's prompt waits for none.
"""

import errno
import re
import sys
import traceback
import warnings
from importlib import import_module
from keyword import iskeyword
from typing import Any, Final

import click

from midstream._version import __version__
from midstream.cli.console import console
from midstream.cli.options import CONSOLE, options_of, with_options
from midstream.cli.output import FAILED, INTERRUPTED, SIGNALLED, USAGE, end_with
from midstream.language.errors import REPORT_BUG, MidstreamError, nearest
from midstream.system.own_process import (
    CleanStderr,
    OutputLost,
    Signalled,
    complain,
    open_missing_streams,
)

NAME: Final = "midstream"

_COMMANDS: Final = {
    "Without a console": {
        "run": "chat run resume",
        "serve": "web serve",
        "worker": "worker workers",
    },
    "Runs, from any terminal": {
        "runs": "runs show events send stop blob",
        "travel": "export import fetch",
    },
    "Going back": {"travel": "undo redo fork replay"},
    "Workflows": {"language": "workflows roles init validate explain graph schema"},
    "Trying workflows without a model": {"rehearse": "rehearse test"},
    "In other programs": {"acp": "acp"},
    "Setting up": {
        "doctor": "doctor",
        "config": "config",
        "journals": "journal",
        "trust": "trust",
        "language": "tools",
        "mcp": "mcp",
        "plugin": "plugin",
    },
}
"""Every command once, by what it is for, in the module here that has a function of its name."""

_MODULES: Final = {
    name: module
    for modules in _COMMANDS.values()
    for module, names in modules.items()
    for name in names.split()
}


class _Commands(click.Group):
    """The group, which names the nearest command to one it does not know."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _MODULES:
            return None
        module = import_module(f"midstream.cli.{_MODULES[name]}")
        command: click.Command = getattr(module, f"{name}_" if iskeyword(name) else name)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        best = nearest(args[0], _MODULES)
        if args[0] not in _MODULES and best is not None:
            context.fail(f"No such command {args[0]!r}. Did you mean {best!r}?")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, what is used daily first."""
        for title, modules in _COMMANDS.items():
            names = " ".join(modules.values()).split()
            rows = [(name, _in_short(self.get_command(context, name))) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)


def _in_short(command: click.Command | None) -> str:
    """Return what a command does, without what follows the first colon or semicolon."""
    words = "" if command is None else command.get_short_help_str(limit=200)
    return re.split("[:;]", words, maxsplit=1)[0].rstrip(".")


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name=NAME)
@click.option("--mode", metavar="TYPE:NAME", help="role:NAME or workflow:NAME.")
@with_options(*CONSOLE)
@click.pass_context
def cli(context: click.Context, /, mode: str | None, **common: Any) -> None:
    """A console for AI coding: chat with a role, or talk to a workflow while it runs."""
    if context.invoked_subcommand is None:
        context.exit(console(options_of(common), mode=mode))
    if mode is not None:
        context.fail("--mode is for the console; a command has no mode.")
    if common["continues"] or common["resumes"] is not None:
        context.fail("--continue and --resume are for the console; midstream resume RUN goes on.")
    context.obj = common


def main() -> None:
    """Run the command line and leave with its exit code."""
    open_missing_streams()
    if not sys.warnoptions:
        # Libraries warn their programmers, who do not sit here.
        warnings.simplefilter("ignore")
    sys.stderr = CleanStderr()
    sys.exit(exit_code())


def exit_code(arguments: list[str] | None = None) -> int:
    """Return the exit code of a command line (None: the process's own arguments)."""
    try:
        return int(cli.main(arguments, prog_name=NAME, standalone_mode=False) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        complain(f"{NAME}: {_wrong_usage(error)}")
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Signalled as ended:
        return SIGNALLED + ended.number
    except MidstreamError as error:
        return end_with(error)
    # The last edge: what nobody foresaw is told with its place, and what to do with it.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _LOST:
            return end_with(OutputLost(error))
        complain(traceback.format_exc().rstrip())
        complain(f"{NAME}: {type(error).__name__}: {error}. {REPORT_BUG}")
        return FAILED


_LOST: Final = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""How writing help or a version to stdout fails."""

_TAKE_WORDS: Final = ("run", "chat", "send")
"""Commands with words of a person, which may begin with a dash."""


def _wrong_usage(error: click.ClickException) -> str:
    """Return what is wrong with a command line, and how one is written."""
    said = error.format_message().rstrip()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return said
    ways = []
    if isinstance(error, click.NoSuchOption) and context.command.name in _TAKE_WORDS:
        ways.append("Put words that begin with a dash after --.")
    path = context.command_path
    if isinstance(error, click.MissingParameter) or type(error) is click.UsageError:
        ways.append(f"Write {path} {' '.join(context.command.collect_usage_pieces(context))}.")
    ways.append(f"{path} --help tells more.")
    return " ".join((said if said.endswith((".", "?", ")")) else f"{said}.", *ways))
