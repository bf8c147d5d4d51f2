"""That this process lives: a row that says until when, a last will that ends it, and the ear beside it.

A process that hangs, or is cut off, shows when the time of its row is over, by the database's clock. What a
kill ends is said by its watchdog once nothing is left of it. That a connection has ended says nothing: a
pooler that restarts cuts those of processes whose tools go on.

Others ring with a NOTIFY on a channel of the owner; `OFFERED` is the channel of all workers.
"""

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
import psycopg

from midstream.language.errors import WorldTrouble
from midstream.runtime.storage import WorkerInfo
from midstream.store.postgres.link import POOLED, Address, Connection, Link
from midstream.store.postgres.tables import TTL_S
from midstream.system.watchdog import Will

OFFERED: Final = "midstream_offered"

PROVE: Final = "?"
"""The note to an owner that asks whether it lives: it says so at once."""

Call: TypeAlias = tuple[str, str]
"""The channel, and the note that was left there, or ""."""

LIFE: Final = {"connect_timeout": "2", "tcp_user_timeout": "3000"}
"""How the connection of a life is made: while there is time left another one is tried."""

ANSWER_S: Final = 3.0
"""How long it waits for an answer, for the same reason."""

_LOOK_S: Final = 2.0
"""Seconds between two looks of an ear whether another host is used by now."""

FORGOTTEN_S: Final = 600
"""How long a dead owner without runs is remembered."""

_BEAT: Final = f"""
update midstream.owners o set server = midstream.server(), seen_at = clock_timestamp(),
    expires_at = clock_timestamp() + interval '{TTL_S} s'
from midstream.owners before where o.name = %(me)s and before.name = o.name
returning extract(epoch from o.seen_at)::double precision,
    extract(epoch from before.seen_at)::double precision
"""  # nosec B608  # numbers of ours

_BORN: Final = f"""
insert into midstream.owners(name, host, pid, server, lock, seen_at, expires_at)
values (%(me)s, %(host)s, %(pid)s, midstream.server(), 0, clock_timestamp(),
    clock_timestamp() + interval '{TTL_S} s')
returning extract(epoch from seen_at)::double precision
"""  # nosec B608  # numbers of ours

_EXPIRE: Final = f"""
with dead as (
    update midstream.owners set expires_at = least(expires_at, clock_timestamp())
    where name = %(me)s returning name)
select pg_notify('{OFFERED}', '') from dead
"""  # nosec B608  # a name of ours

_FORGET: Final = f"""
delete from midstream.owners o where expires_at < clock_timestamp() - interval '{FORGOTTEN_S} s'
    and not midstream.lives(name) and not exists(select from midstream.runs r where r.owner = o.name)
"""  # nosec B608  # numbers of ours


