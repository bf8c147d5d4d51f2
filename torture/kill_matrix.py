"""The kill matrix: real processes, killed with SIGKILL at every point of every reference workflow.

A process plays a flow over a journal on the disk and counts the points it passes: before and after each
append, around each effect, around each line of the person. It is killed at the n-th. A second one takes
up what is left (and is killed too, in pairs), until one gets to the end. Outside the journal stands a
ledger, written to as things really happen; at the end the journal and the ledger have to agree:

* every line that was acknowledged is in the journal, once, with exactly one disposition;
* no `once` effect happened twice, and those of one reply happened in its order;
* every request to the model would be taken by OpenAI, Anthropic and Google alike;
* the run ended as it would have, and folding its facts gives the run its process had.
"""

import asyncio
import contextlib
import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import psycopg

from midstream.app.assembly import SystemClock
from midstream.core.codec import encode_run
from midstream.core.decide.steering import NOT_KNOWN, OUTCOMES
from midstream.core.events import Fact, InputDisposed, InputReceived, StateTransition
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.language.errors import RunOwned, UserMistake
from midstream.language.names import Json
from midstream.language.spec import Definition, ToolSpec
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Handlers, ModelRequest, Review, ToolContext, ToolOutcome
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import Claim
from midstream.store.postgres.store import PostgresStore
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import fake_world
from torture.flow_kit import SPECS, Flow, PureModel, Step, handlers_of
from torture.flows import FLOWS
from torture.report import Broken, Report

AnyStore: TypeAlias = SqliteStore | PostgresStore

DEADLINE_S = 300.0
"""No life takes that long, on no machine: who does hangs."""

FORKED = "forkedrun"
MEMORY = Path("/dev/shm")
"""Where the journals lie if it is there. What was written outlives a kill there as on a disk; what
outlives a loss of power is another torture's question."""

LIVES = 12
"""Processes a flow gets to end in before it counts as stuck."""


class Ledger:
    """What really happened, outside the journal: a line each, appended as it happens."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, kind: str, what: str) -> None:
        """Add a line."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps([kind, what]) + "\n")

    def of(self, kind: str) -> list[str]:
        """Return what was written of one kind."""
        if not self._path.exists():
            return []
        lines = [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]
        return [what for written, what in lines if written == kind]


class Fuse:
    """Kills this process at its n-th point; 0: never."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.passed = 0

    def point(self) -> None:
        """Pass a point."""
        self.passed += 1
        if self.passed == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


def opened(journal: str) -> AnyStore:
    """Return the store at a path, or at the address of a database."""
    if "://" in journal:
        return PostgresStore.opened(journal)
    return SqliteStore.opened(Path(journal))


def _killed(store: AnyStore, fuse: Fuse) -> AnyStore:
    """Return a store whose process dies before and after its appends, and after a claim."""
    append, claim = store.append, store.claim

    async def appended(run: str, expected: int, facts: Sequence[Envelope]) -> None:
        fuse.point()
        await append(run, expected, facts)
        fuse.point()

    async def claimed(run: str) -> Claim:
        made = await claim(run)
        fuse.point()
        return made

    store.append, store.claim = appended, claimed  # type: ignore[method-assign]
    return store


class FoundWorkflows:
    """The workflows a flow's agents may run."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    async def called(self, name: str) -> Definition:
        """Return one of them."""
        return self._flow.found[name]

    async def handlers_of(self, definition: Definition) -> Handlers:
        """Return its handlers: it has none."""
        return ScriptHandlers({})


