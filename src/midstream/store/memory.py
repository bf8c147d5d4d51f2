"""A journal in memory: what lives as long as its process."""

from collections.abc import Sequence

from midstream.core.errors import JournalMoved
from midstream.core.notices import Envelope


class MemoryJournal:
    """Facts of runs in lists. See the port `Journal`."""

    def __init__(self) -> None:
        self._runs: dict[str, list[Envelope]] = {}

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`."""
        kept = self._runs.get(run, [])
        if len(kept) != expected:
            raise JournalMoved(
                f"Run {run} has {len(kept)} facts where {expected} were expected.",
                hint="Another process goes on with this run.",
            )
        if facts:
            self._runs.setdefault(run, kept).extend(facts)

    async def read(self, run: str, after: int = 0) -> list[Envelope]:
        """Return the run's facts after position `after`."""
        return self._runs.get(run, [])[after:]

    async def runs(self) -> list[str]:
        """Return the ids of all runs, the oldest first."""
        return list(self._runs)
