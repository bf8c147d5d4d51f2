"""Typed lines that outlive the process, in private files: the history, and the line that is being typed.

The history is one file for all consoles. Of the line that is being typed, and of words on their way, each
console of a folder has a file of its own, with a lock beside it that the kernel lets go of when the process
dies, however it dies. So the next console finds what nobody types any more, and two never take from each
other. What is typed is the person's own: it stands there as it was typed until a run has it.
"""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncGenerator, Callable
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from midstream.config.portable import O_CLOEXEC, O_NOFOLLOW, try_lock_file
from midstream.config.private_files import make_private, write_whole
from midstream.language.errors import WorldTrouble
from midstream.system.offloop import in_thread

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
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | O_CLOEXEC, 0o600))
    except OSError as error:
        on_trouble(f"The input history is not saved: {error}. It works within this session.")
        return InMemoryHistory()
    return LineHistory(path, on_trouble)


# --- the line that is being typed -----------------------------------------------------------------

WAIT_S: Final = 0.3
"""Seconds of typing that a crash may take."""

_MOST: Final = 64
"""Consoles of one folder that keep their lines."""


class Draft:
    """One console's unsent line in a file.

    Args:
        folder: where the files are, made if missing; None: no line is kept.
        workspace: the folder the console is in.
        text: returns the line as it stands, whole.
        on_trouble: hears, once, why the line is not kept any more.
    """

    def __init__(
        self,
        folder: Path | None,
        workspace: Path,
        *,
        text: Callable[[], str],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._workspace = workspace
        self._text = text
        self._on_trouble = on_trouble
        self._path: Path | None = None
        self._lock = -1
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._is_overtaken = False
        self._is_troubled = False

    def open(self) -> str:
        """Return what a console that is no more had not sent, or "". From now on lines are kept."""
        if self._folder is None:
            return ""
        free: list[tuple[int, Path, str]] = []
        name = hashlib.blake2b(os.fsencode(self._workspace.resolve()), digest_size=12).hexdigest()
        try:
            make_private(self._folder / "drafts")
            for number in range(_MOST):
                path = self._folder / "drafts" / f"{name}-{number}"
                is_last = not path.with_suffix(".lock").exists()
                if (lock := _locked(path.with_suffix(".lock"))) is not None:
                    free.append((lock, path, _read(path) if path.exists() else ""))
                if free and (is_last or free[-1][2]):
                    break
        except OSError as error:
            self._on_trouble(f"The line you type is not kept: {error}.")
        chosen = next((each for each in free if each[2]), free[0] if free else None)
        for each in free:
            if each is not chosen:
                os.close(each[0])
        if chosen is None:
            return ""
        self._lock, self._path, text = chosen
        return text

    def edited(self, *, at_once: bool) -> None:
        """Take note that the line is another now: it is kept soon, or `at_once`, before this returns.

        What is kept at once outlives the process, what is kept soon a loss of power, too.
        """
        if self._path is None:
            return
        if at_once:
            self._is_overtaken = True
            if not self._put(self._path):
                return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WAIT_S, self._keep, self._path)

    def _put(self, path: Path, *, is_synced: bool = False) -> bool:
        """Keep the line; return whether anything stands there."""
        text = self._text()
        try:
            if text:
                write_whole(path, _encoded(text), is_synced=is_synced)
            else:
                path.unlink(missing_ok=True)
        except (OSError, WorldTrouble) as error:
            self._trouble(error)
        return bool(text)

    def _keep(self, path: Path) -> None:
        """Keep the line in a thread; where one is at it still, somewhat later."""
        self._timer = None
        if self._writing is not None:
            self._timer = asyncio.get_running_loop().call_later(WAIT_S, self._keep, path)
        elif text := self._text():
            fresh = path.with_suffix(".new")
            self._is_overtaken = False
            self._writing = asyncio.ensure_future(
                in_thread(lambda: write_whole(fresh, _encoded(text)))
            )
            self._writing.add_done_callback(lambda done: self._written(done, fresh, path))
        else:
            self._put(path)

    def _written(self, writing: "asyncio.Future[None]", fresh: Path, path: Path) -> None:
        self._writing = None
        if not writing.cancelled() and (error := writing.exception()) is not None:
            self._trouble(error)
        elif not (writing.cancelled() or self._is_overtaken):
            # Not in the thread: it could take the place of what was kept at once meanwhile.
            with contextlib.suppress(OSError):
                fresh.replace(path)

    def _trouble(self, error: BaseException) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            self._on_trouble(f"The line you type is not kept: {error}")

    async def close(self) -> None:
        """Keep what stands in the line, if anything does, and let go of the file."""
        path, self._path = self._path, None
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if path is not None:
            self._put(path, is_synced=True)
            with contextlib.suppress(OSError):
                path.with_suffix(".new").unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _locked(path: Path) -> int | None:
    """Return a lock that is held until it is closed, None where somebody else holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    if try_lock_file(lock):
        return lock
    os.close(lock)
    return None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogatepass")
