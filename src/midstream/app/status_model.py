"""What the screen says of runs at work: who, how far, for how long, at what cost."""

import time
from collections.abc import Callable, Sequence

from midstream.app.run_sentences import is_chat, is_done, name_of
from midstream.core.costs import Cost, costs, in_words, is_unknown
from midstream.core.events import RunStarted
from midstream.core.notices import Envelope
from midstream.runtime.ports import Machine
from midstream.views.amounts import duration
from midstream.views.lanes import Lane, at_work, behind, progress_words


class StatusModel:
    """Remembers when runs began, and what was counted of them. Asked at every frame: it is quick.

    Args:
        now: the time in seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._began: dict[str, float] = {}
        self._counted: tuple[object, str] = ((), "")
        self._inherited: dict[str, Cost] = {}

    def on_event(self, envelope: Envelope) -> None:
        """Remember when a run began."""
        if isinstance(envelope.event, RunStarted):
            self._began[envelope.run] = envelope.at

    def lanes(
        self, active: Machine | None, others: Sequence[Machine], short: Callable[[str], str]
    ) -> tuple[Lane, ...]:
        """Return who is at work: in the active run one by one, of each other run in one line."""
        found = () if active is None or active.run.definition is None else at_work(active.run)
        for machine in others:
            if machine is active or is_done(machine) or machine.run.definition is None:
                continue
            lane = behind(machine.run, named=f"{name_of(machine)} ({short(machine.run.id)})")
            found = found if lane is None else (*found, lane)
        return found

    def progress(self, machine: Machine, cost: str) -> str:
        """Return how far a workflow at work is; "" for a chat and one that is over.

        How long it runs is told of one that began in this console: a pause of days is no work.
        """
        run = machine.run
        if is_chat(machine) or run.is_over or not run.visit.state:
            return ""
        parts = [name_of(machine), progress_words(run)]
        if run.id in self._began:
            parts.append(duration(self._now() - self._began[run.id]))
        return " · ".join(part for part in (*parts, cost) if part)

    def cost(self, machines: Sequence[Machine]) -> str:
        """Return what all of the runs have cost, "" where no model was asked."""
        standing = tuple((m.run.id, len(m.run.usage.requests)) for m in machines)
        if standing != self._counted[0]:
            for machine in machines:
                if machine.run.id not in self._inherited:
                    self._inherited[machine.run.id] = _shared(machine, machines)
            total = Cost()
            for run in (machine.run for machine in machines):
                total = total.plus(costs(run.usage.requests).total).plus(
                    self._inherited[run.id], -1
                )
            # That there is no price stands in `/cost`, and where the first run ends.
            is_told = bool(total.requests) and not is_unknown(total)
            self._counted = (standing, in_words(total) if is_told else "")
        return self._counted[1]


def _shared(machine: Machine, machines: Sequence[Machine]) -> Cost:
    """Return what a run that has just come up began with had cost: a copy pays for none of it."""
    own = machine.run.usage.requests
    longest = 0
    for other in machines:
        theirs = other.run.usage.requests if other is not machine else ()
        same = next(
            (at for at, pair in enumerate(zip(own, theirs, strict=False)) if pair[0] != pair[1]), -1
        )
        longest = max(longest, min(len(own), len(theirs)) if same < 0 else same)
    return costs(own[:longest]).total
