"""The doorbell: how a process that left a letter tells the run's owner to look, at once.

A ring is an empty datagram on a Unix socket named after the owner, beside the journal. It says
nothing and may be lost: the letter is in the journal, and the owner looks there now and then anyway.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path


def _address(folder: Path, owner: str) -> str:
    return str(folder / f"{owner}.bell")


def ring(folder: Path | None, owner: str) -> bool:
    """Ring an owner's bell; return whether somebody is there to hear it."""
    if folder is None or not owner:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.setblocking(False)
        try:
            bell.sendto(b"", _address(folder, owner))
        except BlockingIOError:
            return True  # it rings already
        except OSError:
            return False
    return True


class Doorbell:
    """The bell of this process. Where there can be none, letters are found by looking."""

    def __init__(self, folder: Path | None, owner: str, hear: Callable[[], None]) -> None:
        """Hang up the bell; `hear` is called on the loop, once for any number of rings."""
        self._hear = hear
        self._address = "" if folder is None else _address(folder, owner)
        self._socket: socket.socket | None = None
        if folder is None:
            return
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # A path may be too long for a socket, or on a disk that knows none.
            bell.bind(self._address)
            os.chmod(self._address, 0o600)
        except OSError:
            bell.close()
            return
        bell.setblocking(False)
        self._socket = bell
        asyncio.get_running_loop().add_reader(bell, self._rung)

    @property
    def is_hung(self) -> bool:
        """Return whether rings are heard."""
        return self._socket is not None

    def _rung(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(16)
        self._hear()

    def close(self) -> None:
        """Take the bell down; may be called twice."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        with contextlib.suppress(OSError):
            os.unlink(self._address)
