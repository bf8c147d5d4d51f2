"""Pins: what a person has approved of each server, kept in the user's state.

A yes is given to bytes: to the command (with the files of the workspace it names), and to each tool's
name, words and schema. Whatever differs later was never approved.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.files import FileMissing, read_capped, write_whole
from midstream.config.mcp_servers import McpServer
from midstream.core.errors import WorldTrouble
from midstream.tool.mcp.offers import Offer, canonical

FILE: Final = "mcp.json"
MAX_BYTES: Final = 16_000_000
_MAX_HASHED: Final = 5_000_000


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

    Covers the argv, the variables, the folder, the address and headers, and the bytes of each file of
    the workspace that the argv names. Reads them; call it off the loop.
    """
    reached = msgspec.to_builtins(
        msgspec.structs.replace(server, timeout_s=0.0, start_timeout_s=0.0)
    )
    files = {word: _hash(path) for word, path in named_files(server, workspace)}
    return hashlib.sha256(canonical({"server": reached, "files": files}).encode()).hexdigest()


def named_files(server: McpServer, workspace: Path) -> tuple[tuple[str, Path], ...]:
    """Return the words of the argv that name files of the workspace, with their paths."""
    root = Path(os.path.realpath(workspace))
    folder = root / server.cwd if server.cwd else root
    found: list[tuple[str, Path]] = []
    for word in server.command:
        path = folder / word
        try:
            is_ours = path.is_file() and Path(os.path.realpath(path)).is_relative_to(root)
        except (OSError, ValueError):
            continue
        if is_ours:
            found.append((word, path))
    return tuple(found)


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_capped(path, max_bytes=_MAX_HASHED)).hexdigest()
    except (FileMissing, WorldTrouble) as error:
        return str(error)
