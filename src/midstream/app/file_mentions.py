"""What an `@` in a line may go on as: files and folders of the workspace, by their names alone."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from midstream.core.mentions import asked_for, best, mention_of
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    from midstream.system.workspace_files import WorkspaceFiles

SHOWN: Final = 12
_SOON_S: Final = 0.02
_AGAIN_S: Final = 0.1
_IN_ALL_S: Final = 5.0


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
