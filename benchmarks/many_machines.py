"""The journal in PostgreSQL and the workers on it, on a server of its own that waits for the disk.

Everything stands beside what bare psycopg connections to the same server need for the least that could do
the same job. Without PostgreSQL's server programs, or psycopg, nothing is measured.
"""

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from support.model_server import Reply
from support.postgres import LACKING, PostgresServer
from support.store_contracts import started

from benchmarks.measuring import Figure, in_turn, on_a_loop, percentile, progress
from benchmarks.processes import line_of, model_server, program
from midstream.core.events import WorkflowOutput
from midstream.core.notices import Envelope
from midstream.core.routing import Destination
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.storage import PAGE, Placement
from midstream.store.encoding import body_of
from midstream.testing.fakes import JumpingClock

if TYPE_CHECKING:
    import psycopg

    from midstream.store.postgres.store import PostgresStore

FACT = 1_000
"""Characters of each fact."""

RUNS, WATCHERS = 32, 50
SPOKEN = 20
"""Runs that words are said to in turn: whoever interrupts one run all the time is queued."""

WORDS = "No: keep the old name, and leave the tests as they are."
BARE = "a bare durable insert of the same bytes"
FENCED = "the least statement that moves a row on and inserts, by bare psycopg"
SLICES, IN_A_SLICE = 8, 60
"""With watchers: so often they are let run and stopped, and so many appends each run does meanwhile.

That another process is woken at all is felt for a millisecond or two: a slice is many times as long.
"""

TALK = {
    "workflow_name": "talk",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude", "next": "stop"}, {"name": "stop"}],
}
STARTER = """
import asyncio, json, sys
import midstream

async def main():
    async with midstream.open(".") as engine:
        for _ in range(int(sys.argv[2])):
            await engine.start(json.loads(sys.argv[1]), "go", queue="later")

asyncio.run(main())
"""
IDLE_S = 20


def is_lacking(name: str) -> bool:
    """Return whether there is nothing to measure on, and say that a benchmark is left out."""
    lacking = LACKING or ("" if find_spec("psycopg") else "psycopg is not installed")
    if lacking:
        progress(f"{name} is left out: {lacking}")
    return bool(lacking)


def measure(is_quick: bool) -> list[Figure]:
    """Return what appends, words, waiting runs and workers come to on a shared journal."""
    if is_lacking("many_machines"):
        return []
    with PostgresServer.made(is_durable=True, max_connections=200) as server:
        return [
            *_appends(server, is_quick),
            *_words(server, is_quick),
            *_listing(server, is_quick),
            *([] if is_quick else _idle(server)),
            *_throughput(server, is_quick),
        ]


# --- appends --------------------------------------------------------------------------------------


def fact_of(run: str, seq: int) -> Envelope:
    """Return a fact of 1 KB."""
    return Envelope(run=run, at=float(seq), event=WorkflowOutput(text="m" * FACT), seq=seq)


@contextlib.asynccontextmanager
async def open_store(
    address: str, runs: int = 0
) -> "AsyncIterator[tuple[PostgresStore, list[str]]]":
    """Give a store, and so many runs of its own that have begun; it is closed in the end."""
    from midstream.store.postgres.store import PostgresStore

    store = await asyncio.to_thread(PostgresStore.opened, address)
    ids = [f"run{number}-{time.monotonic_ns()}" for number in range(runs)]
    for id in ids:
        await store.append(id, 0, started(id))
        await store.claim(id)
    yield store, ids
    await store.aclose()


async def append_to_all(
    store: "PostgresStore",
    ids: Sequence[str],
    seqs: range,
    kept: Callable[[int], None] = lambda seq: None,
) -> None:
    """Append to all of these runs at once, to each a fact after the other; `kept` hears of each."""

    async def append(id: str) -> None:
        for seq in seqs:
            await store.append(id, seq - 1, [fact_of(id, seq)])
            kept(seq)

    await asyncio.gather(*map(append, ids))


