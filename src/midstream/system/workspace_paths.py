"""Paths a model names, kept inside the workspace.

Two steps, and both are needed. `locate` says where a path leads, symbolic links resolved, and
refuses what is outside, secret or no honest name; whoever judges the call judges that place. The
opening functions then go to that very place from the workspace's own folder and follow no link at
all (`midstream.system.openat2`): a link that somebody puts in the way between the two steps ends the
walk instead of leading it elsewhere.
"""

import os
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.directories import (
    JOURNAL_VARIABLE,
    journal_file,
    user_config_dir,
    user_state_dir,
)
from midstream.config.portable import FOLDER, O_CLOEXEC, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety.capability import Capability, Kind
from midstream.safety.protected import Purpose, classify, folded
from midstream.system.hard_links import is_twin_of_a_secret
from midstream.system.openat2 import is_made_up, opened

MAX_FILE_BYTES: Final = 10_000_000
LOOK: Final = "list_directory says what there is."
MAX_PATH_BYTES: Final = 4_096
MAX_NAME_BYTES: Final = 255

# Without O_NONBLOCK, opening a FIFO waits for a writer that never comes; without O_NOCTTY, opening
# a terminal makes it ours.
_FILE = os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC

_JOINERS: Final = frozenset("\u200c\u200d")
"""Zero-width, and part of how Persian, Hindi and emoji are written."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a path leads: a real path in a workspace, `parts` below `root`. No parts: the root.

    `named` is the path as it was given where that says something else: a link is on the way.
    """

    root: Path
    parts: tuple[str, ...]
    named: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Return the parts of the real path and, where it differs, of the given one."""
        return (self.parts, self.named) if self.named else (self.parts,)

    @property
    def path(self) -> Path:
        """Return the real path, whole."""
        return self.root.joinpath(*self.parts)

    @property
    def name(self) -> str:
        """Return the path as people and models read it, relative to the workspace."""
        return "/".join(self.parts) or "."


def locate(workspace: Path, path: str) -> Place:
    """Return the place a path leads to; it need not exist, and whether it may be used is not said.

    Relative paths start at the workspace; an absolute one has to lie in it. Links are followed,
    wherever they stand, as long as they stay inside.

    Raises:
        UserMistake: the path leads out of the workspace or to midstream's own files, or is no
            honest name.
    """
    _require_honest(path)
    root = Path(os.path.realpath(workspace))
    try:
        # Where it leads now. That it still does when it is opened, the opening sees to: it follows no link.
        real = Path(os.path.realpath(workspace / path))
        parts = real.relative_to(root).parts
    except ValueError as error:
        raise UserMistake(
            f"{path!r} leads out of the workspace.",
            hint="Tools read and write only inside it; use a path relative to its root.",
        ) from error
    except OSError as error:
        raise UserMistake(f"{path!r} cannot be resolved: {error.strerror}.", hint=LOOK) from error
    # A link with an honest name may lead to one that is none.
    _require_honest("/".join(parts) or ".")
    if path.endswith(("/", "/.")) and _is_other_than_folder(real):
        raise UserMistake(f"{path!r} ends like a folder and is none.", hint="Leave out the slash.")
    _require_not_own(path, real, root)
    named = _named_parts(path, (workspace, root))
    return Place(root=root, parts=parts, named=() if named == parts else named)


def requests_for(place: Place, purpose: Purpose) -> tuple[Capability, ...]:
    """Return the capabilities that reading or writing a place needs: under each of its names."""
    return tuple(
        Capability(kind=_kind_of(place, parts, purpose), target="/".join(parts) or ".")
        for parts in place.names
    )


def _kind_of(place: Place, parts: tuple[str, ...], purpose: Purpose) -> Kind:
    if purpose == "read":
        return "read"
    return "write_protected" if guarded(place, parts) else "write"


def guarded(place: Place, parts: tuple[str, ...]) -> str:
    """Return why writing there under that name always takes a person's yes, "" where it does not."""
    standing, reason = classify(parts, "write")
    if standing == "protected":
        return reason
    return _guarded_by_neighbours(place.root, place.parts)


