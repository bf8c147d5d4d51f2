"""The wake-up socket: how a process that left a message tells the run's owner to look, at once.

A call is an empty datagram on a Unix socket named after the owner, beside the journal. It says
nothing and may be lost: the message is in the journal, and the owner looks there now and then anyway.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path


def _address(folder: Path, owner: str) -> str:
    return str(folder / f"{owner}.bell")


def wake(folder: Path | None, owner: str) -> bool:
    """Wake an owner; return whether somebody is there to hear it."""
    if folder is None or not owner or sys.platform == "win32":
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake_up:
        wake_up.setblocking(False)
        try:
            wake_up.sendto(b"", _address(folder, owner))
        except BlockingIOError:
            return True  # it is waking up already
        except OSError:
            return False
    return True


class WakeUpSocket:
    """The socket this process hears at. Where there can be none, messages are found by looking."""

    def __init__(self, folder: Path | None, owner: str, hear: Callable[[], None]) -> None:
        """Open it; `hear` is called on the loop, once for any number of calls."""
        self._hear = hear
        self._address = "" if folder is None else _address(folder, owner)
        self._socket: socket.socket | None = None
        if folder is None or sys.platform == "win32":  # Its Python knows no sockets of this family.
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

    def _called(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(16)
        self._hear()

    def close(self) -> None:
        """Close it; may be called twice."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        with contextlib.suppress(OSError):
            os.unlink(self._address)
