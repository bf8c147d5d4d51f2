"""What the systems spell differently, said once: how files are opened and locked, and whose they are.

Linux, macOS and Windows. What only one of them has at all (namespaces, terminals, process groups) stays in
the module that needs it, behind a check of `sys.platform`: the type checker follows those, and looks at
the house three times, once as each of the three.
"""

import os
import signal
import sys
import time
from typing import Final


class NotHere(OSError):
    """What was asked for is not there on this system: a hole in our own checks of `sys.platform`."""


if sys.platform == "win32":
    import msvcrt

    # Every file of ours is opened with this one, so it is here that bytes are kept from being taken for
    # text. No link can be refused on opening; whoever must not follow one looks first (`trust`).
    O_CLOEXEC: Final = os.O_NOINHERIT | os.O_BINARY
    O_NOFOLLOW: Final = 0
    O_DIRECTORY: Final = 0
    O_NONBLOCK: Final = 0
    O_NOCTTY: Final = 0
    SIGKILL: Final = signal.SIGTERM
    """Ends a process at once, whatever it does about signals: there every signal does."""

    _LOCKED_BYTE: Final = 1 << 30
    """A locked byte cannot be read by others either: this one no file of ours has."""
    _AGAIN_S: Final = 0.01

    def own_user() -> int:
        """Return the number by which files say that they are ours: 0 for every one there is."""
        return 0

    def lock_file(descriptor: int, *, is_shared: bool = False) -> None:
        """Lock an opened file for this descriptor alone, as soon as nobody else has it. Blocks.

        Nothing can be shared there: `is_shared` is for folders of the sandbox, which it has none of.
        """
        # The system's own way to wait gives up after ten tries, a second apart.
        while not try_lock_file(descriptor):
            time.sleep(_AGAIN_S)

    def try_lock_file(descriptor: int) -> bool:
        """Return whether an opened file is locked for this descriptor alone now."""
        here = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, here, os.SEEK_SET)
        return True

else:
    import fcntl

    O_CLOEXEC: Final = os.O_CLOEXEC
    O_NOFOLLOW: Final = os.O_NOFOLLOW
    O_DIRECTORY: Final = os.O_DIRECTORY
    # Without it, opening a FIFO waits for a writer that never comes.
    O_NONBLOCK: Final = os.O_NONBLOCK
    # Without it, opening a terminal makes it ours.
    O_NOCTTY: Final = os.O_NOCTTY
    SIGKILL: Final = signal.SIGKILL
    """Ends a process at once, whatever it does about signals."""

    def own_user() -> int:
        """Return the number by which files say that they are ours."""
        return os.geteuid()

    def lock_file(descriptor: int, *, is_shared: bool = False) -> None:
        """Lock an opened file as soon as nobody else has it. Blocks.

        It is for this descriptor alone; with `is_shared` for all who lock it so.
        """
        fcntl.flock(descriptor, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)

    def try_lock_file(descriptor: int) -> bool:
        """Return whether an opened file is locked for this descriptor alone now."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


O_PATH: Final[int] = getattr(os, "O_PATH", 0)
"""Opens what is there without opening it for anything: a place, and no more. Linux's."""

FOLDER: Final = os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
"""How a folder is opened, unless a link stands in its place."""
