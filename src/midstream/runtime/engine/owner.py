"""What one owner of runs has for all of them: their mail, its own being alive, and what streams.

A process is mostly one owner with one engine. A worker is one owner with an engine for each folder.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from weakref import WeakSet

from midstream.core.notices import Envelope
from midstream.language.errors import JournalFull, JournalMoved, MidstreamError, RunOwned
from midstream.runtime.engine.live import LiveServer
from midstream.runtime.engine.mailbox import MailDispatcher
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import Claim, KeptRun, Mail, Pool, Store
from midstream.system.offloop import cancel_all

RENEW_AGAIN_S = 0.2
"""Seconds until it is said once more that an owner lives, where that failed."""

SILENT_S = 1.0
"""Seconds after which a person hears that an owner gives no answer."""


_HERE: "WeakSet[Owner]" = WeakSet()


def held_elsewhere(id: str, owner: str, *, hint: str) -> RunOwned:
    """Return the refusal to do something to a run that another owner has; `hint`: in another process."""
    if any(each.store.me == owner for each in _HERE):
        return RunOwned(
            f"Another engine of this process runs {id}.",
            owner=owner,
            hint="Use the handle which that engine gives, or close that engine first.",
        )
    return RunOwned(f"Another process runs {id}.", owner=owner, hint=hint)


async def ask_owner(store: Store, kept: KeptRun, silent: Callable[[], object] | None = None) -> str:
    """Return who runs a run, "" for nobody: an owner elsewhere may have died lately, and is asked.

    Args:
        store: where the run is kept.
        kept: the run.
        silent: is called where the owner gives no answer, and is waited for until its time is over.
    """
    if kept.owner in ("", store.me) or not isinstance(store, Pool):
        return kept.owner
    slow = None if silent is None else asyncio.get_running_loop().call_later(SILENT_S, silent)
    try:
        return await store.ask_owner(kept.id)
    finally:
        if slow is not None:
            slow.cancel()


class Owner:
    """The runs that are a store's own. Begins with the first of them, or before by `begin`.

    Args:
        store: what keeps the runs.
        sockets: the folder of the sockets at which others hear what streams; None: they hear facts.
        lives: hears each time it has been said that this owner lives: when that began, by the loop's clock,
            and for how many seconds it holds.
        lost: hears that it could not be said in time: by then every run has been let go of. None: its runs
            stand still until it can be said again, and `back` is awaited with each of them then.
    """

    def __init__(
        self,
        store: Store,
        *,
        sockets: Path | None = None,
        lives: Callable[[float, float], None] | None = None,
        lost: Callable[[], None] | None = None,
        back: Callable[[WorkflowStateMachine], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store
        self.sockets = sockets
        self.machines: dict[str, WorkflowStateMachine] = {}
        self.told: dict[str, int] = {}
        self.taking_up: set[str] = set()
        self._losing = asyncio.Event()
        self._unreleased: dict[str, float | None] = {}
        self._trouble: MidstreamError | None = None
        self._lives = lives
        self._lost = lost
        self._back = back
        self._returning: asyncio.Task[None] | None = None
        _HERE.add(self)
        self._dispatcher: MailDispatcher | None = None
        self._live: LiveServer | None = None
        self._renewals: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Return whether it could not be said in time that this owner lives: others may have its runs."""
        return self._losing.is_set()

    async def lost(self) -> None:
        """Return once it could not be said in time that this owner lives."""
        await self._losing.wait()

    def begin(self) -> None:
        """Look for mail, be heard, and say again and again that this owner lives. May be called twice."""
        if self._dispatcher is None:
            self._dispatcher = MailDispatcher(
                self.store, self._addressee, self._is_heard, lambda: bool(self.machines)
            )
            self._renewals = asyncio.create_task(self._live_on(), name="renewals")
            pool = self.store if isinstance(self.store, Pool) else None
            self._live = LiveServer(self.sockets, self.store.me, self.machines.get, pool)

    async def claim(self, run: str) -> Claim:
        """Make a run this owner's. See `Ownership.claim`."""
        claim = await self.store.claim(run)
        self._unreleased.pop(run, None)
        return claim

    async def release(self, run: str, due_at: float | None) -> None:
        """Let go of a run; where that fails now, once it can be said again that this owner lives.

        Else nobody could go on with it for as long as this owner does live.
        """
        if self.is_lost:
            self._unreleased[run] = due_at
            return
        try:
            await self.store.release(run, due_at)
        except MidstreamError:
            self._unreleased[run] = due_at

    def look(self) -> None:
        """Have a look for messages, soon."""
        if self._dispatcher is not None:
            self._dispatcher.look()

    def publish(self, envelope: Envelope) -> None:
        """Tell whoever watches a run of an event."""
        if self._live is not None:
            self._live.publish(envelope)

    async def close(self) -> None:
        """Deliver nothing more, and say no more that this owner lives. The store stays open."""
        await self.hang_up()
        await cancel_all(self._renewals, self._returning)

    async def hang_up(self) -> None:
        """Deliver nothing more, and be heard no more."""
        if self._dispatcher is not None:
            await self._dispatcher.close()
        if self._live is not None:
            await self._live.close()

    def hearing(self, id: str) -> WorkflowStateMachine | None:
        """Return who takes a run's messages: nobody where it is not ours, not begun, or ended unkept."""
        machine = self.machines.get(id)
        if machine is None or machine.run.visit.phase == "new":
            return (
                None  # it is ours already, but it does not hear yet: messages would be lost on it
            )
        if not machine.is_closed:
            return machine
        is_kept = machine.run.seq == self.told.get(id)
        return machine if machine.run.is_over and is_kept else None

    # --- inside -----------------------------------------------------------------------------

    def _addressee(self, id: str) -> WorkflowStateMachine | None:
        """Return whom the dispatcher brings a run's messages; see `hearing`."""
        return None if id in self.taking_up else self.hearing(id)

    def _is_heard(self, mail: Mail) -> bool:
        machine = self.machines.get(mail.run)
        return machine is not None and machine.is_hearing(mail.id)

    async def _live_on(self) -> None:
        """Say again and again that this owner lives. Where that fails for too long, nothing more is done of
        any run, since another owner may have it by then.
        """
        said, within = await self._renewed()
        while True:
            if self._lives is not None:
                self._lives(said, within)
            for run in tuple(self._unreleased):
                # While another is let go of, it may have been claimed again.
                if run in self._unreleased:
                    await self.release(run, self._unreleased.pop(run))
            if within == math.inf:
                return
            await asyncio.sleep(within / 3)
            # A machine that stood still has it wake late: it tries all the same, as long as no other owner
            # may have a run of this one.
            now = asyncio.get_running_loop().time()
            late = min(now + within / 12, said + within * 11 / 12)
            try:
                async with asyncio.timeout_at(max(said + within * 2 / 3, late)):
                    said, within = await self._renewed()
            except (TimeoutError, JournalMoved) as error:
                self._losing.set()
                if self._lost is not None:
                    await self._each(lambda machine: machine.abandon())
                    self._lost()
                    return
                if isinstance(error, JournalMoved):
                    await self._leave_all()
                else:
                    await self._stand_still()
                await self._renewed_again()
                # That may have waited for long, and nobody knows when it was heard: said once more.
                said, within = await self._renewed_again()
                self._losing.clear()
                if self._back is not None:
                    self._returning = asyncio.create_task(self._each(self._back))

    async def _renewed_again(self) -> tuple[float, float]:
        """Say that this owner lives once that can be heard; leave all runs where the journal is another."""
        while True:
            try:
                return await self._renewed()
            except JournalMoved:
                await self._leave_all()

    async def _leave_all(self) -> None:
        """Leave every run to whoever goes on with it: its facts may be others than those known here."""
        self._unreleased |= {id: 0.0 for id, each in self.machines.items() if not each.is_closed}
        await self._each(lambda machine: machine.abandon())

    async def _stand_still(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.wait((self._returning,))
        await self._each(lambda machine: machine.stand_still(_away(self._trouble)))

    async def _each(self, do: Callable[[WorkflowStateMachine], Awaitable[None]]) -> None:
        """Do something with every run that goes on, with all at once."""
        machines = [machine for machine in self.machines.values() if not machine.is_closed]
        await asyncio.gather(*(do(machine) for machine in machines))

    async def _renewed(self) -> tuple[float, float]:
        """Return when, by the loop's clock, it was begun to say that this owner lives, and for how long.

        Raises:
            JournalMoved: see `Ownership.renew`.
        """
        self._trouble = None
        while True:
            began = asyncio.get_running_loop().time()
            try:
                return began, await self.store.renew()
            except JournalMoved:
                raise
            except MidstreamError as error:
                self._trouble = error
                await asyncio.sleep(RENEW_AGAIN_S)


def _away(why: MidstreamError | None) -> JournalFull:
    what, hint = (" " + why.what, why.hint) if why else ("", "Look whether its server runs.")
    return JournalFull(
        f"The journal was not reached in time.{what}",
        hint=f"It goes on by itself once it is. {hint}",
    )
