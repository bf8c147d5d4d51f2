"""The whole way to a map: which files there are, what they are, which matter, what there is room for."""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from midstream.codemap.definitions import (
    Ctags,
    Definitions,
    match_patterns,
    read_python,
)
from midstream.codemap.file_imports import find_go_modules
from midstream.codemap.map_text import LINE_CHARS, Define, Packing, Pen, head_of, legend, tree
from midstream.codemap.ranking import (
    RankedFile,
    ScannedFile,
    load_scan,
    rank,
    save_scan,
    scan_files,
    stems,
)
from midstream.codemap.source_files import FILE_S, at_most, count_changes, list_files, read_source
from midstream.core.costs import counted
from midstream.system.programs import found_program
from midstream.views.cells import shortened

MAX_FILES: Final = 50_000
DEADLINE_S: Final = 40.0
COMMITS: Final = 200
CHARS_PER_TOKEN: Final = 3
"""Names and numbers take more tokens than prose does."""

KEPT_FROM: Final = 1_000
"""Files from which what was seen is kept for the next map: fewer are looked at in no time."""

_CHARS_FOR_EACH: Final = 900
"""Characters of a map for which each file in full shows one definition more."""

_FEWEST: Final = 5
_ALL: Final = 10_000
_IMPORTERS_CHARS: Final = 400
_FOOT_CHARS: Final = 140


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be mapped: the files below `path` ("": all), with an eye on `focus`."""

    max_chars: int
    path: str = ""
    focus: str = ""


def draw_map(
    root: Path,
    wanted: Wanted,
    *,
    without: Collection[str] = (),
    clock: Callable[[], float] = time.monotonic,
    kept: Path | None = None,
) -> str:
    """Return the map of a folder of code.

    Args:
        root: the folder. Only regular files in it are read, links are not followed.
        wanted: how large the map may be, and of what.
        without: files that are not looked at, by their paths below the folder.
        clock: the time in seconds; after `DEADLINE_S` of it the rest of the files is left out, and the map
            says so.
        kept: a file that may hold what was seen for an earlier map of the folder, and will again.
    """
    ends_at = clock() + DEADLINE_S
    root = root.resolve()
    left_out = frozenset(without)
    # A name that is not text cannot stand in a map, and one with a line break could pass for more.
    paths = [path for path in list_files(root) if path not in left_out and path.isprintable()]
    changed = count_changes(root, commits=COMMITS)
    counts = changed[1] if changed is not None else {}
    # What is near the top and changes comes first, in case there is too much.
    first = sorted(paths, key=lambda path: (-counts.get(path, 0), path.count("/"), path))[
        :MAX_FILES
    ]
    known = load_scan(kept)
    seen = scan_files(root, first, known=known, is_over=lambda: clock() > ends_at)
    if kept is not None and len(seen) >= KEPT_FROM:
        save_scan(kept, seen)
    notes = []
    if len(first) < len(paths) or (clock() > ends_at and len(seen) < len(first)):
        notes.append(f"({len(seen):,} of {len(paths):,} files were looked at.)")
    reader = Reader(root)
    try:
        return write_map(
            rank(seen, counts, wanted.focus, go=find_go_modules(root, first)),
            wanted,
            define=reader,
            title=wanted.path or root.name,
            notes=notes,
        )
    finally:
        reader.close()


def write_map(
    files: Sequence[RankedFile],
    wanted: Wanted,
    *,
    define: Define,
    title: str,
    notes: Sequence[str] = (),
) -> str:
    """Return the map of ranked files, at most `wanted.max_chars` long (but for a few hundred)."""
    base = f"{wanted.path}/" if wanted.path else ""
    here = [each for each in files if each.seen.path.startswith(base)]
    if not here:
        here = [each for each in files if each.seen.path == wanted.path]
        base = wanted.path.rpartition("/")[0]
        base = f"{base}/" if base else ""
    if not here:
        return f"{shortened(title, LINE_CHARS)}: no files but ignored ones, links and secrets."
    head = [head_of(here, title, max_chars=wanted.max_chars // 4), legend(COMMITS), *notes]
    if len(here) == 1 and here[0].by:
        said = f"imported by {', '.join(here[0].by)}"
        head.append(shortened(said, min(_IMPORTERS_CHARS, wanted.max_chars // 5)))
    room = wanted.max_chars - sum(len(line) + 1 for line in head) - _FOOT_CHARS
    # Of a file that is all there is to show, everything.
    most = max(_FEWEST, room // _CHARS_FOR_EACH) if len(here) > 1 else _ALL
    chosen = Packing(here, room, base, Pen(base, define, most=most, stems=stems(wanted.focus)))
    lines = [*head, "", *tree(chosen.entries, chosen.folders, base)]
    if (left := len(here) - chosen.files) > 0:
        hidden = chosen.hidden_folders
        folders = f" and {counted(hidden, 'folder')}" if hidden else ""
        lines.append(
            f"[{left:,} of {counted(len(here), 'file')}{folders} are not shown. "
            "More tokens, or a path or focus, show others.]"
        )
    return "\n".join(lines)


class Reader:
    """Says what a file is about and what it defines: of a file that is asked of twice only once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ctags: Ctags | None = None
        self._has_looked = False
        self._known: dict[str, tuple[str, Definitions]] = {}

    def __call__(self, seen: ScannedFile) -> tuple[str, Definitions]:
        """Return what a file is about ("": nobody says) and what it defines."""
        if seen.path not in self._known:
            self._known[seen.path] = self._read(seen)
        return self._known[seen.path]

    def _read(self, seen: ScannedFile) -> tuple[str, Definitions]:
        source = None if seen.is_plain else read_source(self._root, seen.path)
        if source is None:
            return "", ()
        try:
            with at_most(FILE_S):
                return self._defined(seen, source.text.replace("\r\n", "\n"))
        except TimeoutError:
            # Whatever it was about to answer is not waited for any more.
            self.close()
            return "", ()

    def _defined(self, seen: ScannedFile, source: str) -> tuple[str, Definitions]:
        if seen.language == "Python":
            found = read_python(source.removeprefix("\ufeff"))
            if found is not None:
                return " ".join(found[0].split()), found[1]
        elif (ctags := self._found()) is not None:
            tags = ctags.definitions(PurePosixPath(seen.path).name, source.encode())
            if tags:
                return "", tags
        return "", match_patterns(source, seen.language)

    def _found(self) -> Ctags | None:
        if not self._has_looked:
            self._has_looked = True
            program = found_program("ctags", self._root)
            self._ctags = None if program is None else Ctags(program)
        return self._ctags

    def close(self) -> None:
        """End what was started; without it, definitions are found by patterns."""
        if self._ctags is not None:
            self._ctags.close()
