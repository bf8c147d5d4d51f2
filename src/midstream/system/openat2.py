"""Linux's openat2: a whole path opened in one call that cannot be led out of a folder.

The kernel follows the path and refuses `..` above the folder, absolute names, every symbolic link
and the magic ones of `/proc`; no rename in between can change that. Other mounts are entered: a
volume in a workspace is a person's doing, since mounting takes more rights than an agent has. What
the kernel makes up (`/proc`, `/sys`) is told by `is_made_up` instead, mounted below or not.

Where the call is missing (an older kernel, a container that forbids it, no Linux) `resolution()`
says "walk", and `opened` opens the path component by component without following links: it is as
safe, and slower.
"""

import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal

from midstream.config.portable import FOLDER, O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_PATH

_OPENAT2: Final = 437
_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276}
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_RESOLVE: Final = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS
_NOREPLACE: Final = 1
_AGAIN: Final = 8
"""How often a walk is begun anew that a rename somewhere made uncertain."""


_MADE_UP: Final = frozenset(
    {
        *(0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0x63677270, 0x27E0EB, 0x1CD1),
        *(0xCAFE4A11, 0xDE5E81E4, 0xF97CFF8C, 0x62656570, 0x65735543, 0x42494E4D, 0x6165676C),
        *(0x6E736673, 0x50494446),
    }
)
"""statfs(2)'s types of file systems whose files are the kernel's answers: proc, sysfs, debugfs,
tracefs, securityfs, cgroup 2 and 1, devpts, bpf, efivarfs, selinuxfs, configfs, fusectl, binfmt_misc,
pstore, nsfs, pidfs."""

Resolution = Literal["openat2", "walk"]


def opened(folder: int, parts: tuple[str, ...], flags: int) -> int:
    """Return a descriptor of what lies at `parts` below an opened folder; no link is followed.

    No parts: the folder itself, anew. `flags` are those of `os.open`; nothing is created.

    Raises:
        OSError: there is no such thing, or a link is in the way (ELOOP, or ENOTDIR from the walk).
    """
    flags |= O_NOFOLLOW | O_CLOEXEC
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part:
            raise ValueError(f"{part!r} is no name")
    call = _openat2()
    if call is not None:
        return call(folder, os.fsencode("/".join(parts) or "."), flags)
    return _walked(folder, parts, flags)


def resolution() -> Resolution:
    """Return how paths are opened here, as measured once: by a call that holds, or by walking."""
    return "walk" if _openat2() is None else "openat2"


def _walked(folder: int, parts: tuple[str, ...], flags: int) -> int:
    # Each folder is opened from the one before: whatever is renamed meanwhile, nothing leads back up.
    here = os.open(".", FOLDER, dir_fd=folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return os.open(parts[-1] if parts else ".", flags, dir_fd=here)
    finally:
        os.close(here)


@lru_cache(maxsize=1)
def _openat2() -> Callable[[int, bytes, int], int] | None:
    """Return the call, None where it is missing or does not hold what it promises."""
    if not sys.platform.startswith("linux") or platform.machine() == "alpha":
        return None
    call = _call_of_openat2()
    if call is None:
        return None
    folder = os.open("/", os.O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    try:
        os.close(call(folder, b".", FOLDER))
        # A filter or an emulation may let the call through and leave out what it was asked to watch.
        for way_out in (b"..", b"/", b"proc/self/cwd", b"proc/self/root/.."):
            try:
                os.close(call(folder, way_out, O_PATH | O_CLOEXEC))
            except OSError:
                continue
            return None
    except OSError:
        return None
    finally:
        os.close(folder)
    return call


def _call_of_openat2() -> Callable[[int, bytes, int], int] | None:
    try:
        import ctypes

        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None
    syscall.restype = ctypes.c_long

    def call(folder: int, path: bytes, flags: int) -> int:
        # struct open_how: flags, mode (nothing is made), resolve.
        how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE)
        for _ in range(_AGAIN):
            handle = syscall(
                ctypes.c_long(_OPENAT2),
                ctypes.c_int(folder),
                ctypes.c_char_p(path),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
            if handle >= 0:
                return int(handle)
            error = ctypes.get_errno()
            if error not in (11, 4):  # EAGAIN: something was renamed meanwhile; EINTR.
                break
        raise OSError(error, os.strerror(error), os.fsdecode(path))

    return call


def rename_new(folder: int, source: str, target: str) -> None:
    """Rename within an opened folder, onto a name that nothing has.

    Raises:
        FileExistsError: something has it by now; both are as they were.
    """
    call = _renameat2()
    if call is not None:
        error = call(folder, os.fsencode(source), os.fsencode(target))
        if error == 0:
            return
        if error == 17:
            raise FileExistsError(error, os.strerror(error), target)
    # Some file systems cannot do it (EINVAL); a second name for the file never replaces one.
    try:
        os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(source, dir_fd=folder)


@lru_cache(maxsize=1)
def _renameat2() -> Callable[[int, bytes, bytes], int] | None:
    number = _RENAMEAT2.get(platform.machine()) if sys.platform.startswith("linux") else None
    if number is None:
        return None
    try:
        import ctypes

        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None
    syscall.restype = ctypes.c_long

    def call(folder: int, source: bytes, target: bytes) -> int:
        done = syscall(
            ctypes.c_long(number),
            ctypes.c_int(folder),
            ctypes.c_char_p(source),
            ctypes.c_int(folder),
            ctypes.c_char_p(target),
            ctypes.c_uint(_NOREPLACE),
        )
        return 0 if done == 0 else ctypes.get_errno()

    return call


def is_made_up(handle: int) -> bool:
    """Return whether an opened file's contents are the kernel's answers, as in `/proc` and `/sys`."""
    return file_system(handle) in _MADE_UP


def file_system(handle: int) -> int:
    """Return statfs(2)'s type of what an opened file is on; 0 where that cannot be said."""
    call = _type_of()
    return 0 if call is None else call(handle)


@lru_cache(maxsize=1)
def _type_of() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        fstatfs = ctypes.CDLL(None, use_errno=True).fstatfs
    except (ImportError, OSError, AttributeError):
        return None

    def call(handle: int) -> int:
        # struct statfs begins with the type: a long, and one of 32 bits on s390.
        about = (ctypes.c_char * 512)()
        if fstatfs(ctypes.c_int(handle), about) != 0:
            return 0
        size = 4 if platform.machine().startswith("s390") else ctypes.sizeof(ctypes.c_long)
        return int.from_bytes(about.raw[:size], sys.byteorder) & 0xFFFFFFFF

    return call
