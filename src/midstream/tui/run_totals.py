"""What runs took and cost, for the line that tells their end. No IO.

Of a run that is taken up what it has cost is known, and not since when it was at work: only that is told.
"""

from midstream.core import events as e
from midstream.core.costs import Cost, costs, in_words, is_unknown
from midstream.core.run import Run
from midstream.views.amounts import span_words


class Tally:
    """What each run has cost so far, and when it began."""

    def __init__(self) -> None:
        """Know of no run."""
        self._costs: dict[str, Cost] = {}
        self._began: dict[str, float] = {}
        self._said_unknown = False

    def recall(self, run: Run) -> None:
        """Take a run as it is."""
        self._costs[run.id] = costs(run.usage.requests).total

    def heard(self, run: str, fact: e.AnyFact, at: float) -> None:
        """Take note of what a fact says was used, or that a run began then."""
        match fact:
            case e.RunStarted():
                self._began[run] = at
            case (
                e.AgentResponded(usage=e.Usage() as usage)
                | e.ConversationCompacted(usage=e.Usage() as usage)
                | e.CompactionEnded(usage=e.Usage() as usage)
            ):
                self._costs[run] = self._costs.get(run, Cost()).and_also(usage)
            case _:
                pass

    def told(self, run: str, at: float) -> str:
        """Return what a run that ended took and cost, "" where nothing is worth telling; forget it."""
        began, cost = self._began.pop(run, None), self._costs.pop(run, Cost())
        took = 0.0 if began is None else at - began
        parts = [f"after {span_words(took)}" if took >= 1 else ""]
        is_worth_it = cost.requests and not (is_unknown(cost) and self._said_unknown)
        parts += [in_words(cost) if is_worth_it else ""]
        self._said_unknown = self._said_unknown or is_unknown(cost)
        return " · ".join(filter(None, parts))