def _appended(address: str, each: int) -> float:
    """Return the microseconds an append takes, of runs of one process that append at once."""

    async def all_of_them() -> float:
        async with open_store(address, RUNS) as (store, ids):
            began = perf_counter()
            await append_to_all(store, ids, range(2, each + 2))
            return (perf_counter() - began) / (RUNS * each) * 1e6

    return on_a_loop(all_of_them)


def _alternating(address: str, each: int) -> tuple[float, float, float]:
    """Return the microseconds of an append of one run, a bare insert, and the least fenced statement.

    They take turns, one by one: what else the machine does meets them all.
    """
    import psycopg

    body, took = body_of(fact_of("bare", 1)), [0.0, 0.0, 0.0]

    async def all_three() -> None:
        async with open_store(address, 1) as (store, (id,)):
            bare = stack.enter_context(psycopg.connect(address, autocommit=True))
            bare.execute(_BARE_TABLE)
            for table in _FENCED_TABLES:
                bare.execute(table)
            for seq in range(2, each + 12):
                began = perf_counter()
                await store.append(id, seq - 1, [fact_of(id, seq)])
                appended = perf_counter()
                bare.execute(_BARE_INSERT, (body,), prepare=True)
                inserted = perf_counter()
                moved = bare.execute(_LEAST, (seq, seq - 1, seq, body), prepare=True).rowcount
                fenced = perf_counter()
                assert moved == 1
                if seq >= 12:  # by then all is prepared
                    took[0] += appended - began
                    took[1] += inserted - appended
                    took[2] += fenced - inserted

    with contextlib.ExitStack() as stack:
        on_a_loop(all_three)
    one, bare_one, least = (each_took / each * 1e6 for each_took in took)
    return one, bare_one, least


_BARE_TABLE = (
    b"create table if not exists bare(seq bigint generated always as identity, body bytea)"
)
_BARE_INSERT = b"insert into bare(body) values (%s)"
_FENCED_TABLES = (
    b"drop table if exists least_run, least_fact",
    b"create table least_run(number bigint primary key, seq int)",
    b"create table least_fact(run bigint, seq int, body bytea, primary key(run, seq))",
    b"insert into least_run values (1, 1)",
)
_LEAST = b"""
with moved as (update least_run set seq = %s where number = 1 and seq = %s returning number)
insert into least_fact select number, %s, %b from moved
"""


