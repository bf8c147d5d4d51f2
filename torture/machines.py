"""Workers of a database that are killed, stopped, cut off, with wrong clocks; servers that fail.

Real `midstream worker` processes drive runs whose model streams from a real server, and which write lines
that must be written once only into a ledger outside of the journal. Meanwhile people say things to the runs
and answer what they ask, and the faults come in a random order. Afterwards every run is folded from its
journal by the pure core, and judged:

* each run has ended, its facts are dense and whole, and fold;
* the words each person was told are kept are in the run once, with one disposition;
* no line stands in the ledger twice, and each that a run says was written stands there.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from support.model_server import Body, Call, Reply
from support.openai_server import OpenAIServer
from support.postgres import PostgresServer
from support.proxy import Proxy

from midstream.core.decide.steering import OUTCOMES
from midstream.core.events import (
    InputDisposed,
    InputReceived,
    QuestionAsked,
    RunRecovered,
    ToolCalled,
    ToolReturned,
)
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError
from midstream.runtime.engine.open_run import opened
from midstream.runtime.storage import KeptRun, Mail
from midstream.store.postgres.store import PostgresStore
from torture.histories import Clients, Done, wrong_in_history
from torture.report import Broken, Report

Fault = Literal["kill", "stop", "cut", "reset", "crash", "failover", "split"]
FAULTS: Final[tuple[Fault, ...]] = (
    *("kill", "kill", "kill", "stop", "cut", "reset", "crash", "failover", "split"),
)
"""A worker is killed, stopped, or cut off from the database; every connection is cut; the database crashes
and comes back; its replica takes over from one that is killed, or that hangs and comes back as what it was.
"""

WORKERS: Final = 2
HANGS_S: Final = 600.0
LATE_S: Final = 60.0
"""A run that goes on for so long after words were acknowledged has heard them."""

_FLOW: Final = {
    "workflow_name": "storm",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "storm", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "storm"},
        {"name": "resume", "agent": "storm", "next": "stop"},
        {"name": "stop"},
    ],
}
_NOTE: Final = '''
import os
import random
import time
import midstream

@midstream.tool(effect="once", needs_approval=False)
def note(text: str) -> str:
    """Write a line that must be written once only."""
    file = os.open({path!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (text + "\\n").encode())
    os.fsync(file)
    os.close(file)
    time.sleep(random.random() / 4)
    return "wrote " + text

@midstream.tool(effect="once", needs_approval=True)
def sign(text: str) -> str:
    """Write a line that must be written once only, and that a person agrees to."""
    return note(text)
'''
_AN_HOUR_AHEAD: Final = """
import time
_now = time.time
time.time = lambda: _now() + 3_600
"""


class Thinker:
    """What the model says: a line to write that no message names yet, until there were enough."""

    def __init__(self, lines: int, seed: int) -> None:
        self._lines = lines
        self._chance = random.Random(seed)

    def __call__(self, body: Body) -> Reply:
        """Return the next reply, which streams slowly."""
        text = json.dumps(body["messages"])
        first = next(str(each["content"]) for each in body["messages"] if each["role"] == "user")
        job = first.split()[0]
        number = next(number for number in count() if f"{job}-line-{number}." not in text)
        pieces = tuple(f"piece {piece} " for piece in range(self._chance.randint(1, 6)))
        if number >= self._lines:
            return Reply(chunks=pieces, delay_s=0.01)
        if self._chance.random() < 0.05:
            asked = Call(name="request_users_input", arguments={"question": f"On with {number}?"})
            return Reply(chunks=pieces, delay_s=0.01, calls=(asked,))
        name = "sign" if self._chance.random() < 0.1 else "note"
        call = Call(name=name, arguments={"text": f"{job}-line-{number}."})
        return Reply(chunks=pieces, delay_s=0.01, calls=(call,))


class Machines:
    """A database, a model, and the workers of one machine, which come and go."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        think: Callable[[Body], Reply],
        tools: tuple[tuple[str, ...], str] = (("note", "sign"), _NOTE),
    ) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self._tools = tools
        self.database = stack.enter_context(
            PostgresServer.made(wal_retrieve_retry_interval="200ms")
        )
        self.standby = stack.enter_context(self.database.replica())
        stack.callback(self.database.kill)  # it may hang by then
        stack.callback(self.standby.kill)
        self.ports = (self.database.port, self.standby.port)
        self.proxies = [stack.enter_context(Proxy(port)) for port in self.ports]
        self.model = stack.enter_context(OpenAIServer(default=think))
        self.name = self.database.database().rpartition("/")[2]
        self.address = self._through(self.ports)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.names: dict[int, str] = {}
        """Of each process what the server calls its sessions."""
        self._numbers = count()
        self._set_up()
        stack.callback(self.close)

    def _through(self, ports: Iterable[int]) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://midstream@{hosts}/{self.name}"

    def _set_up(self) -> None:
        config = self.folder / "config"
        for name in ("workflows", "roles", "tools"):
            (config / name).mkdir(parents=True, mode=0o700)
        names, source = self._tools
        role = {"storm": {"systemMessage": "Go.", "includedTools": [*names, "request_users_input"]}}
        (config / "roles" / "storm.json").write_text(json.dumps(role), "utf-8")
        (config / "workflows" / "storm.json").write_text(json.dumps(_FLOW), "utf-8")
        (config / "tools" / f"{names[0]}.py").write_text(
            source.format(path=str(self.ledger)), "utf-8"
        )
        (self.folder / "ahead").mkdir()
        (self.folder / "ahead" / "sitecustomize.py").write_text(_AN_HOUR_AHEAD, "utf-8")
        (self.folder / "work").mkdir()

    def environment(
        self, *, name: str = "midstream", is_cuttable: bool = False, is_ahead: bool = False
    ) -> dict[str, str]:
        """Return the environment of a program; through the proxy it can be cut off from the database."""
        there = self._through(proxy.port for proxy in self.proxies) if is_cuttable else self.address
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "MIDSTREAM_CONFIG_HOME": str(self.folder / "config"),
            "MIDSTREAM_STATE_HOME": str(self.folder / "state"),
            "MIDSTREAM_HOST": "storm",
            "MIDSTREAM_JOURNAL": f"{there}?application_name={name}",
            "MIDSTREAM_MODEL": "openai:gpt-5.6-luna",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": self.model.base_url,
        } | ({"PYTHONPATH": str(self.folder / "ahead")} if is_ahead else {})

    def begin(
        self, *, is_cuttable: bool = False, is_ahead: bool = False, **how: Any
    ) -> subprocess.Popen[bytes]:
        """Start a worker, and return once it takes runs. `how` is as of `Popen`."""
        name = f"worker{next(self._numbers)}"
        process = subprocess.Popen(
            [sys.executable, "-m", "midstream", "worker", "--json", "--max-runs", "200"],
            cwd=self.folder / "work",
            env=self.environment(name=name, is_cuttable=is_cuttable, is_ahead=is_ahead),
            stdout=subprocess.PIPE,
            stderr=(self.folder / f"{name}.err").open("wb"),
            **how,
        )
        self.workers.append(process)
        self.names[process.pid] = name
        assert process.stdout is not None
        process.stdout.readline()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return process

    def run(self, words: str) -> str:
        """Return the id of a run begun for the workers."""
        command = [sys.executable, "-m", "midstream", "run", "storm", words, "--detach"]
        done = subprocess.run(
            command,
            cwd=self.folder / "work",
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()[-1]

    def kill_in_append(self, victim: subprocess.Popen[bytes]) -> bool:
        """Kill a worker while the server is at an append of its, which goes on after its death.

        Return whether there was one: else it is killed as it is.
        """
        import psycopg

        began = time.monotonic()
        with psycopg.connect(self.database.address(self.name)) as holding:
            holding.execute("lock table midstream.facts in share mode")
            while not (is_at_one := self._appends(victim)) and time.monotonic() - began < 1.0:
                time.sleep(0.01)
            victim.kill()
            victim.wait()
        return is_at_one

    def _appends(self, worker: subprocess.Popen[bytes]) -> bool:
        """Return whether an append of a worker waits for the table of facts."""
        [(waiting,)] = self.database.sql(
            "select count(*) from pg_stat_activity join pg_locks using (pid)"
            f" where application_name = '{self.names[worker.pid]}' and not granted"
            " and relation = 'midstream.facts'::regclass",
            self.name,
        )
        return waiting != 0

    def fail_over(self) -> None:
        """Have the replica take over. The primary before is left as it is, until `rebuild`."""
        self.standby.promote()
        self.database, self.standby = self.standby, self.database

    def rebuild(self) -> None:
        """End the primary before, and make it the replica of the one that took over."""
        self.standby.follow(self.database)

    def acknowledged(self, server: PostgresServer) -> set[tuple[object, ...]]:
        """Return the facts and messages that a server shows."""
        facts = "select run::text, seq::text, md5(checksum) from midstream.facts"
        return {
            *server.sql(f"{facts} union all select run, id, '' from midstream.inbox", self.name)
        }

    def close(self) -> None:
        """Kill whoever is left."""
        for process in self.workers:
            process.kill()
            process.wait()

    def troubles(self) -> str:
        """Return what workers wrote of bugs."""
        said = [path.read_text("utf-8", "replace") for path in self.folder.glob("worker*.err")]
        return "\n".join(text[-800:] for text in said if "Traceback" in text)


class Story:
    """What was done and seen, for the judge."""

    def __init__(self) -> None:
        self.said: dict[str, dict[str, str]] = {}
        """Of each run the words that were acknowledged, by their ids."""
        self.said_at: dict[str, float] = {}
        """By the database's clock."""
        self.taken_after: list[float] = []
        """Seconds from a kill until each of the worker's runs went on elsewhere."""
        self.faults: Counter[str] = Counter()
        self.in_append = 0
        """Kills of a worker whose append the server was at."""
        self.history: dict[str, list[Done]] = {}
        """Of each run what clients did with it."""
        self.clients_killed = 0
        self.wrong: list[tuple[str, str]] = []
        """What was seen to be wrong, with whom."""
        self.cut: Counter[str] = Counter()
        """What a run was at when its worker was gone, by the journals."""


def machines_storm(
    faults: int,
    seed: int,
    *,
    runs: int = 50,
    lines: int = 30,
    clients: int = 3,
    only: str = "",
) -> Report:
    """Return what broke in so many faults (`only` of these kinds).

    They come over so many runs of so many lines each, and so many clients at a time; see `histories`.
    """
    folder = Path(tempfile.mkdtemp())
    story = Story()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        machines = Machines(folder, stack, Thinker(lines, seed))
        talking = Clients(folder, machines.environment, clients)
        stack.callback(talking.close)
        wrong = asyncio.run(_stormed(machines, talking, story, faults, seed, runs, only))
    counts = f"--faults {faults} --runs {runs} --lines {lines} --clients {clients} --only '{only}'"
    again = f"python -m torture machines --seed {seed} {counts}"
    broken = tuple(Broken(point=point, what=what, again=again) for point, what in wrong)
    return Report(name="machines at random", tried=faults, broken=broken, note=_note(story))


def _note(story: Story) -> str:
    after = sorted(story.taken_after)
    parts = [f"{number} {fault}" for fault, number in sorted(story.faults.items())]
    if after:
        middle, late = after[len(after) // 2], after[min(len(after) - 1, len(after) * 99 // 100)]
        parts.append(
            f"gone on elsewhere after a kill: {len(after)} runs, p50 {middle:.1f} s, p99 {late:.1f} s,"
            f" longest {after[-1]:.1f} s"
        )
    parts += [f"{number} runs cut {where}" for where, number in sorted(story.cut.items())]
    outcomes = Counter(done.outcome for each in story.history.values() for done in each)
    if outcomes:
        by_outcome = ", ".join(
            f"{number} {outcome}" for outcome, number in sorted(outcomes.items())
        )
        parts.append(f"clients: {by_outcome}, {story.clients_killed} killed")
    if story.in_append:
        parts.append(f"{story.in_append} kills in an append")
    return ", ".join(parts)


@asynccontextmanager
async def _store(machines: Machines) -> AsyncIterator[PostgresStore]:
    store = await asyncio.to_thread(PostgresStore.opened, machines.address, host="client")
    try:
        yield store
    finally:
        await store.aclose()


async def _stormed(
    machines: Machines,
    clients: Clients,
    story: Story,
    faults: int,
    seed: int,
    runs: int,
    only: str,
) -> list[tuple[str, str]]:
    chance, which = random.Random(seed), random.Random(seed + 2)
    ids: list[str] = []
    for number in range(WORKERS):
        await asyncio.to_thread(
            machines.begin, is_cuttable=number == 1, is_ahead=chance.random() < 0.3
        )
    async with _store(machines) as store:
        people = asyncio.gather(
            _people(store, story, ids, random.Random(seed + 1)),
            clients.storm(random.Random(seed + 3)),
        )
        done = 0
        while done < faults:
            begun = await _begun(machines, runs, len(ids))
            ids += begun
            clients.know(ids)
            while done < faults and not await _are_over(store, begun):
                fault = which.choice(
                    [each for each in FAULTS if not only or each in only.split(",")]
                )
                await _suffered(machines, store, story, fault, chance)
                story.faults[fault] += 1
                done += 1
        async with asyncio.timeout(HANGS_S):
            while not await _are_over(store, ids):  # noqa: ASYNC110  # others end them
                await asyncio.sleep(0.1)
        people.cancel()
        await asyncio.gather(people, return_exceptions=True)
        story.history = clients.history()
        story.clients_killed = clients.killed
        wrong = story.wrong + [found async for found in _judged(machines, store, story, ids)]
    if troubles := machines.troubles():
        wrong.append(("workers", troubles))
    return wrong


async def _begun(machines: Machines, runs: int, since: int) -> list[str]:
    """Return runs that were begun, a few at a time."""
    door = asyncio.Semaphore(3)

    async def one(number: int) -> str:
        async with door:
            return await asyncio.to_thread(machines.run, f"job{number} go")

    return list(await asyncio.gather(*map(one, range(since, since + runs))))


async def _kept(store: PostgresStore, id: str) -> KeptRun | None:
    """Return a run as it stands, None where that cannot be seen now."""
    try:
        return await store.run(id)
    except MidstreamError:
        return None


async def _are_over(store: PostgresStore, ids: Sequence[str]) -> bool:
    for id in ids:
        kept = await _kept(store, id)
        if kept is None or not kept.summary.is_over:
            return False
    return True


# --- people -------------------------------------------------------------------------------------


async def _people(
    store: PostgresStore, story: Story, ids: list[str], chance: random.Random
) -> None:
    """Answer what is asked, and now and then say something that nobody asked for."""
    answered: set[tuple[str, str]] = set()
    for number in count():
        await asyncio.sleep(0.05)
        for id in tuple(ids):
            kept = await _kept(store, id)
            if kept is None or kept.summary.is_over:
                continue
            for question in kept.summary.asking:
                if (id, question) not in answered:
                    answered.add((id, question))
                    await _answer(store, story, kept, question, chance)
        if ids and chance.random() < 0.3:
            words = f"words{number} go on"
            await _post(
                store,
                story,
                Mail(id=f"w{number}", run=chance.choice(ids), at=0.0, text=words, unasked=True),
            )


async def _answer(
    store: PostgresStore, story: Story, kept: KeptRun, question: str, chance: random.Random
) -> None:
    """Answer a question: what became of a call, as nobody can know it, and anything else with a word."""
    try:
        facts = await store.read(kept.id)
    except MidstreamError:
        return
    asked = [f.event for f in facts if isinstance(f.event, QuestionAsked)]
    choices = next((each.choices for each in asked if each.question_id == question), ())
    text = (
        chance.choice([*OUTCOMES])
        if choices == tuple(OUTCOMES)
        else (choices[0] if choices else "yes")
    )
    await _post(
        store,
        story,
        Mail(id=f"{kept.id}-{question}", run=kept.id, at=0.0, text=text, question=question),
    )


async def _post(store: PostgresStore, story: Story, mail: Mail) -> None:
    """Send words; remember those that were acknowledged and those of which nobody knows."""
    try:
        await store.post(mail)
    except MidstreamError:
        return  # it may have been kept all the same: nobody was told so
    story.said.setdefault(mail.run, {})[mail.id] = mail.text
    story.said_at[mail.id] = store.now()
    try:
        if owner := await store.owner_of(mail.run):
            await store.ring(owner)
    except MidstreamError:
        return


# --- faults ---------------------------------------------------------------------------------------


async def _suffered(
    machines: Machines, store: PostgresStore, story: Story, fault: Fault, chance: random.Random
) -> None:
    """Let a fault happen and be over: whoever died has a successor."""
    await asyncio.sleep(chance.uniform(0.0, 1.5))
    match fault:
        case "kill":
            await _killed(machines, store, story, chance)
        case "stop":
            victim = chance.choice(machines.workers)
            os.kill(victim.pid, signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(1.0, 9.0))
            if victim.poll() is None:
                os.kill(victim.pid, signal.SIGCONT)
        case "cut":
            for proxy in machines.proxies:
                proxy.cut()
            await asyncio.sleep(chance.uniform(0.5, 9.0))
            for proxy in machines.proxies:
                proxy.mend()
        case "reset":
            await asyncio.to_thread(machines.database.reset, machines.name)
        case "crash":
            await asyncio.to_thread(machines.database.kill)
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            await asyncio.to_thread(machines.database.start)
        case "failover":
            await asyncio.to_thread(machines.database.kill)
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            await asyncio.to_thread(machines.fail_over)
            await asyncio.sleep(chance.uniform(0.0, 8.0))
            await asyncio.to_thread(machines.rebuild)
        case "split":
            await asyncio.to_thread(machines.database.freeze)
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            await asyncio.to_thread(machines.fail_over)
            await asyncio.sleep(chance.uniform(0.0, 4.0))
            await asyncio.to_thread(machines.standby.thaw)
            await asyncio.sleep(chance.uniform(0.0, 8.0))
            old = await asyncio.to_thread(machines.acknowledged, machines.standby)
            new = await asyncio.to_thread(machines.acknowledged, machines.database)
            story.wrong += [("the old primary", f"{row} is nowhere else") for row in old - new]
            await asyncio.to_thread(machines.rebuild)
    await _replaced(machines, chance)


async def _replaced(machines: Machines, chance: random.Random) -> None:
    for place, process in enumerate(tuple(machines.workers)):
        if process.poll() is not None:
            machines.workers.remove(process)
            fresh = await asyncio.to_thread(
                machines.begin, is_cuttable=place == 1, is_ahead=chance.random() < 0.3
            )
            machines.workers.remove(fresh)
            machines.workers.insert(place, fresh)


async def _killed(
    machines: Machines, store: PostgresStore, story: Story, chance: random.Random
) -> None:
    """Kill a worker; measure until each of its runs has gone on in another, or ended."""
    victim = chance.choice(machines.workers)
    try:
        [info] = [each for each in await store.workers() if each.pid == victim.pid]
        had = {id: await _kept(store, id) for id in info.runs}
    except (MidstreamError, ValueError):
        had = {}
    if chance.random() < 0.2:
        story.in_append += await asyncio.to_thread(machines.kill_in_append, victim)
    else:
        victim.kill()
        victim.wait()
    began = time.monotonic()
    waiting = {
        id: kept
        for id, kept in had.items()
        if kept is not None and kept.owner and kept.summary.standing == "running"
    }
    for id in tuple(waiting):
        now = await _kept(store, id)
        if now is not None and not now.owner and not now.was_cut:
            del waiting[id]  # it had let go of it just before
    while waiting and time.monotonic() - began < HANGS_S:
        for id, before in tuple(waiting.items()):
            now = await _kept(store, id)
            if now is None:
                continue
            if now.owner != before.owner and not now.was_cut and now.seq > before.seq:
                story.taken_after.append(time.monotonic() - began)
                del waiting[id]
        if all(process.poll() is not None for process in machines.workers):
            await _replaced(machines, chance)  # the other one could not say in time that it lives
        await asyncio.sleep(0.02)
    story.wrong += [(id, "it has not gone on elsewhere") for id in waiting]


# --- the judge ------------------------------------------------------------------------------------


async def _judged(
    machines: Machines, store: PostgresStore, story: Story, ids: Sequence[str]
) -> AsyncIterator[tuple[str, str]]:
    """Yield what is wrong, by run."""
    ledger = machines.ledger.read_text("utf-8").split("\n") if machines.ledger.exists() else []
    for line, times in Counter(filter(None, ledger)).items():
        if times > 1:
            yield line.partition("-")[0], f"{line} was written {times} times"
    for id in ids:
        async for wrong in _judged_run(store, story, id, {*ledger}):
            yield id, wrong


async def _judged_run(
    store: PostgresStore, story: Story, id: str, ledger: set[str]
) -> AsyncIterator[str]:
    """Yield what is wrong with a run: the core folds it, and it is compared with what was seen of it."""
    try:
        facts = await store.read(id)
        run = await opened(store, id)
    except MidstreamError as error:
        yield f"it cannot be read: {error}"
        return
    if not run.is_over:
        yield "it has not ended"
    # Words that came to a run shortly before its end may have been too late: they are kept, and named.
    kept = {mail.id for mail in await store.posted(id)}
    said, at = story.said.get(id, {}), story.said_at
    late = {words for words in said if words in kept and facts[-1].at - at.get(words, 0) < LATE_S}
    story.cut += cut_in(facts)
    for wrong in wrong_in(facts, said, late, ledger):
        yield wrong
    for wrong in wrong_in_history(story.history.get(id, ()), facts, run.inbox.lines):
        yield wrong


def cut_in(facts: Sequence[Envelope]) -> Counter[str]:
    """Return what a run was at each time its process had died."""
    found: Counter[str] = Counter()
    calls: set[str] = set()
    for fact in facts:
        match fact.event:
            case ToolCalled(call_id=id):
                calls.add(id)
            case ToolReturned(call_id=id):
                calls.discard(id)
            case RunRecovered() as event if event.cut_work:
                found["in a call" if calls else "outside of calls"] += 1
    return found


def wrong_in(
    facts: Sequence[Envelope], said: dict[str, str], late: set[str], ledger: set[str]
) -> Iterator[str]:
    """Yield what is wrong with the facts of a run that has ended.

    Args:
        facts: all of them.
        said: the words that were acknowledged, by their ids.
        late: the ids of words that may have come when it had ended.
        ledger: the lines that were written.
    """
    if [fact.seq for fact in facts] != list(range(1, len(facts) + 1)):
        yield "its facts are not dense"
    heard = Counter(f.event.input_id for f in facts if isinstance(f.event, InputReceived))
    ends = Counter(f.event.input_id for f in facts if isinstance(f.event, InputDisposed))
    for words, text in said.items():
        if heard[words] > 1 or ends[words] > 1:
            yield f"{words} ({text}) was heard {heard[words]} times"
        elif not heard[words] and words not in late:
            yield f"{words} ({text}) is lost"
        elif heard[words] and not ends[words]:
            yield f"{words} ({text}) was heard and has no end"
    for fact in facts:
        match fact.event:
            case ToolReturned(outcome="completed", result=result) if str(result).startswith(
                "wrote "
            ):
                if str(result).removeprefix("wrote ") not in ledger:
                    yield f"{result} is not in the ledger"
