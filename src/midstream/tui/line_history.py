"""The history of typed lines, kept across sessions in one private file."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from midstream.config.private_files import make_private

MAX_LINES: Final = 2000
"""So many of the newest lines come back in the next session."""

_SMALL_BYTES: Final = 100_000


class LineHistory(FileHistory):
    """A file of lines, read in a thread after the prompt is drawn; writing never raises."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Make one. `on_trouble` hears, once, why lines are not kept any more."""
        super().__init__(str(path))
        self._on_trouble: Callable[[str], None] | None = on_trouble

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield the lines of earlier sessions, the newest first."""
        if not self._loaded:
            try:
                # A small file is read at once, so that an Up typed ahead of the prompt finds it.
                is_small = self._size() <= _SMALL_BYTES
                earlier = self._newest() if is_small else await asyncio.to_thread(self._newest)
            except OSError as error:
                self._trouble(error)
                earlier = []
            self._loaded_strings += earlier
            self._loaded = True
        for line in self._loaded_strings:
            yield line

    def remember(self, shown: str, *, later: str) -> None:
        """Have a line come back as it is shown in this session, and as `later` in the next ones."""
        self._loaded_strings.insert(0, shown)
        self.store_string(later)

    def _size(self) -> int:
        return os.stat(self.filename).st_size

    def _newest(self) -> list[str]:
        return list(islice(self.load_history_strings(), MAX_LINES))

    def store_string(self, string: str) -> None:
        """Keep a line for later sessions, if the disk lets us."""
        if self._on_trouble is None:
            return
        try:
            super().store_string(string)
        except OSError as error:
            self._trouble(error)

    def _trouble(self, error: OSError) -> None:
        if self._on_trouble is not None:
            self._on_trouble(
                f"The input history is not saved: {error}. It works within this session."
            )
            self._on_trouble = None


def history_in(folder: Path | None, on_trouble: Callable[[str], None]) -> History:
    """Return the history kept in a folder (made if missing, private), else one in memory."""
    if folder is None:
        return InMemoryHistory()
    path = folder / "history"
    try:
        make_private(folder)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        on_trouble(f"The input history is not saved: {error}. It works within this session.")
        return InMemoryHistory()
    return LineHistory(path, on_trouble)
