"""Plugins: commands, skills, roles, workflows and hooks of somebody else, in a person's config folder.

A plugin is `plugins/NAME/.midstream/`, laid out as a workspace's and trusted as one: exactly its files, as
they stand, or nothing of it. It has no settings and no tools, so it can allow nothing. Of a source, be it a
folder or a repository, only these folders and the manifest are copied, file by file.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.directories import PLUGIN_PARTS, PLUGINS, WORKSPACE_FOLDER
from midstream.config.private_files import reason, shown_path, way_out, write_whole
from midstream.config.trust import (
    MANIFEST,
    Grant,
    TrustStatus,
    TrustStore,
    granted,
    read_beneath,
)
from midstream.language.errors import (
    MidstreamError,
    UserMistake,
    WorldTrouble,
    clip,
    did_you_mean,
)
from midstream.language.shape import read_file
from midstream.safety.sanitize import sanitized

_OTHERS: Final = ".claude-plugin"
MANIFESTS: Final = (f"{_OTHERS}/{MANIFEST}", MANIFEST)
MAX_FILES: Final = 500
MAX_BYTES: Final = 16_000_000
_MAX_LINE: Final = 200
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin is called and is for, each on one harmless line, and where it was taken from."""

    name: str
    version: str = ""
    description: str = ""
    source: str = ""


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that is there, and how it stands. `manifest` is None where it cannot be read."""

    name: str
    folder: Path
    status: TrustStatus
    manifest: Manifest | None = None


def plugins_folder(user_dir: Path) -> Path:
    """Return the folder of a person's plugins, as trust knows it: no link on the way to it."""
    return Path(os.path.realpath(user_dir / PLUGINS))


def is_part(name: str) -> bool:
    """Return whether a file of a source is a plugin's, by its path with slashes; the others stay there."""
    first, _, rest = name.partition("/")
    hidden = any(part.startswith(".") for part in name.split("/"))
    return name in MANIFESTS or (first in PLUGIN_PARTS and bool(rest) and not hidden)


