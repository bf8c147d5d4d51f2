"""Plugins from the command line: taken from a folder or a repository, trusted, listed, removed."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from midstream.app.assembly import Options
from midstream.cli.options import JSON, takes
from midstream.cli.output import FINISHED, answer, note, say
from midstream.cli.trust import look_and_trust
from midstream.config.directories import user_config_dir, user_state_dir
from midstream.config.plugins import (
    Plugin,
    contents,
    files_in,
    install,
    is_part,
    plugins,
    plugins_folder,
    remove,
)
from midstream.config.private_files import shown_path
from midstream.config.trust import TrustStore
from midstream.language.errors import UserMistake
from midstream.safety.sanitize import sanitized
from midstream.system.repository import URLS, files_of, is_url

_UNUSED = ("agents", "tools", ".mcp.json", "application.json")
_STANDS = {
    "trusted": "trusted",
    "changed": "CHANGED since you trusted it: nothing of it is used",
    "untrusted": "not trusted: nothing of it is used",
    "no_files": "it has no files",
}


@click.group("plugin", invoke_without_command=True)
@takes(*JSON)
@click.pass_context
def plugin(context: click.Context, options: Options) -> int:
    """List plugins, add one from a folder or a git repository, or remove one."""
    return FINISHED if context.invoked_subcommand else _listed(options)


@plugin.command("list")
@takes(*JSON)
def list_command(options: Options) -> int:
    """List your plugins, how each stands and what it brings."""
    return _listed(options)


def _listed(options: Options) -> int:
    found = plugins(user_config_dir(os.environ), TrustStore(user_state_dir(os.environ)))
    rows = [_row(each) for each in found]
    answer(options, rows, *(_words(row) for row in rows))
    if not rows and not options.is_json:
        say("There is no plugin. midstream plugin add FOLDER or URL takes one.")
    return FINISHED


def _row(each: Plugin) -> dict[str, str]:
    manifest = each.manifest
    return {
        "name": each.name,
        "version": "" if manifest is None else manifest.version,
        "description": "" if manifest is None else manifest.description,
        "state": each.status.kind,
        "brings": contents({file.name: file.sha256 for file in each.status.files}),
        "source": "" if manifest is None else manifest.source,
        "folder": str(each.folder),
    }


def _words(row: dict[str, str]) -> str:
    head = " ".join(filter(None, (row["name"], row["version"])))
    lines = [f"{head}  {_STANDS[row['state']]}", row["description"]]
    lines += [f"brings {row['brings']}", f"from {row['source'] or row['folder']}"]
    return "\n  ".join(filter(None, map(sanitized, lines)))


@plugin.command("add")
@click.argument("source", metavar="FOLDER|URL")
@takes(*JSON)
def add(options: Options, source: str) -> int:
    """Take a plugin from a folder or a git repository, and trust it. It is shown first.

    URL begins with https://, ssh://, file:// or git@; #BRANCH or #TAG behind it names a commit. What was
    taken stays as it is until you add it again.
    """
    user_dir, store = user_config_dir(os.environ), TrustStore(user_state_dir(os.environ))
    folder = Path(os.path.realpath(source))
    if is_url(source):
        with TemporaryDirectory(prefix="midstream-") as into:
            commit, files = files_of(source, is_part, into=Path(into))
            target = install(files, f"{source} at {commit}", user_dir)
    elif folder.parent == plugins_folder(user_dir):
        target = folder
    elif folder.is_dir():
        _tell_unused(folder)
        target = install(files_in(folder), str(folder), user_dir)
    else:
        raise UserMistake(
            f"There is no folder {shown_path(Path(source))}.",
            hint=f"A repository's address begins with {', '.join(URLS)}.",
        )
    code = look_and_trust(
        store, target, whose=f"the plugin {target.name}", way="midstream plugin add"
    )
    if code == FINISHED:
        say(f"The plugin {target.name} is used from the next start on.")
    else:
        say(f"Nothing of the plugin is used. midstream plugin remove {target.name} takes it away.")
    return code


def _tell_unused(folder: Path) -> None:
    found = [each for each in _UNUSED if (folder / each).exists()]
    if found:
        note(f"Not used of this plugin: {', '.join(found)}.")


@plugin.command("remove")
@click.argument("name")
@takes(*JSON)
def remove_command(options: Options, name: str) -> int:
    """Remove a plugin, and your trust in it."""
    remove(name, user_config_dir(os.environ), TrustStore(user_state_dir(os.environ)))
    answer(options, {"removed": name}, f"The plugin {name} is removed.")
    return FINISHED
