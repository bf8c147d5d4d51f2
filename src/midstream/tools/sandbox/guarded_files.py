"""What of a workspace a command inside may not change, and what of it leads out to the host: a walk.

Before a command starts, the files that decide what runs later (`midstream.safety.protected`) are
found at every depth, to be made read-only, and the sockets and pipes that others listen at, to be shut.
When it has ended, the same walk says which of those files are new, others or gone: what was not there
could not be locked, and a folder can be moved away with a locked file in it.

The walk is bounded. One that met a bound says so (`shortfall`), and whoever starts the command has a
person asked. So that a hostile tree cannot make each command slow, a folder that has not changed is not
read again: where file systems keep the time of a folder's last change by themselves (its ctime, which
no program can set), and that lies a second back or more when it is read, the names read are the names.
What folders of installed packages hold is not looked at: a tree of its own for each, and nobody opens
them as a workspace.
"""

import errno
import os
import socket
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from midstream.config.portable import O_CLOEXEC, O_DIRECTORY, O_PATH, NotHere, own_user
from midstream.safety.protected import classify
from midstream.safety.protected_names import UNKNOWN
from midstream.system.openat2 import file_system, opened

LOCKED: Final = (".git", ".midstream")
"""What is read-only in every workspace, and cannot be made where it is missing."""

MAX_NAMES: Final = 250_000
MAX_S: Final = 20.0
MAX_DEPTH: Final = 64
MAX_LOCKS: Final = 400
"""Each is a mount and, until the command has begun, an open file."""

_NOT_LOCKED: Final = frozenset({".yarn", ".bundle", ".cargo", ".mvn", ".config", ".local"})
"""Folders that decide what runs later, but that the tools they belong to write into all the time."""
_OBEYED_SECRETS: Final = frozenset({".npmrc", ".envrc"})
"""Secret files that name programs, too."""
_OF_REPOSITORIES: Final = ("HEAD", "config", "config.worktree", "commondir", "hooks")
_KEEP_CHANGE_TIMES: Final = frozenset(
    {
        *(0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630),
        *(0xF2F52010, 0x2FC12FC1, 0xCA451A4E),
    }
)
"""ext, XFS, Btrfs, tmpfs, overlay, F2FS, ZFS, bcachefs: statfs(2)'s types. None of a network."""
_SETTLED_NS: Final = 1_000_000_000
FOLDER: Final = os.O_RDONLY | O_DIRECTORY

Identity: TypeAlias = tuple[int, ...]


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """What a walk found, paths from the workspace's root.

    Args:
        locked: files and folders to make read-only.
        installed: the same for folders that installing writes into. A command that reaches hosts asks
            for them.
        files: what decides what runs later, locked or not, each with what tells it from another.
        sockets: those that somebody has.
        pipes: all of them: who waits at one cannot be told without disturbing them.
        shortfall: why not all was looked at, "" where it was.
    """

    locked: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    files: Mapping[str, Identity] = {}
    sockets: tuple[str, ...] = ()
    pipes: tuple[str, ...] = ()
    shortfall: str = ""

    def without(self, installed: Collection[str]) -> "Guarded":
        """Return it with some folders of installed packages left open."""
        left = tuple(name for name in self.installed if name not in installed)
        return msgspec.structs.replace(self, installed=left)


NOTHING: Final = Guarded()


class _Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a folder's names. `watched` cannot be locked, or must not be."""

    count: int = 0
    below: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()


_EMPTY: Final = _Listing()


class Enough(Exception):
    """A bound is met; its text says which."""


class BoundedWalk:
    """A walk below an opened folder that ends, with `Enough`, where there is too much to look at."""

    def __init__(self, root: int, max_names: int = MAX_NAMES, max_s: float = MAX_S) -> None:
        self._root = root
        self._max_names = self._left = max_names
        self._max_s, self._until = max_s, time.monotonic() + max_s

    def _require_bounds(self, parts: tuple[str, ...]) -> None:
        if len(parts) > MAX_DEPTH:
            raise Enough(f"its folders are more than {MAX_DEPTH} deep")
        if time.monotonic() > self._until:
            raise Enough(f"it takes more than {self._max_s:g} s")

    def _count(self, names: int) -> None:
        self._left -= names
        if self._left < 0:
            raise Enough(f"it has more than {self._max_names:,} names")

    def _entries(self, parts: tuple[str, ...]) -> Iterator["os.DirEntry[str]"]:
        """Yield what a folder holds, each to be looked at before the next. Raises OSError."""
        handle = opened(self._root, parts, FOLDER)
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    self._count(1)
                    yield entry
        finally:
            os.close(handle)

    def _require_closed(self, path: str, error: OSError) -> None:
        """Return where a folder that cannot be read is gone, or closed to whoever runs a command, too."""
        if error.errno in _GONE or (error.errno == errno.EACCES and not self._is_ours(path)):
            return
        raise Enough(f"{path or 'the workspace'} cannot be read ({error.strerror})") from error

    def _is_ours(self, path: str) -> bool:
        """Return whether whoever runs a command here could open a folder that is closed to them."""
        with suppress(OSError):
            owner = os.stat(path or ".", dir_fd=self._root, follow_symlinks=False).st_uid
            return owner == own_user()
        return True