class ServerTime:
    """The server's clock, as it was when it was last asked: this machine's own may be an hour off.

    What it is off by is known to half of the time an answer took.
    """

    def __init__(self) -> None:
        self._ahead_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the time there, in seconds since 1970. From any thread."""
        return time.monotonic() + self._ahead_s

    def ask(self, connection: Connection) -> None:
        """Ask what time it is."""
        began = time.monotonic()
        ((said,),) = connection.execute(
            "select extract(epoch from clock_timestamp())::double precision"
        ).fetchall()
        self.said(said, began)

    def said(self, said: float, began: float) -> None:
        """Hear what time it was while an answer was waited for since `began`, by our monotonic clock."""
        self._ahead_s = said - (began + time.monotonic()) / 2


class Life:
    """This owner's life: made once it is needed, by the thread that has the link of it.

    `is_forgotten`: the database knows less of it than it said before. It was restored from a backup, or a
    replica took over that lacked the last seconds: whose its runs are is not what this owner believes.
    """

    def __init__(self, me: str, host: str, clock: ServerTime) -> None:
        self._clock = clock
        self._me = me
        self._host = host
        self._seen_at = 0.0
        self.is_forgotten = False

    def renew(self, link: Link, *, patience_s: float | None = None) -> float:
        """Say that this owner lives; return for how many seconds that holds."""
        link.do(self._beat, patience_s=patience_s)
        return TTL_S

    def _beat(self, connection: Connection) -> None:
        values = {"me": self._me, "host": self._host, "pid": os.getpid()}
        began = time.monotonic()
        beat = connection.execute(_BEAT.encode(), values).fetchall()
        if not beat:
            before = 0.0
            beat = connection.execute(_BORN.encode(), values).fetchall()
        else:
            before = beat[0][1]
        # Where `fsync` or `synchronous_commit` is off, a crash of the server takes the last of them.
        self.is_forgotten |= before < self._seen_at - TTL_S
        self._seen_at = beat[0][0]
        self._clock.said(self._seen_at, began)

    def announce(self, link: Link, worker: WorkerInfo) -> None:
        """Say that this owner is a worker."""
        said = msgspec.json.encode(worker).decode()
        link.rows(
            "update midstream.owners set worker = %(said)s where name = %(me)s",
            {"said": said, "me": self._me},
        )

    def sweep(self, link: Link) -> None:
        """Forget owners that are long dead."""
        link.rows(_FORGET)

    def end(self, link: Link) -> None:
        """Be dead, without runs."""
        link.rows("delete from midstream.owners where name = %(me)s", {"me": self._me})

    def expire(self, link: Link) -> None:
        """Be dead, as one that was killed; wake a worker for its runs."""
        link.rows(_EXPIRE, {"me": self._me})

    def will(self, address: Address) -> Will:
        """Return what is to be done once nothing is left of this process."""
        return (__name__, expire.__name__, json.dumps([address.url, self._me, os.getcwd()]))


def expire(said: str) -> None:
    """Carry out a will: have the owner be dead that left it."""
    url, me, folder = json.loads(said)
    with suppress(OSError):
        os.chdir(folder)  # files that the address names may be there
    link = Link(Address(url), more=LIFE)
    Life(me, "", ServerTime()).expire(link)
    link.close()


def see_server(connection: Connection) -> None:
    """Have it known when this start of the server was first seen."""
    connection.execute(
        b"insert into midstream.servers(name) select midstream.server() where not exists("
        b"select from midstream.servers where name = midstream.server()) on conflict do nothing"
    )


class Ear:
    """Hears who calls this owner, and that something was offered. Made once somebody listens.

    Args:
        address: of the database.
        me: the name of this owner.
        heard: is called in its thread with the calls that were heard, or none where some may have been
            missed, and with the connection, to ask what they are about.
    """

    def __init__(
        self, address: Address, me: str, heard: Callable[[Collection[Call], Connection], None]
    ) -> None:
        self._link = Link(address, begin=self._listen, patience_s=0.0)
        self._channels = (channel_of(me), OFFERED)
        self._heard = heard
        self._calls: list[Call] = []
        self._is_closed = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="midstream-ear", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear no more. Blocking, briefly."""
        self._is_closed.set()
        self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()

    def _listen(self, connection: Connection) -> None:
        # Of calls that come while something is asked on it, psycopg tells.
        connection.add_notify_handler(lambda call: self._calls.append((call.channel, call.payload)))
        for channel in self._channels:
            connection.execute(f'listen "{channel}"'.encode())

    def _serve(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection = self._link.connected()
                self._heard((), connection)
                self._hear(connection)
            except (psycopg.Error, OSError):
                self._link.drop()
                self._is_closed.wait(0.5)
        self._link.close()

    def _hear(self, connection: Connection) -> None:
        while not self._is_closed.is_set():
            while (call := connection.pgconn.notifies()) is not None:
                self._calls.append((call.relname.decode(), call.extra.decode(errors="replace")))
            if self._calls:
                calls, self._calls = self._calls, []
                self._heard(calls, connection)
                continue
            ready = select.select([connection.fileno(), self._woken.fileno()], [], [], _LOOK_S)[0]
            if not ready and self._link.has_moved:
                self._link.drop()
                return
            connection.pgconn.consume_input()


def channel_of(owner: str) -> str:
    """Return the channel an owner is called on."""
    return f"midstream_{owner}"


def require_session(mine: Connection, other: Connection, address: Address) -> None:
    """Refuse a pooler that gives a connection another session with each transaction.

    Raises:
        WorldTrouble: two statements of one connection came to two sessions.
    """
    before = _session(mine)
    with other.transaction():
        theirs, after = _session(other), _session(mine)
    if before == theirs or after != before:
        raise _pooled(address)


def _session(connection: Connection) -> int:
    ((pid,),) = connection.execute("select pg_backend_pid()").fetchall()
    return int(pid)


def _pooled(address: Address) -> WorldTrouble:
    """Return the refusal of a pooler that pools transactions."""
    what, hint = POOLED
    return WorldTrouble(f"The journal {address.shown} {what}.", hint=hint)
