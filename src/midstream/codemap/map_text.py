"""A map as text: a head, and the tree of what there was room for.

Each file is shown in full, in short, by its name, or not at all. Files come by rank, folders the nearest
first. A part of the room is for each kind of line, so that a large folder shows its shape before it shows
one file to the last name.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from midstream.codemap.definitions import Definition, Definitions, public
from midstream.codemap.ranking import RankedFile, ScannedFile, is_signpost
from midstream.core.costs import counted
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


# --- what there is room for -------------------------------------------------------------------------

MAX_IN_FULL: Final = 300
"""Files whose definitions are read, at most."""

MAX_FOLDERS: Final = 300
_NEAR: Final = 3
"""How deep the folders lie that are shown whether a file of theirs is or not."""

_BUNDLED: Final = 4
"""Files without text, of one ending in one folder, from which they are shown as one line."""

_SIGNPOSTS, _SHAPE, _WHOLE, _EVERYWHERE, _IN_SHORT = 0.9, 0.75, 0.42, 0.35, 0.1
"""The share of the room that each kind of line leaves to those after it."""

_TOO_LITTLE: Final = 100
"""Characters in which no file is shown with what it defines."""


class Packing:
    """What was chosen: the lines for each path, files, folders and bundles alike."""

    def __init__(self, files: Sequence[RankedFile], room: int, base: str, pen: Pen) -> None:
        self.entries: dict[str, list[str]] = {}
        self.folders: set[str] = set()
        self.files = 0
        self._named: set[str] = set()
        self._base = base
        self._pen = pen
        self._room = self._whole = room
        self._all = folders_of(files)
        self._choose(files)

    @property
    def hidden_folders(self) -> int:
        """Return how many folders below the base are not shown."""
        inside = sum(name.startswith(self._base) for name in self._all)
        return inside - len(self.folders)

    def _choose(self, files: Sequence[RankedFile]) -> None:
        single, bundles = _bundle(files)
        signposts = [each for each in single if is_signpost(each.seen.path, self._base)]
        self._take_all(signposts, self._pen.bare, _SIGNPOSTS)
        for name in self._near_folders():
            if self._room <= _SHAPE * self._whole:
                break
            new = self._new_folders(f"{name}/")
            self._room -= sum(map(_cost, new.values()))
            self.entries |= new
            self.folders |= new.keys()
        readable = [each for each in single if not each.seen.is_plain]
        self._take_all(readable[:MAX_IN_FULL], self._pen.whole, _WHOLE)
        self._take_all(self._first_of_folders(readable), self._pen.bare, _EVERYWHERE)
        self._take_all(readable[:MAX_IN_FULL], self._pen.in_short, _IN_SHORT)
        self._take_all(single, self._pen.bare, 0.0)
        for bundle in bundles:
            if self._take(bundle.path, self._pen.bundle(bundle), 0.0):
                self.files += bundle.files

    def _near_folders(self) -> list[str]:
        deep = {
            name: name.removeprefix(self._base).count("/")
            for name in self._all
            if name.startswith(self._base)
        }
        near = sorted(
            (name for name in deep if deep[name] < _NEAR),
            key=lambda name: (deep[name], -self._all[name].lines, -self._all[name].files, name),
        )
        return near[:MAX_FOLDERS]

    def _first_of_folders(self, files: Iterable[RankedFile]) -> list[RankedFile]:
        """Return the first file of each folder that is shown without any file of its own."""
        has_one = {path.rpartition("/")[0] for path in self.entries if path not in self.folders}
        found: dict[str, RankedFile] = {}
        for each in files:
            folder = each.seen.path.rpartition("/")[0]
            if folder in self.folders and folder not in has_one:
                found.setdefault(folder, each)
        return list(found.values())

    def _take_all(
        self, files: Iterable[RankedFile], lines: Callable[[RankedFile], list[str]], leave: float
    ) -> None:
        """Take files in their order, while there is room. What is shown by its name alone may grow."""
        for each in files:
            path = each.seen.path
            if self._room - leave * self._whole < (_TOO_LITTLE if leave else 20):
                return
            is_new = path not in self.entries
            if not is_new and (path not in self._named or lines == self._pen.bare):
                continue
            if self._take(path, lines(each), leave):
                self.files += is_new
                change = self._named.add if lines == self._pen.bare else self._named.discard
                change(path)

    def _take(self, path: str, lines: list[str], leave: float) -> bool:
        """Take the lines of a path, and those of the folders it is in, if that leaves enough."""
        new = self._new_folders(path)
        cost = _cost(lines) - _cost(self.entries.get(path, ()))
        cost += sum(map(_cost, new.values()))
        if cost > self._room - leave * self._whole:
            return False
        self._room -= cost
        self.entries |= {**new, path: lines}
        self.folders |= new.keys()
        return True

    def _new_folders(self, path: str) -> dict[str, list[str]]:
        """Return the lines of the folders a path is in that are not shown yet, the outermost first."""
        parts = path.removeprefix(self._base).split("/")[:-1]
        above = (self._base + "/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return {
            name: self._pen.folder(name, self._all[name])
            for name in above
            if name not in self.folders
        }


def _cost(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _bundle(files: Sequence[RankedFile]) -> tuple[list[RankedFile], list[Bundle]]:
    """Return the files that stand for themselves, and the bundles of the others."""
    alike: dict[tuple[str, str], list[RankedFile]] = {}
    for each in files:
        if each.seen.lines is None:
            folder, _, name = each.seen.path.rpartition("/")
            _, dot, ending = name.rpartition(".")
            alike.setdefault((folder, f"{dot}{ending}" if dot else ""), []).append(each)
    bundles = [
        Bundle(
            folder=folder,
            ending=ending,
            files=len(held),
            size=sum(each.seen.size for each in held),
        )
        for (folder, ending), held in alike.items()
        if len(held) >= _BUNDLED and ending
    ]
    hidden = {(each.folder, each.ending) for each in bundles}
    gone = {each.seen.path for key, held in alike.items() if key in hidden for each in held}
    single = [each for each in files if each.seen.path not in gone]
    return single, sorted(bundles, key=lambda each: (each.path.count("/"), each.path))
