"""Changing a file: put in place at once, or taken away, if it still holds what is expected.

A write never goes into an existing file: the new one is written beside it, in the folder that was
opened without following a link, and takes the name. So a link that somebody has put there is
replaced and not followed, a hard link's other names keep the old bytes, and readers see all of the
old text or all of the new.
"""

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from midstream.config.directories import user_state_dir
from midstream.config.portable import O_CLOEXEC, O_NOFOLLOW, NotHere, lock_file
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety.capability import forbids_secrets
from midstream.system.openat2 import rename_new
from midstream.system.workspace_paths import (
    Place,
    found_in,
    guarded,
    opened_folder,
    parent_of,
    read_in,
    require_allowed,
)

MAX_KEPT_BYTES: Final = 100_000_000
"""The largest file that is replaced: what it held is kept, so that the change can be taken back."""

BESIDE: Final = ".midstream-tmp"
"""How the names end of files that stand beside those they are about to replace."""


def guards(place: Place) -> tuple[str, ...]:
    """Return for each name of a place why writing there always takes a yes, "" where it does not."""
    return tuple(guarded(place, name) for name in place.names)


def missing_above(place: Place) -> tuple[Path, ...]:
    """Return the folders above a file that are not there, outermost first."""
    above = (place.root.joinpath(*place.parts[:n]) for n in range(1, len(place.parts)))
    return tuple(folder for folder in above if not os.path.lexists(folder))


def require_plain(place: Place) -> None:
    """Raise UserMistake for a secret file, or one that is written only where a person said yes to it."""
    require_allowed(place, "write", forbids_secrets)
    _require_guards(place, ("",) * len(place.names))


def _require_guards(place: Place, judged: tuple[str, ...]) -> None:
    """Raise UserMistake where something guards a place by now that nobody was asked about."""
    now = guards(place)
    if now != judged:
        why = next((reason for reason in now if reason not in judged), "it was judged as another")
        raise UserMistake(f"{place.name} was not written: {why}.", hint="It takes a person's yes.")


