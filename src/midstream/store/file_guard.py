"""Whether what is written still goes where it will be read from.

SQLite holds its files open. Where they are removed, moved, replaced or cut short meanwhile, it goes on
for hours without an error, and what it keeps is gone with the process. So before anything is written
the files at the paths are compared with those that are open, which costs microseconds. Where they
changed in a way that a checkpoint of another process may explain, a connection of its own reads back
what should be there.

    removed, moved, replaced by rename    the path leads to no inode, or another one
    truncated                             it is shorter than it was; the log lost its header
    written over in place                 it was modified, and no checkpoint of ours did it
"""

import os
import struct
import time
from pathlib import Path

import apsw

from midstream.language.errors import JournalLost, MidstreamError
from midstream.store.schema import LEAST_BYTES, reading

CHECKPOINT_PAGES = 1_000
"""Pages in the log from which on they are copied into the journal."""

MAX_CHECKED_BYTES = 32 * 1024 * 1024
"""Up to this size the whole file is looked through when it was written by somebody else."""

_LOG_MAGIC = (0x377F0682, 0x377F0683)
_COARSE_NS = 50_000_000
_NAME_AT = 60
"""Where SQLite keeps a database's `user_version`: a journal has a random one of its own."""


class Guard:
    """Compares the files at a journal's path with those that were opened. Used by the writing thread.

    Args:
        path: the journal's, which was just opened and found whole.
        vfs: the SQLite file system.
        connection: the one that writes. It leaves checkpoints to the guard.
    """

    def __init__(self, path: Path, vfs: str | None, connection: apsw.Connection) -> None:
        self._path = path
        self._vfs = vfs
        self._connection = connection
        real = os.path.realpath(path)
        self._folder = os.path.dirname(real)
        self._files = (real, f"{real}-wal", f"{real}-shm")
        self._opened = tuple(map(_inode, self._files))
        self._unchanged_since = 0
        self._journal = _times(os.stat(real))
        ((page_bytes,),) = connection.execute("pragma page_size").fetchall()
        ((name,),) = connection.execute("pragma user_version").fetchall()
        assert isinstance(page_bytes, int)
        assert isinstance(name, int)
        # What is still in the log is not yet in the file: a new journal has no name there.
        self._names = {(0).to_bytes(4), name.to_bytes(4, signed=True)}
        self._frame_bytes = 24 + page_bytes
        self._pages = 0
        self._header = self._log()[1]
        self._is_lost = False
        connection.set_wal_hook(self._logged)

    def is_lost(self) -> bool:
        """Return whether, as far as is known, the files are not those that were opened. Any thread."""
        return self._is_lost or bool(self._elsewhere())

    def check(self) -> None:
        """Check, inside a transaction that writes and has not written yet.

        Raises:
            JournalLost: what is written now would not be found again.
        """
        if why := self._moved():
            raise self._lost(why)
        journal = _times(os.stat(self._files[0]))
        if journal[0] < LEAST_BYTES:
            raise self._lost(f"{_name(self._files[0])} was emptied")
        is_long, header = self._log()
        is_same = journal == self._journal and not self._is_lost
        if not (is_same and is_long and header == self._header):
            if why := self._unreadable(header, is_whole=is_same):
                raise self._lost(why)
            self._note(is_lost=False)
            self._journal, self._header = journal, header
            self._pages = 0

    def _moved(self) -> str:
        """Return why the paths do not lead to the open files.

        While the folder is as it was no name in it leads elsewhere. The log is not looked at then: on
        some file systems that makes the next write to it take a third longer.
        """
        try:
            changed = os.stat(self._folder).st_mtime_ns
        except OSError as error:
            return f"its folder is gone ({error.strerror})"
        if changed == self._unchanged_since:
            return ""
        why = self._elsewhere()
        # Times are coarse: what changes right after a change may bear the same time.
        is_settled = time.time_ns() - changed > _COARSE_NS
        self._unchanged_since = changed if is_settled and not why else 0
        return why

    def _elsewhere(self) -> str:
        for file, opened in zip(self._files, self._opened, strict=True):
            try:
                about = os.stat(file)
            except OSError as error:
                return f"{_name(file)} is gone ({error.strerror})"
            if (about.st_dev, about.st_ino) != opened:
                return f"another file has taken the place of {_name(file)}"
        return ""

    def _log(self) -> tuple[bool, bytes]:
        """Return whether the log is as long as it was when we last wrote, and its header."""
        is_there, header = self._connection.read("main", 1, 0, 32)
        if not is_there:
            return self._pages == 0, b""
        if self._pages == 0:
            return True, header
        end = 32 + self._pages * self._frame_bytes
        return self._connection.read("main", 1, end - 1, 1)[0], header

    def committed(self) -> None:
        """Copy the log into the journal now and then."""
        if self._pages < CHECKPOINT_PAGES or self._elsewhere():
            return
        try:
            self._connection.wal_checkpoint()
            self._journal = _times(os.stat(self._path))
        except (apsw.Error, OSError):
            return  # nothing is lost by that: the log grows on, and it is tried again

    def explained(self, error: apsw.Error) -> JournalLost | None:
        """Return what an error of a journal that was in use comes of, None: not of its files."""
        why = self._elsewhere()
        if not why and _times(os.stat(self._files[0])) != self._journal:
            why = f"it cannot be read any more ({error})"
        if not why and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHORT_READ:
            why = "it was cut short"
        return self._lost(why) if why else None

    def _lost(self, why: str) -> JournalLost:
        self._note(is_lost=True)
        return JournalLost(
            f"The journal {self._path} was changed while it was in use: {why}.",
            hint="Nothing new is kept in it. Put it back as it was and the run goes on, or write the "
            "run elsewhere with /export FILE.",
        )

    def _note(self, *, is_lost: bool) -> None:
        """Remember it; a connection that is closed then writes nothing into files of others."""
        if is_lost != self._is_lost:
            self._is_lost = is_lost
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(is_lost))

    def _logged(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _unreadable(self, header: bytes, *, is_whole: bool) -> str:
        """Return why what should be there cannot be read back, "" where it can.

        `is_whole`: nobody has written to the journal itself, only to its log.
        """
        if header and struct.unpack(">I", header[:4])[0] not in _LOG_MAGIC:
            return f"{_name(self._files[1])} was cut short or written over"
        other: apsw.Connection | None = None
        try:
            other = reading(self._path, self._vfs)
            if _newest(other) != _newest(self._connection):
                return "the last entries are missing from it"
            if not is_whole:
                if self._connection.read("main", 0, _NAME_AT, 4)[1] not in self._names:
                    return "it is another journal now"
                return _mixed(other, os.stat(self._files[0]).st_size)
        except (apsw.Error, MidstreamError, OSError, ValueError):
            return "what was kept in it cannot be read back"
        finally:
            if other is not None:
                other.close()
        return ""


def _times(about: os.stat_result) -> tuple[int, int]:
    return about.st_size, about.st_mtime_ns


def _newest(connection: apsw.Connection) -> list[tuple[object, ...]]:
    """Return how far the newest runs are."""
    return connection.execute(
        "select number, id, seq, seal from runs order by number desc limit 50"
    ).fetchall()


def _mixed(connection: apsw.Connection, size: int) -> str:
    """Return why the journal and its log do not belong together, "" where they do."""
    ((count,),) = connection.execute(
        "select count(*) from (select * from runs order by number desc limit 50) r"
        " left join facts f on f.run=r.number and f.seq=r.seq"
        " where r.seq>r.parent_seq and f.checksum is not r.head"
    ).fetchall()
    if count:
        return "it holds other facts now"
    if size > MAX_CHECKED_BYTES:
        return ""
    ((words,),) = connection.execute("pragma quick_check(1)").fetchall()
    return "" if words == "ok" else f"it is not whole any more ({words})"


def _inode(file: str) -> tuple[int, int]:
    about = os.stat(file)
    return about.st_dev, about.st_ino


def _name(file: str) -> str:
    return os.path.basename(file)
