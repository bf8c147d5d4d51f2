"""Which files of a folder are its own, what is in them as text, and how often each was changed.

From git where there is one: started as `midstream.system.git` starts it, nothing that the repository
names runs.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from midstream.codemap.languages import language_of
from midstream.language.errors import MidstreamError
from midstream.safety import quiet_git
from midstream.safety.protected import classify
from midstream.system.git import git_output
from midstream.system.walk import Ignores
from midstream.system.workspace_paths import Place, read_bytes

MAX_FILE_BYTES = 1_000_000
MAX_LINE_BYTES = 400
"""Mean bytes a line above which a file counts as generated: nothing is looked for in it."""

FILE_S = 5.0
"""Seconds of processor time for the functions of one file. A megabyte takes half of one; a file made to
be slow would take hours."""

NOT_OURS = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"}) | {
    *(".venv", "venv", ".tox", ".nox", ".eggs", "site-packages"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".idea", ".gradle"),
}
"""Folders that are never walked where there is no git to say what is ignored."""

MAX_DEPTH = 40
MAX_LISTED = 200_000
"""Names read from a folder before the rest is left out."""


def list_files(root: Path) -> tuple[str, ...]:
    """Return the folder's files as sorted POSIX paths below `root`, ignored ones left out.

    Git says which they are (tracked, or untracked and not ignored). Without git, or where git
    ignores the whole folder, the `.gitignore` files in it do. A file may be a link or gone by now:
    `read_regular` decides.
    """
    said = git_output(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if not said:
        return tuple(sorted(_walk_files(root)))
    return tuple(sorted({os.fsdecode(name) for name in said.split(b"\0") if name}))[:MAX_LISTED]


def _walk_files(root: Path) -> Iterator[str]:
    ignores = Ignores(root)
    count = 0
    for folder, folders, files in os.walk(root):
        here = tuple(part for part in Path(os.path.relpath(folder, root)).parts if part != ".")
        folders[:] = [
            name
            for name in sorted(folders)
            if name not in NOT_OURS
            and len(here) < MAX_DEPTH
            and not ignores.leaves_out_here((*here, name), is_folder=True)
        ]
        for name in sorted(files):
            if not ignores.leaves_out_here((*here, name), is_folder=False):
                count += 1
                if count > MAX_LISTED:
                    return
                yield "/".join((*here, name))


def read_regular(root: Path, path: str, *, max_bytes: int) -> bytes | None:
    """Return the bytes of a regular file below `root`; None for a link, a device, a larger file or
    one that holds secrets.

    A link in any folder of the path counts as one: what it leads to may lie outside.
    """
    parts = tuple(path.split("/"))
    if {"", ".", ".."}.intersection(parts) or classify(parts).standing == "secret":
        return None
    try:
        return read_bytes(Place(root=root, parts=parts), max_bytes=max_bytes)
    except (MidstreamError, OSError):
        return None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file, before anything is looked for in it; `size` is in bytes."""

    size: int
    lines: int
    language: str
    text: str


def read_source(root: Path, path: str) -> Source | None:
    """Return a file's text; None where it is none, too large, no regular file or holds secrets."""
    data = read_regular(root, path, max_bytes=MAX_FILE_BYTES)
    if data is None or b"\0" in data[:8_192]:
        return None
    return Source(
        size=len(data),
        lines=data.count(b"\n") + (not data.endswith(b"\n") and bool(data)),
        language=language_of(path),
        text=data.decode(errors="replace"),
    )


def is_generated(size: int, lines: int) -> bool:
    """Return whether a program seems to have written a file of so many bytes and lines."""
    return size > MAX_LINE_BYTES * (lines + 10)


def count_changes(root: Path, *, commits: int) -> tuple[int, dict[str, int]] | None:
    """Return how many of the last `commits` commits touch `root`, and how many touch each file.

    A renamed file begins anew. None: no git, or no commit yet.
    """
    said = git_output(
        root,
        "log",
        f"--max-count={commits}",
        "--format=%x01",
        "--name-only",
        "-z",
        "--no-renames",
        "--relative",
        *quiet_git.NO_DRIVERS,
        "--",
        ".",
    )
    if said is None:
        return None
    seen = 0
    counts: dict[str, int] = {}
    for part in said.split(b"\0"):
        name = part.removeprefix(b"\n")
        if part == b"\x01":
            seen += 1
        elif name:
            path = os.fsdecode(name)
            counts[path] = counts.get(path, 0) + 1
    return seen, counts


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what is done meanwhile once it has used so much of the processor's time.

    For the main thread only.
    """

    if sys.platform == "win32":  # It has no such clock: whoever waits for the result has one.
        yield
        return

    def ring(_signal: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
