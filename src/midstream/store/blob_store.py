"""Large contents as files beside the journal, named by their SHA-256. Everything here blocks."""

import contextlib
import errno
import hashlib
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from midstream.config.portable import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, lock_file
from midstream.config.private_files import make_private
from midstream.language.errors import JournalFull, WorldTrouble
from midstream.runtime.storage import LISTS, SWEPT_DAYS, named_by
from midstream.store.refusals import contents_missing

_KEY = re.compile(r"[0-9a-f]{64}")
_BEGINNING = re.compile(r"[0-9a-f]{8,63}")
_DAY_S = 86_400.0
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


class FileBlobStore:
    """A folder of contents.

    Args:
        folder: it is made with the first thing that is put there.
        owner: names the files that are being written, so that those of the dead can be told.
        is_shared: it is there, on a disk of several machines, and is never made: where it is missing that
            disk is.
    """

    def __init__(self, folder: Path, owner: str, *, is_shared: bool = False) -> None:
        self._folder = folder
        self._owner = owner
        self._is_shared = is_shared
        self._numbers = itertools.count(1)

    def put(self, key: str, data: bytes) -> None:
        """Return once the data is on the disk, under its key.

        Raises:
            JournalFull: there is no room. Nothing was kept.
            WorldTrouble: it cannot be written.
        """
        self._require_there()
        try:
            with self._locked(is_shared=True):
                if self._whole(key) is None:
                    self._write(key, data)
                elif not self._is_shared:
                    os.utime(self._path(key))
        except OSError as error:
            kind = JournalFull if error.errno in _NO_ROOM else WorldTrouble
            raise kind(
                f"Nothing can be put into {self._folder}: {error.strerror or error}.",
                hint="Free some space there, or make it writable; then try again.",
            ) from error

    def get(self, key: str) -> bytes:
        """Return the data of a key; see the port `BlobStore`.

        Raises:
            WorldTrouble: it is missing, or not what was put there.
        """
        data = self._whole(self._completed(key))
        if data is None:
            self._require_there()
            raise contents_missing(key, self._folder)
        return data

    def delete(self, keys: Collection[str]) -> None:
        """Delete what is there of some keys, and what nobody has gone on writing for a day.

        Raises:
            WorldTrouble: some are left.
        """
        self._require_there()
        try:
            for key in keys:
                self._path(key).unlink(missing_ok=True)
            for path in self._folder.glob("*.tmp"):
                with contextlib.suppress(FileNotFoundError):  # it is whole by now, under its name
                    if path.stat().st_mtime < time.time() - _DAY_S:
                        path.unlink()
        except OSError as error:
            raise self._left(error) from error

    def old(self) -> set[str]:
        """Return the keys of what nobody has put for `SWEPT_DAYS`."""
        return {path.name for path in self._paths() if _is_old(path)}

    def naming(self) -> Iterator[tuple[str, bool, set[str]]]:
        """Yield of contents that may name others the key, whether they are old, and the keys they name."""
        for path in self._paths():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if (begun := file.read(1)) in LISTS:
                    yield path.name, _is_old(path), named_by(begun + file.read())

    def delete_old(self, keys: Collection[str]) -> int:
        """Delete those of some contents that nobody has put meanwhile; return how many.

        Raises:
            WorldTrouble: some are left.
        """
        gone = 0
        for key in keys:
            try:
                with self._locked(is_shared=False):
                    if _is_old(self._path(key)):
                        self._path(key).unlink()
                        gone += 1
            except OSError as error:
                raise self._left(error) from error
        return gone

    def sweep(self, is_alive: Callable[[str], bool]) -> None:
        """Remove what owners that have died were in the middle of writing."""
        for path in self._folder.glob("*.tmp"):
            if not is_alive(path.name.split(".")[0]):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _left(self, error: OSError) -> WorldTrouble:
        return WorldTrouble(
            f"Contents in {self._folder} cannot be deleted: {error.strerror or error}.",
            hint=f"Make {self._folder} writable.",
        )

    def _paths(self) -> Iterator[Path]:
        return (path for path in self._folder.glob("??/*") if _KEY.fullmatch(path.name))

    @contextlib.contextmanager
    def _locked(self, *, is_shared: bool) -> Iterator[None]:
        """Let nobody delete what is old while it is put, so that it is young by then, or written anew.

        What machines share needs no such lock: there the rows of the database are locked.
        """
        if self._is_shared:
            yield
            return
        if not self._folder.is_dir():
            make_private(self._folder)
        flags = os.O_CREAT | os.O_RDWR | O_CLOEXEC | O_NOFOLLOW
        lock = os.open(self._folder / "lock", flags, 0o600)
        try:
            lock_file(lock, is_shared=is_shared)
            yield
        finally:
            os.close(lock)

    def _require_there(self) -> None:
        if self._is_shared and not self._folder.is_dir():
            raise WorldTrouble(
                f"The contents of runs are kept in {self._folder}, which is not there.",
                hint="Mount the disk it is on, or check MIDSTREAM_BLOBS.",
            )

    def _completed(self, key: str) -> str:
        """Return the one key that begins so, else what was given."""
        if not _BEGINNING.fullmatch(key):
            return key
        found = [path.name for path in self._path(key).parent.glob(f"{key}*")]
        return found[0] if len(found) == 1 else key

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _whole(self, key: str) -> bytes | None:
        if not _KEY.fullmatch(key):
            return None
        try:
            data = self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise WorldTrouble(
                f"The contents {key[:16]} cannot be read: {error.strerror or error}.",
                hint=f"Make {self._folder} readable.",
            ) from error
        return data if hashlib.sha256(data).hexdigest() == key else None

    def _write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        self._made(path.parent)
        draft = self._folder / f"{self._owner}.{next(self._numbers)}.tmp"
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | O_CLOEXEC | O_NOFOLLOW
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        _flush_folder(path.parent)

    def _made(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if not self._is_shared:
            make_private(self._folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        _flush_folder(self._folder.parent)
        _flush_folder(self._folder)


def _is_old(path: Path) -> bool:
    try:
        return path.stat().st_mtime < time.time() - SWEPT_DAYS * _DAY_S
    except FileNotFoundError:
        return False  # another process sweeps, too


def _flush_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # A folder cannot be opened there; the system writes its names by itself.
    descriptor = os.open(folder, os.O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
