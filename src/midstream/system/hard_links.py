"""Other names of secret files: a hard link has the secret's bytes and not its name.

Only a file with several names is looked at, and only beside the secrets there are reasons to know
of: those in the folders from the workspace's root to the file, and those of the person's home.
Packages that a tool has linked out of its cache have several names as well, and stay readable.
"""

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from midstream.safety.protected import classify

MAX_NAMES: Final = 2_000

_AT_HOME: Final = (
    *("", ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud"),
)


def is_twin_of_a_secret(found: os.stat_result, root: Path, parts: tuple[str, ...]) -> bool:
    """Return whether a file of the workspace is a known secret under another name."""
    wanted = (found.st_dev, found.st_ino)
    return any(wanted in _secrets_in(*key) for key in _folders(root, parts))


def is_another_name(root: Path, parts: tuple[str, ...]) -> bool:
    """Return whether the file at `parts` below `root` is a known secret under another name."""
    try:
        found = os.lstat(root.joinpath(*parts))
    except OSError:
        return False
    return (
        found.st_nlink > 1
        and stat.S_ISREG(found.st_mode)
        and is_twin_of_a_secret(found, root, parts)
    )


_Key = tuple[str, tuple[str, ...], int, int, int]


def _folders(root: Path, parts: tuple[str, ...]) -> Iterator[_Key]:
    for depth in range(len(parts)):
        yield from _key_of(root.joinpath(*parts[:depth]), parts[:depth])
    home = os.environ.get("HOME", "")
    if os.path.isabs(home):
        for name in _AT_HOME:
            yield from _key_of(Path(home, name), tuple(name.split("/")) if name else ())


def _key_of(folder: Path, parts: tuple[str, ...]) -> Iterator[_Key]:
    try:
        found = os.stat(folder)
    except OSError:
        return
    yield (str(folder), parts, found.st_dev, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=256)
def _secrets_in(
    folder: str, parts: tuple[str, ...], _device: int, _number: int, _changed: int
) -> frozenset[tuple[int, int]]:
    """Return which files the secrets in a folder are. What changes its names changes its time."""
    secrets: set[tuple[int, int]] = set()
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == MAX_NAMES:
                    break
                if classify((*parts, entry.name), "read").standing != "secret":
                    continue
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    secrets.add((found.st_dev, found.st_ino))
    except OSError:
        return frozenset(secrets)
    return frozenset(secrets)
