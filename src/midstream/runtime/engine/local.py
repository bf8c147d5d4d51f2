"""Runs as tasks in this process, kept in a store that other processes see too.

A run belongs to one process: claimed when it begins or is taken up, let go of when it ends or the
engine closes. What other processes have for it comes as messages (`mailbox.py`).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from midstream.core.decide.budgets import narrower
from midstream.core.notices import Envelope, ListenerFailed
from midstream.core.pending import due_at
from midstream.core.run import Run
from midstream.language.errors import (
    JournalMoved,
    MidstreamError,
    RunOwned,
    UserMistake,
    WorldTrouble,
)
from midstream.language.names import Json
from midstream.language.spec import Budget, Definition
from midstream.runtime.engine.mailbox import deliver
from midstream.runtime.engine.open_run import SNAPSHOT_EVERY, SNAPSHOT_SHARE, keep, opened
from midstream.runtime.engine.owner import Owner
from midstream.runtime.engine.time_travel import is_unbound
from midstream.runtime.ports import Handlers, World
from midstream.runtime.state_machine import WorkflowStateMachine, new_run_id
from midstream.runtime.storage import Claim, Store

COME_BACK_S = 0.5
"""Seconds until a run that stood still is gone on with once more, where that failed."""


class LocalEngine:
    """Starts runs, takes up those a process left, and keeps them until it closes.

    Args:
        world: the adapters to act through.
        store: what keeps the runs; the world's journal is a part of it.
        sockets: the folder of the sockets at which others hear what streams; None: they hear facts.
        limits: what each run that is started here may use, and each that came with an import.
        owner: whose runs they are, where that has other engines, too: closing this one lets go of its own
            runs, and closes neither it nor its store.
    """

    def __init__(
        self,
        world: World,
        store: Store,
        *,
        sockets: Path | None = None,
        limits: Budget | None = None,
        owner: Owner | None = None,
    ) -> None:
        self._limits = limits
        self.world = world
        self.store = store
        self.sockets = sockets
        self._owner = owner or Owner(store, sockets=sockets, back=self._come_back)
        self._is_alone = owner is None
        self._machines: dict[str, WorkflowStateMachine] = {}
        self._listeners: list[Callable[[Envelope], None]] = []
        self._enders: list[Callable[[], Awaitable[None]]] = []
        self._snapped: dict[str, int] = {}
        self._doors: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._chores: set[asyncio.Task[None]] = set()
        self._keeping = asyncio.Lock()
        self._is_closing = False

    @property
    def owner(self) -> Owner:
        """Return whose its runs are: other engines may be of the same one."""
        return self._owner

    async def start(
        self,
        definition: Definition,
        *,
        handlers: Handlers | None = None,
        input: Json = None,
        variables: dict[str, Json] | None = None,
        allowed: Sequence[str] = (),
        approvals: Literal["ask", "deny"] = "ask",
        limits: Budget | None = None,
        id: str | None = None,
        source: str = "",
        is_held: bool = False,
    ) -> WorkflowStateMachine:
        """Return a run that has begun; its start is journaled. `limits` only narrow those of the engine.

        `is_held`: nothing more of it is done here: `let_go` leaves it to others.

        Raises:
            RunOwned, JournalMoved: another process has begun a run of this `id`.
        """
        machine = self._made(id or new_run_id(), definition, handlers)
        try:
            await self._take_in(machine)
            await machine.start(
                input,
                variables=variables,
                allowed=allowed,
                approvals=approvals,
                limits=narrower(self._limits, limits),
                source=source,
                is_held=is_held,
            )
        except BaseException:
            await self._drop(machine)  # nobody has it: what began of it goes on when resumed
            raise
        return machine

    async def resume(
        self,
        id: str,
        *,
        handlers: Handlers | None = None,
        definition: Definition | None = None,
        known: Run | None = None,
    ) -> WorkflowStateMachine:
        """Return a run of the store that goes on here. It hears first what it was sent meanwhile.

        Args:
            id: the run's whole id.
            handlers: the functions of the script of `definition`, or of what it is pinned to.
            definition: what it follows from here on; None: what it is pinned to.
            known: the run as it was read a moment ago: it is not folded once more.

        Raises:
            UserMistake: there is no such run, it is over, the definition does not fit.
            RunOwned: another process runs it.
            JournalDamaged: a fact is not what was written.
        """
        # The claim is by process: two tasks of ours would both get it. One at a time: whoever comes second
        # gets the machine the first has made.
        async with self._doors.setdefault(id, asyncio.Lock()):
            machine = self._machines.get(id)
            if machine is not None and not machine.is_closed:
                return machine
            run = known or await opened(self.store, id)
            return await self._taken_up(run, handlers, definition)

    async def _taken_up(
        self, run: Run, handlers: Handlers | None, definition: Definition | None
    ) -> WorkflowStateMachine:
        id = run.id
        if run.is_over:
            raise UserMistake(
                f"Run {id} has ended.", hint="Fork it to go on from an earlier point."
            )
        assert run.definition is not None
        machine = self._made(id, definition or run.definition, handlers)
        # Its mail is handed over below, in order and before anything begins again: the dispatcher, which
        # may be on its rounds, leaves it alone until then.
        self._owner.taking_up.add(id)
        try:
            claim = await self._take_in(machine)
            # Until it was ours, its owner may have gone on.
            run = await opened(self.store, id, known=run)
            self._owner.told[id] = run.seq
            # A short run that is left again as it was writes no snapshot. A long one gets one with its next
            # fact: its last may be old.
            if run.seq < SNAPSHOT_EVERY:
                self._snapped[id] = run.seq
            await machine.resume(
                run,
                was_cut=claim.was_cut,
                deaths=claim.deaths,
                definition=definition,
                is_foreign=await is_unbound(self.store, id),
                limits=self._limits,
                first=lambda: self._bring_up_to_date(machine),
            )
        except BaseException:
            # Cancelled, too: a claim that nobody holds a machine for would keep every process out.
            await self._drop(machine)
            raise
        finally:
            self._owner.taking_up.discard(id)
        self.look()
        return machine

    def _made(
        self, id: str, definition: Definition, handlers: Handlers | None
    ) -> WorkflowStateMachine:
        return WorkflowStateMachine(
            definition, self.world, handlers=handlers, id=id, tap=self._tap, inbox=self.store
        )

    async def let_go(self, id: str) -> None:
        """Leave a run to others, and forget it, as one that has ended is. An unknown id changes nothing."""
        machine = self._machines.get(id)
        if machine is not None:
            await self._drop(machine)

    def machines(self) -> tuple[WorkflowStateMachine, ...]:
        """Return the runs of this process, the oldest first, ended ones included."""
        return tuple(self._machines.values())

    def machine(self, id: str) -> WorkflowStateMachine | None:
        """Return a run of this process by its id."""
        return self._machines.get(id)

    def listen(
        self,
        listener: Callable[[Envelope], None],
        *,
        at_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Let a trusted, quick listener hear every event of every run, on the loop.

        `at_end` is awaited when all runs have been let go of, while the store is still open.
        """
        self._listeners.append(listener)
        if at_end is not None:
            self._enders.append(at_end)

    def complain(self, run: str, listener: str, error: str) -> bool:
        """Show in a run that a listener failed; False where the run is none of ours that goes on."""
        machine = self._machines.get(run)
        if machine is None or machine.is_closed:
            return False
        machine.notify(ListenerFailed(listener=listener, error=error))
        return True

    def look(self) -> None:
        """Have a look for messages, soon."""
        self._owner.look()

    async def close(self) -> None:
        """Let go of every run; those that have not ended go on in a later process.

        Where the store is away for too long they are not let go of: others see that nobody has them.
        """
        self._is_closing = True
        if self._is_alone:
            await self._owner.hang_up()
        machines = self.machines()
        async with asyncio.TaskGroup() as group:
            leaving = [
                group.create_task(self._leave(machine) if self._is_alone else self._drop(machine))
                for machine in machines
            ]
            if self._is_alone and leaving:
                group.create_task(self._give_up(leaving))
        if self._is_alone:
            await self._owner.close()
        if self._chores:
            await asyncio.wait(tuple(self._chores))
        for end in self._enders:
            await end()
        if self._is_alone:
            await self.store.aclose()

    # --- inside -----------------------------------------------------------------------------

    async def _give_up(self, leaving: Sequence[asyncio.Task[None]]) -> None:
        """Return when all have left; they are cut off once others may have their runs."""
        lost = asyncio.ensure_future(self._owner.lost())
        left = asyncio.gather(*leaving, return_exceptions=True)
        try:
            await asyncio.wait((lost, left), return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                for task in leaving:
                    task.cancel()
                await left
                await asyncio.gather(*(each.abandon(is_taken=False) for each in self.machines()))
        finally:
            lost.cancel()

    async def _take_in(self, machine: WorkflowStateMachine) -> Claim:
        """Claim a run and have its messages looked for."""
        claim = await self._owner.claim(machine.id)
        # `close` has gone through the machines there were while the claim was waited for.
        if self._is_closing:
            raise UserMistake("The program is closing.", hint="Start it again.")
        if self._owner.is_lost:
            raise WorldTrouble("The journal could not be reached in time.", hint="Try again.")
        self._machines[machine.id] = self._owner.machines[machine.id] = machine
        self.world.epochs[machine.id] = claim.epoch
        self._owner.begin()
        return claim

    async def _come_back(self, machine: WorkflowStateMachine) -> None:
        """Go on with a run that stood still while its store was away, unless another process does."""
        epoch = self.world.epochs.get(machine.id)
        while machine.is_away:
            try:
                claim = await self._owner.claim(machine.id)
                missed = await self.store.read(machine.id, machine.run.seq)
                run = await opened(self.store, machine.id, known=machine.run)
                was_ours = epoch == claim.epoch
                self.world.epochs[machine.id] = claim.epoch
                await machine.resume(
                    run,
                    was_cut=was_ours or claim.was_cut,
                    deaths=claim.deaths,
                    limits=self._limits,
                    first=lambda: self._bring_up_to_date(machine),
                    missed=missed,
                )
            except (RunOwned, JournalMoved, UserMistake):
                await self._leave_to_others(machine)
                break
            except MidstreamError:
                # Its owner is heard, and yet this is not: the server may have one connection left.
                await asyncio.sleep(COME_BACK_S)
        self.look()

    async def _leave_to_others(self, machine: WorkflowStateMachine) -> None:
        await machine.abandon()
        await self._drop(machine)

    async def _bring_up_to_date(self, machine: WorkflowStateMachine) -> None:
        """Hand over the messages that waited. What cannot be taken now the dispatcher brings later."""
        with contextlib.suppress(MidstreamError):
            mails = await self.store.undelivered(machine.id)
            await deliver(self.store, self._owner.hearing, machine, mails)

    async def _drop(self, machine: WorkflowStateMachine) -> None:
        """Let go of a run nobody here is to have any more. It is done though the caller is cancelled."""
        await asyncio.wait((self._do(self._dropped(machine)),))

    async def _dropped(self, machine: WorkflowStateMachine) -> None:
        try:
            await self._leave(machine)
        finally:
            if self._machines.get(machine.id) is machine:
                del self._machines[machine.id]
                self._snapped.pop(machine.id, None)
                for kept in (self._owner.machines, self._owner.told, self.world.epochs):
                    kept.pop(machine.id, None)

    async def _leave(self, machine: WorkflowStateMachine) -> None:
        run = await machine.leave()
        await self._let_go(run)

    async def _let_go(self, run: Run) -> None:
        """Keep how a run stands and release it. A store that fails loses no more than a cache.

        An end that could not be journaled is no part of the run: it is not kept.
        """
        if self._owner.is_lost:
            # It is others' by now, and the store would be waited for.
            await self._owner.release(run.id, 0.0)
            return
        with contextlib.suppress(MidstreamError):
            if run.seq == self._owner.told.get(run.id) != self._snapped.get(run.id):
                self._snapped[run.id] = run.seq
                await self._keep(run)
        if self.world.place is not None:
            # Before others may have the run, and its folder on this machine.
            with contextlib.suppress(OSError):
                await self.world.place.let_go()
        # What was not journaled is not true: how the run stands there is for whoever goes on to find out.
        is_kept = run.seq == self._owner.told.get(run.id, run.seq)
        await self._owner.release(run.id, due_at(run) if is_kept else 0.0)

    def _tap(self, envelope: Envelope) -> None:
        """Tell every listener; one that raises keeps no other from hearing."""
        if envelope.seq is not None:
            self._owner.told[envelope.run] = envelope.seq
        self._owner.publish(envelope)
        failures: list[Exception] = []
        for listener in tuple(self._listeners):
            try:
                listener(envelope)
            except Exception as error:
                failures.append(error)
        if envelope.seq is not None:
            self._look_after(envelope.run, envelope.seq)
        if failures:
            # The machine says so, in a notice of its own.
            raise failures[0]

    def _look_after(self, id: str, seq: int) -> None:
        """Snapshot a long run now and then; let go of one that has ended."""
        machine = self._machines.get(id)
        if machine is None or self._is_closing:
            return
        run = machine.run
        if run.is_over:
            if seq == run.seq:
                self._do(self._let_go(run))
        elif seq - self._snapped.get(id, 0) >= max(SNAPSHOT_EVERY, seq // SNAPSHOT_SHARE):
            self._snapped[id] = seq
            self._do(self._keep(run))

    async def _keep(self, run: Run) -> None:
        """Keep how a run stands, one after the other: pages go with the snapshot that was kept last."""
        async with self._keeping:
            await keep(self.store, run)

    def _do(self, chore: "asyncio._CoroutineLike[None]") -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._chores.discard(task)
        if not task.cancelled():
            task.exception()  # a snapshot is a cache: that it could not be kept hurts nobody
