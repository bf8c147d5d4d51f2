"""The runs of one workspace, as a console uses them: kept ones, and those of other processes."""

from collections.abc import Callable, Sequence

import msgspec

from midstream.core.errors import UserMistake
from midstream.core.notices import Envelope
from midstream.core.views.side_effects import in_words, short_path
from midstream.engine.local import LocalEngine
from midstream.engine.remote import RemoteMachine
from midstream.engine.resuming import cut_runs, stop_here, take_up
from midstream.engine.travel import Fork, before_last_turn, fork, put_back
from midstream.ports import Choice, Library, Machine
from midstream.storage import KeptRun


class Travelled(msgspec.Struct, frozen=True, kw_only=True):
    """What came of going back: the run that goes on, and what a person should hear."""

    id: str
    told: tuple[str, ...] = ()


class WorkspaceRuns:
    """What can be done with the runs of a workspace that are not under way in this process.

    Args:
        engine: where runs go on.
        library: what workflows and roles are now.
        is_lasting: whether the store outlives this process.
    """

    def __init__(self, engine: LocalEngine, library: Library, *, is_lasting: bool) -> None:
        self._engine = engine
        self._library = library
        self._is_lasting = is_lasting
        self._last_fork: Fork | None = None

    @property
    def is_lasting(self) -> bool:
        """Return whether runs are kept beyond this process."""
        return self._is_lasting

    async def listing(self) -> list[KeptRun]:
        """Return every run of the workspace, the oldest first; owned ones are of other processes."""
        here, me = str(self._engine.world.workspace), self._engine.store.me
        return [
            msgspec.structs.replace(kept, owner="") if kept.owner == me else kept
            for kept in await self._engine.store.listing()
            if kept.summary.workspace == here
        ]

    async def left(self) -> list[KeptRun]:
        """Return the runs of the workspace that wait for a process to go on with them."""
        return await cut_runs(self._engine.store, self._engine.world.workspace)

    async def resume(self, id: str, choice: Choice) -> Machine | None:
        """Return a kept run that goes on here, None for one that was stopped instead.

        Raises:
            DefinitionDiffers: its workflow has changed, and nobody has chosen.
            UserMistake, RunOwned, JournalDamaged: as in `take_up`.
        """
        if choice == "stop":
            reason = "stopped by the user"
            await stop_here(self._engine.store, self._engine.world.clock, id, reason=reason)
            return None
        return await take_up(self._engine, self._library, id, choice=choice or "ask")

    async def watch(
        self,
        id: str,
        hear: Callable[[Envelope], None],
        owned: Callable[[str], None] | None = None,
    ) -> Machine:
        """Return a run that lives elsewhere, or nowhere; see `RemoteMachine.attached`."""
        return await RemoteMachine.attached(
            self._engine.store,
            id,
            bells=self._engine.bells,
            clock=self._engine.world.clock,
            tap=hear,
            owned=owned,
        )

    async def unwatch(self, machine: Machine) -> None:
        """Hear no more of a run that was watched."""
        if isinstance(machine, RemoteMachine):
            await machine.aclose()

    async def fork(self, id: str, at: int | None) -> Travelled:
        """Make a copy of a run as it was after fact `at`, None: as it is."""
        return self._told(await fork(self._engine.store, id, at))

    async def undo(self, machine: Machine) -> Travelled:
        """End a run of this process and make a copy of it as it was before its last turn."""
        id = machine.run.id
        at = await before_last_turn(self._engine.store, id)
        await machine.stop("undone")
        return self._told(await fork(self._engine.store, id, at))

    async def put_back(self) -> tuple[str, ...]:
        """Put files back that were written after the point last gone back to; say what became of each.

        Raises:
            UserMistake: there is nothing to put back.
        """
        last = self._last_fork
        if last is None or not last.effects.files:
            raise UserMistake("No file is to be put back.", hint="/fork and /undo say which were.")
        self._last_fork = None
        workspace = self._engine.world.workspace
        done = await put_back(self._engine.store, last.effects.files, workspace)
        return tuple(
            f"{short_path(each.path, str(workspace))}: "
            f"{each.result.replace('_', ' ')}{f', {each.why}' if each.why else ''}"
            for each in done
        )

    def _told(self, made: Fork) -> Travelled:
        self._last_fork = None if made.is_foreign else made
        told = [f"Run {made.id} goes on from event {made.seq} of run {made.source}."]
        effects = in_words(made.effects, workspace=made.workspace)
        if effects:
            told.append("What was done after that point stays done:")
            told += _shown(effects)
        if made.damaged is not None:
            told.append(f"What was done from event {made.damaged} on is not known: it is damaged.")
        if made.effects.files and not made.is_foreign:
            told.append("/putback puts the files back as they were then.")
        return Travelled(id=made.id, told=tuple(told))


SHOWN_EFFECTS = 20


def _shown(lines: Sequence[str]) -> list[str]:
    more = len(lines) - SHOWN_EFFECTS
    shown = [f"  {line}" for line in lines[:SHOWN_EFFECTS]]
    return [*shown, f"  +{more} more"] if more > 0 else shown
