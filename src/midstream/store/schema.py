"""The journal's file: its tables, how it is opened, and what SQLite's errors mean.

    facts      the append-only truth: one row a fact, the checksums chained over the run
    runs       one row a run: how far it is, the checksum of its last fact, its line in a listing
    inbox      letters to runs; `delivered` is 0 or DELIVERED, far enough apart for a flipped bit
    leases     which owner has which run (see `midstream.store.owners`)
    snapshots  a cache of folded runs
    meta       the format of it all

Facts know their run by its small number, so that a row stays short. A fork has a `parent` and the
first `parent_seq` facts of it; its own facts follow. Rows other than facts carry a `seal`, a checksum
over the row. A row that is not what was written is noticed and never used.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from midstream.core.codec import FORMAT
from midstream.core.errors import JournalFull, JournalTooNew, MidstreamError, WorldTrouble

BUSY_MS = 15_000
"""How long to wait for another process's write. Each takes milliseconds."""

DELIVERED = 0x5AA5

_TABLES = """
create table meta(key text primary key, value integer not null) without rowid;
create table runs(
    number integer primary key autoincrement, id text not null unique, seq integer not null,
    head blob not null, summary blob not null, parent integer, parent_seq integer not null,
    is_foreign integer not null, seal blob not null);
create table facts(
    run integer not null, seq integer not null, at real not null, body blob not null,
    checksum blob not null, ends integer not null, format integer not null,
    primary key(run, seq)) without rowid;
create table inbox(
    number integer primary key autoincrement, run text not null, id text not null,
    body blob not null, delivered integer not null, seal blob not null, unique(run, id));
create table leases(run text primary key, owner text not null) without rowid;
create table snapshots(
    run text primary key, seq integer not null, data blob not null, seal blob not null);
"""


