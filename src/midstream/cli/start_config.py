"""`midstream config`: the settings, where each comes from, and changing one's own."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from midstream.app.assembly import Options
from midstream.cli.headless.exit_codes import FAILED, FINISHED
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
from midstream.system.own_process import STDERR, STDIN, columns, is_terminal, write_error, write_out
from midstream.tui.terminal_questions import asked
from midstream.views.cells import two_columns


def listed(options: Options) -> int:
    """Write every setting, its value and where it comes from; return the exit code."""
    config = _settings(options)
    found = settings_of(config)
    if options.is_json:
        write_out("".join(f"{as_json(each)}\n" for each in found))
        return FINISHED
    rows = [(each.key, f"{each.value}  ({where(each)})") for each in found]
    write_out(f"{two_columns(rows, width=columns())}\n")
    return FINISHED


def get(options: Options, key: str) -> int:
    """Write what a setting is, where that comes from and what it hides; return the exit code."""
    config = _settings(options)
    if options.is_json:
        write_out("".join(f"{as_json(each)}\n" for each in settings_of(config, key)))
    else:
        write_out(f"{explained(config, key)}\n")
    return FINISHED


def put(options: Options, key: str, value: str) -> int:
    """Set a setting in the user's own file and say when it counts; return the exit code."""
    return _changed(options, key, value)


def unset(options: Options, key: str) -> int:
    """Take a setting out of the user's own file; return the exit code."""
    return _changed(options, key, None)


def _changed(options: Options, key: str, value: str | None) -> int:
    from midstream.app.settings_changes import changed

    write_out(f"{changed(_settings(options), key, value)}\n")
    return FINISHED


def edit(options: Options) -> int:
    """Open the user's own file in their editor; return the exit code: 1 where nothing was kept.

    A copy is edited. It takes the file's place once the reader has nothing against it, or its person
    says so in spite of that; else it stays where it is, and the file as it was.
    """
    config = _settings(options)
    old = _own_text(config)
    folder = Path(tempfile.mkdtemp(prefix="midstream-config-"))
    draft = folder / config.user_file.name
    draft.write_text(old or template(), encoding="utf-8")
    draft.chmod(0o600)
    try:
        kept = _edited(config, old, draft)
    except BaseException:
        write_error(f"What you wrote is in {draft}; {shown_path(config.user_file)} is as it was.\n")
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
            write_out("Nothing was changed.\n")
            return True
        problems = own_problems(config, text)
        for problem in problems:
            write_error(f"{problem}\n")
        if has_errors(problems):
            choice = _choice(name)
            if choice == "e":
                continue
            if choice == "d":
                write_out(f"{name} is as it was.\n")
                return False
        if _own_text(config) != old:
            raise UserMistake(
                f"{name} was changed by somebody else meanwhile; it was not written over.",
                hint="Merge the two by hand.",
            )
        write_whole(config.user_file, text.encode("utf-8"))
        write_out(f"{name} is written. It takes effect at the next start.\n")
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
    for notice in config.notices:
        write_error(f"{notice}\n")
    return config
