"""Linux's openat2: a whole path opened in one call that cannot be led out of a folder.

The kernel follows the path and refuses `..` above the folder, absolute names, every symbolic link
and the magic ones of `/proc`; no rename in between can change that. Other mounts are entered: a
volume in a workspace is a person's doing, since mounting takes more rights than an agent has. What
the kernel makes up (`/proc`, `/sys`) is told by `is_made_up` instead, mounted below or not.

Where the call is missing (an older kernel, a container that forbids it, no Linux) `resolution()`
says "walk", and `opened` opens the path component by component without following links: it is as
safe, and slower.
"""

import errno
import os
import platform
import struct
import sys
from collections.abc import Callable
from functools import cache, lru_cache
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
    syscall = _of_libc("syscall", "c_long", "c_long", "c_int", "c_char_p", "c_char_p", "c_size_t")
    if syscall is None:
        return None

    def call(folder: int, path: bytes, flags: int) -> int:
        # struct open_how: flags, mode (nothing is made), resolve.
        how = struct.pack("=QQQ", flags, 0, _RESOLVE)
        for _ in range(_AGAIN):
            handle, error = syscall(_OPENAT2, folder, path, how, len(how))
            if handle >= 0:
                return handle
            if error not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: something was renamed meanwhile.
                break
        raise OSError(error, os.strerror(error), os.fsdecode(path))

    return call


@cache
def _of_libc(name: str, returned: str, *types: str) -> Callable[..., tuple[int, int]] | None:
    """Return a function of Linux's C library, None where there is none.

    It takes arguments of these types of `ctypes`, and returns its result, of such a type, and the number
    of the error.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        function = ctypes.CDLL(None, use_errno=True)[name]
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes = [getattr(ctypes, each) for each in types]
    function.restype = getattr(ctypes, returned)
    return lambda *arguments: (int(function(*arguments)), ctypes.get_errno())


def rename_new(folder: int, source: str, target: str) -> None:
    """Rename within an opened folder, onto a name that nothing has.

    Raises:
        FileExistsError: something has it by now; both are as they were.
    """
    if _renamed(folder, os.fsencode(source), os.fsencode(target)):
        return
    # Some file systems cannot do it (EINVAL); a second name for the file never replaces one.
    try:
        os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(source, dir_fd=folder)


def _renamed(folder: int, source: bytes, target: bytes) -> bool:
    """Return whether the kernel could do it in one step."""
    number = _RENAMEAT2.get(platform.machine())
    types = ("c_long", "c_long", "c_int", "c_char_p", "c_int", "c_char_p", "c_uint")
    syscall = _of_libc("syscall", *types)
    if number is None or syscall is None:
        return False
    done, error = syscall(number, folder, source, folder, target, _NOREPLACE)
    if done and error == errno.EEXIST:
        raise FileExistsError(error, os.strerror(error), os.fsdecode(target))
    return not done


def is_made_up(handle: int) -> bool:
    """Return whether an opened file's contents are the kernel's answers, as in `/proc` and `/sys`."""
    return file_system(handle) in _MADE_UP


def file_system(handle: int) -> int:
    """Return statfs(2)'s type of what an opened file is on; 0 where that cannot be said."""
    fstatfs = _of_libc("fstatfs", "c_int", "c_int", "c_char_p")
    if fstatfs is None:
        return 0
    from ctypes import create_string_buffer

    about = create_string_buffer(512)
    if fstatfs(handle, about)[0]:
        return 0
    # struct statfs begins with the type: a long, and one of 32 bits on s390.
    size = 4 if platform.machine().startswith("s390") else struct.calcsize("l")
    return int.from_bytes(about.raw[:size], sys.byteorder) & 0xFFFFFFFF