def files_in(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield a plugin's files in a folder, by their paths with slashes.

    Raises:
        UserMistake: one is a link, or no regular file.
        WorldTrouble: one cannot be read.
    """
    for folder, folders, names in os.walk(source):
        if Path(folder) == source:
            folders[:] = [each for each in folders if each in (*PLUGIN_PARTS, _OTHERS)]
        for each in (*folders, *names):
            path = Path(folder) / each
            name = path.relative_to(source).as_posix()
            if path.is_symlink() and (is_part(name) or each in folders):
                raise UserMistake(
                    f"The plugin's {name!a} is a link: nothing was installed.",
                    hint="Put the file itself in its place.",
                )
            if each in names and is_part(name):
                yield name, read_beneath(source, name)


def read_manifest(data: bytes, file: str) -> Manifest:
    """Return what a manifest says.

    Raises:
        UserMistake: it is none; what is wrong is named with its place.
    """
    root, report = read_file(data.decode("utf-8", "replace"), file)
    said: dict[str, str] = {}
    for key in ("name", "version", "description", "source"):
        node = None if root is None else root.get(key)
        if node is not None and node.kind == "string":
            text = str(node.value)
            said[key] = text if key == "name" else " ".join(sanitized(text).split())[:_MAX_LINE]
        elif node is not None and key != "source":
            report.error(node, f'"{key}" is a text.')
    name = said.get("name", "")
    if root is not None and not report.problems and not (_NAME.fullmatch(name) and len(name) < 60):
        report.error(
            root, f'"name" is lower case letters, digits and single dashes, not {clip(name)!a}.'
        )
    if root is None or report.problems:
        told = "\n".join(map(str, report.problems))
        raise UserMistake(
            f"This is no plugin's manifest:\n{told}",
            hint='It is an object such as {"name": "my-plugin", "version": "1.0.0"}.',
        )
    return Manifest(**said)


def install(files: Iterator[tuple[str, bytes]], source: str, user_dir: Path) -> Path:
    """Copy a plugin into the person's config folder, instead of one of its name; return where it is.

    Nothing of it is used before it is trusted as it then stands.

    Raises:
        UserMistake: it has no manifest, a name that leads elsewhere, or too many files.
        WorldTrouble: it cannot be written; one of its name that was there is as it was.
    """
    found: dict[str, bytes] = {}
    for name, data in files:
        parts = name.split("/")
        if "\\" in name or not name.isprintable() or any(p in ("", ".", "..") for p in parts):
            raise UserMistake(
                f"The plugin has a file {name!a}: nothing was installed.", hint="Rename it there."
            )
        found[name] = data
        if len(found) > MAX_FILES or sum(map(len, found.values())) > MAX_BYTES:
            raise UserMistake(
                f"The plugin has more than {MAX_FILES} files or {MAX_BYTES:,} bytes.",
                hint="Take out what is no command, skill, role or workflow.",
            )
    place = next((name for name in MANIFESTS if name in found), None)
    if place is None:
        raise UserMistake(
            f"{source} is no plugin: it has no {' and no '.join(MANIFESTS)}.",
            hint='The least is {"name": "my-plugin"}.',
        )
    manifest = msgspec.structs.replace(read_manifest(found[place], place), source=source)
    kept = {name: data for name, data in found.items() if name not in MANIFESTS}
    kept[MANIFEST] = msgspec.json.format(msgspec.json.encode(manifest))
    target = plugins_folder(user_dir) / manifest.name
    fresh, old = (target.with_name(f".{target.name}.{each}") for each in ("new", "old"))
    try:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
        for name, data in kept.items():
            path = fresh / WORKSPACE_FOLDER / name
            write_whole(path, data)
            if name.startswith("hooks/"):
                path.chmod(0o700)  # hooks start their scripts by name
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise WorldTrouble(
            f"{shown_path(target)} cannot be written: {reason(error)}.", hint=way_out(error)
        ) from error
    return target


def plugins(user_dir: Path, store: TrustStore) -> tuple[Plugin, ...]:
    """Return every plugin that is there, sorted by name. Waits for the disk: all of it is hashed."""
    top = plugins_folder(user_dir)
    try:
        names = sorted(
            entry.name for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)
        )
    except OSError:
        return ()
    return tuple(_plugin(top / name, store) for name in names if _NAME.fullmatch(name))


def _plugin(folder: Path, store: TrustStore) -> Plugin:
    try:
        status = store.status(folder)
    except MidstreamError as error:
        status = TrustStatus(kind="untrusted", workspace=str(folder), left_out=(error.what,))
    manifest = None
    with suppress(MidstreamError):
        manifest = read_manifest(read_beneath(folder / WORKSPACE_FOLDER, MANIFEST), MANIFEST)
    return Plugin(name=folder.name, folder=folder, status=status, manifest=manifest)


def remove(name: str, user_dir: Path, store: TrustStore) -> None:
    """Take a plugin away, and the trust in it.

    Raises:
        UserMistake: there is none of that name.
        WorldTrouble: it cannot be taken away.
    """
    known = {each.name: each for each in plugins(user_dir, store)}
    if name not in known:
        raise UserMistake(f"There is no plugin {name!r}.", hint=did_you_mean(name, known))
    store.revoke(known[name].folder)
    try:
        shutil.rmtree(known[name].folder)
    except OSError as error:
        raise WorldTrouble(
            f"{shown_path(known[name].folder)} cannot be removed: {reason(error)}.",
            hint=way_out(error),
        ) from error


def contents(files: Mapping[str, str]) -> str:
    """Return what a plugin brings, in words, by the names of its files."""
    brings = []
    for part in PLUGIN_PARTS:
        below = sorted({name.split("/")[1] for name in files if name.startswith(f"{part}/")})
        names = dict.fromkeys(each.rpartition(".")[0] or each for each in below)
        if names and part == "hooks":
            brings.append(part)
        elif names:
            brings.append(f"{part} {', '.join(names)}")
    return "; ".join(brings) or "nothing"


def grants(user_dir: Path, store: TrustStore) -> tuple[dict[str, Grant], tuple[str, ...]]:
    """Return the rights to the files of the plugins that are trusted, and what to say of the others."""
    found: dict[str, Grant] = {}
    notices: list[str] = []
    for each in plugins(user_dir, store):
        grant = granted(each.status)
        if grant is not None:
            found[each.name] = grant
        elif each.status.kind != "no_files":
            notices.append(
                f"The plugin {each.name} is not trusted as it stands, so nothing of it is used: "
                f"midstream plugin add {shown_path(each.folder)} looks at it."
            )
    return found, tuple(notices)
