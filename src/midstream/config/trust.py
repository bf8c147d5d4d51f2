"""Trust: which files of a workspace midstream may act on.

Whoever wrote a repository wrote its `.midstream/` too: workflows whose scripts run, tools, roles that
speak to a model with tools in hand. So nothing there is interpreted until a person has said yes to
exactly those bytes. The yes is remembered in the user's state, under the workspace's real path, as
the SHA-256 of every active file; one byte more or less and it has to be given again. It counts for
that folder alone, not for folders inside it.

`status` only hashes. A `Grant` is what a yes gives: it alone can read the files, and it gives out a
file's bytes only while they are the ones that were trusted, so that nothing changes between the yes
and the use. Symbolic links are never followed: not for a file, not for a folder on the way to it.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from midstream.config.directories import OTHERS_FOLDER, SETTINGS, STATE_HOME, WORKSPACE_FOLDER
from midstream.config.portable import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK
from midstream.config.private_files import (
    CHECK_NAME,
    MAX_FILE_BYTES,
    FileMissing,
    read_capped,
    read_open,
    reason,
    require_private,
    shown_path,
    way_out,
    write_whole,
)
from midstream.core.guidance import AGENTS_FILE
from midstream.language.errors import MidstreamError, NotTrusted, UserMistake, WorldTrouble
from midstream.language.role_text import SUFFIXES

MAX_FILES = 2000
"""Active files a workspace may have. Hashing more would let a repository hold up the start."""

MAX_TOTAL_BYTES = 32_000_000

MAX_ENTRIES = 20_000
"""Entries of `.midstream` that are looked at, folders and what is not active included."""

MAX_DEPTH = 16
"""Folders within each other, `workflows` and `tools` counted."""

_DIGEST = re.compile("[0-9a-f]{64}")

MANIFEST: Final = "plugin.json"
"""What a plugin is (see `plugins`): it is trusted with its files."""

WORDS_FOLDERS = ("commands", "skills")
_FOLDERS = (*WORDS_FOLDERS, "hooks", "roles", "tools", "workflows")

MAX_BESIDE = 500
"""Entries of another program's folder (`.claude`) that are looked at; what is behind them is never read."""

MAX_SKILL_BYTES = 256_000
"""A larger file of a skill is left out."""

_BESIDE: Final = "../"
_OTHERS: Final = f"{_BESIDE}{OTHERS_FOLDER}"

AGENTS: Final = f"{_BESIDE}{AGENTS_FILE}"
"""The name of the workspace's own AGENTS.md among the active files: it stands beside `.midstream`."""


MAX_BELOW = 200
"""Files AGENTS.md in folders of the workspace that can be trusted; what is behind them is never read."""

_NOT_ENTERED: Final = frozenset({"node_modules", "site-packages", "venv", "__pycache__"})


class ActiveFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of `.midstream/` that would be acted on. `name` is relative to it, with slashes."""

    name: str
    size: int
    sha256: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not as it was when the workspace was trusted."""

    name: str
    how: Literal["added", "changed", "removed"]


class TrustStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a workspace stands. Made by `TrustStore.status`; what a yes is given to.

    `files` are the active files as they are now, `changes` what is new since the last yes.
    `left_out` are entries that are never read, with the reason, such as symbolic links.
    """

    kind: Literal["no_files", "trusted", "changed", "untrusted"]
    workspace: str
    files: tuple[ActiveFile, ...] = ()
    changes: tuple[Change, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def acts(self) -> bool:
        """Return whether files are there, or were, that do more than speak: see `only_speaks`."""
        names = {file.name for file in self.files} | {change.name for change in self.changes}
        return not all(map(only_speaks, names))


def agents_file_in(folder: str) -> str:
    """Return the name that the AGENTS.md of a folder of the workspace has among the active files."""
    return f"{_BESIDE}{folder}/{AGENTS_FILE}"


def is_below(name: str) -> bool:
    """Return whether an active file is the AGENTS.md of a folder of the workspace."""
    is_agents = name.startswith(_BESIDE) and name.endswith(f"/{AGENTS_FILE}") and name != AGENTS
    return is_agents and not name.startswith(f"{_OTHERS}/")


def only_speaks(name: str) -> bool:
    """Return whether an active file is words alone: AGENTS.md, and commands and skills of `.claude`."""
    return name.startswith(_BESIDE)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The right to read a workspace's active files, as long as they stay as they were trusted."""

    workspace: str
    files: dict[str, str]

    @property
    def folder(self) -> Path:
        """Return the `.midstream` folder the grant is for."""
        return Path(self.workspace) / WORKSPACE_FOLDER

    def names(self, folder: str = "") -> tuple[str, ...]:
        """Return the names of the trusted files below a folder of `.midstream`, sorted."""
        prefix = f"{folder}/" if folder else ""
        return tuple(sorted(name for name in self.files if name.startswith(prefix)))

    def read(self, name: str) -> bytes:
        """Return a trusted file's bytes; `name` is relative to `.midstream`, with slashes.

        Raises:
            FileMissing: there is no such file.
            NotTrusted: the file was not there, or was another, when the workspace was trusted.
            WorldTrouble: it cannot be read.
        """
        path = self.folder / name
        data = _read(self.folder, name)
        if self.files.get(name) != hashlib.sha256(data).hexdigest():
            how = "has changed since" if name in self.files else "was not there when"
            raise NotTrusted(
                f"{shown_path(path)} {how} you trusted this workspace; it was not read.",
                hint="/trust in the console, or midstream trust, shows the change and lets you trust it.",
            )
        return data

    def require_whole(self, folder: str) -> None:
        """Return if the files below a folder of `.midstream` are exactly those that were trusted. Blocks.

        Raises:
            NotTrusted: one is another, or is one more.
            FileMissing, WorldTrouble: one is gone, or cannot be read.
        """
        for name, problem in _below(self.folder / folder, folder):
            if problem is not None and (problem or name not in self.files):
                why = problem or "it was not there when you trusted this workspace"
                raise NotTrusted(
                    f"{shown_path(self.folder / name)}: {why}.",
                    hint="/trust in the console, or midstream trust, shows it.",
                )
        for name in self.names(folder):
            self.read(name)