class LedgerTools:
    """Tools that write into the ledger what they really do."""

    def __init__(self, ledger: Ledger, fuse: Fuse) -> None:
        self._ledger = ledger
        self._fuse = fuse

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is."""
        return SPECS

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Allow everything: these are not reviewed."""
        return Review()

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Do it."""
        self._fuse.point()
        if SPECS[name].effect == "once":
            self._ledger.write("once", f"{context.run} {name} {arguments['n']}")
        self._fuse.point()
        if name == "slow":
            await context.stop.wait()
            return ToolOutcome(outcome="stopped", text="Stopped half way.")
        return ToolOutcome(outcome="completed", text=f"{name} done")


async def _life(flow: Flow, folder: Path, journal: str, fuse: Fuse) -> None:
    """Play the flow from wherever the journal has it to its end."""
    ledger = Ledger(folder / "ledger")
    store = _killed(opened(journal), fuse)

    def see(request: ModelRequest) -> None:
        fuse.point()
        ledger.write("asked", msgspec.json.encode(request).decode())

    world = fake_world(
        PureModel(flow, see),
        tools=LedgerTools(ledger, fuse),
        journal=store,
        blobs=store,
        clock=SystemClock(),
    )
    world = msgspec.structs.replace(world, workflows=FoundWorkflows(flow))
    engine = LocalEngine(world, store, sockets=folder / "journal.db.d")
    try:
        async with asyncio.timeout(DEADLINE_S):
            await _play(flow, engine, store, ledger, fuse)
    finally:
        await engine.close()


async def _play(
    flow: Flow, engine: LocalEngine, store: AnyStore, ledger: Ledger, fuse: Fuse
) -> None:
    handlers = handlers_of(flow)
    kept = {run.id: run for run in await store.listing() if run.seq}
    mine = next((id for id in kept if id != FORKED), None)
    if mine is None:
        machine = await engine.start(flow.definition, handlers=handlers, approvals="ask")
    elif kept[mine].summary.is_over:
        machine = None
    else:
        machine = await _taken_up(engine, mine, handlers)
    if machine is not None:
        await _accompany(machine, flow, ledger, fuse)
        mine = machine.id
        ledger.write("live", encode_run(machine.run)[0].decode())
    if flow.forks:
        assert mine is not None
        await _fork(mine, kept, engine, store, flow, ledger, fuse)
    ledger.write("points", str(fuse.passed))
    ledger.write("end", "")


async def _taken_up(engine: LocalEngine, run: str, handlers: Handlers) -> WorkflowStateMachine:
    """Go on with a run, once a server has seen the end of the process that was killed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await engine.resume(run, handlers=handlers)
            except RunOwned:
                await asyncio.sleep(0.005)


async def _fork(
    source: str,
    kept: Any,
    engine: LocalEngine,
    store: AnyStore,
    flow: Flow,
    ledger: Ledger,
    fuse: Fuse,
) -> None:
    if FORKED not in kept:
        fuse.point()
        await store.fork(source, 9, FORKED)
        fuse.point()
    elif kept[FORKED].summary.is_over:
        return
    machine = await _taken_up(engine, FORKED, handlers_of(flow))
    await _accompany(machine, flow, ledger, fuse)


async def _accompany(machine: WorkflowStateMachine, flow: Flow, ledger: Ledger, fuse: Fuse) -> None:
    """Be the person until the run is over."""
    changed = asyncio.Event()
    machine.on("*", _async(changed))
    while not machine.run.is_over:
        changed.clear()
        run = machine.run
        done = set(ledger.of("said"))
        step = next(((n, s) for n, s in enumerate(flow.steps) if f"p{n}" not in done), None)
        unsure = next((q for q in run.inbox.open_questions if q.choices == tuple(OUTCOMES)), None)
        if unsure is not None:
            await machine.say(NOT_KNOWN, question=unsure.id, id=f"o{unsure.id}")
        elif step is not None and step[1].when(run):
            await _do(machine, *step, ledger, fuse)
        elif run.is_parked:
            await _move_on(machine, flow)
        else:
            async with asyncio.timeout(DEADLINE_S):
                await _either(changed, machine)


def _async(changed: asyncio.Event) -> Any:
    async def heard(envelope: Envelope) -> None:
        changed.set()

    return heard


async def _either(changed: asyncio.Event, machine: WorkflowStateMachine) -> None:
    waits = {
        asyncio.ensure_future(changed.wait()),
        asyncio.ensure_future(machine.settled()),
    }
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
    for each in waits:
        each.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def _do(
    machine: WorkflowStateMachine, number: int, step: Step, ledger: Ledger, fuse: Fuse
) -> None:
    id, run = f"p{number}", machine.run
    fuse.point()
    if step.act == "say":
        question = next((q.id for q in run.inbox.open_questions if q.kind == "question"), None)
        is_answer = step.policy is None and question is not None
        await machine.say(
            step.text,
            question=question if is_answer else None,
            unasked=not is_answer,
            policy=step.policy,
            id=id,
        )
    elif step.act == "halt":
        await machine.halt()
    elif step.act == "todo":
        await machine.edit_todo(step.text)
    elif step.act == "compact":
        with contextlib.suppress(UserMistake):  # it had begun before the process was killed
            await machine.compact("all of it")
    else:
        asked = next(q.id for q in run.inbox.open_questions if q.kind == "approval")
        await machine.approve(asked, Decision(granted=step.act == "approve"))
    fuse.point()
    ledger.write("said", id)
    if step.act == "say":
        ledger.write("acknowledged", id)
    fuse.point()


