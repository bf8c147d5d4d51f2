"""A storm on paths: random trees of links and names, tools that read and write in them, links that swap.

Whatever happens, nothing outside the workspace is opened: every descriptor the tools get is looked at
(where it leads, and whether it is one of the canaries outside), every byte they give back, and the
outside itself afterwards. What the tools raise is `MidstreamError` or `OSError`, and soon.
"""

import asyncio
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from midstream.language.errors import MidstreamError
from midstream.runtime.ports import ToolContext
from midstream.system import openat2, workspace_paths
from midstream.system.put_in_place import contents_of, put_in_place, take_away
from midstream.tools.file_tools import read_files, write_file
from midstream.tools.line_patterns import literal_text
from midstream.tools.search import Search, list_directory
from torture.report import Broken, Report

CANARY = b"c4nary-of-the-outside"
MOST_S = 60.0
OPERATIONS = 60

NAMES = (
    *("a", "b", "c", "d.txt", "e.py", ".git", ".env", ".midstream", "AGENTS.md", "here", "out"),
    *(
        "caf\u00e9",
        "cafe\u0301",
        ".g\u200cit",
        ".\uff47it",
        "x" * 255,
        "x" * 256,
        "a b",
        "-rf",
        "~",
    ),
    *("%2e%2e", "..\\a", "a\nb", "\x1b[2J", "\u202eexe", "$HOME", "*", "[a]", "a:1-2", "...", "a."),
)
PIECES = (*NAMES, *NAMES, ".", "..", "", "/", "\0", "\ud800", "/etc/passwd", "/proc/self/environ")


class _Breach(Exception):
    """Something outside was opened, shown or changed."""


