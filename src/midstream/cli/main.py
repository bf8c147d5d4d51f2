"""The command line: arguments in, exit code out.

What a command does is imported once it is called: the console's prompt waits for none of it.
"""

import errno
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from midstream import __version__
from midstream.cli.headless.exit_codes import FAILED, INTERRUPTED, NOT_TRUSTED, SIGNALLED, USAGE
from midstream.cli.options import (
    common_options,
    console_options,
    journal_option,
    json_option,
    options_of,
    plain_options,
    run_options,
)
from midstream.cli.start_console import console
from midstream.language.errors import REPORT_BUG, MidstreamError, NotTrusted
from midstream.language.nearest import nearest
from midstream.system.own_process import (
    CleanStderr,
    OutputLost,
    Signalled,
    complain,
    drop_stdout,
    open_missing_streams,
)

if TYPE_CHECKING:
    from midstream.config.manager import ConfigManager
    from midstream.config.trust import TrustStatus, TrustStore

NAME = "midstream"


_GROUPS = {
    "Without a console": ("chat", "run", "resume"),
    "Runs, from any terminal": ("runs", "show", "events", "send", "stop", "export", "import"),
    "Going back": ("undo", "redo", "fork", "replay"),
    "Workflows": ("workflows", "roles", "init", "validate", "explain", "graph", "schema"),
    "Trying workflows without a model": ("rehearse", "test"),
    "Setting up": ("doctor", "config", "trust", "tools", "mcp"),
}
"""The commands by what they are for. Every command stands here once."""


class _Commands(click.Group):
    """The group, which names the nearest command to one it does not know.

    The families of commands are imported once one is named: the console's prompt waits for none.
    """

    _has_families = False

    def list_commands(self, context: click.Context) -> list[str]:
        self._take_families()
        return super().list_commands(context)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        self._take_families()
        return super().get_command(context, name)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        self._take_families()
        best = nearest(args[0], self.commands)
        if args[0] not in self.commands and best is not None:
            context.fail(f"No such command {args[0]!r}. Did you mean {best!r}?")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, what is used daily first."""
        self._take_families()
        for title, names in _GROUPS.items():
            rows = [(name, _in_short(self.commands[name])) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _take_families(self) -> None:
        if self._has_families:
            return
        from midstream.cli.config import CONFIG_COMMANDS
        from midstream.cli.language import LANGUAGE_COMMANDS
        from midstream.cli.mcp import MCP_COMMANDS
        from midstream.cli.rehearse import REHEARSE_COMMANDS
        from midstream.cli.runs import RUN_COMMANDS
        from midstream.cli.travel import TRAVEL_COMMANDS

        self._has_families = True
        for command in (
            *RUN_COMMANDS,
            *TRAVEL_COMMANDS,
            *REHEARSE_COMMANDS,
            *LANGUAGE_COMMANDS,
            *MCP_COMMANDS,
            *CONFIG_COMMANDS,
        ):
            self.add_command(command)


def _in_short(command: click.Command) -> str:
    """Return what a command does, without what follows the first colon or semicolon."""
    return re.split("[:;]", command.get_short_help_str(limit=200), maxsplit=1)[0].rstrip(".")


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="midstream")
@click.option("--mode", metavar="TYPE:NAME", help="role:NAME or workflow:NAME.")
@console_options
@common_options
@click.pass_context
def cli(context: click.Context, /, mode: str | None, **common: Any) -> None:
    """A console for AI coding: chat with a role, or talk to a workflow while it runs."""
    if context.invoked_subcommand is None:
        context.exit(console(options_of(common), mode=mode, asks=_ask_trust, examines=_examine))
    if mode is not None:
        context.fail("--mode is for the console; a command has no mode.")
    if common["continues"] or common["resumes"] is not None:
        context.fail("--continue and --resume are for the console; midstream resume RUN goes on.")
    context.obj = common


@cli.command("run")
@click.argument("name", metavar="WORKFLOW")
@click.argument("input", required=False)
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@journal_option
@common_options
def run(
    name: str, input: str | None, answer: tuple[str, ...], settings: tuple[str, ...], **common: Any
) -> int:
    """Run a workflow without a console: its output on stdout, progress on stderr."""
    from midstream.cli.start_headless import workflow

    return workflow(options_of(common), name, input=input, answers=answer, settings=settings)


@cli.command("chat")
@click.argument("prompt")
@click.option("--role", default="dude", show_default=True, help="The role to chat with.")
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@journal_option
@common_options
def chat_command(prompt: str, role: str, answer: tuple[str, ...], **common: Any) -> int:
    """Say one thing to a role and print the reply."""
    from midstream.cli.start_headless import chat

    return chat(options_of(common), prompt, role=role, answers=answer)


def _listing(what: str, common: dict[str, Any]) -> int:
    from midstream.cli.start_headless import listing

    return listing(options_of(common), what)


@cli.command("workflows")
@common_options
def workflows(**common: Any) -> int:
    """List the workflows."""
    return _listing("workflows", common)


@cli.command("roles")
@common_options
def roles(**common: Any) -> int:
    """List the roles."""
    return _listing("roles", common)


@cli.command("tools")
@common_options
def tools(**common: Any) -> int:
    """List the tools agents may use."""
    return _listing("tools", common)


@cli.command("validate")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Treat warnings as errors: exit code 1.")
@json_option
def validate_command(files: tuple[Path, ...], strict: bool, as_json: bool) -> int:
    """Check workflow, role and settings files, or folders of them: every problem, with its place.

    Without FILES, those of this folder's .midstream/. A workflow's name will do, too.
    """
    from midstream.cli.start_headless import validate

    options = plain_options(as_json=as_json)
    own = options.workspace / ".midstream"
    if not files and not own.is_dir():
        raise click.UsageError("There is no .midstream/ here: name the FILES to check.")
    return validate(options, files or (own,), is_strict=strict)


@cli.command("trust")
@click.option("--list", "lists", is_flag=True, help="List the workspaces you trust.")
@click.option("--revoke", is_flag=True, help="Stop trusting this workspace.")
@run_options
def trust_command(lists: bool, revoke: bool, **common: Any) -> int:
    """Look at what this workspace's .midstream/ would switch on, and trust it."""
    from midstream.cli.start_trust import revoke_trust, trust, trusted

    if lists:
        return trusted()
    options = options_of(common)
    return revoke_trust(options) if revoke else trust(options)


