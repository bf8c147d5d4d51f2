"""The loop of a worker: take what is owed something, drive it, let go of what waits.

    offered() -> take(room) -> a task for each run:  open its folder, take it up
                                                     wait until nothing of it is under way
                                                     release(due_at): nothing of it is left here

Nothing is kept of a run that waits for a person or for a far time. What is sent to it, or the time, makes
it owed something again, and some worker takes it. A worker that leaves takes no more and lets what is under
way end by itself for a while; what has not by then is left as a process that ends leaves its runs.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from midstream.app.assembly import Parts, parts
from midstream.core.notices import BackgroundEnded, Envelope
from midstream.core.pending import due_at
from midstream.core.run import Run
from midstream.language.errors import (
    REPORT_BUG,
    JournalMoved,
    MidstreamError,
    RunOwned,
    UserMistake,
    WorldTrouble,
)
from midstream.runtime.engine.hand_over import pool_of
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.owner import Owner
from midstream.runtime.engine.resume import take_up
from midstream.runtime.places import placement_of
from midstream.runtime.ports import Clock
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import Store, Taken, WorkerInfo
from midstream.system.offloop import cancel_all, is_something_left
from midstream.worker.folders import Folders
from midstream.worker.health import Histogram, TimedJournal

LINGER_S: Final = 1.5
"""Seconds that a run that waits is kept: who answers at once is heard without opening it anew."""

FAR_S: Final = 30.0
"""A time that is farther off is waited for by nobody: the run is let go of until then."""

LOOK_EVERY_S: Final = 60.0
"""Seconds between two looks at what is owed, where nothing is heard of: calls may be lost."""

REFUSED_S: Final = 30.0
"""Seconds after which a worker tries again what it could not take up: somebody may have mended it."""

AGAIN_S: Final = 1.0
"""Seconds until a store that could not be reached is asked again."""

_LEFT_S: Final = 0.02
"""Seconds between two looks whether a thread that was left behind has ended."""

_LATER: Final = "It is taken up again in a while."

Kind: TypeAlias = Literal[
    "began", "taken", "let_go", "refused", "trouble", "leaving", "left", "lost"
]


class Log(Protocol):
    """Hears what a worker does: one event a line."""

    def __call__(self, kind: Kind, text: str, /, **more: str | float | bool) -> None:
        """Hear one; `text` says it to a person, `more` to a program."""


class Leaving:
    """The wish that a worker leaves. `late` is set once what is under way has to be cut off."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.late = asyncio.Event()

    def ask(self, grace_s: float) -> None:
        """Ask it to leave within so many seconds; asked again, at once."""
        if self.begun.is_set() or grace_s <= 0:
            self.late.set()
        else:
            asyncio.get_running_loop().call_later(grace_s, self.late.set)
        self.begun.set()


