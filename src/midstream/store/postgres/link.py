"""A connection to PostgreSQL that is made again when it was cut, and what its errors mean for a person.

Work that is done again must come to the same: a statement may have been done though nobody heard of it.
"""

import math
import re
import time
from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from midstream.config.directories import shown_address
from midstream.language.errors import (
    JournalFull,
    MidstreamError,
    OurBug,
    UserMistake,
    WorldTrouble,
)

T = TypeVar("T")

Connection: TypeAlias = psycopg.Connection[Any]
Row: TypeAlias = tuple[Any, ...]

PATIENCE_S = 30.0
"""How long the database may be away before whoever wants something of it is told."""

ANSWER_S = 20.0
"""How long a server may send nothing of an answer before it is taken for gone: one that is stopped, or that
waits for a replica, keeps its connections for ever."""

_LOOK_S = 0.1
"""Seconds between two looks whether an answer is still waited for."""

_FIRST_PAUSE_S = 0.02
_PAUSE_S = 0.5

_OTHERWISE: Final[Mapping[str, str]] = {
    "application_name": "midstream",
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
}
"""Where the address says nothing else: a peer that is gone without a word is noticed within seconds, and
of several hosts the one that may be written to is used."""

_AWAY = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300", "25006", "26000", "42P05"}
_AGAIN = {"40001", "40P01", "55P03", "57014"}
_NO_ROOM = {"53100", "53200", "58030"}
_OURS = ("22", "23", "42")
"""The classes of errors that come of a statement itself: it fails as often as it is tried."""


NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_FIRST: dict[str, int] = {}
"""Of each address with several hosts the place of the one that is tried first, for this whole process: the
last that took a connection, or the one after a host that gave no answer."""

_POOLED: set[str] = set()
"""The addresses behind a pooler that gives a connection another session with each transaction: what was
prepared in one is not there in the next."""


class Address:
    """Where the database is. What is shown of it has no password.

    Of several hosts all links of a process use the same one: they must not see two servers.

    Raises:
        UserMistake: it is no address of PostgreSQL.
    """

    def __init__(self, url: str) -> None:
        try:
            said = conninfo_to_dict(url)
        except psycopg.Error:
            raise UserMistake(
                f"{shown_address(url)} is no address of a PostgreSQL database.",
                hint="Write it as postgresql://user@host:5432/database?sslmode=verify-full, or as a path.",
            ) from None  # its error may quote the address as it is
        self._said = said
        self.url = url
        self._lists = {
            name: str(said[name]).split(",")
            for name in ("host", "hostaddr", "port")
            if name in said
        }
        self._hosts = max(map(len, self._lists.values()), default=1)
        self.shown = shown_address(url)

    @property
    def first(self) -> int:
        """Return the place of the host that is tried first."""
        return _FIRST.get(self.url, 0)

    def conninfo(self, more: Mapping[str, str]) -> str:
        """Return it as libpq takes it, with more parameters where the address says nothing of them."""
        said = {**_OTHERWISE, **more, **self._said}
        if self._hosts > 1:
            said = {**_OTHERWISE, "connect_timeout": "3", **more, **self._said}
            place = self.first
            said |= {
                name: ",".join(each[place:] + each[:place])
                for name, each in self._lists.items()
                if len(each) == self._hosts
            }
        return make_conninfo("", **said)

    @property
    def connect_s(self) -> int:
        """Return how many seconds all hosts together have for taking a connection."""
        each = conninfo_to_dict(self.conninfo(NOTHING))["connect_timeout"]
        return int(str(each)) * self._hosts

    def took(self, connection: Connection) -> int:
        """Return the place of the host that a connection is to; it is tried first from now on."""
        if self._hosts > 1:
            there = {
                "host": connection.info.host,
                "hostaddr": connection.info.hostaddr,
                "port": str(connection.info.port),
            }
            places = (
                place
                for place in range(self._hosts)
                if all(
                    each[place] == there[name]
                    for name, each in self._lists.items()
                    if len(each) == self._hosts
                )
            )
            _FIRST[self.url] = next(places, self.first)
        return self.first

    @property
    def prepares_after(self) -> int | None:
        """Return after how many times a statement is prepared, None: never."""
        return None if self.url in _POOLED else 5

    def found_pooled(self) -> None:
        """Prepare nothing from now on."""
        _POOLED.add(self.url)

    def leave(self, place: int) -> None:
        """Try the host after that one first: it gives no answers."""
        if self.first == place:
            _FIRST[self.url] = (place + 1) % self._hosts


