"""A store in memory that workers share, as a database is shared by many machines."""

import asyncio
import contextlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from midstream.runtime.storage import (
    GOES_ON,
    SUSPECT,
    Claim,
    KeptRun,
    Placement,
    Taken,
    WorkerInfo,
    fits,
)
from midstream.store.memory import NOBODY, MemoryStore, Supplies
from midstream.store.threads import Calls, Notes


class _Shared:
    """What all owners share besides their store's contents."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.placements: dict[str, Placement] = {}
        self.epochs: dict[str, int] = {}
        self.deaths: dict[str, tuple[int, int]] = {}
        self.dues: dict[str, float] = {}
        self.workers: dict[str, WorkerInfo] = {}
        self.admit = Supplies(now).admit


class MemoryPool(MemoryStore):
    """See `midstream.runtime.storage.Pool`."""

    host = ""
    is_silent = False
    """Whether it gives no answer to who asks: it has died by then."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._share(_Shared(now))
        super().__init__()

    def beside(self) -> "MemoryPool":
        """Return another owner of the same contents."""
        other = MemoryPool()
        other.join(self)
        return other

    def join(self, other: "MemoryPool") -> None:
        """Be an owner of the same contents as another one."""
        self._share(other._shared)
        self._open(other._contents)

    def _share(self, shared: _Shared) -> None:
        self._shared = shared
        self._offers, self._notes = Calls(), Notes()
        self._offered_at = 0.0
        self.admit = shared.admit
        self.now = shared.now

    def _note(self) -> None:
        super()._note()
        self._offers.ring()

    def _kept(self, id: str, run: Any) -> KeptRun:
        placement = self._shared.placements.get(id)
        return msgspec.structs.replace(super()._kept(id, run), placement=placement)

    async def fork(self, source: str, at: int, id: str) -> int:
        """Make the run `id` of the first facts of `source`, for the same workers."""
        seq = await super().fork(source, at, id)
        if source in self._shared.placements:
            self._shared.placements[id] = self._shared.placements[source]
        return seq

    async def forget(self, run: str) -> None:
        """Delete a run that has ended."""
        await super().forget(run)
        shared = self._shared
        of_runs: tuple[dict[str, Any], ...] = (shared.placements, shared.epochs, shared.deaths)
        for kept in (*of_runs, shared.dues):
            kept.pop(run, None)

    async def ask_owner(self, run: str) -> str:
        """Return the owner of a run that lives, "" if there is none."""
        asked = self._contents.owners.get(await self.owner_of(run))
        if isinstance(asked, MemoryPool) and asked.is_silent:
            asked.die()
        return await self.owner_of(run)

    async def claim(self, run: str) -> Claim:
        """Make the run ours."""
        shared, before = self._shared, self._contents.leases.get(run, "")
        claim = await super().claim(run)
        if before != self.me:
            shared.epochs[run] = shared.epochs.get(run, 0) + 1
            shared.placements.setdefault(run, Placement())
        if before not in ("", NOBODY, self.me):
            deaths, at = shared.deaths.get(run, (0, 0))
            length = self._length(run)
            deaths = 1 if deaths and length - at >= GOES_ON else deaths + 1
            shared.deaths[run] = deaths, length
        deaths = shared.deaths.get(run, (0, 0))[0]
        return Claim(was_cut=claim.was_cut, epoch=shared.epochs[run], deaths=deaths)

    async def release(self, run: str, due_at: float | None = None) -> None:
        """Let go of a run that is ours."""
        is_ours = self._contents.leases.get(run) == self.me
        await super().release(run)
        if is_ours and due_at is not None:
            self._shared.dues[run] = due_at

    def _let_go(self, run: str) -> None:
        super()._let_go(run)
        if run not in self._contents.leases:
            self._shared.deaths.pop(run, None)
        self._shared.dues.pop(run, None)
        if self._is_leaving:
            self._shared.dues[run] = 0.0

    _is_leaving = False

    async def aclose(self) -> None:
        """Let go of every run, of which each is due, and close."""
        self._is_leaving = True
        await super().aclose()

    async def assign(self, run: str, placement: Placement) -> None:
        """Say where a run belongs."""
        self._refuse_closed()
        self._shared.placements[run] = placement

    async def take(self, worker: WorkerInfo, limit: int) -> list[Taken]:
        """Claim and return runs that are owed something and that this worker may take."""
        taken: list[Taken] = []
        while len(taken) < limit and (id := self._next_for(worker)) is not None:
            claim = await self.claim(id)
            taken.append(Taken(kept=self._kept(id, self._contents.runs[id]), claim=claim))
        return taken

    def _next_for(self, worker: WorkerInfo) -> str | None:
        contents = self._contents
        places = defaultdict(Placement, self._shared.placements)
        users = Counter(places[run].user for run in contents.leases if contents.living(run))
        has_suspect = any(
            owner == self.me and self._is_suspect(run) for run, owner in contents.leases.items()
        )
        fitting = (
            (users[places[id].user], run.summary().updated_at, id)
            for id, run in contents.runs.items()
            if self._is_owed(id, run)
            and fits(worker, places[id], run.summary().workspace, id)
            and not (has_suspect and self._is_suspect(id))
        )
        return min(fitting, default=(0, 0.0, None))[2]

    def _is_suspect(self, run: str) -> bool:
        """Return whether a run has died with three owners, one it was not yet taken from included."""
        died = self._contents.leases.get(run, NOBODY) not in (*self._contents.owners, NOBODY)
        return self._shared.deaths.get(run, (0, 0))[0] + died >= SUSPECT

    def _is_owed(self, id: str, run: Any) -> bool:
        contents = self._contents
        if run.summary().is_over or contents.living(id) or run.is_foreign:
            return False
        is_cut, is_due = id in contents.leases, self.now() >= self._shared.dues.get(id, math.inf)
        return is_cut or is_due or any(mail.run == id for mail in self._undelivered())

    async def offered(self, timeout_s: float) -> None:
        """Return once anything was written, or in time."""
        since, self._offered_at = self._offered_at, self.now()
        due = [at - self._offered_at for at in self._shared.dues.values() if at > since]
        await self._offers.rung(0.0 if self._is_closed else min(timeout_s, *due, timeout_s))

    async def announce(self, worker: WorkerInfo) -> None:
        """Say that this owner is a worker."""
        self._refuse_closed()
        self._shared.workers[self.me] = worker

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that live, the oldest first."""
        runs: dict[str, list[str]] = {}
        for run, owner in self._contents.leases.items():
            runs.setdefault(owner, []).append(run)
        return [
            msgspec.structs.replace(worker, runs=tuple(runs.get(me, ())))
            for me, worker in self._shared.workers.items()
            if me in self._contents.owners
        ]

    async def tell(self, owner: str, note: str) -> None:
        """Tell an owner something that is kept nowhere."""
        self._refuse_closed()
        told = self._contents.owners.get(owner)
        if isinstance(told, MemoryPool):
            told._notes.tell(note)

    @contextlib.contextmanager
    def told(self) -> Iterator[asyncio.Queue[str]]:
        """Give what this owner is told."""
        with self._notes.heard() as notes:
            notes.put_nowait("")
            yield notes