async def _move_on(machine: WorkflowStateMachine, flow: Flow) -> None:
    """Do what a person would with a run that waits and has heard all they had to say."""
    run = machine.run
    approval = next((q for q in run.inbox.open_questions if q.kind == "approval"), None)
    question = next((q for q in run.inbox.open_questions if q.kind == "question"), None)
    if approval is not None:
        await machine.approve(approval.id, Decision(granted=True))
    elif question is not None:
        await machine.say("whatever", question=question.id, id=f"m{question.id}")
    elif flow.ends == "stopped":
        await machine.stop("enough")
    else:
        await machine.say("go on", id=f"g{run.seq}")


# --- the lives of one point ---------------------------------------------------------------------


def _spawn(flow: Flow, folder: Path, journal: str, at: int) -> bool:
    """Live one life in a process of its own; return whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            asyncio.run(_life(flow, folder, journal, Fuse(at)))
        except BaseException:
            Ledger(folder / "ledger").write("broken", traceback.format_exc()[-1500:])
            code = 1
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def tried(flow: Flow, kills_at: Sequence[int], server: str) -> tuple[list[str], int]:
    """Return what is broken after a life killed at each of the points, and the points of the last.

    `server`: the address of a server whose databases are the journals; "": they are files.
    """
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    ledger = Ledger(folder / "ledger")
    journal = _empty_database(server) if server else str(folder / "journal.db")
    try:
        for at in (*kills_at, *[0] * LIVES):
            _spawn(flow, folder, journal, at)
            if ledger.of("end") or ledger.of("broken"):
                break
        else:
            return [f"not ended after {LIVES} lives"], 0
        wrong = ledger.of("broken") or asyncio.run(_wrong_with(flow, journal, ledger))
        points = ledger.of("points")
        return list(wrong), int(points[-1]) if points else 0
    finally:
        shutil.rmtree(folder)


def _empty_database(server: str) -> str:
    """Return the address of a database of this process's own, emptied."""
    name = f"kills{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        found = connection.execute("select from pg_database where datname = %s", (name,))
        if not found.fetchall():
            connection.execute(f"create database {name}".encode())
    address = server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop schema if exists midstream cascade")
    return address


async def _wrong_with(flow: Flow, journal: str, ledger: Ledger) -> list[str]:
    """Return where the journal and the ledger disagree."""
    wrong = [
        f"{what} happened {n} times" for what, n in Counter(ledger.of("once")).items() if n > 1
    ]
    wrong += _out_of_order(ledger.of("once"))
    store = opened(journal)
    try:
        for asked in set(ledger.of("asked")):
            wrong += _refused(asked)
        ids = [kept.id for kept in await store.listing() if kept.seq]
        if sorted(id == FORKED for id in ids) != [False, True][: 1 + flow.forks]:
            wrong.append(f"there are {len(ids)} runs")
        for id in ids:
            facts = [envelope.event for envelope in await store.read(id)]
            run = Run(id=id)
            for fact in facts:
                assert isinstance(fact, Fact)
                run = apply(run, fact)
            if run.status != flow.ends:
                wrong.append(f"{id} is {run.status}: {run.error}")
            entered = {fact.target for fact in facts if isinstance(fact, StateTransition)}
            wrong += [f"{state} was never entered" for state in flow.passes if state not in entered]
            received = Counter(f.input_id for f in facts if isinstance(f, InputReceived))
            disposed = Counter(f.input_id for f in facts if isinstance(f, InputDisposed))
            if received != disposed or set(received.values()) - {1}:
                wrong.append(f"received {received}, disposed {disposed}")
            lost = set(ledger.of("acknowledged")) - set(received)
            if id != FORKED and lost:
                wrong.append(f"lost: {sorted(lost)}")
            live = ledger.of("live")
            if id != FORKED and live and live[-1] != encode_run(run)[0].decode():
                wrong.append("the facts fold to another run than the process had")
    except UserMistake as error:
        wrong.append(str(error))
    finally:
        await store.aclose()
    return wrong


