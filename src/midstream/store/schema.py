"""The journal's file: its tables, how it is opened, and what SQLite's errors mean.

    facts      the append-only truth: one row a fact, the checksums chained over the run
    runs       one row a run: how far it is, the checksum of its last fact, its line in a listing
    inbox      messages to runs; `delivered` is 0 or DELIVERED, far enough apart for a flipped bit
    leases     which owner has which run (see `midstream.store.owners`)
    snapshots  a cache of folded runs
    pages      what has grown long of them, in parts that are the same in every later snapshot
    meta       the format of it all

Facts know their run by its small number, so that a row stays short. A fork has a `parent` and the
first `parent_seq` facts of it; its own facts follow. Rows other than facts carry a `seal`, a checksum
over the row. A row that is not what was written is noticed and never used.
"""

import contextlib
import itertools
import os
import secrets
import stat
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import apsw

from midstream.config.portable import O_CLOEXEC, own_user
from midstream.config.private_files import make_private
from midstream.core.codec import FORMAT
from midstream.language.errors import JournalFull, JournalTooNew, MidstreamError, WorldTrouble
from midstream.system.own_process import complain

BUSY_MS = 15_000
"""How long to wait for another process's write. Each takes milliseconds."""

WORD_AFTER_MS = 2_000
"""After how long of it a person hears what is being waited for."""

LEAST_BYTES = 512
"""The smallest page there is: no journal is shorter."""

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


_PAGES = """
create table if not exists pages(
    run text not null, name text not null, data blob not null, checksum integer not null,
    primary key(run, name));
"""
"""Made in journals of earlier versions, too, which do not look at it."""


_SUMMARY = "cast(summary as text)"


def _said(key: str, otherwise: str) -> str:
    """Return SQL for what a run's line in a listing says, and where it is not what was written."""
    said = f"coalesce(json_extract({_SUMMARY}, '$.{key}'), {otherwise})"
    return f"case when json_valid({_SUMMARY}) then {said} else {otherwise} end"


WORKSPACE = f"cast({_said('workspace', repr(''))} as text)"
KIND = f"case {_said('kind', repr(''))} when 'chat' then 'chat' else 'workflow' end"
_DIGITS = f"{_SUMMARY} -> '$.updated_at'"
WRITTEN_AT = f"""case when json_valid({_SUMMARY}) then coalesce(cast({_DIGITS} as integer) * 1000000
    + case instr({_DIGITS}, '.') when 0 then 0
        else cast(substr(substr({_DIGITS}, instr({_DIGITS}, '.') + 1) || '000000', 1, 6) as integer) end, 0)
    else 0 end"""
"""In microseconds since 1970, by the digits: how these come to a float differs between versions of SQLite,
and an index has to find what another version has put into it.
"""
NAME = f"cast({_said('name', repr(''))} as text)"
STANDING = f"""case when not json_valid({_SUMMARY}) then 'running'
    when json_extract({_SUMMARY}, '$.status') in ('suspended', 'finished', 'failed', 'stopped')
        then json_extract({_SUMMARY}, '$.status')
    when json_array_length({_SUMMARY}, '$.asking') > 0 then 'asking'
    when json_extract({_SUMMARY}, '$.awaits_input') then 'waiting' else 'running' end"""
"""As `Summary.standing` has it; what is damaged stands somewhere, too, and is listed."""

IS_WAITING = f"delivered is not {DELIVERED}"

_INDEXES = f"""
create index if not exists runs_here on runs({WORKSPACE}, {KIND}, {STANDING}, {WRITTEN_AT}, id);
create index if not exists runs_named on runs({NAME}, id) where {NAME} != '';
create index if not exists inbox_waiting on inbox(run, number) where {IS_WAITING};
"""
"""Over what the rows say, not columns of their own: rows written by earlier versions are in them, too."""


