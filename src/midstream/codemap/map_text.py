"""A map as text: a head, the tree of what was chosen, and what had no room."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from midstream.codemap.definitions import Definition, Definitions, public
from midstream.codemap.ranking import RankedFile
from midstream.codemap.scan import ScannedFile
from midstream.views.amounts import counted
from midstream.views.cells import shortened

LINE_CHARS: Final = 120
_ABOUT_CHARS: Final = 90
_LANGUAGES: Final = 6

Define = Callable[[ScannedFile], tuple[str, Definitions]]
"""Says what a file is about and what it defines."""


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """What lies below a folder, at any depth."""

    files: int
    lines: int


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a folder that are no text and have one ending: one line says as much as many."""

    folder: str
    ending: str
    files: int
    size: int

    @property
    def path(self) -> str:
        """Return the pattern of their paths."""
        return f"{self.folder}/*{self.ending}" if self.folder else f"*{self.ending}"


def folders_of(files: Iterable[RankedFile]) -> dict[str, Folder]:
    """Return every folder that files are in, by its path."""
    found: dict[str, tuple[int, int]] = {}
    for each in files:
        parts = each.seen.path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            count, lines = found.get(name, (0, 0))
            found[name] = (count + 1, lines + (each.seen.lines or 0))
    return {name: Folder(files=count, lines=lines) for name, (count, lines) in found.items()}


class Pen:
    """Writes the lines of files and folders below a base.

    Args:
        base: "", or the path of the folder that is mapped, with a slash behind.
        define: asked only of files that may be shown.
        most: how many definitions of a file are shown.
        stems: what is looked for in names; what holds one of them comes first.
    """

    def __init__(self, base: str, define: Define, *, most: int, stems: Collection[str]) -> None:
        self._base = base
        self._define = define
        self._most = most
        self._stems = stems

    def _indent(self, path: str) -> str:
        return "  " * path.removeprefix(self._base).count("/")

    def folder(self, path: str, folder: Folder) -> list[str]:
        """Return a folder's line."""
        what = f"{counted(folder.files, 'file')}, {counted(folder.lines, 'line')}"
        return [f"{self._indent(path)}{path.rpartition('/')[2]}/  {what}"]

    def bundle(self, bundle: Bundle) -> list[str]:
        """Return the line of many files that are no text."""
        what = f"{counted(bundle.files, 'file')}, {counted(bundle.size, 'byte')}"
        return [f"{self._indent(bundle.path)}*{bundle.ending}  {what}"]

    def bare(self, each: RankedFile) -> list[str]:
        """Return a file's line."""
        seen = each.seen
        size = counted(seen.size, "byte") if seen.lines is None else counted(seen.lines, "line")
        by = f", by {len(each.by)}" if each.by else ""
        times = f", ~{each.changes}" if each.changes else ""
        return [f"{self._indent(seen.path)}{seen.path.rpartition('/')[2]}  {size}{by}{times}"]

    def in_short(self, each: RankedFile) -> list[str]:
        """Return a file's line, and one with the names of what it defines; else what it is about."""
        about, found = self._define(each.seen)
        if not found:
            return self._about(each, about)
        names = ", ".join(dict.fromkeys(one.name for one in self._first(public(found))))
        return [
            *self.bare(each),
            shortened(f"{self._indent(each.seen.path)}    {names}", LINE_CHARS),
        ]

    def whole(self, each: RankedFile) -> list[str]:
        """Return a file's line with what it is about, and what it defines with the line numbers."""
        about, found = self._define(each.seen)
        inner = f"{self._indent(each.seen.path)}    "
        lines = self._about(each, about)
        shown = list(found)
        if len(found) >= self._most:
            shown = self._first(public(found))[: self._most]
        for one in sorted(shown, key=lambda one: one.line):
            held = f": {', '.join(one.members)}" if one.members else ""
            lines.append(shortened(f"{inner}{one.line} {one.what}{held}", LINE_CHARS))
        if len(found) > len(shown):
            left = [one.name for one in public(found) if one not in shown]
            more = f": {', '.join(left)}" if left else ""
            lines.append(shortened(f"{inner}+{len(found) - len(shown)}{more}", LINE_CHARS))
        return lines

    def _about(self, each: RankedFile, about: str) -> list[str]:
        [line] = self.bare(each)
        return [f"{line}  {about[:_ABOUT_CHARS]}" if about else line]

    def _first(self, found: Definitions) -> list[Definition]:
        """Return definitions, those that are looked for before the others."""

        def is_other(one: Definition) -> bool:
            names = " ".join((one.name, *one.members)).casefold()
            return not any(stem in names for stem in self._stems)

        return sorted(found, key=is_other)


def head_of(files: list[RankedFile], title: str, *, max_chars: int) -> str:
    """Return the line about all the files."""
    sums: dict[str, int] = {}
    for each in files:
        sums[each.seen.language] = sums.get(each.seen.language, 0) + (each.seen.lines or 0)
    languages = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{name} {lines:,}" for name, lines in languages[:_LANGUAGES] if lines]
    said = f"{shortened(title, max_chars // 2)}: {counted(len(files), 'file')}"
    if parts:
        said += f", {counted(sum(sums.values()), 'line')} ({', '.join(parts)})"
    else:
        said += f", {counted(sum(each.seen.size for each in files), 'byte')}, no lines of text"
    return shortened(said, max_chars)


def legend(commits: int) -> str:
    """Return what the signs in a map mean."""
    return (
        f"(by N: N files import it; ~N: N of the last {commits} commits changed it; "
        "a definition has its line before it)"
    )


def tree(entries: Mapping[str, list[str]], folders: Collection[str], base: str) -> list[str]:
    """Return the lines of paths in order: by name, a folder's files before the folders in it."""

    def place(path: str) -> tuple[tuple[int, str], ...]:
        parts = path.removeprefix(base).split("/")
        return (*((1, part) for part in parts[:-1]), (int(path in folders), parts[-1]))

    return [line for path in sorted(entries, key=place) for line in entries[path]]
