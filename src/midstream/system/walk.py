"""Walking the workspace as a developer means it: without what `.gitignore` files leave out.

No link is followed, and folders are opened one from the other, so that the walk cannot be led out.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.language.errors import MidstreamError
from midstream.system.workspace_paths import Place, opened_below, opened_folder, read_bytes

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_DEPTH: Final = 60
_MAX_IGNORE_BYTES: Final = 200_000
_MAX_PATTERNS: Final = 2_000
_WILD = re.compile(r"\*+|\?|\[")


class Entry(msgspec.Struct, frozen=True):
    """Something in a folder. `path` starts at the workspace's root; `link` is a link's target.

    `changed_ns` is when its content last changed.
    """

    path: str
    is_folder: bool
    size: int
    link: str | None = None
    changed_ns: int = 0


class Ignores:
    """What the `.gitignore` files of a workspace leave out, the root's and those below it.

    `files` are the names of such files; of one folder's, the last has the last word.
    """

    def __init__(self, root: Path, *, files: tuple[str, ...] = (".gitignore",)) -> None:
        self._root = root
        self._files = files
        self._specs: dict[tuple[str, ...], GitIgnoreSpec | None] = {}

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path from the root, or a folder it is in, is left out."""
        parts = tuple(path.split("/"))
        return any(
            self.leaves_out_here(parts[:end], is_folder=is_folder or end < len(parts))
            for end in range(1, len(parts) + 1)
        )

    def leaves_out_here(self, parts: tuple[str, ...], *, is_folder: bool) -> bool:
        """Return whether this one is left out, given that the folders it is in are not."""
        if parts[-1] == ".git":
            return True
        # The nearest file that says anything has the last word.
        for depth in range(len(parts) - 1, -1, -1):
            spec = self._spec(parts[:depth])
            if spec is not None:
                tail = "/".join(parts[depth:]) + ("/" if is_folder else "")
                verdict = spec.check_file(tail).include
                if verdict is not None:
                    return verdict
        return False

    def _spec(self, folder: tuple[str, ...]) -> "GitIgnoreSpec | None":
        if folder not in self._specs:
            self._specs[folder] = self._read(folder)
        return self._specs[folder]

    def _read(self, folder: tuple[str, ...]) -> "GitIgnoreSpec | None":
        lines: list[str] = []
        for name in self._files:
            place = Place(root=self._root, parts=(*folder, name))
            with suppress(MidstreamError, OSError):
                data = read_bytes(place, max_bytes=_MAX_IGNORE_BYTES)
                lines += data.decode(errors="replace").splitlines()[:_MAX_PATTERNS]
        return ignore_spec([line for line in lines if is_tame(line)]) if lines else None


def ignore_spec(lines: list[str]) -> "GitIgnoreSpec":
    """Return what matches a path against lines as they stand in a `.gitignore`; wrong ones count
    for nothing.
    """
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def is_tame(pattern: str) -> bool:
    """Return whether a pattern is cheap to match: it becomes a regular expression that backtracks."""
    parts = pattern.split("/")
    wild = [len(_WILD.findall(part)) for part in parts]
    return len(pattern) <= 300 and sum(wild) <= 8 and max(wild) <= 4


def walk(
    start: Place,
    *,
    depth: int = MAX_DEPTH,
    include_ignored: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Entry]:
    """Give what is below a folder, each folder before what it holds, in the order of names.

    `check` is called for every folder; it ends the walk by raising. Without `include_ignored`, what
    a `.gitignore` leaves out is not given, nor what hidden folders hold. `.git` never is given.

    Raises:
        UserMistake: there is no such folder.
    """
    ignores = None if include_ignored else Ignores(start.root)
    with opened_folder(start) as folder:
        yield from _walk(folder, start.parts, depth, ignores, check)


def _walk(
    folder: int,
    parts: tuple[str, ...],
    depth: int,
    ignores: Ignores | None,
    check: Callable[[], None],
) -> Iterator[Entry]:
    check()
    for name in sorted(os.listdir(folder)):
        here = (*parts, name)
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        is_folder = stat.S_ISDIR(found.st_mode)
        if name == ".git":
            continue
        if ignores is not None and ignores.leaves_out_here(here, is_folder=is_folder):
            continue
        link = None
        if stat.S_ISLNK(found.st_mode):
            with suppress(OSError):
                link = os.readlink(name, dir_fd=folder)
        yield Entry("/".join(here), is_folder, found.st_size, link, found.st_mtime_ns)
        is_opened = ignores is None or not name.startswith(".")
        if is_folder and depth > 1 and is_opened:
            with suppress(OSError), opened_below(folder, name) as below:
                yield from _walk(below, here, depth - 1, ignores, check)
