"""What of a folder there is room for: each file in full, in short, by its name, or not at all.

Files come by rank, folders the nearest first. A part of the room is for each kind of line, so that a
large folder shows its shape before it shows one file to the last name.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from midstream.codemap.map_text import Bundle, Pen, folders_of
from midstream.codemap.ranking import RankedFile, is_signpost

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
            self._take_folders(f"{name}/x")
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
        new = {name: self._line_of(name) for name in self._above(path) if name not in self.folders}
        cost = _cost(lines) - _cost(self.entries.get(path, ()))
        cost += sum(map(_cost, new.values()))
        if cost > self._room - leave * self._whole:
            return False
        self._room -= cost
        self.entries |= {**new, path: lines}
        self.folders |= new.keys()
        return True

    def _take_folders(self, path: str) -> None:
        new = {name: self._line_of(name) for name in self._above(path) if name not in self.folders}
        self._room -= sum(map(_cost, new.values()))
        self.entries |= new
        self.folders |= new.keys()

    def _line_of(self, name: str) -> list[str]:
        return self._pen.folder(name, self._all[name])

    def _above(self, path: str) -> list[str]:
        """Return the folders a path is in, below the base, the outermost first."""
        parts = path.removeprefix(self._base).split("/")[:-1]
        return [self._base + "/".join(parts[:end]) for end in range(1, len(parts) + 1)]


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