def prepared(path: Path, vfs: str | None) -> apsw.Connection:
    """Return the writing connection of a journal, which is made where there is none. Blocking.

    Raises:
        JournalTooNew: a newer midstream wrote it; not a byte was changed.
        WorldTrouble: it is no journal, is damaged, or cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _exists(path):
            _refuse_foreign(path, vfs)
        connection = _connected(path, vfs, apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            _make(connection, path)
    except apsw.Error as error:
        raise trouble(error, path) from error
    except OSError as error:
        raise WorldTrouble(
            f"The journal {path} cannot be opened: {error.strerror or error}.",
            hint="Make its folder writable, or name another file in MIDSTREAM_JOURNAL.",
        ) from error
    return connection


def reading(path: Path, vfs: str | None) -> apsw.Connection:
    """Return a connection of a prepared journal that only reads. Blocking."""
    try:
        connection = _connected(path, vfs, apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            connection.execute("pragma query_only=1").fetchall()
    except apsw.Error as error:
        raise trouble(error, path) from error
    return connection


def format_of(connection: apsw.Connection) -> int:
    """Return the format the journal is in now."""
    ((format,),) = connection.execute("select value from meta where key='format'").fetchall()
    if not isinstance(format, int):
        raise ValueError(format)
    return format


def refuse_newer(format: int, path: Path) -> None:
    """Raise JournalTooNew where a newer midstream has written the journal."""
    if format > FORMAT:
        raise JournalTooNew(
            f"The journal {path} has format {format}; this midstream knows up to {FORMAT}.",
            hint="Use the newer midstream, or name another file in MIDSTREAM_JOURNAL.",
        )


def limit(connection: apsw.Connection, max_bytes: int) -> None:
    """Let a writing connection grow the file to so many bytes at most; never less than it has."""
    ((page,),) = connection.execute("pragma page_size").fetchall()
    assert isinstance(page, int)
    connection.execute(f"pragma max_page_count={max(max_bytes // page, 1)}").fetchall()


def trouble(error: apsw.Error, path: Path, *, is_writing: bool = False) -> MidstreamError:
    """Return what SQLite's error means for a person."""
    match error:
        case apsw.FullError():
            return _full(path, "there is no room left")
        case apsw.IOError() if is_writing:
            return _full(path, str(error))
        case apsw.CorruptError() | apsw.NotADBError():
            return damaged_file(path, str(error))
        case apsw.BusyError() | apsw.LockedError():
            # A stopped process may hold it for ever; nobody's run has failed because of that.
            kind = JournalFull if is_writing else WorldTrouble
            return kind(
                f"The journal {path} is locked by another process.",
                hint="See which process holds it for so long; then try again.",
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return WorldTrouble(
                f"The journal {path} cannot be used: {error}.",
                hint="Make the file and its folder writable, or name another in MIDSTREAM_JOURNAL.",
            )
        case _:
            return WorldTrouble(f"The journal {path} failed: {error}.", hint="Try again.")


def damaged_file(path: Path, why: str) -> WorldTrouble:
    """Return the trouble with a file that is no journal any more, or never was."""
    return WorldTrouble(
        f"The file {path} is no journal that can be read: {why}.",
        hint=f"Move it aside (mv {path} {path}.broken) and a new one is made, or name another file "
        "in MIDSTREAM_JOURNAL.",
    )


def _full(path: Path, why: str) -> JournalFull:
    return JournalFull(
        f"The journal {path} cannot grow: {why}.",
        hint=f"Free some space where {path.parent} is; nothing was lost, and it goes on from there.",
    )


def _exists(path: Path) -> bool:
    """Return whether there is something at the path; where nothing is, an empty private file is made.

    It is never opened here once it exists: closing a file drops the locks SQLite holds on it for
    every connection of the process. SQLite gives its side files the permissions of the file.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        return False
    return path.stat().st_size > 0


def _refuse_foreign(path: Path, vfs: str | None) -> None:
    """Look at the format without a chance of writing. A crash while it was made is left to SQLite."""
    if Path(f"{path}-journal").exists():
        return
    connection = _connected(path, vfs, apsw.SQLITE_OPEN_READONLY)
    try:
        _look(connection, path)
    finally:
        connection.close()


def _look(connection: apsw.Connection, path: Path) -> bool:
    """Return whether the journal has its tables; refuse what is no journal of ours."""
    names: set[object] = set()
    made_up: set[object] = set()
    for name, root in connection.execute("select name, rootpage from sqlite_schema"):
        (names if root else made_up).add(name)
    if not names and not made_up:
        return False
    if not {"meta", "runs", "facts", "inbox", "leases", "snapshots"} <= names:
        raise damaged_file(path, "it is a database of something else")
    try:
        format = format_of(connection)
    except ValueError as error:
        raise damaged_file(path, "it does not say its format") from error
    refuse_newer(format, path)
    if made_up:
        # Triggers, views and virtual tables do things of their own when others are used.
        raise damaged_file(path, "it holds what is no table")
    return True


def _connected(path: Path, vfs: str | None, flags: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    with _closed_on_error(connection):
        connection.set_busy_timeout(BUSY_MS)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.execute("pragma cell_size_check=1").fetchall()
        connection.execute("pragma synchronous=full").fetchall()
    return connection


def _make(connection: apsw.Connection, path: Path) -> None:
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):
        raise damaged_file(path, "it is no regular file")
    if about.st_uid == os.getuid():
        os.chmod(path, 0o600)
    _turn_to_wal(connection)
    connection.execute("pragma journal_size_limit=8388608").fetchall()
    connection.execute("begin immediate")
    try:
        if not _look(connection, path):
            connection.execute(_TABLES)
            connection.execute("insert into meta values('format', ?)", (FORMAT,))
        elif format_of(connection) != FORMAT:
            connection.execute("update meta set value=? where key='format'", (FORMAT,))
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _turn_to_wal(connection: apsw.Connection) -> None:
    """Turn the write-ahead log on. SQLite does not wait here for others that do the same."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.execute("pragma journal_mode=wal").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


@contextlib.contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