@cli.command("doctor")
@click.option("--sandbox", is_flag=True, help="Measure the sandbox again and list every probe.")
@click.option("--attack", is_flag=True, help="Try in a scratch folder what attackers would.")
@click.option("--salvage", is_flag=True, help="Recover what is intact from a damaged journal.")
@common_options
def doctor_command(sandbox: bool, attack: bool, salvage: bool, **common: Any) -> int:
    """Say whether everything midstream needs is there, and what to do where it is not."""
    from midstream.cli.start_doctor import attacked, doctor, salvaged

    if attack:
        return attacked(options_of(common))
    if salvage:
        return salvaged(options_of(common))
    return doctor(options_of(common), sandbox=sandbox)


def _ask_trust(status: "TrustStatus", store: "TrustStore") -> bool:
    from midstream.cli.start_trust import ask_trust

    return ask_trust(status, store)


def _examine(config: "ConfigManager", width: int) -> str:
    from midstream.cli.start_doctor import examined

    return examined(config, width=width)


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
        complain(traceback.format_exc().rstrip())
        complain(f"midstream: {type(error).__name__}: {error}. {REPORT_BUG}")
        return FAILED


def _wrong_usage(error: click.ClickException) -> str:
    """Return what is wrong with a command line, and how one is written."""
    said = error.format_message().rstrip()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return said
    ways = []
    if isinstance(error, click.NoSuchOption) and _takes_words(context):
        ways.append("Put words that begin with a dash after --.")
    path = context.command_path
    if isinstance(error, click.MissingParameter) or type(error) is click.UsageError:
        ways.append(f"Write {path} {' '.join(context.command.collect_usage_pieces(context))}.")
    ways.append(f"{path} --help tells more.")
    return " ".join((said if said.endswith((".", "?", ")")) else f"{said}.", *ways))


def _takes_words(context: click.Context | None) -> bool:
    """Return whether a command takes words of a person, which may begin with a dash."""
    if context is None:
        return False
    from midstream.cli.runs import send_command

    return context.command in (run, chat_command, send_command)


_LOST = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""How writing help or a version to stdout fails."""


def _without_output(lost: OutputLost) -> int:
    """Say that the output is lost, unless its reader left on purpose, such as `head`."""
    drop_stdout()
    if not lost.is_unread:
        complain(f"midstream: {lost}")
    return FAILED
