"""Files of a person's, read with a cap and written whole or not at all."""

import contextlib
import errno
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Final

from midstream.config.portable import O_CLOEXEC, O_NONBLOCK, own_user
from midstream.language.errors import UserMistake, WorldTrouble

MAX_FILE_BYTES = 2_000_000

_SAFE_FLAGS = O_NONBLOCK | O_CLOEXEC


class FileMissing(UserMistake):
    """There is no file at a path."""


def read_capped(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return a regular file's bytes.

    Raises:
        FileMissing: there is no such file.
        WorldTrouble: it cannot be read, is no regular file or is larger than `max_bytes`.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _SAFE_FLAGS)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"There is no file {shown_path(path)}.", hint=CHECK_NAME) from error
    except (OSError, ValueError) as error:
        raise WorldTrouble(
            f"{shown_path(path)} cannot be read: {reason(error)}.", hint=way_out(error)
        ) from error
    return read_open(handle, path, max_bytes=max_bytes)


def read_open(handle: int, path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the bytes behind an open file descriptor and close it; `path` is what errors call it.

    Raises:
        WorldTrouble: as in `read_capped`.
    """
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise WorldTrouble(
            f"{shown_path(path)} is not a regular file.", hint="Put a plain file in its place."
        )
    with os.fdopen(handle, "rb") as file:
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise WorldTrouble(
                f"{shown_path(path)} cannot be read: {reason(error)}.", hint=way_out(error)
            ) from error
    if len(data) > max_bytes:
        raise WorldTrouble(
            f"{shown_path(path)} is larger than {max_bytes:,} bytes.", hint="Make it smaller."
        )
    return data


def write_whole(path: Path, data: bytes, *, is_synced: bool = True) -> None:
    """Write a private file (0600, new folders 0700) so that a crash leaves the old or the new one.

    A symbolic link stays and the file it leads to is replaced. What is not `is_synced` is written sooner,
    and outlives the process alone, not a loss of power.

    Raises:
        WorldTrouble: nothing was written; the old file is as it was.
    """
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        make_private(target.parent)
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS
        with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(data)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise WorldTrouble(
            f"{shown_path(path)} cannot be written: {reason(error)}.", hint=way_out(error)
        ) from error


def make_private(folder: Path) -> None:
    """Make a folder for its owner alone, and so each that is missing above it, whatever the umask."""
    if not os.path.exists(folder.parent):
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def require_private(path: Path, variable: str) -> None:
    """Return unless other users could put something else at a path of ours, or have made it.

    Whose the folders above it are is the person's choice, such as a home that is mounted. `variable`
    names another place.

    Raises:
        UserMistake: they could, or have.
    """
    if sys.platform == "win32":
        return  # The bits of a mode say nothing there, and a profile's folder is its user's alone.
    named, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))
    for each in dict.fromkeys((named, *named.parents, real, *real.parents)):
        with contextlib.suppress(OSError):
            about = each.lstat()
            is_ours = about.st_uid in (0, own_user())
            is_link, is_folder = stat.S_ISLNK(about.st_mode), stat.S_ISDIR(about.st_mode)
            is_shared = is_folder and about.st_mode & stat.S_ISVTX
            if (each == real or is_link) and not is_ours:
                how, hint = "belongs to another user", f"chown it, or name your own in {variable}."
            elif (
                about.st_mode & 0o002
                and (is_folder or stat.S_ISREG(about.st_mode))
                and not is_shared
            ):
                how, hint = "can be changed by every user", f"Run: chmod o-w {each}"
            else:
                continue
            raise UserMistake(f"{path} is not private: {each} {how} of this machine.", hint=hint)


def shown_path(path: Path) -> str:
    """Return a path as a message shows it: relative to the current folder if it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


CHECK_NAME: Final = "Check the name."


def way_out(error: OSError | ValueError) -> str:
    """Return what a person can do where the system refused a file."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "Make room on that disk."
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Check its owner and permissions."
    return "Check what is there under that name."


_PLAINER = {errno.ELOOP: "a symbolic link", errno.EEXIST: "something else is in its place"}


def reason(error: OSError | ValueError) -> str:
    """Return why the system refused, in words, without number and path."""
    if isinstance(error, OSError) and error.errno is not None:
        return _PLAINER.get(error.errno, os.strerror(error.errno))
    return str(error)