def contents_of(place: Place) -> bytes | None:
    """Return what a file holds, None where there is none.

    Raises:
        UserMistake: it is no regular file, or too large to be kept.
        WorldTrouble: it cannot be read.
    """
    try:
        os.lstat(place.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with opened_folder(parent_of(place)) as folder:
        return _held(folder, place)


def _held(folder: int, place: Place) -> bytes | None:
    if found_in(folder, place) is None:
        return None
    return read_in(folder, place, max_bytes=MAX_KEPT_BYTES)


def put_in_place(
    place: Place,
    data: bytes,
    *,
    expected: bytes | None,
    judged: tuple[str, ...] | None = None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Put `data` in a file's place at once, its permissions kept, if it still holds `expected`.

    Writes come one after the other (`_alone`), so that `judged`, the `guards` the write was judged
    by, are compared with what guards it now: files that are harmless each may be a repository
    together. `last_look` is called right before the file changes; what it raises leaves the file as
    it is.

    Raises:
        UserMistake: the file holds something else by now (None: it is there by now, or gone), its
            folder is no longer where it was, or something else guards it.
        WorldTrouble: the disk refused; the file is as it was.
    """
    with _alone():
        if judged is not None:
            # Before the folders are made, too: `objects` and `refs` of a repository are folders.
            _require_guards(place, judged)
        _put_in_place(place, data, expected, judged, last_look)


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _alone() -> Iterator[None]:
    """Hold what lets one write at a time happen: in this process and, where there is a folder of
    state, in this person's others.
    """
    with _ONE_AT_A_TIME, ExitStack() as held:
        with suppress(OSError):
            path = user_state_dir(os.environ) / "writing.lock"
            lock = os.open(path, os.O_RDWR | os.O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
            held.callback(os.close, lock)
            lock_file(lock)
        yield


def _put_in_place(
    place: Place,
    data: bytes,
    expected: bytes | None,
    judged: tuple[str, ...] | None,
    last_look: Callable[[], None] | None,
) -> None:
    try:
        with opened_folder(parent_of(place), create=True) as folder:
            found = found_in(folder, place)
            # The name must not grow past the limit of 255 bytes.
            beside = f".{os.urandom(6).hex()}{BESIDE}"
            try:
                _write_new(folder, beside, data, found)
                # Somebody may have saved the file meanwhile: their work is not undone.
                if _held(folder, place) != expected:
                    raise _changed(place)
                _require_same_folder(folder, place)
                if judged is not None:
                    _require_guards(place, judged)
                if last_look is not None:
                    last_look()
                _take_name(folder, beside, place, is_new=expected is None)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
                raise
            # The name itself is the folder's, and as easily lost.
            os.fsync(folder)
    except OSError as error:
        raise _refused(place, error) from error


def _take_name(folder: int, beside: str, place: Place, *, is_new: bool) -> None:
    # Over a file that is there the rename itself is the exchange; a new name must not take somebody's
    # file that has come since the look.
    if not is_new:
        os.rename(beside, place.parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        return
    try:
        rename_new(folder, beside, place.parts[-1])
    except FileExistsError as error:
        raise _changed(place) from error


def put_by_another(
    place: Place,
    save: Callable[[], None],
    *,
    expected: bytes,
    judged: tuple[str, ...],
    last_look: Callable[[], None],
) -> bytes | None:
    """Have another program save a file it has open, if the disk still holds `expected`; return what it
    holds then. The rest, and what is raised, as in `put_in_place`.
    """
    with _alone():
        if contents_of(place) != expected:
            raise _changed(place)
        _require_guards(place, judged)
        last_look()
        save()
        return contents_of(place)


def take_away(
    place: Place,
    *,
    expected: bytes,
    judged: tuple[str, ...] | None = None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Remove a file if it still holds `expected`; the rest, and what is raised, as in `put_in_place`."""
    try:
        with _alone(), opened_folder(parent_of(place)) as folder:
            if _held(folder, place) != expected:
                raise _changed(place)
            _require_same_folder(folder, place)
            if judged is not None:
                _require_guards(place, judged)
            if last_look is not None:
                last_look()
            os.unlink(place.parts[-1], dir_fd=folder)
            os.fsync(folder)
    except OSError as error:
        raise _refused(place, error) from error


def take_folder_away(place: Place) -> bool:
    """Remove a folder if nothing is in it; return whether it is gone.

    Raises:
        UserMistake: it is no folder, or what it is in is no longer where it was.
        WorldTrouble: the disk refused.
    """
    try:
        with opened_folder(parent_of(place)) as folder:
            _require_same_folder(folder, place)
            os.rmdir(place.parts[-1], dir_fd=folder)
            os.fsync(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _changed(place) from error
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        what = f"{place.name} cannot be removed: {error.strerror}."
        raise WorldTrouble(what, hint="It is as it was.") from error
    return True


def _require_same_folder(folder: int, place: Place) -> None:
    """Raise UserMistake where an opened folder has been moved away: its name means another by now."""
    with opened_folder(parent_of(place)) as again:
        if not os.path.samestat(os.fstat(folder), os.fstat(again)):
            raise _changed(place)


def _changed(place: Place) -> UserMistake:
    return UserMistake(f"{place.name} has just been changed by somebody else.", hint="Read it.")


def _refused(place: Place, error: OSError) -> WorldTrouble:
    return WorldTrouble(
        f"{place.name} cannot be written: {error.strerror}.", hint="The file is as it was."
    )


def _write_new(folder: int, name: str, data: bytes, like: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_CLOEXEC
    # Nobody else reads what replaces a file that they could not read.
    handle = os.open(name, flags, 0o666 if like is None else 0o600, dir_fd=folder)
    with open(handle, "wb") as file:
        if like is not None and sys.platform != "win32":
            _keep_owner(handle, like)
            # Not the set-user-id bits: whoever runs it would run what a model wrote as its owner.
            os.fchmod(handle, stat.S_IMODE(like.st_mode) & 0o777)
        file.write(data)
        file.flush()
        # Before it takes the name: after a power loss the name may otherwise stand for an empty file.
        os.fsync(handle)


def _keep_owner(handle: int, like: os.stat_result) -> None:
    if sys.platform == "win32":
        raise NotHere
    found = os.fstat(handle)
    if (found.st_uid, found.st_gid) != (like.st_uid, like.st_gid):
        with suppress(OSError):
            os.fchown(handle, like.st_uid, like.st_gid)
