"""`.git` and `.midstream` where there are none: empty folders, held while commands run.

What is not there cannot be made read-only, and a command that could make a `.git` could put a hook into
it. So an empty folder stands there meanwhile, with nothing mounted over it but itself, read-only. To git
an empty `.git` is none. Every command that needs it holds a shared lock on it; whoever ends and finds
nobody else's removes it. A folder that was left by a crash is taken for ours by its mode, and empty.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from midstream.config.portable import FOLDER, lock_file, try_lock_file

OURS: Final = 0o555
"""The mode of a folder we make. One that is empty and that not even its owner may write is ours."""


class Held:
    """The folders that stand in for missing ones, held. Made and let go in a thread."""

    def __init__(self, workspace: Path, names: Sequence[str]) -> None:
        self._held: list[tuple[Path, int]] = []
        try:
            for name in names:
                self._hold(workspace / name)
        except BaseException:
            self.let_go()
            raise

    def _hold(self, place: Path) -> None:
        # Between making, opening and locking others may remove it: then once more, but not for ever.
        for _ in range(100):
            with suppress(FileExistsError):
                place.mkdir(mode=OURS)
            try:
                if not _is_ours(place):
                    return
                descriptor = os.open(place, FOLDER)
            except FileNotFoundError:
                continue
            lock_file(descriptor, is_shared=True)
            # Between the two, the last holder may have removed it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), place.lstat()):
                    self._held.append((place, descriptor))
                    return
            os.close(descriptor)
        raise OSError(f"{place} comes and goes")

    def let_go(self) -> None:
        """Let go, and remove what nobody else holds."""
        while self._held:
            place, descriptor = self._held.pop()
            try:
                # Nobody else's shared lock is on it, and none can be until it is closed: it may go.
                is_free = try_lock_file(descriptor) and _is_ours(place)
                if is_free and os.path.samestat(os.fstat(descriptor), place.lstat()):
                    place.rmdir()
            except OSError:
                continue
            finally:
                os.close(descriptor)


def _is_ours(place: Path) -> bool:
    """Return whether it is a folder that only stands in for one; raises FileNotFoundError."""
    about = place.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o222:
        return False
    try:
        return not os.listdir(place)
    except PermissionError:
        return False