class _Tree:
    """A workspace and an outside, made by chance; `swap` changes something about the workspace."""

    def __init__(self, base: Path, chance: random.Random) -> None:
        self.chance = chance
        self.work, self.outside = base / "work", base / "outside"
        (self.outside / "a" / "b").mkdir(parents=True)
        self.work.mkdir()
        for path in ("secret.txt", "a/d.txt", "a/b/e.py", "d.txt", "e.py", ".env"):
            (self.outside / path).write_bytes(CANARY)
        self.folders = [self.work]
        self.at: tuple[str, ...] = ()
        self.opened = openat2.opened
        for _ in range(chance.randrange(4, 25)):
            self._add()
        self.before = self._of_outside()
        self.handles = [os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in self.folders]

    def close(self) -> None:
        """Give the folders' descriptors back."""
        for handle in self.handles:
            os.close(handle)

    def _add(self) -> None:
        path = self.chance.choice(self.folders) / self.chance.choice(NAMES)
        with suppress(OSError, ValueError):
            kind = self.chance.randrange(10)
            if kind < 3:
                path.mkdir()
                self.folders.append(path)
            elif kind < 5:
                with path.open("xb") as file:
                    file.write(b"inside\n" * self.chance.randrange(3))
            elif kind < 9:
                path.symlink_to(self._target())
            elif self.chance.random() < 0.5:
                os.mkfifo(path)
            else:
                # Not through a link: a hard link to a plain file outside has no marks to know it by.
                os.link(self.chance.choice(self.folders) / "d.txt", path, follow_symlinks=False)

    def _target(self) -> str:
        chance = self.chance
        name = chance.choice(NAMES)
        deep = "../" * chance.randrange(1, 5)
        return chance.choice(
            [
                *(name, f"{name}/{chance.choice(NAMES)}", f"{deep}{name}", f"{deep}outside/a"),
                *(str(self.outside), str(self.outside / "d.txt"), str(self.work / name), "/", "."),
                *(
                    "/proc/self/cwd",
                    "/proc/self/root",
                    "/proc/self/fd",
                    "/etc",
                    f"{deep}work/{name}",
                ),
            ]
        )

    def swapping(self, chance: random.Random, is_over: threading.Event) -> None:
        """Put links, files and folders where other things are, each at once, until told to end.

        By the folders' descriptors: the attacker does not follow links either, or it would be the
        one who changes the outside.
        """
        while not is_over.is_set():
            with suppress(OSError, ValueError):
                self._swap(chance, self.handles)

    def _swap(self, chance: random.Random, handles: list[int]) -> None:
        here, work = chance.choice(handles), handles[0]
        name, beside = chance.choice(NAMES[:11]), f"swap-{chance.randrange(10**9)}"
        match chance.randrange(5):
            case 0 | 1:
                outside = chance.choice([self.outside, self.outside / "d.txt", self.outside / "a"])
                os.symlink(outside, beside, dir_fd=work)
                os.rename(name, f"{beside}-old", src_dir_fd=here, dst_dir_fd=work)
            case 2:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
                os.close(os.open(beside, flags, dir_fd=work))
            case 3:
                os.mkdir(beside, dir_fd=work)
                with suppress(OSError):
                    os.rename(name, f"{beside}-old", src_dir_fd=here, dst_dir_fd=work)
            case _:
                other = chance.choice(NAMES[:11])
                os.rename(name, other, src_dir_fd=here, dst_dir_fd=chance.choice(handles))
                return
        os.rename(beside, name, src_dir_fd=work, dst_dir_fd=here)

    def lead_away(self, chance: random.Random) -> None:
        """Put a link to the outside somewhere on the way to the place the tool is at, if it is there."""
        if not self.at or chance.random() < 0.6:
            return
        depth = chance.randrange(len(self.at))
        outside = chance.choice([self.outside, self.outside / "d.txt", self.outside / "a"])
        with suppress(OSError, ValueError):
            work = os.open(self.work, os.O_PATH | os.O_NOFOLLOW)
            try:
                parent = self.opened(work, self.at[:depth], os.O_RDONLY | os.O_DIRECTORY)
                try:
                    beside = f"swap-{chance.randrange(10**9)}"
                    with suppress(FileNotFoundError):
                        os.rename(self.at[depth], beside, src_dir_fd=parent, dst_dir_fd=work)
                    os.symlink(outside, self.at[depth], dir_fd=parent)
                finally:
                    os.close(parent)
            finally:
                os.close(work)

    def place(self, path: str) -> workspace_paths.Place:
        """Return where a path leads, and remember it as the place to lead away from."""
        place = workspace_paths.locate(self.work, path)
        self.at = place.parts
        return place

    def path(self) -> str:
        """Return a path such as a model could name."""
        chance = self.chance
        if chance.random() < 0.2:
            return "".join(
                chance.choice([*PIECES, "/", "/"]) for _ in range(chance.randrange(1, 9))
            )
        known = str(chance.choice(self.folders))
        start = known if chance.random() < 0.3 else os.path.relpath(known, self.work)
        return "/".join([start, *chance.choices(NAMES[:14], k=chance.randrange(0, 3))])

    def _of_outside(self) -> dict[str, tuple[int, int, int, bytes]]:
        found: dict[str, tuple[int, int, int, bytes]] = {}
        for folder, folders, files in os.walk(self.outside):
            for name in (*folders, *files):
                path = Path(folder, name)
                about = path.lstat()
                held = path.read_bytes() if path.is_file() else b""
                found[str(path)] = (about.st_ino, about.st_mtime_ns, about.st_nlink, held)
        return found

    def check_outside(self) -> None:
        """Raise where anything outside is not as it was."""
        if self._of_outside() != self.before:
            raise _Breach("the outside has changed")


def path_storm(trees: int, seed: int, *, only: str = "") -> list[Report]:
    """Return what `trees` random trees, each by the kernel's call and by walking, have shown."""
    chance = random.Random(seed)
    seeds = [int(only)] if only else [chance.randrange(10**9) for _ in range(trees)]
    reports = []
    for way in dict.fromkeys((openat2.resolution(), "walk")):
        broken: list[Broken] = []
        opened = 0
        for each in seeds:
            with _looking(way) as seen:
                said = _storm(each, seen)
            opened += seen.count
            if said:
                again = f"python -m torture paths --only {each}"
                broken.append(Broken(point=f"{way}:{each}", what=said, again=again))
        note = f"{opened:,} descriptors looked at"
        reports.append(
            Report(name=f"paths by {way}", tried=len(seeds), broken=tuple(broken), note=note)
        )
    return reports


class _Seen:
    """Looks at each descriptor the tools get. `bounds`: the workspace, and the files outside."""

    def __init__(self) -> None:
        self.count = 0
        self.work = ""
        self.usual = openat2.opened
        self.outside: set[tuple[int, int]] = set()
        self.breach = ""
        self.meanwhile: Callable[[], None] = lambda: None

    def look(self, handle: int) -> None:
        self.count += 1
        about = os.fstat(handle)
        if (about.st_dev, about.st_ino) in self.outside:
            self.breach = "something outside was opened"
        leads = os.readlink(f"/proc/self/fd/{handle}") if sys.platform == "linux" else self.work
        if leads != self.work and not leads.startswith(f"{self.work}/"):
            self.breach = f"{leads!r} was opened"