class Worker:
    """A worker of a store that others share. `run` is its life.

    Args:
        store: the store; it stays open.
        info: what it takes, as it is announced; `owner` is that of the store.
        leaving: the wish that it leaves.
        log: hears what it does.
        sockets: as of `Owner`.
        lives, lost: hear when and for how long its owner lives (see `Owner`), and that it does no more,
            once nothing of its runs is under way here.
        make: makes the parts of a folder's engine.
        linger_s: how long a run that waits is kept.
        trusts: patterns of the URLs of repositories whose own files are trusted.

    Raises:
        UserMistake: no workers share the store.
    """

    def __init__(
        self,
        store: Store,
        info: WorkerInfo,
        leaving: Leaving,
        log: Log,
        *,
        sockets: Path | None = None,
        lives: Callable[[float, float], None] | None = None,
        lost: Callable[[], None] | None = None,
        make: Callable[..., Parts] = parts,
        linger_s: float = LINGER_S,
        trusts: Sequence[str] = (),
    ) -> None:
        self.pool = pool_of(store)
        self.info = info
        self.is_lost = False
        """Whether it could not say that it lives, and has left its runs to others."""
        self.is_reached = True
        """Whether the store was there when it was last asked for runs."""
        self.counts: Counter[str] = Counter()
        self.append_times = Histogram()
        self.alive_until = 0.0
        """Until when it has said that it lives, by the loop's clock."""
        self._leaving = leaving
        self._log = log
        self._linger_s = linger_s
        self._hear_life = lives
        self._hear_loss = lost
        self._owner = Owner(store, sockets=sockets, lives=self._lives, lost=self._lose)
        self._folders = Folders(self._owner, self._opened, make, trusts)
        self._moved: dict[str, asyncio.Event] = {}
        self._driven: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()
        self._refused: dict[str, tuple[str, float]] = {}
        self._resting: asyncio.Task[None] | None = None

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the runs it has."""
        return tuple(self._moved)

    async def run(self) -> None:
        """Take runs and drive them until it is to leave, or its life could not be told in time.

        By the end every run has been let go of. The store stays open.
        """
        self._owner.begin()
        try:
            await self._announced()
            with contextlib.suppress(MidstreamError):
                await self._folders.prune()
            await self._take_all()
            self._move_all()
            if not self.is_lost:
                self.info = msgspec.structs.replace(self.info, is_leaving=True)
                self._log("leaving", f"leaving: {len(self._driven)} runs are given back")
                await self._announced()
        finally:
            self._move_all()
            if self._driven:
                await asyncio.wait(tuple(self._driven))
            await self._folders.close()
            await self._owner.close()
            if self._resting is not None:
                await self._resting

    # --- how it is, for others -----------------------------------------------------------------

    def health(self) -> tuple[int, str]:
        """Return 200 while it lives: its loop turns, and it has said in time that it does."""
        is_alive = asyncio.get_running_loop().time() < self.alive_until
        return (200, "ok\n") if is_alive else (503, "it has not been said in time that it lives\n")

    def readiness(self) -> tuple[int, str]:
        """Return 200 while it takes runs: it lives, the store can be reached, and it does not leave."""
        if self._leaving.begun.is_set():
            return 503, "it leaves\n"
        return self.health() if self.is_reached else (503, "the journal cannot be reached\n")

    def metrics(self) -> tuple[int, str]:
        """Return what it counts, as Prometheus reads it."""
        let_go = ((why.partition(" ")[2], n) for why, n in self.counts.items() if " " in why)
        lines = [
            "# TYPE midstream_worker_runs gauge",
            f"midstream_worker_runs {len(self._driven)}",
            "# TYPE midstream_worker_max_runs gauge",
            f"midstream_worker_max_runs {self.info.max_runs}",
            "# TYPE midstream_worker_let_go_total counter",
            *(f'midstream_worker_let_go_total{{why="{why}"}} {n}' for why, n in sorted(let_go)),
        ]
        for name in ("taken", "deaths", "refused", "beats"):
            lines += [
                f"# TYPE midstream_worker_{name}_total counter",
                f"midstream_worker_{name}_total {self.counts[name]}",
            ]
        lines += self.append_times.lines("midstream_append_seconds")
        return 200, "\n".join(lines) + "\n"

    # --- taking -----------------------------------------------------------------------------

    async def _take_all(self) -> None:
        while not (self._leaving.begun.is_set() or self.is_lost):
            self._freed.clear()
            await self._forget_refusals()
            room = self.info.max_runs - len(self._driven)
            taken = await self._taken(room) if room > 0 else []
            for each in taken:
                self._begin(each)
            if len(taken) < room or not taken:
                await self._something(waits_for_offers=room > 0)

    async def _taken(self, room: int) -> list[Taken]:
        try:
            taken = await self.pool.take(self.info, room)
        except WorldTrouble as error:
            if self.is_reached:
                self._log("trouble", f"the journal cannot be asked for runs: {error}")
            self.is_reached = False
            await self._until_leaving(AGAIN_S)
            return []
        self.is_reached = True
        return taken

    async def _something(self, *, waits_for_offers: bool) -> None:
        """Return once there may be something to take, or room for it, or in time."""
        waits: list[Awaitable[object]] = [self._leaving.begun.wait(), self._freed.wait()]
        if waits_for_offers:
            waits.append(self._offered())
        tasks = [asyncio.ensure_future(each) for each in waits]
        try:
            await asyncio.wait(
                tasks, timeout=self._look_in_s(), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            await cancel_all(*tasks)

    def _look_in_s(self) -> float:
        """Return the seconds until the next look: sooner where something is to be tried again by then."""
        now = asyncio.get_running_loop().time()
        again = min((until - now for _, until in self._refused.values()), default=LOOK_EVERY_S)
        return min(max(again, 0.0), LOOK_EVERY_S)

    async def _offered(self) -> None:
        try:
            await self.pool.offered(LOOK_EVERY_S)
        except WorldTrouble:
            await asyncio.sleep(AGAIN_S)

    async def _until_leaving(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._leaving.begun.wait()

    def _begin(self, taken: Taken) -> None:
        id = taken.kept.id
        self._moved[id] = asyncio.Event()
        self.counts["taken"] += 1
        self.counts["deaths"] += taken.claim.was_cut
        summary = taken.kept.summary
        how = " (its process died)" if taken.claim.was_cut else ""
        self._log(
            "taken",
            f"taken {id} {summary.workflow} in {summary.workspace}{how}",
            run=id,
            workflow=summary.workflow,
            workspace=summary.workspace,
            was_cut=taken.claim.was_cut,
            epoch=taken.claim.epoch,
        )
        task = asyncio.create_task(self._seen_through(taken), name=f"worker {id}")
        self._driven.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._driven.discard(task)
        self._freed.set()

    async def _announced(self) -> None:
        refuses = {name: reason for name, (reason, _) in self._refused.items()}
        self.info = msgspec.structs.replace(self.info, refuses=refuses)
        with contextlib.suppress(WorldTrouble):
            await self.pool.announce(self.info)

    # --- one run ----------------------------------------------------------------------------

    async def _seen_through(self, taken: Taken) -> None:
        """Drive a run for as long as something of it is under way."""
        id = taken.kept.id
        moved = self._moved[id]
        try:
            await self._in_its_folder(taken)
        except Exception as error:  # one run's trouble, whatever it is, is not that of the others
            await self._refuse(id, id, error)
        finally:
            # While its folder is closed the run may have been taken again.
            if self._moved.get(id) is moved:
                del self._moved[id]

    async def _in_its_folder(self, taken: Taken) -> None:
        kept, placement = taken.kept, placement_of(taken.kept)
        if placement is not None:
            async with self._folders.placed(kept, placement) as made:
                await self._gone_on(made, kept.id)
            return
        folder = Path(kept.summary.workspace)
        try:
            made = await self._folders.opened(_folder_of(taken))
        except MidstreamError as error:
            await self._refuse(kept.id, str(folder), error)
            return
        try:
            await self._gone_on(made, kept.id)
        finally:
            self._folders.left(folder)

    async def _gone_on(self, made: Parts, id: str) -> None:
        try:
            machine = await take_up(made.engine, made.library, id, choice="old")
        except (RunOwned, JournalMoved, WorldTrouble) as error:
            self._log("trouble", f"{id} could not be taken up: {error}", run=id)
            await self._owner.release(id, 0.0)
            await self._until_leaving(AGAIN_S)
            return
        except MidstreamError as error:
            await self._refuse(id, id, error)
            return
        try:
            await self._driven_on(machine, made.engine.world.clock)
        finally:
            await made.engine.let_go(id)
        if machine.run.status == "failed" and not await self._is_over(id):
            why = f"How it ended could not be journaled: {machine.run.error}"
            await self._refuse(id, id, WorldTrouble(why, hint=_LATER))
            return
        self._log_let_go(machine.run)

    async def _is_over(self, id: str) -> bool:
        """Return whether the store has a run's end. Else it would be taken again at once, and for ever."""
        try:
            kept = await self._owner.store.run(id)
        except MidstreamError:
            return False
        return kept is None or kept.summary.is_over

    async def _driven_on(self, machine: WorkflowStateMachine, clock: Clock) -> None:
        """Return once the run has ended, waits for a person or a far time, or is to be left."""
        moved = self._moved[machine.id]
        ending = asyncio.ensure_future(machine.wait())
        ending.add_done_callback(lambda _: moved.set())
        try:
            while not (ending.done() or self._leaving.begun.is_set() or self.is_lost):
                moved.clear()
                until = due_at(machine.run)
                may_rest = until is None or until - clock.now() > FAR_S
                try:
                    async with asyncio.timeout(self._linger_s if may_rest else None):
                        await moved.wait()
                except TimeoutError:
                    if machine.is_idle and not await self._is_owed(machine):
                        return
            if self._leaving.begun.is_set() and not ending.done():
                await machine.leave(after=self._leaving.late.wait())
        finally:
            await cancel_all(ending)

    async def _is_owed(self, machine: WorkflowStateMachine) -> bool:
        """Return whether mail for a run that rests is not handed over yet, as far as is known."""
        try:
            return bool(await self._owner.store.undelivered(machine.id))
        except MidstreamError:
            return True

    def _opened(self, engine: LocalEngine) -> None:
        engine.listen(self._hear)
        journal = TimedJournal(engine.world.journal, self.append_times)
        engine.world = msgspec.structs.replace(engine.world, journal=journal)

    def _hear(self, envelope: Envelope) -> None:
        is_move = envelope.seq is not None or isinstance(envelope.event, BackgroundEnded)
        if is_move and (moved := self._moved.get(envelope.run)) is not None:
            moved.set()

    def _log_let_go(self, run: Run) -> None:
        why = _why_let_go(run, leaves=self._leaving.begun.is_set())
        self.counts[f"let_go {why.partition(':')[0]}"] += 1
        self._log("let_go", f"let go of {run.id}: {why}", run=run.id, why=why)

    # --- what it cannot take up ---------------------------------------------------------------

    async def _refuse(self, id: str, what: str, error: Exception) -> None:
        """Leave a run, or all of a folder, to others for a while, and say why."""
        if isinstance(error, MidstreamError):
            reason = str(error)
        else:
            reason = f"{type(error).__name__}: {error}. {REPORT_BUG}"
        self.counts["refused"] += 1
        until = asyncio.get_running_loop().time() + REFUSED_S
        self._refused[what] = (reason, until)
        self._log("refused", f"refused {id}: {reason}", run=id, why=reason)
        # First, so that it is not taken again by the one that has just let go of it.
        await self._announced()
        await self._owner.release(id, 0.0)

    async def _forget_refusals(self) -> None:
        now = asyncio.get_running_loop().time()
        gone = [what for what, (_, until) in self._refused.items() if until <= now]
        for what in gone:
            del self._refused[what]
        if gone:
            await self._announced()

    # --- its life -----------------------------------------------------------------------------

    def _lives(self, said: float, within_s: float) -> None:
        self.counts["beats"] += 1
        self.alive_until = said + within_s
        if self._hear_life is not None:
            self._hear_life(said, within_s)

    def _lose(self) -> None:
        """Take no more: nobody knows any more that this worker lives."""
        self.is_lost = True
        self._log("lost", "the journal could not be reached in time: its runs go on with others")
        self._move_all()
        self._resting = asyncio.create_task(self._rest(), name="rest")

    async def _rest(self) -> None:
        """Say that nothing of any run is under way here once that is so, also of tools in threads.

        Those cannot be stopped: while one works nothing is said, and the watchdog ends this process.
        """
        while is_something_left():  # noqa: ASYNC110  # a thread sets no event of a loop
            await asyncio.sleep(_LEFT_S)
        if self._hear_loss is not None:
            self._hear_loss()

    def _move_all(self) -> None:
        """Have every run, and the loop, look at what is to be done now."""
        for moved in self._moved.values():
            moved.set()
        self._freed.set()


def _folder_of(taken: Taken) -> Path:
    """Return the folder a run works in.

    Raises:
        UserMistake: nobody knows it.
    """
    if not taken.kept.summary.workspace:
        raise UserMistake(
            f"Nobody knows in which folder run {taken.kept.id} works.",
            hint="Go on with it there: midstream resume RUN --workspace FOLDER.",
        )
    return Path(taken.kept.summary.workspace)


def _why_let_go(run: Run, *, leaves: bool) -> str:
    if run.is_over:
        return run.status
    if run.suspended:
        return f"suspended: {run.suspended}"
    until = due_at(run)
    if until is None:
        return "waits for a person"
    if until != 0.0:
        return "waits for a time"
    return "the worker leaves" if leaves else "goes on elsewhere"
