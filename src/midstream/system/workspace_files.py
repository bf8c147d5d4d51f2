"""The names of a workspace's files, for mentions: looked up off the loop, kept, looked up anew.

Names only: nothing is opened, no link followed. What `.gitignore` and `.ignore` files leave out, at
whatever level, is not named, nor what tools keep for themselves. ripgrep is quick at this; without it
the same names take longer, those nearest the root first.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from midstream.system.offloop import call_soon, in_thread
from midstream.system.programs import found_program
from midstream.system.supervisor import Sink, run_command
from midstream.system.walk import Ignores

MAX_NAMES: Final = 50_000
"""More are not looked at: what is not found can still be typed."""

FRESH_S: Final = 15.0
"""So long names count as they are; later they are looked up again while the old ones serve."""

_SCAN_S: Final = 30.0
_A_FEW: Final = 100
_KEPT_BY_TOOLS: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj", ".venv", ".tox", ".nox", ".direnv", ".gradle"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "__pycache__"),
        *("node_modules", ".DS_Store", ".idea"),
    }
)
_IGNORE_FILES: Final = (".gitignore", ".ignore")


class WorkspaceFiles:
    """The names of one workspace's files and folders, from its root, folders with a slash behind."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._names: Sequence[str] = ()
        self._looking: asyncio.Task[None] | None = None
        self._looked_at: float | None = None
        self._found: _Found | None = None

    def look(self) -> None:
        """Begin to look the names up, unless they are fresh. Returns at once."""
        is_fresh = self._looked_at is not None and time.monotonic() - self._looked_at < FRESH_S
        if self._looking is None and not is_fresh:
            self._found = _Found(asyncio.get_running_loop())
            self._looking = asyncio.create_task(self._look(self._found))

    def names(self) -> Sequence[str]:
        """Return the names known now: of the first look those found so far."""
        if self._looked_at is None and self._found is not None:
            return self._found.names[:]
        return self._names

    async def looked(self, timeout_s: float) -> bool:
        """Return whether the names are whole, after at most so long."""
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=timeout_s)
        return self._looking is None

    async def begun(self, timeout_s: float) -> None:
        """Return once any name is known, or there is none, after at most so long."""
        if self._looking is None or self.names():
            return
        assert self._found is not None
        first = asyncio.ensure_future(self._found.has_some.wait())
        both = {first, self._looking}
        try:
            await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            first.cancel()

    async def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            looking, self._looking = self._looking, None
            looking.cancel()
            await asyncio.wait({looking})

    async def _look(self, found: "_Found") -> None:
        try:
            program = await in_thread(partial(found_program, "rg", self._workspace))
            if program is None or not await _listed(program, self._workspace, found):
                await in_thread(partial(_walk, self._workspace, found))
            self._names = found.names
        except OSError:
            self._names = found.names
        finally:
            found.is_wanted = False
            self._looked_at = time.monotonic()
            self._looking = self._found = None


class _Found(Sink):
    """Takes names, in the thread that finds them. A sink of `run_command` as well."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.names: list[str] = []
        self.is_wanted = True
        self.has_some = asyncio.Event()
        """Set on the loop once there are a few names."""
        self._loop = loop
        self._has_told = False
        self._folders: set[str] = set()
        self._rest = b""

    def add(self, path: str) -> bool:
        """Take a file's name, and those of the folders it is in; return whether more are wanted."""
        if not path.isprintable():
            return self.is_wanted
        self.names.append(path)
        if not self._has_told and len(self.names) >= _A_FEW:
            self._has_told = True
            call_soon(self._loop, self.has_some.set)
        folder = path.rpartition("/")[0]
        while folder and folder not in self._folders:
            self._folders.add(folder)
            self.names.append(f"{folder}/")
            folder = folder.rpartition("/")[0]
        return self.is_wanted and len(self.names) < MAX_NAMES

    def feed(self, data: bytes) -> bool:
        *whole, self._rest = (self._rest + data).split(b"\0")
        return all(self.add(os.fsdecode(name).removeprefix("./")) for name in whole)


async def _listed(program: str, workspace: Path, found: _Found) -> bool:
    """Have ripgrep name the files; return whether it could."""
    flags = ["--files", "--null", "--no-config", "--no-messages", "--no-require-git", "--hidden"]
    flags += ["--no-ignore-global", "--no-ignore-exclude", "--no-ignore-parent", "--no-follow"]
    flags += [f"--glob=!{name}" for name in sorted(_KEPT_BY_TOOLS)]
    ended = await run_command(
        [program, *flags],
        folder=workspace,
        environment={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        timeout_s=_SCAN_S,
        stop=asyncio.Event(),
        sink=found,
    )
    # 1: there are no files; 2: some folder cannot be read.
    return bool(ended.cause or found.names or ended.exit_code == 1)


def _walk(workspace: Path, found: _Found) -> None:
    ignores = Ignores(workspace, files=_IGNORE_FILES)
    until = time.monotonic() + _SCAN_S
    folders: deque[tuple[str, ...]] = deque([()])
    while folders and time.monotonic() < until:
        parts = folders.popleft()
        for name, is_folder, is_file in _entries(workspace.joinpath(*parts)):
            here = (*parts, name)
            if name in _KEPT_BY_TOOLS or ignores.leaves_out_here(here, is_folder=is_folder):
                continue
            if is_folder:
                folders.append(here)
            elif is_file and not found.add("/".join(here)):
                return


def _entries(folder: Path) -> list[tuple[str, bool, bool]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False))
                for e in entries
            )
    except OSError:
        return []
