"""What of a workspace a command inside may not read, since a rule keeps it from being read: a walk.

Before a command starts, all that such a rule is about is found by its name, to be put out of sight: a
folder behind an empty one, a file behind a device that cannot be opened. A repository's history may hold
what the rule is about under any of its names, so `.git` and its like go, too. Each folder on the way down
is made a mount: one that could be moved would take its files to names that no rule is about.

Only folders are read in which a rule could be about something: for `customers/**` the root alone. Links
lead to what is put out of sight under its own name. A walk that met a bound says so (`shortfall`); then
nothing is put out of sight, and a person is asked.
"""

import os
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.portable import O_CLOEXEC
from midstream.safety.protected import folded
from midstream.safety.rules import Rule
from midstream.system.git import leads_away
from midstream.tools.sandbox.guarded_files import FOLDER, MAX_NAMES, BoundedWalk, Enough

MAX_MASKS: Final = 200
"""Names to be put out of sight, with the folders above them: each is a mount."""

HISTORIES: Final = frozenset({".git", ".hg", ".svn", ".jj", ".sl", ".bzr", ".pijul", "_darcs"})
"""Folders that hold what files were before."""


class Masks(msgspec.Struct, frozen=True, kw_only=True):
    """What to put out of sight, paths from the workspace's root; `shortfall`: why that cannot be all."""

    names: tuple[str, ...] = ()
    shortfall: str = ""

    @property
    def above(self) -> tuple[str, ...]:
        """Return the folders on the way down to each, the outer ones first."""
        found = {
            "/".join(parts[:depth])
            for parts in (name.split("/") for name in self.names)
            for depth in range(1, len(parts))
        }
        return tuple(sorted(found))


NO_MASKS: Final = Masks()


def found_masks(workspace: Path, rules: Sequence[Rule]) -> Masks:
    """Return what some rules keep from being read, as it is now. Blocks, for seconds at the longest."""
    try:
        root = os.open(workspace, FOLDER | O_CLOEXEC)
    except OSError as error:
        return Masks(shortfall=f"the workspace cannot be read ({error.strerror})")
    try:
        found = Masks(names=_Walk(root, workspace, rules).names())
        if len(found.names) + len(found.above) > MAX_MASKS:
            raise Enough(f"more than {MAX_MASKS} names would have to be put out of sight")
        return found
    except Enough as enough:
        return Masks(shortfall=str(enough))
    finally:
        os.close(root)


class _Walk(BoundedWalk):
    def __init__(self, root: int, workspace: Path, rules: Sequence[Rule]) -> None:
        super().__init__(root, MAX_NAMES)
        self._workspace, self._rules = workspace, rules

    def names(self) -> tuple[str, ...]:
        if any(rule.is_about(()) for rule in self._rules):
            raise Enough("a rule keeps the whole workspace from being read")
        found: list[str] = []
        folders: deque[tuple[tuple[str, ...], tuple[str, ...]]] = deque([((), ())])
        while folders and len(found) <= MAX_MASKS:
            parts, spelled = folders.popleft()
            for name, is_folder in self._listed(parts):
                # As rules compare names: one of dots alone is none.
                below = (*spelled, folded(name)) if name.strip(".") else spelled
                if name.lower() in HISTORIES:
                    self._require_whole("/".join((*parts, name)), is_folder=is_folder)
                    found.append("/".join((*parts, name)))
                elif any(rule.is_about(below) for rule in self._rules):
                    found.append("/".join((*parts, name)))
                elif is_folder and any(rule.may_be_about_below(below) for rule in self._rules):
                    folders.append(((*parts, name), below))
        return tuple(found)

    def _require_whole(self, name: str, *, is_folder: bool) -> None:
        """Raise where a history may lie in the workspace under a name that is not put out of sight."""
        root, place = os.path.realpath(self._workspace), self._workspace / name
        if is_folder:
            away = leads_away(place) if name.lower().endswith(".git") else ""
            if away:
                raise Enough(away)
            return
        try:
            said = "" if place.is_symlink() else place.read_text("utf-8")[:4096]
            real = Path(
                os.path.realpath(
                    place.parent / said.removeprefix("gitdir:").strip() if said else place
                )
            )
        except (OSError, ValueError) as error:
            raise Enough(f"{name} cannot be read") from error
        if real.is_relative_to(root) and HISTORIES.isdisjoint(
            map(str.lower, real.relative_to(root).parts)
        ):
            raise Enough(f"{name} leads to a repository in another folder")

    def _listed(self, parts: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Return the files and folders of a folder, and of each whether it is one."""
        self._require_bounds(parts)
        found: list[tuple[str, bool]] = []
        try:
            for entry in self._entries(parts):
                is_folder = entry.is_dir(follow_symlinks=False)
                is_history = entry.is_symlink() and entry.name.lower() in HISTORIES
                if is_folder or is_history or entry.is_file(follow_symlinks=False):
                    found.append((entry.name, is_folder))
        except OSError as error:
            self._require_closed("/".join(parts), error)
            return []
        return sorted(found)


def is_folder(path: Path) -> bool | None:
    """Return whether a path is a folder, None where it is neither that nor a file."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    return stat.S_ISDIR(mode) if stat.S_ISDIR(mode) or stat.S_ISREG(mode) else None
