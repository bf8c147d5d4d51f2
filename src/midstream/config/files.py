"""Files of a person's, read with a cap and written whole or not at all."""

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path
from typing import Final

from midstream.core.errors import UserMistake, WorldTrouble

MAX_FILE_BYTES = 2_000_000

# Without O_NONBLOCK, opening a named pipe would wait for a writer that never comes. The others keep
# the descriptor from child processes and, on Windows, the bytes as they are.
_SAFE_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


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


def write_whole(path: Path, data: bytes) -> None:
    """Write a private file (0600, new folders 0700) so that a crash leaves the old or the new one.

    A symbolic link stays and the file it leads to is replaced.

    Raises:
        WorldTrouble: nothing was written; the old file is as it was.
    """
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS
        with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise WorldTrouble(
            f"{shown_path(path)} cannot be written: {reason(error)}.", hint=way_out(error)
        ) from error


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
        return "Check whose it is, and what its rights allow."
    return "Check what is there under that name."


_PLAINER = {errno.ELOOP: "a symbolic link", errno.EEXIST: "something else is in its place"}


def reason(error: OSError | ValueError) -> str:
    """Return why the system refused, in words, without number and path."""
    if isinstance(error, OSError) and error.errno is not None:
        return _PLAINER.get(error.errno, os.strerror(error.errno))
    return str(error)
