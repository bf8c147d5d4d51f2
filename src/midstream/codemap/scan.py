"""A look at each file of a folder: its size and language, what it imports, the names it defines."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from midstream.codemap.code_file import NOT_CODE, OTHER, is_generated, read_source
from midstream.codemap.file_imports import read_imports
from midstream.safety.protected import classify

MAX_READ_BYTES: Final = 400_000_000
MAX_NAMES: Final = 1_000


class ScannedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one file at a look. `lines` None: it is no text, or too large to be read.

    `stamp` changes with the file: while it has the same, a look would tell the same.
    """

    path: str
    size: int
    stamp: tuple[int, ...]
    lines: int | None = None
    language: str = OTHER
    imports: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Return whether nothing is looked for in it: no text, no code, or a program's work."""
        if self.lines is None or self.language in NOT_CODE:
            return True
        return is_generated(self.size, self.lines)


def scan_file(root: Path, path: str, known: ScannedFile | None = None) -> ScannedFile | None:
    """Return what a look at a file tells; None where it is gone, a link, or holds secrets.

    `known` is what an earlier look told.
    """
    if classify(tuple(path.split("/"))).standing == "secret":
        return None
    try:
        found = os.lstat(root / path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
    if known is not None and known.stamp == stamp:
        return known
    source = read_source(root, path)
    if source is None:
        return ScannedFile(path=path, size=found.st_size, stamp=stamp)
    plain = ScannedFile(
        path=path, size=source.size, stamp=stamp, lines=source.lines, language=source.language
    )
    if plain.is_plain:
        return plain
    return msgspec.structs.replace(
        plain,
        imports=read_imports(source.text, source.language, path),
        names=tuple(dict.fromkeys(_NAMED.findall(source.text)))[:MAX_NAMES],
    )


_NAMED: Final = re.compile(
    r"\b(?:def|class|func|fn|fun|function|interface|struct|enum|trait|type|module|sub) +(\w{1,80})"
)


def scan_files(
    root: Path,
    paths: Iterable[str],
    *,
    known: Mapping[str, ScannedFile],
    is_over: Callable[[], bool] = lambda: False,
) -> list[ScannedFile]:
    """Return what a look at each file tells; when it is over early, the rest is left out."""
    found: list[ScannedFile] = []
    left = MAX_READ_BYTES
    for path in paths:
        if left < 0 or is_over():
            break
        seen = scan_file(root, path, known.get(path))
        if seen is not None:
            left -= seen.size if seen.lines is not None else 0
            found.append(seen)
    return found


# --- kept for the next map ----------------------------------------------------------------------


def load_scan(file: Path | None) -> dict[str, ScannedFile]:
    """Return what was seen of files for an earlier map, by path; what cannot be read is nothing."""
    try:
        found = (
            [] if file is None else msgspec.json.decode(file.read_bytes(), type=list[ScannedFile])
        )
    except (OSError, ValueError):
        return {}
    return {each.path: each for each in found}


def save_scan(file: Path, seen: list[ScannedFile]) -> None:
    """Keep what was seen of files for the next map; a disk that refuses costs that map some time."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        beside.write_bytes(msgspec.json.encode(seen))
        beside.replace(file)