class TrustStore:
    """What the user has trusted, kept in `trust.json` in the user's state folder."""

    def __init__(self, state_dir: Path) -> None:
        require_private(state_dir, STATE_HOME)
        self._file = state_dir / "trust.json"
        self._copies = state_dir / "trusted"

    def status(self, workspace: Path, *, looks_below: bool = False) -> TrustStatus:
        """Return how a workspace stands. Its files are hashed, and not read in any other way.

        Of folders in it only the AGENTS.md that are trusted are looked at, unless it `looks_below`: all
        folders, which takes a while, for somebody who is asked about what is there.

        Raises:
            UserMistake: `.midstream` holds more than anybody could look through.
        """
        real = os.path.realpath(workspace)
        kept = self._kept().get(real)
        below = set(filter(is_below, kept or ()))
        if looks_below:
            below |= set(_agents_below(Path(real)))
        files, left_out = _active_files(Path(real) / WORKSPACE_FOLDER, sorted(below))
        if not files:
            return TrustStatus(kind="no_files", workspace=real, left_out=left_out)
        now = {file.name: file.sha256 for file in files}
        changes = () if kept is None else _changes(kept, now)
        kind: Literal["trusted", "changed", "untrusted"] = "untrusted"
        if kept is not None:
            kind = "changed" if changes else "trusted"
        return TrustStatus(
            kind=kind, workspace=real, files=files, changes=changes, left_out=left_out
        )

    def knows(self, folder: Path, workspace: Path) -> bool:
        """Return whether a person has trusted all that a folder has, byte for byte, in a workspace."""
        known = self._kept().get(os.path.realpath(workspace), {})
        files = self.status(folder).files
        return all(known.get(file.name) == file.sha256 for file in files)

    def grant(self, status: TrustStatus) -> Grant:
        """Remember a yes to exactly the files of a status, and return the right it gives.

        Raises:
            WorldTrouble: it could not be remembered. `session_grant` needs no memory.
        """
        given = session_grant(status)
        self._keep({**self._kept(), given.workspace: given.files})
        for name in given.files:
            # Without a copy a later change is still noticed; it is just shown without what was there.
            with suppress(MidstreamError):
                self._copy(given.read(name))
        return given

    def _copy(self, data: bytes) -> None:
        place = self._copies / hashlib.sha256(data).hexdigest()
        if not place.exists():
            write_whole(place, data)

    def before(self, workspace: str, name: str) -> bytes | None:
        """Return what a file of a workspace held when it was trusted; None where nobody kept it."""
        digest = self._kept().get(workspace, {}).get(name, "")
        if not _DIGEST.fullmatch(digest):
            return None
        try:
            data = read_capped(self._copies / digest)
        except MidstreamError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def workspaces(self) -> Mapping[str, Mapping[str, str]]:
        """Return what is trusted: by workspace, the SHA-256 of each active file by its name."""
        return self._kept()

    def revoke(self, workspace: Path) -> bool:
        """Forget a workspace; return whether it had been trusted.

        Raises:
            WorldTrouble: it could not be forgotten.
        """
        kept = dict(self._kept())
        was_kept = kept.pop(os.path.realpath(workspace), None) is not None
        if was_kept:
            self._keep(kept)
            self._drop_copies({digest for files in kept.values() for digest in files.values()})
        return was_kept

    def _drop_copies(self, needed: set[str]) -> None:
        with suppress(OSError):
            for place in self._copies.iterdir():
                if place.name not in needed:
                    place.unlink()

    def add_rehearsal(self, before: TrustStatus, path: Path, data: bytes) -> bool:
        """Trust a rehearsal that was just recorded as the workspace it stands in; return whether.

        Otherwise recording one would take the trust from all that stands beside it. It gives no new
        power: what it holds has just gone through the very scripts it will be played against.

        Args:
            before: how the workspace stood before it was written. One that was not trusted is not
                trusted more by this, and what else may have changed in it meanwhile is not either.
            path: where it was written; anywhere but in `workflows/NAME/rehearsals` changes nothing.
            data: exactly what was written.

        Raises:
            WorldTrouble: it could not be remembered.
        """
        try:
            inside = Path(os.path.realpath(path)).relative_to(
                Path(before.workspace) / WORKSPACE_FOLDER
            )
        except ValueError:
            return False
        match inside.parts:
            case ("workflows", _, "rehearsals", name) if name.endswith(".json"):
                pass
            case _:
                return False
        kept = self._kept()
        if before.kind == "no_files" or (before.kind == "untrusted" and not before.acts):
            files = {}
        elif before.kind == "trusted" and before.workspace in kept:  # not revoked meanwhile
            files = kept[before.workspace]
        else:
            return False
        digest = hashlib.sha256(data).hexdigest()
        self._keep({**kept, before.workspace: {**files, inside.as_posix(): digest}})
        with suppress(MidstreamError):
            self._copy(data)
        return True

    def _kept(self) -> Mapping[str, dict[str, str]]:
        """Return what is remembered. A memory that cannot be read trusts nothing."""
        try:
            return msgspec.json.decode(read_capped(self._file), type=_Memory).workspaces
        except (MidstreamError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def _keep(self, workspaces: dict[str, dict[str, str]]) -> None:
        memory = msgspec.json.encode(_Memory(workspaces=workspaces), order="sorted")
        write_whole(self._file, msgspec.json.format(memory))


class _Memory(msgspec.Struct):
    workspaces: dict[str, dict[str, str]] = {}


def session_grant(status: TrustStatus) -> Grant:
    """Return the right a yes for this process gives; nothing is remembered (`--trust-workspace`)."""
    files = {file.name: file.sha256 for file in status.files}
    return Grant(workspace=status.workspace, files=files)


def granted(status: TrustStatus) -> Grant | None:
    """Return the right an earlier yes still gives; None where one has to be asked for."""
    return session_grant(status) if status.kind == "trusted" else None


def still_granted(status: TrustStatus) -> Grant | None:
    """Return the right to what is as it was trusted, where words alone are not; else None."""
    changed = {change.name for change in status.changes}
    if status.kind != "changed" or not all(map(only_speaks, changed)):
        return None
    files = {file.name: file.sha256 for file in status.files if file.name not in changed}
    return Grant(workspace=status.workspace, files=files) if files else None


def _changes(kept: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    changes = []
    for name in sorted(kept.keys() | now.keys()):
        if name not in kept:
            changes.append(Change(name=name, how="added"))
        elif name not in now:
            changes.append(Change(name=name, how="removed"))
        elif kept[name] != now[name]:
            changes.append(Change(name=name, how="changed"))
    return tuple(changes)


# --- looking at the folder --------------------------------------------------------------------


def _active_files(
    folder: Path, below: Sequence[str]
) -> tuple[tuple[ActiveFile, ...], tuple[str, ...]]:
    """Return the active files, sorted by name, and what is left out with the reason.

    Compiled files in `workflows` and `tools` count too: Python would run them instead of the source.
    """
    files: list[ActiveFile] = []
    left_out: list[str] = []
    total = 0
    # `.midstream` itself need not be there.
    places = ((name, folder.parent / name.removeprefix(_BESIDE)) for name in below)
    found = ((name, "") for name, place in places if os.path.lexists(place))
    for seen, (name, problem) in enumerate(chain(_entries(folder), found), 1):
        if problem == "":
            try:
                data = _read(folder, name)
            except MidstreamError as error:
                problem = error.what
            else:
                digest = hashlib.sha256(data).hexdigest()
                files.append(ActiveFile(name=name, size=len(data), sha256=digest))
                total += len(data)
        if problem:
            left_out.append(f"{_visible(name)}: {problem}")
        is_many = len(files) + len(left_out) > MAX_FILES or seen > MAX_ENTRIES
        if is_many or total > MAX_TOTAL_BYTES:
            raise UserMistake(
                f"{shown_path(folder)} holds more than {MAX_FILES} files or "
                f"{MAX_TOTAL_BYTES:,} bytes, too much to look through.",
                hint="Move what is not a role, tool or workflow out of it.",
            )
    return tuple(sorted(files, key=lambda file: file.name)), tuple(sorted(left_out))


def _agents_below(root: Path) -> Iterator[str]:
    """Yield the names of the AGENTS.md in folders of a workspace; no link, no hidden folder is entered."""
    waiting, seen, count = [(root, "", 0)], 0, 0
    while waiting:
        folder, path, depth = waiting.pop()
        for entry in sorted(_scan(folder), key=lambda entry: entry.name):
            seen += 1
            if seen > MAX_ENTRIES or count >= MAX_BELOW:
                return
            if entry.name == AGENTS_FILE and path:
                count += 1
                yield agents_file_in(path)
            elif (
                depth < MAX_DEPTH
                and not entry.name.startswith(".")
                and entry.name not in _NOT_ENTERED
                and entry.is_dir(follow_symlinks=False)
            ):
                inner = f"{path}/{entry.name}" if path else entry.name
                waiting.append((Path(entry.path), inner, depth + 1))


def _entries(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the name of every entry with why it is left out: "" when it is active, None where it is
    nothing to us.
    """
    if os.path.lexists(folder.parent / AGENTS_FILE):
        place = folder.parent / AGENTS_FILE
        is_fit = not place.is_symlink() and place.is_file()
        yield AGENTS, "" if is_fit else "not a regular file"
    beside = islice(_words_beside(folder.parent / OTHERS_FOLDER), MAX_BESIDE + 1)
    for number, (name, problem) in enumerate(beside, 1):
        if number > MAX_BESIDE:
            yield _OTHERS, f"more than {MAX_BESIDE} files and folders; the others are not read"
        else:
            yield name, problem
    for entry in _scan(folder):
        if entry.name in (SETTINGS, MANIFEST):
            yield entry.name, _unfit(entry, entry.name)
        elif entry.name not in _FOLDERS:
            yield entry.name, None
        elif entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
            yield entry.name, "not a folder of its own"
        else:
            yield from _below(Path(entry.path), entry.name)


def _words_beside(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield what a folder of another program holds of commands and skills, in one order always."""
    if folder.is_symlink():
        yield _OTHERS, "a symbolic link"
        return
    for each in WORDS_FOLDERS:
        if os.path.lexists(folder / each):
            name = f"{_OTHERS}/{each}"
            if (folder / each).is_symlink() or not (folder / each).is_dir():
                yield name, "not a folder of its own"
            else:
                yield from _below(folder / each, name)


def _below(folder: Path, prefix: str) -> Iterator[tuple[str, str | None]]:
    waiting = [(folder, prefix)]
    while waiting:
        folder, prefix = waiting.pop()
        entries = islice(_scan(folder), MAX_ENTRIES + 1)
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = f"{prefix}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                yield name, _unfit(entry, name) if _is_active(name) else None
            elif not name.isprintable():
                yield name, _UNSHOWN
            elif name.count("/") >= MAX_DEPTH:
                yield name, "too many folders within each other"
            else:
                yield name, None
                waiting.append((Path(entry.path), name))


def _is_active(name: str) -> bool:
    """Return whether a file of one of the folders is something to us."""
    folder, _, rest = name.removeprefix(f"{_OTHERS}/").partition("/")
    match folder:
        case "roles":
            return "/" in rest or name.endswith(SUFFIXES)
        case "commands":
            return "/" not in rest and name.endswith(".md")
        case "skills":
            return "/" in rest
    return True


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


_UNSHOWN: Final = "its name has characters that cannot be shown"


def _visible(name: str) -> str:
    """Return a name whose every character is printable, on one line."""
    return name if name.isprintable() else ascii(name)[1:-1]


def _unfit(entry: os.DirEntry[str], name: str) -> str:
    if entry.is_symlink():
        return "a symbolic link"
    if not name.isprintable():
        return _UNSHOWN
    if not entry.is_file(follow_symlinks=False):
        return "not a regular file"
    is_of_skill = name.removeprefix(f"{_OTHERS}/").startswith("skills/")
    if is_of_skill and entry.stat(follow_symlinks=False).st_size > MAX_SKILL_BYTES:
        return f"larger than {MAX_SKILL_BYTES:,} bytes"
    return ""


def _read(folder: Path, name: str) -> bytes:
    """Return the bytes of an active file; AGENTS.md and `.claude` stand beside the folder."""
    if name == AGENTS:
        return read_beneath(folder.parent, AGENTS_FILE)
    if name.startswith(f"{_OTHERS}/"):
        return read_beneath(folder.parent / OTHERS_FOLDER, name.removeprefix(f"{_OTHERS}/"))
    if is_below(name):
        return read_beneath(folder.parent, name.removeprefix(_BESIDE))
    return read_beneath(folder, name)


def read_beneath(folder: Path, name: str) -> bytes:
    """Return the bytes of a file below a folder, following no symbolic link, the folder's included.

    Each step opens the next from the one before, so that nothing can be put in between.
    """
    path = folder / name
    parts = [folder.name, *name.split("/")]
    if any(part in ("", ".", "..") or os.sep in part or "\0" in part for part in parts):
        raise UserMistake(
            f"{name!r} is not the name of a file in {shown_path(folder)}.", hint=CHECK_NAME
        )
    if os.open not in os.supports_dir_fd:  # Windows: look first, then open
        for parent in (folder, *(folder.joinpath(*parts[1:i]) for i in range(2, len(parts) + 1))):
            if parent.is_symlink():
                raise WorldTrouble(
                    f"{shown_path(parent)} is a symbolic link.",
                    hint="Put the folder itself in its place.",
                )
        return read_capped(path)
    flags = os.O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
    try:
        at = os.open(folder.parent, os.O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        for step, part in enumerate(parts, 1):
            kind = 0 if step == len(parts) else O_DIRECTORY
            try:
                following = os.open(part, flags | kind, dir_fd=at)
            finally:
                os.close(at)
            at = following
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"There is no file {shown_path(path)}.", hint=CHECK_NAME) from error
    except OSError as error:
        raise WorldTrouble(
            f"{shown_path(path)} cannot be read: {reason(error)}.", hint=way_out(error)
        ) from error
    return read_open(at, path, max_bytes=MAX_FILE_BYTES)