class _Session(psycopg.Connection[Any]):
    """A connection that waits for an answer only until `is_given_up` since it was last heard."""

    is_given_up: Callable[[float], bool]
    found_pooled: Callable[[], None]

    def wait(self, gen: Generator[Any, Any, T], *_: Any, **__: Any) -> T:
        """Return what comes of a statement.

        Raises:
            psycopg.OperationalError: nothing was heard for too long; the connection is closed.
        """
        try:
            return super().wait(self._patient(gen), interval=_LOOK_S)
        except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement):
            self.found_pooled()
            raise

    def _patient(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Do what `gen` does, which psycopg asks to go on every so often, whether anything came or not.

        (Its early 3.2 did not: a server that gives no answer was waited for for ever.)
        """
        try:
            wanted, since = next(gen), time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    since = time.monotonic()
                elif self.is_given_up(since):
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server gives no answer")
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value


class Link:
    """One connection, used by one thread at a time; it is made when it is first needed.

    From `ends_at` on, by the monotonic clock, nothing is tried again; it may be set from any thread.

    Args:
        address: of the database.
        begin: is called with each connection that is made, before anything else is done with it.
        patience_s: how long to try again where the database is away, None: `PATIENCE_S`.
        answer_s: how long to wait for an answer, None: `ANSWER_S`.
        more: parameters of the connection, where the address says nothing else.
    """

    def __init__(
        self,
        address: Address,
        *,
        begin: Callable[[Connection], None] | None = None,
        patience_s: float | None = None,
        answer_s: float | None = None,
        more: Mapping[str, str] = NOTHING,
    ) -> None:
        self.address = address
        self._more = more
        self._begin = begin
        self.patience_s = patience_s
        self._answer_s = answer_s
        self._place = 0
        self._pause = _FIRST_PAUSE_S
        self.ends_at = math.inf
        self._connection: Connection | None = None

    def connected(self) -> Connection:
        """Return the connection, made if there is none. Blocking."""
        if self.has_moved:
            self.drop()
        if self._connection is None or self._connection.closed:
            self._connection = None
            connection = _Session.connect(
                self.address.conninfo(self._more),
                autocommit=True,
                prepare_threshold=self.address.prepares_after,
            )
            try:
                self._place = self.address.took(connection)
                connection.is_given_up = self._is_given_up
                connection.found_pooled = self.address.found_pooled
                if self._begin is not None:
                    self._begin(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @property
    def has_moved(self) -> bool:
        """Return whether other links use another host by now."""
        return self._place != self.address.first

    def _is_given_up(self, since: float) -> bool:
        """Return whether an answer is no longer waited for, of which nothing came since then."""
        now = time.monotonic()
        answer_s = ANSWER_S if self._answer_s is None else self._answer_s
        if now > since + answer_s:
            self.address.leave(self._place)
            return True
        return now > self.ends_at or self.has_moved

    def do(self, work: Callable[[Connection], T], *, patience_s: float | None = None) -> T:
        """Return what `work` returns, done again where the connection was cut or others were in the way.

        Args:
            work: what is done.
            patience_s: how long it is tried again, None: as long as anything on this link.

        Raises:
            psycopg.Error: it failed, or the database was away for too long.
        """
        since = time.monotonic()
        while True:
            try:
                done = work(self.connected())
            except psycopg.Error as error:
                if not (is_away(error) or is_in_the_way(error)):
                    raise
                if is_away(error):
                    self.drop()
                pause, self._pause = self._pause, min(self._pause * 2, _PAUSE_S)
                if time.monotonic() + pause > self.until(since, patience_s) or _is_pooled(error):
                    raise
            else:
                self._pause = _FIRST_PAUSE_S
                return done
            time.sleep(pause)

    def until(self, since: float, patience_s: float | None = None) -> float:
        """Return until when something is tried again that was begun then, by the monotonic clock."""
        if patience_s is None:
            patience_s = PATIENCE_S if self.patience_s is None else self.patience_s
        return min(since + patience_s, self.ends_at)

    def rows(self, query: str, values: Mapping[str, object] | None = None) -> list[Row]:
        """Return the rows of one statement, which may be done twice. See `do`."""
        return self.do(lambda connection: rows_of(connection, query, values))

    def drop(self) -> None:
        """Let go of the connection; the next one who needs it makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close it."""
        self.drop()


def rows_of(
    connection: Connection, query: str, values: Mapping[str, object] | None = None
) -> list[Row]:
    """Return the rows of a statement; none of one that returns none."""
    cursor = connection.execute(query.encode(), values)
    return cursor.fetchall() if cursor.description is not None else []


def is_away(error: psycopg.Error) -> bool:
    """Return whether the connection, or the server behind it, is gone, for now or for good."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate in _AWAY or error.sqlstate.startswith("08")


def is_in_the_way(error: psycopg.Error) -> bool:
    """Return whether others kept a statement from being done, or its time was over: nothing of it was."""
    return error.sqlstate in _AGAIN


def _is_pooled(error: psycopg.Error) -> bool:
    return _refusal(error) == POOLED


POOLED: Final = (
    "is behind a connection pooler that changes the session between statements",
    "Running runs needs sessions of its own, for LISTEN. Connect to PostgreSQL"
    " itself, or have the pooler pool sessions (pool_mode = session).",
)
"""What is wrong with a pooler of transactions or statements, and what to do."""

_REFUSALS: Final = (
    (r"password authentication failed|no password supplied|no pg_hba.conf entry|authentication failed",
     "lets nobody in that way",
     "Check user and password in MIDSTREAM_JOURNAL, or ~/.pgpass and the server's pg_hba.conf."),
    (r'role "[^"]*" does not exist|is not permitted to log in',
     "has no such user",
     "Check the user in MIDSTREAM_JOURNAL; create it with: createuser NAME."),
    (r'database "[^"]*" does not exist',
     "has no such database",
     "Create it with: createdb NAME; or name another one in MIDSTREAM_JOURNAL."),
    (r"certificate|SSL error: (?!unexpected eof)|does not support SSL|root\.crt",
     "cannot be trusted, or does not speak TLS",
     "Check sslmode and sslrootcert in MIDSTREAM_JOURNAL."),
    (r"unsupported startup parameter|permission denied for database",
     "does not let midstream in",
     "Give the user the right to connect; a pooler has to pool sessions."),
    (r"session is read-only|read-only transaction|is in hot standby",
     "takes no writes",
     "Have it take them again (default_transaction_read_only), or name the host that does in"
     " MIDSTREAM_JOURNAL, beside this one: postgresql://a,b/NAME."),
    (r"too many (clients|connections)|connection slots are reserved|no more connections allowed",
     "has no connection left",
     "Raise max_connections, or the limit of the user or database (six a process), or close others."),
    (r"statement pooling mode", *POOLED),
)  # fmt: skip


def _refusal(error: psycopg.Error) -> tuple[str, str] | None:
    if error.sqlstate not in (None, "08P01", "25006", "53300"):
        return None
    for pattern, what, hint in _REFUSALS:
        if re.search(pattern, str(error)):
            return what, hint
    return None


def explained(error: Exception, address: Address, *, is_writing: bool = False) -> Exception:
    """Return an error a person can act on; none has the password in it."""
    told: MidstreamError
    where = f"The journal {address.shown}"
    kind = JournalFull if is_writing else WorldTrouble
    match error:
        case MidstreamError():
            return error
        case psycopg.Error() if is_away(error):
            told = _away(error, where, kind)
        case psycopg.Error(sqlstate="42501"):
            told = kind(
                f"{where} does not let this user do that: {_said(error)}.",
                hint="Give the user the rights that docs/many_machines.md names under “The database”.",
            )
        case psycopg.Error(sqlstate=state) if state in _NO_ROOM:
            told = JournalFull(
                f"{where} cannot be written: {_said(error)}.",
                hint="Free some space where the database is; nothing was lost, and it goes on from there.",
            )
        case psycopg.Error(sqlstate="55P03"):
            told = kind(
                f"{where} is held by somebody else: {_said(error)}.",
                hint="Try again once nobody reads all of it any more, such as a backup.",
            )
        case psycopg.Error(sqlstate="57014"):
            told = kind(
                f"{where} was too slow: {_said(error)}.",
                hint="Look what it waits for, or have the user's statement_timeout be longer.",
            )
        case psycopg.Error(sqlstate="3F000" | "42P01" | "42703" | "42883"):
            told = kind(
                f"{where} lacks something it had: {_said(error)}.",
                hint="Restore the tables from a backup, or name another database in MIDSTREAM_JOURNAL.",
            )
        case psycopg.Error(sqlstate=state):
            is_ours = state is None or state[:2] in _OURS
            told = (WorldTrouble if is_ours else kind)(
                f"{where} failed: {_said(error)}.", hint="Try again."
            )
        case UnicodeEncodeError():
            told = UserMistake("An id or a name is no text.", hint="Use whole characters in it.")
        case MemoryError():
            told = WorldTrouble("There is not enough memory for the journal.", hint="Try again.")
        case _:
            told = OurBug(f"{where} failed: {type(error).__name__}: {error}.")
    told.__cause__ = error
    return told


def _away(error: psycopg.Error, where: str, kind: type[WorldTrouble]) -> MidstreamError:
    refused = _refusal(error)
    if refused is not None:
        return kind(f"{where} {refused[0]}: {_said(error)}.", hint=refused[1])
    return kind(
        f"{where} cannot be reached: {_said(error)}.",
        hint="Look whether the server runs and lets this machine in; then try again.",
    )


def _said(error: psycopg.Error) -> str:
    """Return what the server or its library said, in one line."""
    said = " ".join((error.diag.message_primary or str(error)).split())
    said = said.rpartition("FATAL: ")[2].partition(" Is the server running")[0]
    for before in ("connection failed: ", "connection is bad: "):
        said = said.removeprefix(before)
    return said.strip(" .") or type(error).__name__


def texts(text: str) -> str:
    """Return text as it stands in a column: without NUL, which PostgreSQL has none of."""
    if "\0" not in text and "\1" not in text:
        return text
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def text_in(column: str) -> str:
    """Return the text of a column that `texts` made."""
    return column if "\1" not in column else column.replace("\1\1", "\0").replace("\1\2", "\1")
