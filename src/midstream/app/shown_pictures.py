"""Pictures a person shows by an act of theirs: a file that was dropped, or what the clipboard holds.

What they show may lie anywhere, for it is theirs to show; what a repository names may not
(`runtime.pictures`). It is kept at once: the files that screenshots are dropped from are often gone a
minute later, and so the mark in the line says the same in the history, after a crash, in another console.
"""

import base64
import binascii
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from midstream.core.pictures import MAX_BYTES, is_picture, mark_of
from midstream.language.errors import UserMistake
from midstream.runtime.pictures import kept_picture
from midstream.runtime.ports import BlobStore
from midstream.system.offloop import in_thread
from midstream.system.programs import found_program
from midstream.system.supervisor import run_briefly

_LONGEST_PATH: Final = 4_000
TIMEOUT_S: Final = 5.0
_NAME: Final = "pasted"
_MOST_SAID: Final = 4 * MAX_BYTES
_HEX: Final = re.compile(
    rb"\xabdata PNGf([0-9A-Fa-f]+)\xbb|\xc2\xabdata PNGf([0-9A-Fa-f]+)\xc2\xbb"
)


def dropped(text: str) -> str:
    """Return the path that a pasted text is, as terminals write one that a file was dropped on; "" if none.

    It is absolute, and quoted, escaped as for a shell, or a `file:` address.
    """
    path = text.strip()
    if not path or "\n" in path or "\r" in path or len(path) > _LONGEST_PATH:
        return ""
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://").removeprefix("localhost"))
    elif path[0] in "'\"" and path[-1] == path[0] and len(path) > 1:
        path = path[1:-1].replace("'\\''", "'")
    else:
        path = re.sub(r"\\(.)", r"\1", path)
    return path if path.startswith("/") and "\0" not in path else ""


async def picture_in(pasted: str, blobs: BlobStore) -> str:
    """Return the mark of the picture whose path was pasted, which is kept by then; "" where there is none.

    Raises:
        UserMistake: it cannot be shown to a model.
        JournalFull: there is no room for it.
    """
    path = dropped(pasted)
    data = await in_thread(partial(_read, path)) if path else b""
    if not is_picture(data):
        return ""
    return mark_of(await kept_picture(data, path, blobs))


def _read(path: str) -> bytes:
    """Return what a regular file holds, a byte more than a picture may have at most; b"" for none."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            is_regular = stat.S_ISREG(os.fstat(handle).st_mode)
            return file.read(MAX_BYTES + 1) if is_regular else b""
    except (OSError, ValueError):
        return b""


# --- the clipboard ------------------------------------------------------------------------------


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """A program that reads the clipboard: its arguments for a picture, and for text."""

    name: str
    picture: tuple[str, ...]
    text: tuple[str, ...] | None = None


_POWERSHELL: Final = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[Windows.Forms.Clipboard]::GetImage();if($i){$m=New-Object IO.MemoryStream;"
    "$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);[Convert]::ToBase64String($m.ToArray())}"
)
_WAYLAND: Final = Reader(
    name="wl-paste", picture=("--type", "image/png"), text=("--no-newline", "--type", "text")
)
_X11: Final = Reader(
    name="xclip",
    picture=("-selection", "clipboard", "-target", "image/png", "-out"),
    text=("-selection", "clipboard", "-out"),
)
_MAC: Final = (
    Reader(name="pngpaste", picture=("-",)),
    Reader(name="osascript", picture=("-e", "get the clipboard as \u00abclass PNGf\u00bb")),
    Reader(name="pbpaste", picture=(), text=()),
)
_WINDOWS: Final = Reader(
    name="powershell.exe",
    picture=("-NoProfile", "-STA", "-Command", _POWERSHELL),
    text=("-NoProfile", "-Command", "Get-Clipboard"),
)


def _readers() -> Iterator[Reader]:
    """Give what may read the clipboard of the desktop that this terminal is on."""
    if sys.platform == "darwin":
        yield from _MAC
    if os.environ.get("WAYLAND_DISPLAY"):
        yield _WAYLAND
    if os.environ.get("DISPLAY"):
        yield _X11
    if os.environ.get("WSL_DISTRO_NAME"):
        yield _WINDOWS


async def clipboard(workspace: Path, blobs: BlobStore) -> str:
    """Return what the clipboard holds: the mark of a picture, which is kept by then, or its text.

    Raises:
        UserMistake: no program here reads it, or it holds neither.
        JournalFull: there is no room for the picture.
    """
    found = await in_thread(partial(_programs, workspace))
    if not found:
        raise UserMistake(
            "No program here reads the clipboard.",
            hint=f"Install {_wanted()}, or write @ and the picture's path; "
            "text your terminal pastes itself (Ctrl-Shift-V).",
        )
    for path, reader in found:
        data = await in_thread(partial(_said, path, reader.picture)) if reader.picture else b""
        if picture := unpacked(data):
            return mark_of(await kept_picture(picture, _NAME, blobs))
    for path, reader in found:
        if reader.text is not None:
            words = (await in_thread(partial(_said, path, reader.text))).decode("utf-8", "replace")
            if words:
                return words
    raise UserMistake("The clipboard holds no picture and no text.", hint="Copy one first.")


def _wanted() -> str:
    if sys.platform == "darwin":
        return "pngpaste"
    return "wl-clipboard" if os.environ.get("WAYLAND_DISPLAY") else "xclip"


def _programs(workspace: Path) -> list[tuple[str, Reader]]:
    paths = ((found_program(reader.name, workspace), reader) for reader in _readers())
    return [(path, reader) for path, reader in paths if path is not None]


def _said(program: str, arguments: Sequence[str]) -> bytes:
    """Return what a program printed, b"" where it failed or took too long. Blocks."""
    # Of the person's own environment: it names the desktop, and how it lets programs in.
    try:
        ended, said = run_briefly(
            (program, *arguments),
            environment=os.environ,
            timeout_s=TIMEOUT_S,
            max_bytes=_MOST_SAID,
        )
    except OSError:
        return b""
    return said if ended.exit_code == 0 and not ended.cause else b""


def unpacked(said: bytes) -> bytes:
    """Return the picture a program printed: as it is, in hexadecimal digits or in base64; b"" for none."""
    if is_picture(said):
        return said
    if found := _HEX.search(said):
        return bytes.fromhex((found[1] or found[2]).decode())
    try:
        data = base64.b64decode(said.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
    return data if is_picture(data) else b""