_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})


class Lookout:
    """Looks through one workspace, as often as asked. From any thread, one at a time."""

    def __init__(
        self, workspace: Path, *, max_names: int = MAX_NAMES, max_s: float = MAX_S
    ) -> None:
        self._workspace = workspace
        self._max_names, self._max_s = max_names, max_s
        self._kept: dict[str, tuple[Identity, _Listing]] = {}
        self._lock = threading.Lock()

    def look(self) -> Guarded:
        """Return what is guarded now. Blocks, for `MAX_S` at the longest."""
        with self._lock:
            try:
                root = os.open(self._workspace, FOLDER | O_CLOEXEC)
            except OSError as error:
                return Guarded(shortfall=f"the workspace cannot be read ({error.strerror})")
            try:
                walk = _Walk(root, self._kept, self._max_names, self._max_s)
                found = walk.found()
                self._kept = walk.kept
                return found
            finally:
                os.close(root)


class _Walk(BoundedWalk):
    def __init__(
        self,
        root: int,
        before: Mapping[str, tuple[Identity, _Listing]],
        max_names: int,
        max_s: float,
    ) -> None:
        super().__init__(root, max_names, max_s)
        self._before = before
        self._device = os.fstat(root).st_dev
        self._keeps_times = file_system(root) in _KEEP_CHANGE_TIMES
        self.kept: dict[str, tuple[Identity, _Listing]] = {}

    def found(self) -> Guarded:
        """Walk, the folders nearest the root first, and return what was found until a bound is met."""
        locked: list[str] = []
        installed: list[str] = []
        watched: list[str] = []
        sockets: list[str] = []
        pipes: list[str] = []
        shortfall = ""
        folders: deque[tuple[str, ...]] = deque([()])
        try:
            while folders:
                parts = folders.popleft()
                listing = self._listing(parts)
                before = f"{'/'.join(parts)}/" if parts else ""
                for names, whole in (
                    (listing.locked, locked),
                    (listing.watched, watched),
                    (listing.installed, installed),
                ):
                    whole += [before + name for name in names]
                for name in listing.doors:
                    self._sort_door(before + name, sockets, pipes)
                if max(len(locked) + len(installed), len(sockets) + len(pipes)) > MAX_LOCKS:
                    raise Enough(f"more than {MAX_LOCKS} names in it have to be locked")
                folders += [(*parts, name) for name in listing.below]
        except Enough as enough:
            shortfall = str(enough)
        return Guarded(
            locked=tuple(locked[:MAX_LOCKS]),
            installed=tuple(installed[:MAX_LOCKS]),
            files=self._identities(locked, watched),
            sockets=tuple(sockets[:MAX_LOCKS]),
            pipes=tuple(pipes[:MAX_LOCKS]),
            shortfall=shortfall,
        )

    def _listing(self, parts: tuple[str, ...]) -> _Listing:
        self._require_bounds(parts)
        path = "/".join(parts)
        try:
            about = os.stat(path or ".", dir_fd=self._root, follow_symlinks=False)
            # A folder's names change its ctime, and nobody but the kernel sets that.
            stamp = (about.st_dev, about.st_ino, about.st_ctime_ns)
            kept = self._before.get(path)
            if kept is not None and kept[0] == stamp:
                listing = kept[1]
                self._count(listing.count)
            else:
                began = time.time_ns()
                listing = self._read(parts)
                # The clock of a disk may be coarse: a name made in the same tick as the reading would leave
                # the stamp as it is.
                is_settled = about.st_ctime_ns < began - _SETTLED_NS
                if not (is_settled and self._keeps_times and about.st_dev == self._device):
                    return listing
        except OSError as error:
            self._require_closed(path, error)
            return _EMPTY
        self.kept[path] = (stamp, listing)
        return listing

    def _read(self, parts: tuple[str, ...]) -> _Listing:
        folders: list[str] = []
        files: list[str] = []
        links: list[str] = []
        doors: list[str] = []
        for entry in self._entries(parts):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_symlink():
                links.append(entry.name)
            else:
                doors.append(entry.name)
        count = len(folders) + len(files) + len(links) + len(doors)
        if parts and parts[-1] == "node_modules":
            there = tuple(name for name in folders if name == ".bin")
            return _Listing(count=count, installed=there)
        if parts and "pyvenv.cfg" in files:
            return _Listing(count=count, installed=(".",))
        names = {*folders, *files, *links}
        repository = set(_of_repository(names))
        is_open = not _NOT_LOCKED.isdisjoint(parts) or (bool(parts) and _is_unknown(parts[0]))
        guarded = {name for name in names if _is_guarded(parts, name, is_open=is_open)} | repository
        if not parts:
            guarded -= {*LOCKED}
        unlocked = {*_NOT_LOCKED, *(name for name in guarded if not parts and _is_unknown(name))}
        inside = {*(guarded - unlocked), *LOCKED}
        if repository:
            inside |= {"objects", "refs"}
        locked = guarded - {*links} - unlocked
        watched = guarded & {*links} | guarded & unlocked & {*files}
        watched |= {*files} - guarded if is_open else set()
        return _Listing(
            count=count,
            below=tuple(sorted(name for name in folders if name not in inside)),
            locked=tuple(sorted(locked)),
            watched=tuple(sorted(watched)),
            doors=tuple(sorted(doors)),
        )

    def _sort_door(self, path: str, sockets: list[str], pipes: list[str]) -> None:
        """Add a pipe, or a socket that somebody has, to those known.

        A socket is asked with one of a kind it does not speak with, or that says nothing to it: that
        changes nothing for who listens, and tells apart one that nobody has any more.
        """
        if sys.platform == "win32":
            raise NotHere
        try:
            handle = opened(self._root, tuple(path.split("/")), O_PATH)
        except OSError:
            return
        try:
            kind = os.fstat(handle).st_mode
            if stat.S_ISFIFO(kind):
                pipes.append(path)
            if not stat.S_ISSOCK(kind):
                return
            # By its descriptor: the name could be too long for a socket, or another by now.
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
                ours.setblocking(False)
                with suppress(BlockingIOError):
                    ours.connect(f"/proc/self/fd/{handle}")
            sockets.append(path)
        except ConnectionRefusedError:
            return
        except OSError:
            sockets.append(path)
        finally:
            os.close(handle)

    def _identities(self, *paths: Iterable[str]) -> dict[str, Identity]:
        found: dict[str, Identity] = {}
        for path in (each for several in paths for each in several):
            with suppress(OSError):
                about = os.stat(path, dir_fd=self._root, follow_symlinks=False)
                which: Identity = (about.st_dev, about.st_ino)
                if not stat.S_ISDIR(about.st_mode):
                    which += (about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                found[path] = which
        return found


def _is_guarded(parts: tuple[str, ...], name: str, *, is_open: bool) -> bool:
    # No row of the table is longer than three names.
    above = ("_",) if is_open else parts[-2:]
    standing = classify((*above, name), "write").standing
    return standing == "protected" or (standing == "secret" and name in _OBEYED_SECRETS)


def _is_unknown(name: str) -> bool:
    """Return whether a name of the root is guarded only since nobody knows what obeys it: as likely as
    not a tool keeps its notes there, and would fail where it cannot.
    """
    return classify((name,), "write").reason == UNKNOWN


def _of_repository(names: set[str]) -> Iterable[str]:
    """Return what of a folder's names git obeys, if it takes the folder for a repository."""
    is_one = "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names)
    return (name for name in _OF_REPOSITORIES if name in names) if is_one else ()


def told_changes(before: Guarded, after: Guarded) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what became of the files that decide what runs later: verbs, each with paths."""
    was, now = before.files, after.files
    made = tuple(sorted(now.keys() - was.keys()))
    changed = tuple(sorted(path for path in now.keys() & was.keys() if now[path] != was[path]))
    # Where not all was looked at, what is missing may only not have been come to.
    removed = () if after.shortfall else tuple(sorted(was.keys() - now.keys()))
    # What ran inside has ended, so that somebody outside has them.
    reached = tuple(sorted({*after.sockets} - {*before.sockets}))
    told = (("made", made), ("changed", changed), ("removed", removed), ("could reach", reached))
    return tuple((verb, paths) for verb, paths in told if paths)
