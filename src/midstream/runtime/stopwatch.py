"""A stopwatch beside a machine: how long its run was at work, where a budget counts that."""

from typing import Final

from midstream.core.decide.budgets import counts_minutes
from midstream.core.pending import is_at_work
from midstream.core.run import Run
from midstream.language.spec import Definition
from midstream.runtime.ports import Clock

LEAST_S: Final = 1.0
"""Seconds at work that are worth a fact; less is told with what follows."""


class Stopwatch:
    """Adds up the time between two looks at a run in which it was at work.

    A clock that is set counts for nothing. What was not told when the process dies is lost: of
    what was under way then nobody knows how long it went on.
    """

    __slots__ = ("_clock", "_counted", "_is_counting", "_owed", "_since")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: Definition | None = None
        self._is_counting = True
        self._owed = 0.0
        self._since: float | None = None

    def look(self, run: Run) -> float:
        """Return the seconds at work that are to be told now, the run having stood so until now."""
        # Few runs count minutes: of any other the clock is read once, in case its definition changes.
        if not self._is_counting and run.definition is self._counted:
            return 0.0
        before, now = self._since, self._clock.monotonic()
        self._since = now
        if run.definition is not self._counted:
            self._counted = run.definition
            self._is_counting = counts_minutes(run)
        if not self._is_counting:
            return 0.0
        if before is not None and is_at_work(run):
            self._owed += now - before
        return self._owed if self._owed >= LEAST_S else 0.0

    def told(self, seconds: float) -> None:
        """Take note that so many seconds are in the journal."""
        self._owed -= seconds
        self._since = self._clock.monotonic()