@contextmanager
def _looking(way: str) -> Iterator[_Seen]:
    """Look at every descriptor that is opened in one of the two ways, until the block ends."""
    seen = _Seen()
    usual, found = openat2.opened, openat2._openat2

    def looked_at(folder: int, parts: tuple[str, ...], flags: int) -> int:
        seen.meanwhile()
        handle = usual(folder, parts, flags)
        seen.look(handle)
        return handle

    setattr(workspace_paths, "opened", looked_at)  # noqa: B010
    if way == "walk":
        openat2._openat2 = lambda: None  # type: ignore[assignment]
    try:
        yield seen
    finally:
        setattr(workspace_paths, "opened", usual)  # noqa: B010
        openat2._openat2 = found


def _storm(seed: int, seen: _Seen) -> str:
    """Return what was broken on one tree, "" when nothing was."""
    chance = random.Random(seed)
    # In memory where that is possible: what is tried has nothing to do with disks.
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix="midstream-paths-", dir=shared)).resolve()
    is_over = threading.Event()
    try:
        tree = _Tree(base, chance)
        tree.opened = seen.usual
        seen.meanwhile = partial(tree.lead_away, random.Random(seed + 2))
        seen.work = str(tree.work)
        seen.outside = {
            (about.st_dev, about.st_ino)
            for path in (tree.outside, *tree.outside.rglob("*"))
            for about in [path.lstat()]
        }
        swapper = threading.Thread(target=tree.swapping, args=(random.Random(seed + 1), is_over))
        swapper.start()
        try:
            for _ in range(OPERATIONS):
                _operation(tree, chance)
                if seen.breach:
                    return seen.breach
        finally:
            is_over.set()
            swapper.join()
            tree.close()
        tree.check_outside()
    except _Breach as breach:
        return str(breach)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        seen.meanwhile = lambda: None
        shutil.rmtree(base, ignore_errors=True)
    return ""


def _operation(tree: _Tree, chance: random.Random) -> None:
    path = tree.path()
    with suppress(MidstreamError, OSError):
        tree.place(path)
    began = time.monotonic()
    with suppress(MidstreamError, OSError):
        told = chance.choice(_OPERATIONS)(tree, path)
        if CANARY in told:
            raise _Breach(f"{path!r} gave the outside away")
    if time.monotonic() - began > MOST_S:
        raise _Breach(f"{path!r} took {time.monotonic() - began:.0f} s")


def _context(tree: _Tree) -> ToolContext:
    return ToolContext(
        workspace=tree.work, run="r", agent="a", stop=asyncio.Event(), progress=_unheard
    )


def _unheard(_text: str) -> None:
    """Hear nothing."""


def _read(tree: _Tree, path: str) -> bytes:
    return workspace_paths.read_bytes(tree.place(path))


def _read_with_the_tool(tree: _Tree, path: str) -> bytes:
    told = read_files([path], _context(tree))
    return told.encode("utf-8", "surrogatepass")


def _list(tree: _Tree, path: str) -> bytes:
    told = list_directory(_context(tree), path, depth=4, include_ignored=True)
    return told.encode("utf-8", "surrogatepass")


def _search(tree: _Tree, path: str) -> bytes:
    pattern = literal_text("c4nary", ignore_case=False)
    search = Search(pattern, path, _context(tree), "", 200, include_ignored=True)
    return search.found(search.walked()).encode("utf-8", "surrogatepass")


def _put(tree: _Tree, path: str) -> bytes:
    place = tree.place(path)
    last_look = partial(tree.lead_away, tree.chance)
    put_in_place(place, b"mine", expected=contents_of(place), last_look=last_look)
    return b""


def _put_whatever_was_there(tree: _Tree, path: str) -> bytes:
    put_in_place(tree.place(path), b"mine", expected=None)
    return b""


def _take_away(tree: _Tree, path: str) -> bytes:
    take_away(tree.place(path), expected=b"mine")
    return b""


def _write_with_the_tool(tree: _Tree, path: str) -> bytes:
    return asyncio.run(write_file(path, "mine", _context(tree))).encode()


_OPERATIONS: tuple[Callable[[_Tree, str], bytes], ...] = (
    *(_read, _read, _read_with_the_tool, _list, _search),
    *(_put, _put, _put_whatever_was_there, _take_away, _write_with_the_tool),
)
