"""The one `bwrap` we trust: the system's."""

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from midstream.system.supervisor import MERGED, run_briefly

PLACES: Final = (
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
)
"""Where a system keeps it. PATH is not asked: a workspace can put itself there."""
NEEDED: Final = (0, 8)
"""The first version with `--disable-userns`."""
_SAYS_S: Final = 30.0
_SAYS_BYTES: Final = 1_000_000


class Bwrap(msgspec.Struct, frozen=True, kw_only=True):
    """A trusted program: its real path, what `--version` says, and whether it can mount by descriptor.

    `stamp` changes when the file does.
    """

    path: str
    version: str
    stamp: str
    by_descriptor: bool

    def is_new_enough(self) -> bool:
        """Return whether it has all the flags we need."""
        numbers = tuple(int(part) for part in self.version.split(".")[:2] if part.isdigit())
        return numbers >= NEEDED


def found_bwrap(places: tuple[str, ...] = PLACES) -> Bwrap | str:
    """Return the system's bwrap, or why there is none, in words for a person."""
    found = trusted_program(places, "bubblewrap is not installed (the program `bwrap`).")
    return found if isinstance(found, str) else _described(found)


def trusted_program(places: Iterable[str], missing: str) -> Path | str:
    """Return the real path of the first program that is there and trusted, or why there is none."""
    why = missing
    for path in (Path(os.path.realpath(place)) for place in places):
        if not path.exists():
            continue
        weak = _weakness(path)
        if not weak:
            return path
        why = f"{path} is not used: {weak}."
    return why


def _weakness(path: Path) -> str:
    """Return how others than root could have put a file there, "" when they could not."""
    return others_reach(path) or ("" if path.is_file() else f"{path} is not a regular file")


def others_reach(path: Path) -> str:
    """Return how others than root could put something else at a path, "" when they cannot."""
    for each in (path, *path.parents):
        try:
            about = each.lstat()
        except OSError as error:
            return f"{each} cannot be looked at ({error.strerror})"
        if about.st_uid != 0:
            return f"{each} does not belong to root"
        is_sticky_folder = stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX
        if about.st_mode & 0o022 and not is_sticky_folder:
            return f"{each} can be written by others than root"
    return ""


def stamp_of(path: Path) -> str:
    """Return what changes when a file does."""
    about = path.stat()
    return f"{about.st_mtime_ns}-{about.st_size}-{about.st_ino}"


def _described(path: Path) -> Bwrap | str:
    try:
        version, usage = (_said(str(path), flag) for flag in ("--version", "--help"))
    except OSError as error:
        return f"{path} does not run: {error}."
    return Bwrap(
        path=str(path),
        version=version.split()[-1] if version.split() else "",
        stamp=stamp_of(path),
        by_descriptor="--ro-bind-fd" in usage,
    )


def _said(path: str, flag: str) -> str:
    ended, said = run_briefly(
        [path, flag], environment={}, timeout_s=_SAYS_S, stderr=MERGED, max_bytes=_SAYS_BYTES
    )
    if ended.cause:
        raise TimeoutError(f"{flag} does not end")
    return said.decode("utf-8", "replace")


def interpreter() -> str:
    """Return our own interpreter where the sandbox shows it, else the system's."""
    ours = os.path.realpath(sys.executable or "/")
    is_shown = ours.startswith(f"{os.path.realpath(sys.base_prefix)}/")
    return ours if is_shown and os.access(ours, os.X_OK) else "/usr/bin/python3"
