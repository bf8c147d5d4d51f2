"""Who is alive, and how the owners of one machine wake each other.

Each owner holds a lock on a file of its own for as long as it lives.

The kernel lets go of the lock when the process ends, however it ends, so a dead owner is known at
once, without heartbeats, and a stopped or slow one is never taken for dead. Names are not used twice.

A child made by `os.fork` without `exec` lets go of the lock at once: it would keep its parent alive.
It can have no store on the same journal (`is_inherited`). Programs that are started inherit nothing.

A wake-up is an empty datagram on a Unix socket named after the owner, beside the lock. It says nothing
and may be lost: what there is to see is in the journal, and owners look there now and then anyway.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Final
from weakref import WeakSet

from midstream.config.portable import O_CLOEXEC, O_NOFOLLOW, lock_file, try_lock_file
from midstream.config.private_files import make_private


class Owners:
    """This owner, and whether others live.

    Args:
        folder: where the locks are; it is made. Shared by all owners of a journal.
    """

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        self._folder = folder
        self.me = new_name()
        # The runs of dead owners I claimed, and how many facts each had: no more yet, still cut.
        self.cut: dict[str, int] = {}
        self._lock: int | None = self._locked()
        _HERE.add(self)

    def is_alive(self, owner: str) -> bool:
        """Return whether an owner lives. The lock file of a dead one is removed. Blocking, briefly."""
        if owner == self.me:
            return self._lock is not None
        return self._probe(self._path(owner)) if _is_name(owner) else False

    def sweep(self) -> None:
        """Remove the lock files of all dead owners, and the sockets they left."""
        for path in self._folder.glob("*.lock"):
            if path != self._path(self.me):
                self._probe(path)
        # An owner has its lock before it has sockets: without one it is dead.
        for pattern in ("*.bell", "*.live"):
            for path in self._folder.glob(pattern):
                if not self._path(path.stem).exists():
                    with contextlib.suppress(OSError):
                        path.unlink()

    def close(self, *, is_cut: bool = False) -> None:
        """Be dead. `is_cut`: leave the file as a killed process would."""
        if self._lock is None:
            return
        if not is_cut:
            with contextlib.suppress(OSError):
                self._path(self.me).unlink()
        os.close(self._lock)
        self._lock = None

    def leave(self) -> None:
        """Have no lock: this process was forked from the one whose it is, and keeps it."""
        if self._lock is not None:
            _INHERITED.add(os.path.realpath(self._folder))
            os.close(self._lock)
            self._lock = None

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"

    def _locked(self) -> int:
        """Return my lock. Whoever sweeps between making and locking removes it: then once more."""
        path = self._path(self.me)
        while True:
            lock = os.open(path, os.O_CREAT | os.O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0o600)
            lock_file(lock)
            if os.fstat(lock).st_nlink > 0:
                return lock
            os.close(lock)

    @staticmethod
    def _probe(path: Path) -> bool:
        try:
            lock = os.open(path, os.O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            if not try_lock_file(lock):
                return True
            # It is removed while it is locked: nobody can take the name in between. (Windows removes no
            # file that is open. It stays, and says of a dead owner that it is dead.)
            with contextlib.suppress(FileNotFoundError, PermissionError):
                path.unlink()
            return False
        finally:
            os.close(lock)


_HERE: "Final[WeakSet[Owners]]" = WeakSet()
_INHERITED: Final[set[str]] = set()


def is_inherited(folder: Path) -> bool:
    """Return whether this process was forked from one in which an owner of this folder lived.

    SQLite believes there that it has the locks of the journal's files, which only the other process has:
    once that closes them, what is written here is gone.
    """
    return os.path.realpath(folder) in _INHERITED


def _forked() -> None:
    for owners in tuple(_HERE):
        owners.leave()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)


def new_name() -> str:
    """Return the name of an owner there never was."""
    return secrets.token_hex(8)


def _is_name(owner: str) -> bool:
    return owner.isalnum() and owner.isascii()


# --- waking each other ----------------------------------------------------------------------------


def _address(folder: Path, owner: str) -> str:
    return str(folder / f"{owner}.bell")


def wake(folder: Path, owner: str) -> None:
    """Wake an owner, if somebody is there to hear it."""
    if not owner or sys.platform == "win32":
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake_up:
        wake_up.setblocking(False)
        with contextlib.suppress(OSError):  # it may be gone, or be waking up already
            wake_up.sendto(b"", _address(folder, owner))


class WakeUpSocket:
    """The socket an owner hears at, on the loop it is made on. Where there can be none, it is not open."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._woken = asyncio.Event()
        self._address = _address(folder, owner)
        self._socket: socket.socket | None = None
        if sys.platform == "win32":  # Its Python knows no sockets of this family.
            return
        wake_up = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # A path may be too long for a socket, or on a disk that knows none.
            wake_up.bind(self._address)
            os.chmod(self._address, 0o600)
        except OSError:
            wake_up.close()
            return
        wake_up.setblocking(False)
        self._socket = wake_up
        asyncio.get_running_loop().add_reader(wake_up, self._called)

    @property
    def is_open(self) -> bool:
        """Return whether calls are heard."""
        return self._socket is not None

    async def woken(self) -> None:
        """Return once somebody called since the last time."""
        await self._woken.wait()
        self._woken.clear()

    def _called(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(16)
        self._woken.set()

    def close(self) -> None:
        """Hear no more. On its loop; may be called twice."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        with contextlib.suppress(OSError):
            os.unlink(self._address)
