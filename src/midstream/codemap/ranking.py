"""A look at each file of a folder, and which matter most.

What is seen of a file: its size and language, what it imports, the names it defines. What matters: what
the others import, what changes, what is asked for.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from math import log2
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from midstream.codemap.file_imports import read_imports, resolve_imports
from midstream.codemap.languages import NOT_CODE, OTHER
from midstream.codemap.source_files import is_generated, read_source
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


# --- which matter most ----------------------------------------------------------------------------

_ENTRIES: Final = frozenset(
    {"main", "__main__", "cli", "app", "index", "server", "manage", "setup", "lib", "mod"}
)
_MANIFESTS: Final = frozenset(
    {
        *("pyproject.toml", "package.json", "cargo.toml", "go.mod", "makefile", "dockerfile"),
        *("pom.xml", "build.gradle", "gemfile", "composer.json", "cmakelists.txt"),
    }
)
_TESTS: Final = re.compile(
    r"(^|/)(tests?|spec|specs|__tests__|testing|fixtures|examples?)/|_test\."
)


_SMALL_WORDS: Final = frozenset(
    {
        *("a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "code", "do", "does"),
        *("file", "files", "find", "for", "from", "get", "has", "have", "how", "in", "into", "is"),
        *("it", "its", "look", "not", "of", "on", "or", "that", "the", "their", "this", "to", "up"),
        *("was", "we", "what", "when", "where", "which", "who", "why", "will", "with", "you"),
    }
)
"""Words of a question that say nothing of what is asked for."""


class RankedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with those that import it, how often it was changed of late, and what that makes."""

    seen: ScannedFile
    by: tuple[str, ...]
    changes: int
    score: float


def rank(
    seen: Iterable[ScannedFile],
    changed: Mapping[str, int],
    focus: str = "",
    *,
    go: Mapping[str, str] | None = None,
) -> list[RankedFile]:
    """Return files by what the others import and what has changed, the weightiest first.

    Of files that weigh the same, the first of each folder come before the second of any. `go` are the
    folders of Go modules by their names.
    """
    by_path = {each.path: each for each in seen}
    by: dict[str, list[str]] = {}
    files = {path: (each.language, each.imports) for path, each in by_path.items()}
    for path, targets in resolve_imports(files, go=go).items():
        for target in targets:
            by.setdefault(target, []).append(path)
    words = stems(focus)
    found = [
        RankedFile(
            seen=each,
            by=tuple(sorted(by.get(path, ()))),
            changes=changed.get(path, 0),
            score=_weight(each, _importance(by.get(path, ())), changed.get(path, 0))
            + _hits(each, words),
        )
        for path, each in by_path.items()
    ]
    return _spread(sorted(found, key=lambda each: (-each.score, each.seen.path)))


def _spread(found: list[RankedFile]) -> list[RankedFile]:
    places: dict[tuple[str, float], int] = {}
    keys: dict[str, tuple[float, int, str]] = {}
    for each in found:
        path, about = each.seen.path, round(each.score, 1)
        folder = path.rpartition("/")[0]
        place = places[folder, about] = places.get((folder, about), -1) + 1
        keys[path] = (-about, place, path)
    return sorted(found, key=lambda each: keys[each.seen.path])


def stems(focus: str) -> tuple[str, ...]:
    """Return what is looked for in names, of the words that somebody wants to know more of."""
    words = dict.fromkeys(re.findall(r"\w+", focus.casefold()))
    return tuple(
        word[:-1] if len(word) > 4 and word.endswith("s") else word
        for word in words
        if len(word) > 1 and word not in _SMALL_WORDS
    )


def _importance(by: Collection[str]) -> float:
    """Return how many files import one: tests say less of what a program is made of."""
    tests = sum(_TESTS.search(path) is not None for path in by)
    return len(by) - tests + tests / 4


def _weight(seen: ScannedFile, by: float, times: int) -> float:
    weight = 2 * log2(1 + by) + log2(1 + times)
    if not seen.lines:
        return weight / 10
    weight += log2(1 + seen.lines) / 4
    if _is_about_all(seen.path):
        return weight + (4 if "/" not in seen.path else 0)
    if seen.language in NOT_CODE:
        return weight / 3
    if _TESTS.search(seen.path):
        return weight / 3
    return weight + (1.5 if PurePosixPath(seen.path).stem in _ENTRIES else 0)


def _is_about_all(path: str) -> bool:
    """Return whether a file tells of the folder it is in: what it is, and what it is made of."""
    name = path.rpartition("/")[2].casefold()
    return name in _MANIFESTS or name.startswith("readme")


def is_signpost(path: str, base: str) -> bool:
    """Return whether a file at the top of what is mapped tells of all of it."""
    return path.startswith(base) and "/" not in path[len(base) :] and _is_about_all(path)


def _hits(seen: ScannedFile, stems: Collection[str]) -> float:
    """Return how much a file has to do with some words."""
    path, name = seen.path.casefold(), PurePosixPath(seen.path).stem.casefold()
    names = [each.casefold() for each in seen.names]
    total = 0.0
    for stem in stems:
        total += 8 if stem in name else 4 if stem in path else 0
        total += 3 * log2(1 + sum(stem in each for each in names))
    return total
