"""The runs a session knows: its own, those of other processes that are watched, and kept ones."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from midstream.app.assembly import Parts
from midstream.app.run_sentences import short_of
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake, nearest
from midstream.runtime.ports import Machine
from midstream.runtime.storage import PAGE, KeptRun, RunKind, walk
from midstream.views.listing import Standing

if TYPE_CHECKING:
    from midstream.runtime.engine.remote import RemoteMachine
    from midstream.runtime.engine.run_repository import WorkspaceRuns


class Runs:
    """The runs of a workspace, wherever they live, as known now.

    Args:
        on_event: hears every event of every run that is here or watched.
    """

    def __init__(self, on_event: Callable[[Envelope], None]) -> None:
        self.on_event = on_event
        self.watched: dict[str, RemoteMachine] = {}
        """The runs of other processes that lines may go to, by id."""
        self.kept: tuple[KeptRun, ...] = ()
        """The runs of the workspace that were written last as the store listed them, the newest first."""
        self._are_all_known = False
        self._ids: list[str] = []
        self._parts: Parts | None = None

    @property
    def is_loaded(self) -> bool:
        """Return whether the parts are loaded."""
        return self._parts is not None

    @property
    def parts(self) -> Parts:
        """Return the loaded parts.

        Raises:
            UserMistake: they are still being loaded.
        """
        if self._parts is None:
            raise UserMistake("Still loading.", hint="Try again in a moment.")
        return self._parts

    def equip(self, parts: Parts) -> None:
        """Take the loaded parts into use, and hear of every run of this process."""
        self._parts = parts
        parts.engine.listen(self.on_event)

    @cached_property
    def repository(self) -> "WorkspaceRuns":
        """Return what goes back in runs and forward again."""
        # A thread has imported it with the parts.
        from midstream.runtime.engine.run_repository import WorkspaceRuns

        return WorkspaceRuns(self.parts.engine)

    # --- those of the store -----------------------------------------------------------------

    async def listing(
        self, status: Collection[Standing] | None = None, limit: int = PAGE
    ) -> list[KeptRun]:
        """Return the runs of the workspace that were written last, the newest first.

        Owned ones are of other processes.
        """
        found = await self.parts.store.listing(workspace=self._here, status=status, limit=limit)
        return [self._seen(kept) for kept in found]

    async def walk(
        self, *, kind: RunKind | None = None, status: Collection[Standing]
    ) -> AsyncIterator[KeptRun]:
        """Yield the same one after the other, however many there are."""
        store = self.parts.store
        async for kept in walk(store, workspace=self._here, kind=kind, status=status):
            yield self._seen(kept)

    async def matching(self, text: str) -> list[KeptRun]:
        """Return the runs of the workspace whose id begins so, and behind them those called so."""
        found = await self.parts.store.matching(text, workspace=self._here)
        return [self._seen(kept) for kept in found]

    async def left(self, limit: int | None) -> list[KeptRun]:
        """Return the runs of the workspace that wait for a process; see `cut_runs`."""
        from midstream.runtime.engine.resume import cut_runs

        engine = self.parts.engine
        return await cut_runs(engine.store, engine.world.workspace, limit)

    @property
    def _here(self) -> str:
        return str(self.parts.engine.world.workspace)

    def _seen(self, kept: KeptRun) -> KeptRun:
        is_ours = kept.owner == self.parts.store.me
        return msgspec.structs.replace(kept, owner="") if is_ours else kept

    # --- those that lines can go to ---------------------------------------------------------

    def own(self) -> tuple[Machine, ...]:
        """Return the runs that live in this console, the oldest first, ended ones included."""
        return () if self._parts is None else self._parts.engine.machines()

    def all(self) -> tuple[Machine, ...]:
        """Return every run lines can go to, the oldest of this console first."""
        return (*self.own(), *self.watched.values())

    def find_own(self, id: str) -> Machine | None:
        """Return the machine of a run that lives in this console, ended ones included."""
        for machine in self.own():
            if machine.run.id == id and (machine.run.is_over or not machine.is_closed):
                return machine
        return None

    def find(self, id: str) -> Machine | None:
        """Return the machine of a run that is here or watched."""
        return self.find_own(id) or self.watched.get(id)

    def is_watched(self, machine: Machine | None) -> bool:
        """Return whether a run is another process's."""
        return machine in self.watched.values()

    def orphaned(self) -> frozenset[str]:
        """Return the ids of the watched runs that no process runs, as far as that was seen."""
        return frozenset(id for id, machine in self.watched.items() if not machine.is_owned)

    async def listed(self) -> tuple[KeptRun, ...]:
        """Return a page of the workspace's runs, the newest first, and know them from now on."""
        if self._parts is not None:
            self.kept = tuple(await self.listing())
            self._ids = sorted(kept.id for kept in self.kept)
            self._are_all_known = len(self.kept) < PAGE
        return self.kept

    async def watch(self, id: str, owned: Callable[[str], None]) -> Machine:
        """Return a run of another process, heard of from now on; `owned` is told whose it becomes."""
        self.watched[id] = await self.attached(id, self.on_event, owned)
        return self.watched[id]

    async def attached(
        self,
        id: str,
        tap: Callable[[Envelope], None] | None = None,
        owned: Callable[[str], None] | None = None,
    ) -> "RemoteMachine":
        """Return a run that lives elsewhere, or nowhere; see `RemoteMachine.attached`."""
        from midstream.runtime.engine.remote import RemoteMachine

        engine = self.parts.engine
        return await RemoteMachine.attached(
            engine.store, id, sockets=engine.sockets, clock=engine.world.clock, tap=tap, owned=owned
        )

    async def forget(self, machine: Machine) -> None:
        """Hear no more of a run of another process; one of this console is left alone."""
        watched = self.watched.get(machine.run.id)
        if watched is machine:
            del self.watched[machine.run.id]
            await watched.aclose()

    async def close(self) -> None:
        """Hear no more of any run of another process."""
        for machine in tuple(self.watched.values()):
            await self.forget(machine)

    def short(self, id: str) -> str:
        """Return the shortest beginning of an id that names no other run.

        Where more runs are kept than are known, it is the whole id.
        """
        if not self._are_all_known:
            return id
        own = [machine.run.id for machine in self.own()]
        # Of all that are known, sorted, only a neighbour can begin as it does for longest.
        place = bisect_left(self._ids, id)
        return short_of(id, [*own, *self._ids[max(place - 1, 0) : place + 2]])

    def named(self, machine: Machine) -> str:
        """Return what tells a run from every other, such as `review (ab12)`."""
        return f"{machine.run.workflow_name} ({self.short(machine.run.id)})"

    async def find_id(self, prefix: str) -> str:
        """Return the id that begins so, in any case, or of the run that is called so.

        Of those that go on here it may be called by its workflow, too.

        Raises:
            UserMistake: none does, or several do.
        """
        wanted = prefix.casefold()
        found = [m.run.id for m in self.own() if m.run.id.casefold().startswith(wanted)]
        for text in dict.fromkeys((wanted, prefix)) if wanted else ():
            found += [kept.id for kept in await self.matching(text)]
        found += [
            m.run.id
            for m in self.own()
            if not m.run.is_over and m.run.workflow_name.casefold() == wanted
        ]
        ids = list(dict.fromkeys(found))
        # What begins so by its id is meant before what is called so.
        meant = [id for id in ids if id.casefold().startswith(wanted)] or ids
        if wanted in meant or len(meant) == 1:
            return wanted if wanted in meant else meant[0]
        if meant and wanted:
            some = ", ".join(meant[:5])
            raise UserMistake(f"Several runs begin with {prefix}: {some}.", hint="Type more of it.")
        known = [kept.id for kept in await self.listed()]
        best = nearest(prefix, [*known, *(machine.run.id for machine in self.own())])
        hint = "/runs lists them." if best is None else f"Did you mean {best!r}?"
        raise UserMistake(f"There is no run {prefix!r} in this workspace.", hint=hint)