def require_allowed(place: Place, purpose: Purpose, forbids: Callable[[Capability], str]) -> None:
    """Raise UserMistake where policy keeps a call from reading or writing a place."""
    for request in requests_for(place, purpose):
        reason = forbids(request)
        if reason:
            raise UserMistake(reason)


def _require_honest(path: str) -> None:
    """Raise UserMistake for a path that does not look like what it is, or could not be one."""
    if not path or "\0" in path:
        raise UserMistake("The path is empty or holds a NUL character.", hint=LOOK)
    strange = next((char for char in path if _is_strange(char)), "")
    if strange:
        raise UserMistake(
            f"{path[:200]!a} holds U+{ord(strange):04X}, which cannot be seen in a name.",
            hint="Such a file has to be renamed by a person first.",
        )
    parts = path.split("/")
    if ".." in parts:
        raise UserMistake(
            f"{path[:200]!r} holds '..'.", hint="Name the path from the workspace's root."
        )
    if parts[0] == "~":
        raise UserMistake(f"{path[:200]!r} begins with '~'.", hint="It stands for nothing here.")
    size = len(path.encode())
    if size > MAX_PATH_BYTES or max(len(part.encode()) for part in parts) > MAX_NAME_BYTES:
        raise UserMistake(
            f"The path of {size:,} bytes, or a name in it, is too long for a file.",
            hint="Use a shorter one.",
        )


def _is_strange(char: str) -> bool:
    """Return whether a character of a name could fool its reader: a control, a newline, half of a
    pair, a mark that reorders or tags text.
    """
    if char.isascii():
        return not char.isprintable()
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in _JOINERS


def _is_other_than_folder(real: Path) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(real).st_mode)
    except OSError:
        return False


