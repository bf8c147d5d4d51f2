"""`midstream config`: the settings, where each comes from, and changing one's own."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import click

from midstream.app.assembly import Options
from midstream.cli.options import RUNS, takes
from midstream.cli.output import FAILED, FINISHED, note, say
from midstream.config.hooks import HOOKS, hooks_of, listed
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import open_settings
from midstream.config.private_files import FileMissing, read_capped, shown_path, write_whole
from midstream.config.user_settings import (
    as_json,
    explained,
    own_problems,
    settings_of,
    template,
    where,
)
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.language.problem import has_errors
from midstream.system.own_process import STDERR, STDIN, columns, is_terminal
from midstream.tui.terminal_questions import asked
from midstream.views.cells import two_columns


@click.group("config", invoke_without_command=True)
@takes(*RUNS)
@click.pass_context
def config(context: click.Context, options: Options) -> int:
    """List the settings and where each comes from, or change your own."""
    return 0 if context.invoked_subcommand else _listed(options)


@config.command("list")
@takes(*RUNS)
def list_command(options: Options) -> int:
    """List every setting with its value and where that comes from."""
    return _listed(options)


def _listed(options: Options) -> int:
    settings = _settings(options)
    found = settings_of(settings)
    if options.is_json:
        say(*map(as_json, found))
    else:
        rows = [(each.key, f"{each.value}  ({where(each)})") for each in found]
        rows += [(f"{HOOKS}.{event}", what) for event, what in listed(hooks_of(settings)[0])]
        say(two_columns(rows, width=columns()))
    return FINISHED


@config.command("get")
@click.argument("key")
@takes(*RUNS)
def get_command(options: Options, key: str) -> int:
    """Say what a setting is, where that comes from, and what it hides."""
    settings = _settings(options)
    if options.is_json:
        say(*map(as_json, settings_of(settings, key)))
    else:
        say(explained(settings, key))
    return FINISHED


@config.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("value")
@takes(*RUNS)
def set_command(options: Options, key: str, value: str) -> int:
    """Set a setting in your own application.json; comments in it stay.

    VALUE is a text or JSON: offline, true, 5, '["exec: make test"]'. KEY models sets every level.
    """
    return _changed(options, key, value)


@config.command("unset")
@click.argument("key")
@takes(*RUNS)
def unset_command(options: Options, key: str) -> int:
    """Take a setting out of your own application.json."""
    return _changed(options, key, None)


def _changed(options: Options, key: str, value: str | None) -> int:
    from midstream.app.settings_changes import changed

    say(changed(_settings(options), key, value))
    return FINISHED


@config.command("edit")
@takes(*RUNS)
def edit_command(options: Options) -> int:
    """Open your own application.json in $EDITOR. What does not fit is said before it is kept."""
    # A copy is edited. It takes the file's place once the reader has nothing against it, or its person
    # says so in spite of that; else it stays where it is, and the file as it was.
    settings = _settings(options)
    old = _own_text(settings)
    folder = Path(tempfile.mkdtemp(prefix="midstream-config-"))
    draft = folder / settings.user_file.name
    draft.write_text(old or template(), encoding="utf-8")
    draft.chmod(0o600)
    try:
        kept = _edited(settings, old, draft)
    except BaseException:
        note(f"What you wrote is in {draft}; {shown_path(settings.user_file)} is as it was.")
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return FINISHED if kept else FAILED


def _edited(config: ConfigManager, old: str, draft: Path) -> bool:
    """Let a person edit until it fits or they say what to do; return whether the file is as they want."""
    name = shown_path(config.user_file)
    while True:
        _open(draft)
        text = _draft_text(draft)
        if text in (old, template()):
            say("Nothing was changed.")
            return True
        problems = own_problems(config, text)
        note(*map(str, problems))
        if has_errors(problems):
            choice = _choice(name)
            if choice == "e":
                continue
            if choice == "d":
                say(f"{name} is as it was.")
                return False
        if _own_text(config) != old:
            raise UserMistake(
                f"{name} was changed by somebody else meanwhile; it was not written over.",
                hint="Merge the two by hand.",
            )
        write_whole(config.user_file, text.encode("utf-8"))
        say(f"{name} is written. It takes effect at the next start.")
        return True


def _choice(name: str) -> str:
    """Return what to do with a draft that has errors: e, edit it again; k, keep it so; d, drop it.

    Raises:
        UserMistake: nobody is there to say.
    """
    if not (is_terminal(STDIN) and is_terminal(STDERR)):
        raise UserMistake(
            f"{name} was not written: what the editor left has errors.",
            hint="Mend them and edit again.",
        )
    words = "e edits again, k keeps it all the same (what has errors is ignored), d drops it [e]: "
    while (picked := asked(words, to=STDERR).casefold() or "e") not in ("e", "k", "d"):
        pass
    return picked


def _open(draft: Path) -> None:
    from midstream.system.supervisor import run_in_terminal
    from midstream.tui.external_editor import editor_command

    argv = editor_command(os.environ)
    try:
        done = asyncio.run(run_in_terminal([*argv, str(draft)]))
    except OSError as error:
        raise WorldTrouble(
            f"The editor {argv[0]!r} could not be started: {error.strerror}.",
            hint="Set EDITOR to one that can, such as EDITOR=nano.",
        ) from None
    if done.exit_code:
        raise WorldTrouble(
            f"The editor {argv[0]!r} ended with {done.exit_code}.", hint="Nothing was changed."
        )


def _draft_text(draft: Path) -> str:
    try:
        return read_capped(draft).decode("utf-8")
    except UnicodeDecodeError:
        raise UserMistake(
            "What the editor wrote is no UTF-8 text.", hint="Save it as UTF-8."
        ) from None


def _own_text(config: ConfigManager) -> str:
    with contextlib.suppress(FileMissing):
        return read_capped(config.user_file).decode("utf-8", "replace")
    return ""


def _settings(options: Options) -> ConfigManager:
    """Return the settings, and say what is wrong with the files they come from."""
    config = open_settings(options.workspace)
    note(*config.notices)
    return config