def prepared(path: Path, vfs: str | None) -> apsw.Connection:
    """Return the writing connection of a journal, which is made where there is none. Blocking.

    Raises:
        JournalTooNew: a newer midstream wrote it; not a byte was changed.
        WorldTrouble: it is no journal, is damaged, or cannot be opened.
    """
    try:
        make_private(path.parent)
        if _exists(path):
            _refuse_foreign(path, vfs)
        connection = _connected(path, vfs, apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            _make(connection, path)
    except apsw.Error as error:
        raise trouble(error, path) from error
    except OSError as error:
        where = "" if error.filename in (None, str(path)) else f" ({error.filename})"
        raise WorldTrouble(
            f"The journal {path} cannot be opened: {error.strerror or error}{where}.",
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


def data_version(
    connection: apsw.Connection, _: Collection[str | None]
) -> dict[str | None, object]:
    """Return what differs once anybody else has written to the file, whatever it was."""
    try:
        return {None: connection.execute("pragma data_version").fetchall()[0][0]}
    except apsw.Error:
        # A look that fails is one that saw nothing; whoever reads hears what is wrong.
        return {}


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


def trouble(error: apsw.Error, path: Path, *, is_writing: bool = False) -> MidstreamError:
    """Return what SQLite's error means for a person."""
    match error:
        case apsw.FullError():
            return JournalFull(
                f"The journal {path} cannot grow: there is no room left.",
                hint=f"Free some space where {path.parent} is; {_GOES_ON}",
            )
        case apsw.IOError() if is_writing:
            return JournalFull(
                f"The journal {path} cannot be written: {error}.",
                hint=f"Check the disk that holds {path.parent}; {_GOES_ON}",
            )
        case apsw.IOError():
            return WorldTrouble(
                f"The journal {path} cannot be read: {error}.",
                hint=f"Check the disk that holds {path.parent}. {_SALVAGE}",
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return damaged_file(path, str(error))
        case apsw.BusyError() | apsw.LockedError():
            # A stopped process may hold it for ever; nobody's run has failed because of that.
            kind = JournalFull if is_writing else WorldTrouble
            return kind(
                f"The journal {path} is locked by another program.",
                hint=f"See which program holds it for so long (`fuser {path}`); then try again.",
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
        f"The file {path} is not a readable journal: {why}.",
        hint=f"{_SALVAGE} Or move it aside (mv {path} {path}.broken) for a new one, or name another "
        "file in MIDSTREAM_JOURNAL.",
    )


_GOES_ON = "nothing was lost, and it goes on from there."
_SALVAGE = "`midstream doctor --salvage` recovers what is intact."


def _exists(path: Path) -> bool:
    """Return whether there is something at the path; where nothing is, an empty private file is made.

    An empty file is where a journal begins. What was a journal before has a folder or a log beside it:
    SQLite would throw away that log with all that is in it.

    It is never opened here once it exists: closing a file drops the locks SQLite holds on it for
    every connection of the process. SQLite gives its side files the permissions of the file.
    """
    had_owners = Path(f"{path}.d").exists()
    log = Path(f"{path}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    if has_log and not path.exists():
        raise damaged_file(path, f"it is gone, and its log {log} is still there")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | O_CLOEXEC, 0o600))
        return False
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise damaged_file(path, "it is no regular file")
    if 0 < about.st_size < LEAST_BYTES or (about.st_size == 0 and (had_owners or has_log)):
        raise damaged_file(path, "it was emptied, nothing of it is left in this file")
    return about.st_size > 0


def _refuse_foreign(path: Path, vfs: str | None) -> None:
    """Look at the format without a chance of writing. A crash while it was made is left to SQLite."""
    if Path(f"{path}-journal").exists():
        return
    connection = _connected(path, vfs, apsw.SQLITE_OPEN_READONLY)
    try:
        with _told_if_cut(connection, path):
            _look(connection, path)
    finally:
        connection.close()


@contextlib.contextmanager
def _told_if_cut(connection: apsw.Connection, path: Path) -> Iterator[None]:
    try:
        yield
    except (apsw.CorruptError, apsw.IOError) as error:
        header, size = connection.read("main", 0, 0, 32)[1], path.stat().st_size
        whole = int.from_bytes(header[16:18]) * int.from_bytes(header[28:32])
        if size < whole:
            why = f"it was cut short, {size} of {whole} bytes are left"
            raise damaged_file(path, why) from error
        raise


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
        raise damaged_file(path, "it holds something that is not a table")
    return True


def _connected(path: Path, vfs: str | None, flags: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    with _closed_on_error(connection), _told_if_cut(connection, path):
        connection.set_busy_handler(_Patience(path))
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.execute("pragma cell_size_check=1").fetchall()
        connection.execute("pragma synchronous=full").fetchall()
    return connection


def _make(connection: apsw.Connection, path: Path) -> None:
    if os.stat(path).st_uid == own_user():
        os.chmod(path, 0o600)
    _turn_to_wal(connection, path)
    connection.execute("pragma journal_size_limit=8388608").fetchall()
    connection.execute("begin immediate")
    try:
        if not _look(connection, path):
            connection.execute(_TABLES)
            connection.execute("insert into meta values('format', ?)", (FORMAT,))
        elif format_of(connection) != FORMAT:
            connection.execute("update meta set value=? where key='format'", (FORMAT,))
        connection.execute(_PAGES)
        connection.execute(_INDEXES)
        _name(connection)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _name(connection: apsw.Connection) -> None:
    """Give a journal that has none a number by which it is told from any other (see `guarding`)."""
    ((name,),) = connection.execute("pragma user_version").fetchall()
    if name == 0:
        connection.execute(f"pragma user_version={secrets.randbelow(2**31 - 1) + 1}").fetchall()


def _turn_to_wal(connection: apsw.Connection, path: Path) -> None:
    """Turn the write-ahead log on. SQLite does not wait here for others that do the same."""
    patience = _Patience(path)
    for count in itertools.count():
        try:
            connection.execute("pragma journal_mode=wal").fetchall()
            return
        except apsw.BusyError:
            if not patience(count):
                raise


class _Patience:
    """Waits for a lock of another program, as SQLite asks for it; after a while a person hears so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._since = 0.0
        self._is_told = False

    def __call__(self, count: int) -> bool:
        """Wait a little, unless it has been too long; `count` is how often that was already done."""
        now = time.monotonic()
        if count == 0:
            self._since, self._is_told = now, False
        waited_ms = (now - self._since) * 1000
        if waited_ms > BUSY_MS:
            return False
        if waited_ms > WORD_AFTER_MS and not self._is_told:
            self._is_told = True
            complain(
                f"The journal {self._path} is locked by another program; midstream waits until it "
                "is free."
            )
        time.sleep(min(0.0005 * 2**count, 0.02) if count < 8 else 0.02)
        return True


@contextlib.contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