def _named_parts(path: str, roots: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the path's parts below the workspace as they were named, links and all."""
    given = Path(path)
    if not given.is_absolute():
        return given.parts
    below = (root for root in roots if given.is_relative_to(root))
    return next((given.relative_to(root).parts for root in below), ())


# --- what is not for agents, or guarded ---------------------------------------------------------


def _require_not_own(path: str, real: Path, root: Path) -> None:
    """Raise UserMistake for what is midstream's own; a folder it has made for agents is not."""
    if _is_own(real) and not is_for_agents(root):
        raise UserMistake(
            f"{path!r} is midstream's own settings or state, which are not for agents.",
            hint="A person can change it with an editor.",
        )


_WORKTREES: Final = "worktrees"


def worktrees_folder() -> Path:
    """Return the folder of the git worktrees agents work in, each in one of its run: RUN/NAME."""
    return Path(os.path.realpath(user_state_dir(os.environ))) / _WORKTREES


def is_worktree(folder: Path) -> bool:
    """Return whether a real folder is a git worktree of ours, or lies in one."""
    ours = worktrees_folder()
    return folder.is_relative_to(ours) and len(folder.relative_to(ours).parts) > 1


_PLACES: Final = "places"


def places_folder(state: Path) -> Path:
    """Return the folder of the folders that runs of repositories work in, each in one of its run."""
    return Path(os.path.realpath(state)) / _PLACES


def is_for_agents(folder: Path) -> bool:
    """Return whether a real folder in our own state is one that agents work in, or lies in one."""
    places = places_folder(user_state_dir(os.environ))
    is_place = folder.is_relative_to(places) and len(folder.relative_to(places).parts) > 1
    return is_place or is_worktree(folder)


def _is_own(real: Path) -> bool:
    """Return whether a place is midstream's own: in a workspace around it (somebody's home), or in
    one that lies in it.
    """
    folders, journal = _own_places(*map(os.environ.get, _SAYING_WHERE))
    if any(real.is_relative_to(own) for own in folders):
        return True
    return any(_is_beside(real, each) for each in (journal, *_JOURNALS))


def _is_beside(real: Path, journal: Path) -> bool:
    """Return whether a place is a journal or goes with it: its log, its lock and the bells lie beside
    it, each with its name and more.
    """
    if not real.is_relative_to(journal.parent):
        return False
    first = real.relative_to(journal.parent).parts[:1]
    return any(name.casefold().startswith(journal.name.casefold()) for name in first)


_JOURNALS: Final[set[Path]] = set()


def keep_from_tools(journal: Path) -> None:
    """Keep a journal of this process from the file tools, wherever it lies, until the process ends."""
    _JOURNALS.add(Path(os.path.realpath(journal)))


_SAYING_WHERE: Final = (
    *("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
    *("MIDSTREAM_CONFIG_HOME", "MIDSTREAM_STATE_HOME", JOURNAL_VARIABLE),
)


@lru_cache(maxsize=8)
def _own_places(*_values: str | None) -> tuple[tuple[Path, ...], Path]:
    """Return the folders of settings and state, and the journal, which may lie elsewhere."""
    state = user_state_dir(os.environ)
    folders = (user_config_dir(os.environ), state)
    journal = journal_file(os.environ, state)
    real = tuple(Path(os.path.realpath(place)) for place in folders)
    return real, Path(os.path.realpath(journal))


_GIT_NAMES: Final = {
    name.casefold(): name
    for name in ("HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks")
}


def _guarded_by_neighbours(root: Path, parts: tuple[str, ...]) -> str:
    """Return why writing there is guarded by what stands around it, whatever it is called.

    git takes a folder with HEAD, objects and refs for a repository under any name, and so one with
    HEAD and a `commondir` that leads to the rest; its `config` names programs that the next
    `git status` in it runs. What counts is how the folders would be once the write has landed.
    """
    for depth, part in enumerate(parts):
        folder = root.joinpath(*parts[:depth])
        itself = _GIT_NAMES.get(folded(part), "")
        has = {name for name in _GIT_NAMES.values() if os.path.lexists(folder / name)} | {itself}
        is_common = {"objects", "refs"} <= has
        if "HEAD" in has and (is_common or "commondir" in has):
            return "the folder is, or becomes, a git repository without a work tree"
        if itself and is_common and has & {"config", "config.worktree", "hooks"}:
            return "the folder holds what git repositories share"
    return ""


# --- opening ------------------------------------------------------------------------------------


@contextmanager
def opened_folder(place: Place, *, create: bool = False) -> Iterator[int]:
    """Give the file descriptor of a folder; with `create`, it and its parents are made as needed.

    Raises:
        UserMistake: it is no folder, does not exist, or is the kernel's, such as `/proc`.
        WorldTrouble: this system has no way to open one that cannot be led astray.
    """
    if os.open not in os.supports_dir_fd:
        # By its whole path a file can be opened there, too, but not one that nobody exchanges meanwhile.
        raise WorldTrouble(
            "Files of a workspace are not opened on Windows yet.", hint="Use midstream within WSL."
        )
    try:
        handle = _handle_of(place, create=create)
    except FileNotFoundError as error:
        raise UserMistake(f"There is no folder {place.name!r}.", hint=LOOK) from error
    except OSError as error:
        if error.errno not in _NO_FOLDER:
            raise
        raise UserMistake(f"{place.name!r} is no folder.", hint=LOOK) from error
    try:
        _require_stored(handle, place)
        yield handle
    finally:
        os.close(handle)


# ELOOP and EXDEV: a link stands where a folder was.
_NO_FOLDER: Final = frozenset({20, 40, 18})


def _handle_of(place: Place, *, create: bool) -> int:
    root = os.open(place.root, FOLDER)
    try:
        if not create:
            return opened(root, place.parts, FOLDER)
        handle = os.dup(root)
        for part in place.parts:
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
                below = opened(handle, (part,), FOLDER)
            finally:
                os.close(handle)
            handle = below
        return handle
    finally:
        os.close(root)


@contextmanager
def opened_below(folder: int, name: str) -> Iterator[int]:
    """Give the file descriptor of a folder in an opened folder, unless it is a link (OSError)."""
    handle = opened(folder, (name,), FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def parent_of(place: Place) -> Place:
    """Return the folder a file is in. Raises UserMistake for the workspace itself, which is none."""
    if not place.parts:
        raise UserMistake("'.' is a folder.", hint="Use list_directory for folders.")
    return Place(root=place.root, parts=place.parts[:-1])


def read_bytes(place: Place, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return what a regular file holds.

    Raises:
        UserMistake: there is no such file, it is not a regular one, it is larger than that, it is
            another name (a hard link) of a secret, or midstream's own.
        WorldTrouble: it cannot be read.
    """
    with opened_folder(parent_of(place)) as folder:
        return read_in(folder, place, max_bytes=max_bytes)


def read_in_slices(
    place: Place, *, max_bytes: int, check: Callable[[], None] = lambda: None
) -> bytearray:
    """Return the same of a file that may be large, read so that no other thread waits for long.

    `check` is called between two slices; it ends the reading by raising.
    """
    data = bytearray()
    with (
        opened_folder(parent_of(place)) as folder,
        _readable(folder, place, max_bytes) as handle,
    ):
        # One read of a hundred megabytes keeps the process's memory to itself as long as it takes.
        while piece := os.read(handle, min(_SLICE, max_bytes - len(data))):
            data += piece
            check()
    return data


_SLICE: Final = 1 << 18


def first_bytes(place: Place, count: int) -> bytes:
    """Return how a regular file begins, however large it is; raises as `read_bytes` does."""
    with (
        opened_folder(parent_of(place)) as folder,
        _readable(folder, place, sys.maxsize) as handle,
    ):
        return os.read(handle, count)


def read_in(folder: int, place: Place, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return what the file with the place's name in an opened folder holds; as `read_bytes`."""
    with (
        _readable(folder, place, max_bytes) as handle,
        open(handle, "rb", closefd=False) as file,
    ):
        # A file that grows meanwhile stays bounded.
        return file.read(max_bytes)


@contextmanager
def _readable(folder: int, place: Place, max_bytes: int) -> Iterator[int]:
    """Give the descriptor of a file that may be read; raises as `read_bytes` does."""
    _require_not_own(place.name, place.path, place.root)
    handle = _open_file(folder, place)
    try:
        found = os.fstat(handle)
        _require_regular(found.st_mode, place)
        _require_stored(handle, place)
        if found.st_size > max_bytes:
            raise UserMistake(
                f"{place.name} has {found.st_size:,} bytes; the limit is {max_bytes:,}.",
                hint="Commands such as head, tail or grep show parts of it.",
            )
        # By what was opened, not by its name: that may be another file by now.
        if found.st_nlink > 1 and is_twin_of_a_secret(found, place.root, place.parts):
            raise UserMistake(
                f"{place.name!r} may not be read: it is another name of a secret file."
            )
        yield handle
    finally:
        os.close(handle)


def _open_file(folder: int, place: Place) -> int:
    name = place.parts[-1]
    try:
        # Opening a device can do things, so that it is looked at before as well as after.
        _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, place)
        return opened(folder, (name,), _FILE)
    except FileNotFoundError as error:
        raise UserMistake(f"There is no file {place.name!r}.", hint=LOOK) from error
    except OSError as error:
        raise WorldTrouble(f"{place.name} cannot be read: {error.strerror}.", hint=LOOK) from error


def _require_regular(mode: int, place: Place) -> None:
    if stat.S_ISDIR(mode):
        raise UserMistake(f"{place.name!r} is a folder.", hint="Use list_directory for folders.")
    if stat.S_ISLNK(mode):
        raise UserMistake(
            f"{place.name!r} cannot be read: a link has just been put there.",
            hint="Name the file it leads to.",
        )
    if not stat.S_ISREG(mode):
        raise UserMistake(
            f"{place.name!r} is no regular file but a pipe, socket or device.",
            hint="Only regular files can be used.",
        )


def _require_stored(handle: int, place: Place) -> None:
    if is_made_up(handle):
        raise UserMistake(
            f"{place.name!r} is not stored anywhere: the kernel makes it up.",
            hint="Only stored files can be used.",
        )


def found_in(folder: int, place: Place) -> os.stat_result | None:
    """Return what a file in an opened folder is; None when there is none.

    Raises:
        UserMistake: something that is no regular file has its name.
    """
    if not place.parts:
        raise UserMistake("'.' is a folder.", hint="Use list_directory for folders.")
    try:
        found = os.stat(place.parts[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular(found.st_mode, place)
    return found
