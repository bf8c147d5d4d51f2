"""Pins: what a person has approved of each server, kept in the user's state.

A yes is given to bytes: to the command (with the files of the workspace it names), and to each tool's
name, words and schema. Whatever differs later was never approved.
"""

import hashlib
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from midstream.config.mcp_servers import McpServer
from midstream.config.portable import O_CLOEXEC, O_NONBLOCK
from midstream.config.private_files import FileMissing, read_capped, write_whole
from midstream.language.errors import WorldTrouble
from midstream.tools.mcp.mcp_tools import Offer, canonical

FILE: Final = "mcp.json"
MAX_BYTES: Final = 16_000_000
_MAX_HASHED: Final = 200_000_000


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was approved: how the server is reached, and its tools (none yet: it may be started)."""

    command: str
    offers: tuple[Offer, ...] = ()
    has_tools: bool = False


class PinStore:
    """The pins of every server, in `mcp.json` in the user's state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE

    def get(self, key: str) -> Pin | None:
        """Return the pin of a server, None where nothing was approved or it cannot be read."""
        return self._kept().get(key)

    def keep(self, key: str, pin: Pin) -> None:
        """Remember what was approved.

        Raises:
            WorldTrouble: it could not be written down.
        """
        self._write({**self._kept(), key: pin})

    def forget(self, key: str) -> bool:
        """Take an approval back; return whether there was one.

        Raises:
            WorldTrouble: it could not be written down.
        """
        kept = self._kept()
        was_kept = kept.pop(key, None) is not None
        if was_kept:
            self._write(kept)
        return was_kept

    def _kept(self) -> dict[str, Pin]:
        try:
            data = read_capped(self._file, max_bytes=MAX_BYTES)
            return msgspec.json.decode(data, type=dict[str, Pin])
        except (FileMissing, WorldTrouble, msgspec.MsgspecError, UnicodeError, RecursionError):
            # What cannot be read approves nothing: everything is asked again.
            return {}

    def _write(self, pins: dict[str, Pin]) -> None:
        write_whole(self._file, msgspec.json.encode(pins))


def key_of(server: McpServer, workspace: Path) -> str:
    """Return what a server's pin is kept under: a workspace's own cannot take the user's place."""
    if server.source == "user":
        return f"user:{server.name}"
    return f"workspace:{server.name}:{os.path.realpath(workspace)}"


def fingerprint(server: McpServer, workspace: Path) -> str:
    """Return the SHA-256, in hex, of how a server is reached.

    Covers the argv, the variables, the folder, the address and headers, and each file of the workspace
    that they name: its bytes, or where a link leads out of it. Reads them; call it off the loop.
    """
    reached = msgspec.to_builtins(
        msgspec.structs.replace(server, timeout_s=0.0, start_timeout_s=0.0)
    )
    root = os.path.realpath(workspace)
    files = {word: _print_of(path, root) for word, path in named_files(server, workspace)}
    return hashlib.sha256(canonical({"server": reached, "files": files}).encode()).hexdigest()


def named_files(server: McpServer, workspace: Path) -> tuple[tuple[str, Path], ...]:
    """Return the files of the workspace that a server's argv and variables name, with their paths.

    Behind a flag's `=`, too; of a folder it is the file an interpreter would begin with.
    """
    root = os.path.realpath(workspace)
    folder = Path(root, server.cwd)
    words = [*server.command, *(word.partition("=")[2] for word in server.command)]
    found: dict[str, Path] = {}
    for word in (*words, *server.env.values()):
        for name in (word, *(os.path.join(word, first) for first in _FIRST)) if word else ():
            path = folder / name
            try:
                places = (os.path.abspath(path), os.path.realpath(path))
                if path.is_file() and any(Path(each).is_relative_to(root) for each in places):
                    found[name] = path
            except (OSError, ValueError):
                continue
    return tuple(found.items())


class Look(NamedTuple):
    """What a server was found to be, and what tells whether that has been touched since."""

    print: str
    stamps: frozenset[tuple[str, ...]]


def look_at(server: McpServer, workspace: Path) -> Look:
    """Return the fingerprint of a server with `stamps` taken before it. Blocks, mostly not at all."""
    while True:
        now = time.time_ns()
        found = stamps(server, workspace)
        # What changes again within a tick of the kernel's clock would have the same time of change.
        if not any(0 <= now - int(times[-1]) < _TICK_NS for times in found):
            return Look(fingerprint(server, workspace), found)
        time.sleep(_TICK_NS / 1e9)


def stamps(server: McpServer, workspace: Path) -> frozenset[tuple[str, ...]]:
    """Return what differs once a file that `fingerprint` covers was another one, also for a moment.

    That is the time of change, which no program sets back, of each such file, of the links that lead to
    it, and of the folders below the workspace's root that it is in, since these could be swapped whole.
    """
    root = os.path.realpath(workspace)
    found: set[tuple[str, ...]] = set()
    for _, path in named_files(server, workspace):
        for place in (os.path.abspath(path), os.path.realpath(path)):
            each = Path(place)
            while each.is_relative_to(root) and each != Path(root):
                which: tuple[int, ...] = (0,)
                with suppress(OSError):
                    about = each.lstat()
                    which = (about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns)
                found.add((str(each), *map(str, which)))
                each = each.parent
    return frozenset(found)


_TICK_NS: Final = 20_000_000

_FIRST: Final = ("__main__.py", "package.json", "index.js", "index.mjs", "index.cjs")
"""What Python and Node begin with in a folder."""


def _print_of(path: Path, root: str) -> str:
    """Return what a file of the workspace is pinned to; what a link leads to outside is its place."""
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(root):
        return real
    try:
        handle = os.open(real, os.O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                return "not a regular file"
            if about.st_size <= _MAX_HASHED:
                return hashlib.file_digest(file, "sha256").hexdigest()
            # Nobody but root gives a file that was written to its old time of change back.
            return f"{about.st_ino} {about.st_size} {about.st_ctime_ns}"
    except OSError as error:
        return str(error)