def _out_of_order(happened: Sequence[str]) -> list[str]:
    """Return the calls that happened before one that stands before them in the same reply."""
    last: dict[tuple[str, str], int] = {}
    wrong = []
    for what in happened:
        run, _, n = what.split(" ")
        place, _, number = n.rpartition(".")
        if not place:  # a state's own call
            continue
        if int(number) < last.get((run, place), 0):
            wrong.append(f"{what} happened after a later call of its reply")
        last[run, place] = int(number)
    return wrong


@functools.cache
def _refused(request: str) -> tuple[str, ...]:
    """Return what a provider would refuse of a request. Most are the same at many points."""
    from support.dialects import DIALECTS, problems_in

    asked = msgspec.json.decode(request, type=ModelRequest)
    return tuple(
        f"{dialect} refuses: {problem}"
        for dialect in DIALECTS
        for problem in problems_in(asked, dialect)
    )


# --- all of it ----------------------------------------------------------------------------------


def kills(
    points: int,
    pairs: int,
    seed: int,
    *,
    only: str = "",
    flows: Sequence[str] = (),
    server: str = "",
) -> list[Report]:
    """Return what broke at so many points over all flows, or those named, and at so many pairs.

    `server`: the address of a server in whose databases the journals are; "": they are files.

    With fewer points than there are, a sample is taken by the seed; with more, all are taken again
    and again: what the scheduler does differs each time.
    """
    if only:
        broken = tuple(
            Broken(point=only, what=what, again=_again(only, server))
            for what in _wrong_at(only, server)
        )
        return [Report(name=f"kill {only}", tried=1, broken=broken)]
    chance = random.Random(seed)
    lengths = {}
    reports: list[Report] = []
    broken_flows: list[Broken] = []
    tested = [flow for flow in FLOWS if not flows or flow.name in flows]
    for flow in tested:
        wrong, lengths[flow.name] = tried(flow, [], server)
        broken_flows += [
            Broken(point=flow.name, what=w, again=_again(f"{flow.name}:0", server)) for w in wrong
        ]
    reports.append(Report(name="unkilled flows", tried=len(tested), broken=tuple(broken_flows)))
    if broken_flows:
        return reports
    every = [f"{name}:{at}" for name, length in lengths.items() for at in range(1, length + 1)]
    reports.append(_matrix("kill points", _some(every, points, chance), server))
    twice = [
        f"{name}:{first}+{chance.randint(1, length)}"
        for name, length in lengths.items()
        for first in range(1, length + 1)
    ]
    reports.append(_matrix("pairs: killed recovering", _some(twice, pairs, chance), server))
    return reports


def _some(every: list[str], count: int, chance: random.Random) -> list[str]:
    """Return so many points, drawn: of each flow as many as of any other, as far as it has them."""
    whole, rest = divmod(count, len(every))
    turns: Counter[str] = Counter()
    order: list[tuple[int, str]] = []
    for point in chance.sample(every, len(every)):
        name = point.partition(":")[0]
        turns[name] += 1
        order.append((turns[name], point))
    return every * whole + [point for _, point in sorted(order)[:rest]]


def _matrix(name: str, points: list[str], server: str) -> Report:
    """Try the points, as many at once as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        found = zip(points, pool.map(partial(_wrong_at, server=server), points), strict=True)
        broken = tuple(
            Broken(point=point, what=what, again=_again(point, server))
            for point, wrong in found
            for what in wrong
        )
    return Report(name=name, tried=len(points), broken=broken)


def _wrong_at(point: str, server: str) -> list[str]:
    """Return what is broken at a point such as `loop:17`, or a pair such as `loop:17+4`."""
    name, _, at = point.partition(":")
    flow = next(flow for flow in FLOWS if flow.name == name)
    return tried(flow, [int(each) for each in at.split("+")], server)[0]


def _again(point: str, server: str) -> str:
    where = " --journal postgresql" if server else ""
    return f"python -m torture kills --only {point}{where}"
