"""Files and folders of the workspace behind an `@`, by their names alone: what a word may go on as, and
which of those in a line are not there.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from midstream.codemap.languages import OTHER, language_of
from midstream.core.mentions import asked_for, best, mention_of, mentioned
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    from midstream.system.workspace_files import WorkspaceFiles

SHOWN: Final = 12
_SOON_S: Final = 0.02
_AGAIN_S: Final = 0.1
_IN_ALL_S: Final = 5.0
_MOST_LOOKED_AT: Final = 200
_SUFFIXES: Final = (
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".pdf"),
    *(".txt", ".csv", ".tsv", ".log", ".ini", ".cfg", ".ipynb"),
)
"""How files end that are in no language; decorators (`@pytest.fixture`) end otherwise."""


class FileMentions:
    """Looks for files of a workspace as somebody types."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._files: WorkspaceFiles | None = None

    async def found(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give (mention, what it is) pairs, the best first: once some fit, and once all names are known.

        In between the same come again and again, so that who wants others by now can leave.
        """
        query = asked_for(mention)
        files = await self._looked_for()
        loop = asyncio.get_running_loop()
        until = loop.time() + _IN_ALL_S
        await files.begun(_AGAIN_S)
        wait_s = 0.0
        pairs: tuple[tuple[str, str], ...] = ()
        is_over = False
        while not is_over:
            is_over = await files.looked(wait_s) or loop.time() >= until
            if is_over or not pairs:
                pairs = await _best(files.names(), query)
            yield pairs
            wait_s = min(wait_s + _SOON_S, _AGAIN_S)

    async def _looked_for(self) -> "WorkspaceFiles":
        if self._files is None:
            made = await in_thread(partial(_of, self._workspace))
            self._files = self._files or made
        self._files.look()
        return self._files

    async def close(self) -> None:
        """Look no more."""
        if self._files is not None:
            await self._files.close()


def missing(text: str, workspace: Path) -> tuple[str, ...]:
    """Return the paths a text mentions that look like a file's and lead to nothing, each once.

    Decorators, scopes of npm (`@types/node`) and names of people look like none.
    """
    found = (path for _, _, path in islice(mentioned(text), _MOST_LOOKED_AT))
    return tuple(dict.fromkeys(path for path in found if _is_missing(path, workspace)))


def _is_missing(path: str, workspace: Path) -> bool:
    if not _is_like_a_file(path):
        return False
    try:
        if os.path.lexists(workspace / Path(path).expanduser()):
            return False
        # `@types/bn.js` is a package; in a folder that is there it is a file.
        first = PurePosixPath(path).parts[0]
        return not (path.endswith(".js") and "/" in path and not (workspace / first).is_dir())
    except (OSError, ValueError, RuntimeError):
        return False


def _is_like_a_file(path: str) -> bool:
    if mention_of(path) != f"@{path}" and " " not in path:
        return False  # `@app.get('/x.json')`
    if path.startswith(("./", "../")):
        return True
    return PurePosixPath(path).suffix.lower() in _SUFFIXES or language_of(path) != OTHER


def _of(workspace: Path) -> "WorkspaceFiles":
    # Here, in a thread: nothing of it is needed before somebody types an `@`.
    from midstream.system.workspace_files import WorkspaceFiles

    return WorkspaceFiles(workspace)


async def _best(names: Sequence[str], query: str) -> tuple[tuple[str, str], ...]:
    return await in_thread(partial(_pairs, names, query))


def _pairs(names: Sequence[str], query: str) -> tuple[tuple[str, str], ...]:
    return tuple((mention_of(path), _kind(path)) for path in best(names, query, limit=SHOWN))


def _kind(path: str) -> str:
    # Here as well: no name is looked at before there is one.
    from midstream.safety.protected import classify

    if path.endswith("/"):
        return "folder"
    parts = tuple(path.split("/"))
    return "file, hidden from agents" if classify(parts).standing == "secret" else "file"
