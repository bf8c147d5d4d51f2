"""A PostgreSQL server of the tests' own, in a folder: made, started, killed and stopped by them.

    with PostgresServer.made(folder) as server:
        address = server.database()  # a fresh one: postgresql://...

It listens on 127.0.0.1 and a socket in its folder, trusts whoever gets there, and belongs to nobody else.
Programs are those of the machine (Debian's `postgresql`); without them `LACKING` says so.
"""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deadline import wait_until


def _programs() -> Path | None:
    found = shutil.which("postgres")
    if found:
        return Path(found).resolve().parent
    every = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    runnable = [each for each in every if os.access(each, os.X_OK)]
    return runnable[-1].parent if runnable else None


def _version(program: Path) -> int:
    name = program.parent.parent.name
    return int(name) if name.isdigit() else 0


PROGRAMS = _programs()

LACKING = "" if PROGRAMS else "PostgreSQL's server programs (Debian: postgresql) are not installed"


class PostgresServer:
    """A server in a folder. It is not running until `start`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()

    @classmethod
    @contextlib.contextmanager
    def made(cls, *, is_durable: bool = False, **settings: object) -> Iterator["PostgresServer"]:
        """Give a running server in a folder that goes with it.

        `is_durable`: it waits for the disk, as real ones do; else it outlives kills, but no power loss.
        """
        # A socket's path has to be short, and the server's user has to get there.
        with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            server = cls(folder, _free_port())
            server._own(folder)
            server.run("initdb", "-D", server.data, "-A", "trust", "-U", "midstream", "-N")
            server.configure(fsync="on" if is_durable else "off", **settings)
            server.start()
            try:
                yield server
            finally:
                server.stop()

    @contextlib.contextmanager
    def replica(self) -> Iterator["PostgresServer"]:
        """Give a running replica without which nothing is acknowledged here from now on."""
        with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as name:
            other = PostgresServer(Path(name), _free_port())
            other._own(other.folder)
            other.follow(self)
            try:
                yield other
            finally:
                other.stop()

    def follow(self, primary: "PostgresServer") -> None:
        """Be the synchronous replica of a server from now on; what was kept here is gone."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        address = f"{primary.address()}?application_name=replica"
        primary.run(
            *("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "-d", address)
        )
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")
        self.start()
        primary.sql("alter system set synchronous_standby_names = 'replica'")
        primary.sql("select pg_reload_conf()")
        synchronous = "select true from pg_stat_replication where sync_state = 'sync'"
        wait_until(lambda: primary.sql(synchronous) == [(True,)], "the replica is synchronous")

    @contextlib.contextmanager
    def pooler(self, mode: str) -> Iterator[int]:
        """Give the port of a real pgbouncer before this server that pools by `mode`: session, ..."""
        port, file = _free_port(), self.folder / f"{mode}.ini"
        file.write_text(
            f"""[databases]
            * = host=127.0.0.1 port={self.port} user=midstream
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {port}
            unix_socket_dir =
            auth_type = any
            pool_mode = {mode}
            default_pool_size = 60
            """.replace("    ", "")
        )
        command = [*_as_user(), "pgbouncer", "-q", str(file)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: _is_open(port), "pgbouncer takes connections")
            yield port
        finally:
            process.kill()
            process.wait()

    def promote(self) -> None:
        """Have a replica take over; return once it can be written to."""
        assert self.sql("select pg_promote()") == [(True,)]

    @property
    def data(self) -> Path:
        """Return the folder of the server's files."""
        return self.folder / "data"

    def configure(self, **settings: object) -> None:
        """Set what is read at the next start."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        command = [
            *_as_user(),
            str(_program("postgres")),
            *("-D", str(self.data), "-p", str(self.port), "-k", str(self.folder)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "logging_collector=off"),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        wait_until(self._is_ready, "PostgreSQL takes connections")

    def stop(self) -> None:
        """Stop it in order; sessions are cut."""
        self._end(signal.SIGINT)  # "fast": the plain one waits for every session to end

    def kill(self) -> None:
        """Kill it and all its sessions, as a power cut would."""
        if self._process is not None:
            children = _children(self._process.pid)
            self._end(signal.SIGKILL)
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            wait_until(lambda: not any(map(_lives, children)), "its sessions are dead")
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stop it and all its sessions: it keeps its connections, and gives no answers until `thaw`."""
        self._send_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._send_all(signal.SIGCONT)

    def _send_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        for child in _children(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def database(self) -> str:
        """Return the address of a new, empty database."""
        name = f"test{next(self._numbers)}"
        self.sql(f"create database {name}")
        return self.address(name)

    def address(self, database: str = "postgres", *, user: str = "midstream") -> str:
        """Return the address of a database of this server."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Do one statement, outside of any transaction, and return its rows."""
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    def reset(self, database: str) -> None:
        """End every session of a database."""
        ended = (
            f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{database}'"
        )
        self.sql(ended)

    def run(self, program: str, *arguments: object) -> None:
        """Run one of PostgreSQL's programs as the server's user."""
        command = [*_as_user(), str(_program(program)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def _own(self, folder: Path) -> None:
        if (user := _user()) is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)

    def _is_ready(self) -> bool:
        import psycopg

        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            psycopg.connect(self.address(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def _program(name: str) -> Path:
    assert PROGRAMS is not None, LACKING
    return PROGRAMS / name


def _user() -> pwd.struct_passwd | None:
    """Return the user the server runs as, None: our own. It refuses to be root's."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError("there is no user the server could run as")


def _as_user() -> list[str]:
    user = _user()
    if user is None:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _is_open(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