def _bare(address: str, connections: int, each: int) -> float:
    """Return the microseconds an insert takes, of so many connections that commit one at a time."""
    import psycopg

    body = body_of(fact_of("bare", 1))
    with psycopg.connect(address, autocommit=True) as first:
        first.execute(_BARE_TABLE)
    ready = threading.Barrier(connections + 1)

    def commit() -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_BARE_INSERT, (body,), prepare=True)
            ready.wait()
            for _ in range(each):
                connection.execute(_BARE_INSERT, (body,), prepare=True)

    threads = [threading.Thread(target=commit) for _ in range(connections)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = perf_counter()
    for thread in threads:
        thread.join()
    return (perf_counter() - began) / (connections * each) * 1e6


def _watched(address: str, slices: int) -> tuple[float, float]:
    """Return the microseconds an append of many runs takes while another process watches them, and without.

    The watchers are let run and stopped in turn, in slices of some tenths of a second.
    """
    took = {signal.SIGCONT: 0.0, signal.SIGSTOP: 0.0}

    async def append_all() -> None:
        async with open_store(address, RUNS) as (store, ids):
            watcher = stack.enter_context(program("machines_watcher", address, str(WATCHERS), *ids))
            await asyncio.to_thread(line_of, watcher)
            seqs = range(2, 2 + IN_A_SLICE)
            for number in range(slices):
                first = (signal.SIGCONT, signal.SIGSTOP)
                for how in first if number % 2 == 0 else first[::-1]:
                    watcher.send_signal(how)
                    began = perf_counter()
                    await append_to_all(store, ids, seqs)
                    took[how] += perf_counter() - began
                    seqs = range(seqs.stop, seqs.stop + IN_A_SLICE)
            watcher.send_signal(signal.SIGCONT)

    with contextlib.ExitStack() as stack:
        on_a_loop(append_all)
    count = RUNS * IN_A_SLICE * slices
    return took[signal.SIGCONT] / count * 1e6, took[signal.SIGSTOP] / count * 1e6


def _appends(server: PostgresServer, is_quick: bool) -> list[Figure]:
    alone_, together, slices, rounds = (5, 3, 2, 1) if is_quick else (500, 100, SLICES, 9)
    address = server.database()
    of_one = [_alternating(address, alone_) for _ in range(rounds)]
    one, bare_one, least = zip(*of_one, strict=True)
    many, bare_many = in_turn(
        rounds,
        lambda: _appended(address, together),
        lambda: _bare(address, RUNS, together),
    )
    of_watched = [_watched(address, slices) for _ in range(rounds)]
    watched, unwatched = zip(*of_watched, strict=True)
    return [
        Figure(
            name="PostgreSQL: a durable append of 1 KB",
            unit="µs",
            values=one,
            floor=BARE,
            floors=bare_one,
            aim=1.5,
        ),
        Figure(
            name="PostgreSQL: the same append, beside what a fence costs at least",
            unit="µs",
            values=one,
            floor=FENCED,
            floors=least,
        ),
        Figure(
            name=f"PostgreSQL: an append, {RUNS} runs at once",
            unit="µs",
            values=many,
            floor=f"the same insert by {RUNS} connections at once",
            floors=bare_many,
            aim=round(1 / 0.6, 2),
            note=f"{_a_second(many)} a second, {_a_second(bare_many)} bare",
        ),
        Figure(
            name=f"PostgreSQL: the same with {WATCHERS} watchers",
            unit="µs",
            values=watched,
            floor="while the watchers are stopped",
            floors=unwatched,
            aim=1.1,
            note=f"{_a_second(watched)} a second; the watchers are in another process",
        ),
    ]


def _a_second(values: tuple[float, ...]) -> int:
    return round(1e6 / statistics.median(values))


# --- words ----------------------------------------------------------------------------------------


def _words(server: PostgresServer, is_quick: bool) -> list[Figure]:
    count, rounds = (3, 1) if is_quick else (57, 5)
    ours: list[list[float]] = []
    floors: list[list[float]] = []
    for _ in range(rounds):
        address = server.database()
        with program("machines_owner", address, str(SPOKEN)) as owner:
            runs = _until(owner, "run").split()
            samples = asyncio.run(_said(address, owner, runs, count))
            ours.append([said for said, _ in samples])
            floors.append([rung for _, rung in samples])

    def figure(percent: float, aim: float) -> Figure:
        return Figure(
            name=f"PostgreSQL: words in one process to the stream closed in another, p{percent:.0f}",
            unit="ms",
            values=tuple(percentile(samples, percent) for samples in ours),
            floor="a bare commit, and a NOTIFY that wakes a bare connection",
            floors=tuple(percentile(samples, percent) for samples in floors),
            aim=aim,
        )

    return [figure(50, 3), figure(99, 6)]


def _until(process: "subprocess.Popen[str]", word: str) -> str:
    """Return what stands behind a word, once a line begins with it."""
    while line := line_of(process):
        if line.startswith(word):
            return line.removeprefix(word).strip()
    raise RuntimeError("the other process has ended")


def _cut(owner: "subprocess.Popen[str]") -> int:
    """Return when a reply was cut, once it was and the next one streams: either is told first."""
    told: dict[str, str] = {}
    while len(told) < 2 and (line := line_of(owner)):
        told |= {line.split()[0]: line.split()[-1]}
    return int(told["closed"])


def _wait_for_the_floor(connection: "psycopg.Connection[Any]") -> None:
    while not connection.execute(
        "select from pg_stat_activity where query = 'listen floor'"
    ).rowcount:
        time.sleep(0.01)


def _rung(connection: "psycopg.Connection[Any]", owner: "subprocess.Popen[str]") -> float:
    """Return milliseconds from before a commit until a connection of the other process is woken."""
    began = time.monotonic_ns()
    connection.execute("insert into bare_words values (%s)", (WORDS,), prepare=True)
    connection.execute("select pg_notify('floor', '')", prepare=True)
    return (int(_until(owner, "rung")) - began) / 1e6


async def _said(
    address: str, owner: "subprocess.Popen[str]", runs: list[str], count: int
) -> list[tuple[float, float]]:
    """Return milliseconds from `say` until the reply under way in the other process was cut.

    Each beside what a bare commit and a call took right after it.
    """
    import psycopg

    samples: list[tuple[float, float]] = []
    clock = JumpingClock(time.time())
    async with open_store(address) as (store, _):
        machines = [
            await RemoteMachine.attached(store, run, sockets=None, clock=clock) for run in runs
        ]
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("create table bare_words(words text)")
            await asyncio.to_thread(_wait_for_the_floor, connection)
            for number in range(count + 3):
                await asyncio.sleep(0.03)
                began = time.monotonic_ns()
                machine = machines[number % SPOKEN]
                saying = asyncio.create_task(machine.say(Destination(text=WORDS, run=machine.id)))
                closed = await asyncio.to_thread(_cut, owner)
                await saying
                await asyncio.sleep(0.03)
                rung = await asyncio.to_thread(_rung, connection, owner)
                if number >= 3:
                    samples.append(((closed - began) / 1e6, rung))
        for machine in machines:
            await machine.aclose()
    return samples


# --- many runs ------------------------------------------------------------------------------------


def filled(server: PostgresServer, runs: int) -> str:
    """Return a database of so many runs that wait for a person."""
    address = server.database()

    async def first() -> None:
        async with open_store(address) as (store, _):
            await store.append("first", 0, started("first"))
            await store.assign("first", Placement())

    asyncio.run(first())
    copied = (
        "seq, head, format, summary, workspace, kind, named, is_foreign, host, queue, person,"
        " repository, revision, push"
    )
    name = address.rpartition("/")[2]
    server.sql(
        f"insert into midstream.runs(id, standing, written_at, {copied})"
        f" select 'run' || n, 'waiting', n, {copied} from midstream.runs, generate_series(1, {runs}) n",
        name,
    )
    server.sql("delete from midstream.runs where id = 'first'", name)
    server.sql("vacuum analyze", name)
    return address


def _listing(server: PostgresServer, is_quick: bool) -> list[Figure]:
    import psycopg

    from midstream.views.listing import Summary

    runs, rounds = (2 * PAGE, 1) if is_quick else (100_000, 9)
    address = filled(server, runs)
    page = (
        "select id, summary from midstream.runs where kind = 'workflow' and standing = 'waiting'"
        " and listed_in is not null order by listed_in desc, written_at desc, id desc"
        f" limit {PAGE}"
    )

    def ours() -> float:
        async def once() -> float:
            async with open_store(address) as (store, _):
                await store.listing()  # once for the connection's sake
                began = perf_counter()
                found = await store.listing()
                took = perf_counter() - began
            assert len(found) == PAGE
            return took * 1e3

        return on_a_loop(once)

    def bare() -> float:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(page.encode()).fetchall()
            began = perf_counter()
            rows = connection.execute(page.encode()).fetchall()
            for _, summary in rows:
                msgspec.json.decode(summary, type=Summary)
            return (perf_counter() - began) * 1e3

    values, floors = in_turn(rounds, ours, bare)
    return [
        Figure(
            name=f"PostgreSQL: the newest {PAGE} of {runs:,} runs",
            unit="ms",
            values=values,
            floor="the same rows by a bare indexed query, decoded",
            floors=floors,
            aim=100,
            aim_on="value",
        )
    ]


# --- workers --------------------------------------------------------------------------------------


def environment_of(folder: Path, address: str, model: str = "http://127.0.0.1:9") -> dict[str, str]:
    """Return what a worker of the benchmark finds in its environment."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "MIDSTREAM_CONFIG_HOME": str(folder / "config"),
        "MIDSTREAM_STATE_HOME": str(folder / "state"),
        "MIDSTREAM_HOST": "bench",
        "MIDSTREAM_JOURNAL": address,
        "MIDSTREAM_MODEL": "openai:gpt-5.6-luna",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": model,
    }


@contextlib.contextmanager
def worker(
    folder: Path, env: dict[str, str], runs: int = 16
) -> "Iterator[subprocess.Popen[bytes]]":
    """Give a worker that takes runs."""
    command = [sys.executable, "-m", "midstream", "worker", "--json", "--max-runs", str(runs)]
    with (
        (folder / "worker.err").open("ab") as errors,
        subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield process
        finally:
            process.kill()


def _idle(server: PostgresServer) -> list[Figure]:
    runs, seconds = 10_000, IDLE_S
    crowded, empty = filled(server, runs), filled(server, 0)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        for address in (crowded, empty):
            stack.enter_context(worker(folder, environment_of(folder, address)))
        time.sleep(seconds / 4)
        before = [transactions(server, each) for each in (crowded, empty)]
        time.sleep(seconds)
        after = [transactions(server, each) for each in (crowded, empty)]
    beside, alone_ = (float(last - first) for first, last in zip(before, after, strict=True))
    return [
        Figure(
            name=f"PostgreSQL: an idle worker where {runs:,} runs wait",
            unit=f"transactions in {seconds:g} s",
            values=(beside,),
            floor="the same where none does: its heartbeats, one every two seconds",
            floors=(alone_,),
        )
    ]


def transactions(server: PostgresServer, address: str) -> int:
    """Return how many transactions there were in a database; the question is asked from another."""
    name = address.rpartition("/")[2]
    query = f"select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'"
    ((count,),) = server.sql(query)
    return int(str(count))


def _throughput(server: PostgresServer, is_quick: bool) -> list[Figure]:
    runs, pieces, rounds = (2, 2, 1) if is_quick else (96, 20, 3)
    numbers = (1,) if is_quick else (1, 2, 4)
    values = in_turn(rounds, *(_of(server, number, runs, pieces) for number in numbers))
    return [
        Figure(
            name=f"PostgreSQL: runs a second, workers: {number}",
            unit="/s",
            values=rates,
            floor="one worker" if number > 1 else "",
            floors=values[0] if number > 1 else (),
            note=f"each run a reply that streams for {pieces / 10:g} s; 16 at once in a worker",
        )
        for number, rates in zip(numbers, values, strict=True)
    ]


def _of(server: PostgresServer, workers: int, runs: int, pieces: int) -> Callable[[], float]:
    return lambda: _driven(server, workers, runs, pieces)


def _driven(server: PostgresServer, workers: int, runs: int, pieces: int) -> float:
    """Return how many runs a second so many workers end, whose model streams slowly."""
    address = server.database()
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        folder = Path(home)
        model = stack.enter_context(model_of(runs, pieces))
        env = environment_of(folder, address, model)
        begin = [sys.executable, "-c", STARTER, msgspec.json.encode(TALK).decode(), str(runs)]
        subprocess.run(begin, cwd=folder, env=env, check=True)
        for _ in range(workers):
            stack.enter_context(worker(folder, env))
        time.sleep(0.5)
        began = perf_counter()
        for _ in until_finished(server, address, runs, folder):
            time.sleep(0.05)
        return runs / (perf_counter() - began)


def until_finished(server: PostgresServer, address: str, runs: int, folder: Path) -> Iterator[None]:
    """Offer all runs of a database to its workers; yield again and again until so many have finished."""
    name, ends_at = address.rpartition("/")[2], time.monotonic() + 300
    server.sql("update midstream.runs set queue = 'default'", name)
    server.sql("select pg_notify('midstream_offered', '')", name)
    over = "select count(*) from midstream.runs where standing = 'finished'"
    while server.sql(over, name) != [(runs,)]:
        assert time.monotonic() < ends_at, (folder / "worker.err").read_text()[-2000:]
        yield


def model_of(replies: int, pieces: int, delay_s: float = 0.1) -> AbstractContextManager[str]:
    """Give the address of a model's server for so many runs: so many pieces a reply."""
    reply = Reply(chunks=tuple(f"{number:03d} " for number in range(pieces)), delay_s=delay_s)
    return model_server([reply] * replies * 2)
