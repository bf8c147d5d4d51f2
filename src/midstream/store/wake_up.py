"""The sockets at which the owners of one machine wake each other.

A wake-up is an empty datagram on a Unix socket named after the owner, beside the journal. It says nothing
and may be lost: what there is to see is in the journal, and owners look there now and then anyway.
"""

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path


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
