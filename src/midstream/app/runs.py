"""The runs a session knows: its own, those of other processes that are watched, and kept ones."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from midstream.app.assembly import Parts
from midstream.app.run_sentences import short_of
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake, nearest
from midstream.runtime.ports import Machine
from midstream.runtime.storage import PAGE, KeptRun

if TYPE_CHECKING:
    from midstream.runtime.engine.run_repository import WorkspaceRuns


class Runs:
    """The runs of a workspace, wherever they live, as known now.

    Args:
        on_event: hears every event of every run that is here or watched.
    """

    def __init__(self, on_event: Callable[[Envelope], None]) -> None:
        self.on_event = on_event
        self.watched: dict[str, Machine] = {}
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
        """Return what can be done with the runs of the store."""
        # A thread has imported it with the parts.
        from midstream.runtime.engine.run_repository import WorkspaceRuns

        return WorkspaceRuns(self.parts.engine, self.parts.library)

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

    async def listed(self) -> tuple[KeptRun, ...]:
        """Return a page of the workspace's runs, the newest first, and know them from now on."""
        if self._parts is not None:
            self.kept = tuple(await self.repository.listing())
            self._ids = sorted(kept.id for kept in self.kept)
            self._are_all_known = len(self.kept) < PAGE
        return self.kept

    async def watch(self, id: str, owned: Callable[[str], None]) -> Machine:
        """Return a run of another process, heard of from now on; `owned` is told whose it becomes."""
        machine = await self.repository.watch(id, self.on_event, owned)
        self.watched[id] = machine
        return machine

    async def forget(self, machine: Machine) -> None:
        """Hear no more of a run of another process; one of this console is left alone."""
        if self.watched.get(machine.run.id) is machine:
            del self.watched[machine.run.id]
            await self.repository.unwatch(machine)

    async def close(self) -> None:
        """Hear no more of any run of another process."""
        for machine in tuple(self.watched.values()):
            await self.forget(machine)

    async def facts(self, machine: Machine | None) -> Sequence[Envelope]:
        """Return the facts of a run so far, in order; none where there is no run."""
        return () if machine is None else await self.repository.facts(machine.run.id)

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

        Raises:
            UserMistake: none does, or several do.
        """
        wanted = prefix.casefold()
        found = [m.run.id for m in self.own() if m.run.id.casefold().startswith(wanted)]
        for text in dict.fromkeys((wanted, prefix)) if wanted else ():
            found += [kept.id for kept in await self.repository.matching(text)]
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
