"""The command line: arguments in, exit code out."""

import errno
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from midstream import __version__
from midstream.assembly import Options
from midstream.core.errors import REPORT_BUG, MidstreamError, NotTrusted
from midstream.core.nearest import nearest
from midstream.headless.codes import FAILED, INTERRUPTED, NOT_TRUSTED, SIGNALLED, USAGE
from midstream.process import OutputLost, Signalled, drop_stdout, open_missing_streams
from midstream.start_console import console
from midstream.start_headless import chat, complain, listing, validate, workflow

F = TypeVar("F", bound=Callable[..., Any])


def _common(function: F) -> F:
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


class _Commands(click.Group):
    """The group, which names the nearest command to one it does not know."""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        best = nearest(args[0], self.commands)
        if args[0] not in self.commands and best is not None:
            context.fail(f"No such command {args[0]!r}. Did you mean {best!r}?")
        return super().resolve_command(context, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="midstream")
@click.option("--mode", metavar="TYPE:NAME", help="role:NAME or workflow:NAME.")
@_common
@click.pass_context
def cli(context: click.Context, /, mode: str | None, **common: Any) -> None:
    """A console for AI coding: chat with a role, or talk to a workflow while it runs."""
    if context.invoked_subcommand is None:
        context.exit(console(_options(common), mode=mode))
    if mode is not None:
        context.fail("--mode is for the console; a command has no mode.")
    context.obj = common


@cli.command("run")
@click.argument("name", metavar="WORKFLOW")
@click.argument("input", required=False)
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@_common
def run(
    name: str, input: str | None, answer: tuple[str, ...], settings: tuple[str, ...], **common: Any
) -> int:
    """Run a workflow without a console: its output on stdout, progress on stderr."""
    return workflow(_options(common), name, input=input, answers=answer, settings=settings)


@cli.command("chat")
@click.argument("prompt")
@click.option("--role", default="dude", show_default=True, help="Whom to ask.")
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@_common
def chat_command(prompt: str, role: str, answer: tuple[str, ...], **common: Any) -> int:
    """Say one thing to a role and print the reply."""
    return chat(_options(common), prompt, role=role, answers=answer)


@cli.command("workflows")
@_common
def workflows(**common: Any) -> int:
    """List the workflows."""
    return listing(_options(common), "workflows")


@cli.command("roles")
@_common
def roles(**common: Any) -> int:
    """List the roles."""
    return listing(_options(common), "roles")


@cli.command("tools")
@_common
def tools(**common: Any) -> int:
    """List the tools agents may use."""
    return listing(_options(common), "tools")


@cli.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def validate_command(files: tuple[Path, ...]) -> int:
    """Check workflow, role and settings files, or folders of them: every problem, with its place."""
    return validate(files)


def _options(common: dict[str, Any]) -> Options:
    """Return the options of a command, those before its name included."""
    outer: dict[str, Any] = click.get_current_context().obj or {}
    picked = {key: common[key] or outer.get(key) for key in common}
    return Options(
        workspace=(picked["workspace"] or Path()).resolve(),
        model=picked["model"],
        trusts_workspace=bool(picked["trust_workspace"]),
        allowed=tuple(picked["allow"] or ()),
        is_json=bool(picked["as_json"]),
    )


def main() -> None:
    """Run the command line and leave with its exit code."""
    open_missing_streams()
    if not sys.warnoptions:
        # Libraries warn their programmers, who do not sit here.
        warnings.simplefilter("ignore")
    sys.exit(exit_code())


def exit_code(arguments: list[str] | None = None) -> int:
    """Return the exit code of a command line (None: the process's own arguments)."""
    try:
        return int(cli.main(arguments, standalone_mode=False) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.NoSuchOption) and _takes_words(error.ctx):
            complain("Words that begin with a dash stand after --.")
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Signalled as ended:
        return SIGNALLED + ended.number
    except OutputLost as lost:
        return _without_output(lost)
    except MidstreamError as error:
        complain(f"midstream: {error}")
        if isinstance(error, NotTrusted):
            return NOT_TRUSTED
        return USAGE if error.fault == "user" else FAILED
    # The last edge: what nobody foresaw is told with its place, and what to do with it.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _LOST:
            return _without_output(OutputLost(error))
        traceback.print_exc()
        complain(f"midstream: {type(error).__name__}: {error}. {REPORT_BUG}")
        return FAILED


def _takes_words(context: click.Context | None) -> bool:
    """Return whether a command takes words of a person, which may begin with a dash."""
    return context is not None and context.command in (run, chat_command)


_LOST = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""How writing help or a version to stdout fails."""


def _without_output(lost: OutputLost) -> int:
    """Say that the output is lost, unless its reader left on purpose, such as `head`."""
    drop_stdout()
    if not lost.is_unread:
        complain(f"midstream: {lost}")
    return FAILED
