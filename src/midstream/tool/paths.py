"""Paths a model names, kept inside the workspace.

Two steps, and both are needed. `locate` says where a path leads, symbolic links resolved, and
refuses what is outside or secret. The opening functions then walk to that place from the
workspace's own folder, one component at a time, following no link at all: a link that somebody puts
in the way between the two steps ends the walk instead of leading it out.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from midstream.core.errors import UserMistake, WorldTrouble

MAX_FILE_BYTES: Final = 10_000_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO waits for a writer that never comes.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_SECRET_FOLDERS: Final = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure", ".gcloud"})
_SECRET_NAMES: Final = frozenset(
    {
        *(".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".htpasswd", ".envrc"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"),
    }
)
_SECRET_ENDINGS: Final = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".keyring")
_ENV_EXAMPLES: Final = (".example", ".sample", ".template", ".dist")
_OWN_FOLDERS: Final = {
    ".git": "the repository's internals belong to git",
    ".midstream": "midstream's own settings, roles and workflows are changed by people",
}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a path leads: a real path in a workspace, `parts` below `root`. No parts: the root."""

    root: Path
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the path as people and models read it, relative to the workspace."""
        return "/".join(self.parts) or "."


def locate(workspace: Path, path: str, *, purpose: Literal["read", "write"] = "read") -> Place:
    """Return the place a path leads to; it need not exist.

    Relative paths start at the workspace; an absolute one has to lie in it. Links are followed,
    wherever they stand, as long as they stay inside.

    Raises:
        UserMistake: the path leads out of the workspace, is secret, or may not be written to.
    """
    if not path or "\0" in path:
        raise UserMistake("The path is empty or holds a NUL character.")
    if ".." in path.split("/"):
        raise UserMistake(f"{path!r} holds '..'.", hint="Name the path from the workspace's root.")
    root = Path(os.path.realpath(workspace))
    try:
        real = Path(os.path.realpath(workspace / path))
        parts = real.relative_to(root).parts
    except ValueError as error:
        raise UserMistake(
            f"{path!r} leads out of the workspace.",
            hint="Tools read and write only inside it; use a path relative to its root.",
        ) from error
    except OSError as error:
        raise UserMistake(f"{path!r} cannot be resolved: {error.strerror}.") from error
    for each in (_named_parts(path, (workspace, root)), parts):
        reason = refusal(each, purpose=purpose)
        if reason:
            raise UserMistake(f"{path!r} may not be {_past(purpose)}: {reason}.")
    return Place(root=root, parts=parts)


def _named_parts(path: str, roots: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the path's parts below the workspace as they were named, links and all."""
    given = Path(path)
    if not given.is_absolute():
        return given.parts
    below = (root for root in roots if given.is_relative_to(root))
    return next((given.relative_to(root).parts for root in below), ())


def _past(purpose: Literal["read", "write"]) -> str:
    return "read" if purpose == "read" else "written to"


def refusal(parts: tuple[str, ...], *, purpose: Literal["read", "write"] = "read") -> str:
    """Return why a path of these parts may not be read or written, "" when it may."""
    folded = tuple(part.casefold() for part in parts)
    if not folded:
        return ""
    if purpose == "write":
        for part in folded:
            if part in _OWN_FOLDERS:
                return _OWN_FOLDERS[part]
    if folded[-2:] == (".git", "config"):
        return "it may hold credentials"
    if _SECRET_FOLDERS.intersection(folded[:-1]) or folded[-1] in _SECRET_FOLDERS:
        return "the folder holds keys"
    name = folded[-1]
    if name == ".env" or (name.startswith(".env.") and not name.endswith(_ENV_EXAMPLES)):
        return "environment files hold secrets"
    if name in _SECRET_NAMES or name.endswith(_SECRET_ENDINGS):
        return "the file holds keys or passwords"
    if folded[-2:] == (".docker", "config.json"):
        return "it may hold credentials"
    return ""


@contextmanager
def opened_folder(place: Place, *, create: bool = False) -> Iterator[int]:
    """Give the file descriptor of a folder; with `create`, it and its parents are made as needed.

    Raises:
        UserMistake: it is no folder, or does not exist.
    """
    handle = os.open(place.root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in place.parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            below = os.open(part, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    except FileNotFoundError as error:
        raise UserMistake(f"There is no folder {place.name!r}.") from error
    except NotADirectoryError as error:
        raise UserMistake(f"{place.name!r} is no folder.") from error
    finally:
        os.close(handle)


@contextmanager
def opened_below(folder: int, name: str) -> Iterator[int]:
    """Give the file descriptor of a folder in an opened folder, unless it is a link (OSError)."""
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def parent_of(place: Place) -> Place:
    """Return the folder a file's place is in."""
    return Place(root=place.root, parts=place.parts[:-1])


def read_bytes(place: Place, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return what a regular file holds.

    Raises:
        UserMistake: there is no such file, it is not a regular one, or it is larger than that.
        WorldTrouble: it cannot be read.
    """
    if not place.parts:
        raise UserMistake("'.' is a folder.", hint="Use list_directory for folders.")
    with opened_folder(parent_of(place)) as folder:
        handle = _open_file(folder, place)
        try:
            found = os.fstat(handle)
            _require_regular(found.st_mode, place)
            if found.st_size > max_bytes:
                raise UserMistake(
                    f"{place.name} has {found.st_size:,} bytes; the limit is {max_bytes:,}.",
                    hint="Use exact_search to find the part you need.",
                )
            with open(handle, "rb", closefd=False) as file:
                # A file that grows meanwhile stays bounded.
                return file.read(max_bytes)
        finally:
            os.close(handle)


def _open_file(folder: int, place: Place) -> int:
    try:
        return os.open(place.parts[-1], _FILE, dir_fd=folder)
    except FileNotFoundError as error:
        raise UserMistake(f"There is no file {place.name!r}.") from error
    except OSError as error:
        raise WorldTrouble(f"{place.name} cannot be read: {error.strerror}.") from error


def _require_regular(mode: int, place: Place) -> None:
    if stat.S_ISDIR(mode):
        raise UserMistake(f"{place.name!r} is a folder.", hint="Use list_directory for folders.")
    if not stat.S_ISREG(mode):
        raise UserMistake(f"{place.name!r} is no regular file but a pipe, socket or device.")


def mode_in(folder: int, place: Place) -> int | None:
    """Return the permission bits of a file in an opened folder; None when there is none.

    Raises:
        UserMistake: something that is no regular file has its name.
    """
    try:
        found = os.stat(place.parts[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular(found.st_mode, place)
    return stat.S_IMODE(found.st_mode)
