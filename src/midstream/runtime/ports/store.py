"""What keeps the facts of runs, and the contents too large for them."""

from collections.abc import Sequence
from typing import Protocol

from midstream.core.notices import Envelope


class Journal(Protocol):
    """Facts of runs, in order, appended and never changed."""

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected` (how many the run has). All or none.

        Raises:
            JournalMoved: the run has more or fewer facts, or is another process's now.
            JournalFull: there is no room; it may be tried again.
            WorldTrouble: it cannot be written.

        Whatever is raised, nothing was kept.
        """

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the run's facts after position `after`, in order; none for an unknown run.

        `upto` is the last position to return, None: all there are.

        Raises:
            JournalDamaged: one of them is not what was written. Up to the one before, all is whole.
        """

    async def runs(self) -> list[str]:
        """Return the ids of all runs, the oldest first."""


class Shelf(Protocol):
    """Large or old contents beside the journal, by what they are: put twice, kept once."""

    async def put(self, data: bytes) -> str:
        """Return the key (SHA-256, in hex) once the data is safe on the disk.

        Raises:
            JournalFull: there is no room.
        """

    async def get(self, key: str) -> bytes:
        """Return the data of a key.

        Raises:
            WorldTrouble: it is missing, or not what was put there.
        """

    def where(self, key: str) -> str:
        """Return where a person finds the data of a key, such as a file's path."""
