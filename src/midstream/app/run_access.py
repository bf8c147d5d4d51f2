"""What the background needs: a store's runs on one side, the console's prompt on the other."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from midstream.core.notices import Envelope
from midstream.runtime.ports import ChangedFile, Choice, Machine
from midstream.runtime.ports.storage import KeptRun
from midstream.views.spending import Spent
from midstream.views.turns import Turn


class Travelled(Protocol):
    """What came of going back in time."""

    @property
    def id(self) -> str:
        """Return the run that goes on."""

    @property
    def told(self) -> Sequence[str]:
        """Return what a person should hear of it, such as effects that stay."""


class Keeping(Protocol):
    """The runs of a workspace in a store, as a console uses them."""

    @property
    def is_lasting(self) -> bool:
        """Return whether runs are kept beyond this process."""

    async def listing(self) -> list[KeptRun]:
        """Return every run of the workspace, the oldest first."""

    async def left(self) -> list[KeptRun]:
        """Return the runs of the workspace that wait for a process to go on with them."""

    async def resume(self, id: str, choice: Choice) -> Machine | None:
        """Return a kept run that goes on here, None for one that was stopped instead.

        Raises:
            DefinitionDiffers: its workflow has changed, and nobody has chosen; nothing changed.
            UserMistake: it cannot go on here; nothing changed.
        """

    async def watch(
        self,
        id: str,
        hear: Callable[[Envelope], None],
        owned: Callable[[str], None] | None = None,
    ) -> Machine:
        """Return a run that lives elsewhere, or nowhere. New events of it go to `hear`.

        `owned` is told whenever another process runs it than before, "" for none.
        """

    async def unwatch(self, machine: Machine) -> None:
        """Hear no more of a run that was watched."""

    async def fork(self, id: str, at: int | None) -> Travelled:
        """Make a copy of a run as it was; `at` None: as it is."""

    async def undo(
        self, machine: Machine, *, keeps_files: bool = False, at: int | None = None
    ) -> Travelled:
        """End a run of this process and make a copy of it as it was before its last turn.

        Or before a turn that began right after fact `at`. File changes since are taken back, too,
        unless `keeps_files`.
        """

    async def turns(self, id: str) -> tuple[Turn, ...]:
        """Return the turns of a run that words began, the oldest first."""

    async def export(self, id: str, file: str) -> str:
        """Write a run as one file that must not be there yet; return where it is, in words."""

    async def redo(self, machine: Machine) -> Travelled:
        """End a run of this process that came of an undo, and make a copy of what it was before it.

        Without an id in what is returned nothing goes on: what was undone had ended by itself.
        """

    async def facts(self, id: str) -> Sequence[Envelope]:
        """Return the facts of a run, in order."""

    async def spent(self, *, since: float, whole: Collection[str]) -> list[Spent]:
        """Return what all runs used since a time, and the runs `whole` ever; each request once."""

    async def changes(self, id: str) -> tuple[ChangedFile, ...]:
        """Return what a run has made of files."""

    async def put_back(self) -> Sequence[str]:
        """Put files back that were written after the point last gone back to; say what became."""


class Prompt(Protocol):
    """What the background needs of the console: what its lines go to."""

    def active(self) -> Machine | None:
        """Return the run that lines go to now."""

    def own_machines(self) -> tuple[Machine, ...]:
        """Return the runs that live in this console, ended ones included."""

    def has_seen(self, id: str) -> None:
        """Know that a person has the past of a chat before them: it is not shown again."""

    async def turn_to(self, machine: Machine, *, is_told: bool = False) -> None:
        """Let lines go to a run. `is_told`: a person knows how it came there, if it is a chat."""

    async def turn_home(self) -> None:
        """Let lines go to the role again."""

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""

    def hear(self, envelope: Envelope) -> None:
        """Show an event of a run that lives elsewhere."""
