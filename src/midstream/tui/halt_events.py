"""Interruptions, until they can be told: what each ended, in the run and in its branches. No IO."""

from collections.abc import Iterable, Sequence

from midstream.core.events import Interrupted
from midstream.language.names import Outcome
from midstream.tui.event_lines import (
    RESULT_MARK,
    Cut,
    branch_label,
    cut_words,
    interruption,
    named,
    own_words,
)
from midstream.tui.live_output import MAX_ROWS
from midstream.tui.styled_lines import DIM, Line


def is_within(branch: str, outer: str) -> bool:
    """Return whether a branch is `outer` or within it."""
    return not outer or branch == outer or branch.startswith(f"{outer}/")


class Halt:
    """A halt of a run, or of one branch of it, with what it has ended so far."""

    def __init__(self, fact: Interrupted) -> None:
        self.branch = fact.branch
        self._state = fact.state
        self._is_by_words = fact.text is not None
        self._is_trouble = fact.leads_to == "trouble"
        holds = "waiting for your words" if fact.leads_to == "hold" else ""
        self.reason = "" if self._is_trouble else " · ".join(filter(None, (fact.reason, holds)))
        self._agents: dict[str, str] = {}
        self._spoke: set[str] = set()
        self._ended: dict[str, list[tuple[str, Outcome]]] = {}
        self._outputs: list[tuple[str, Sequence[str]]] = []

    def cut(self, branch: str, agent: str, *, had_words: bool) -> None:
        """Take note of a place that was halted, and of the agent at work there, if any."""
        self._agents.setdefault(branch, agent)
        if had_words:
            self._spoke.add(branch)

    def ended(self, branch: str, tool: str, outcome: Outcome) -> None:
        """Take note of a tool call that ended."""
        self._ended.setdefault(branch, []).append((tool, outcome))

    def said(self, branch: str, lines: Sequence[str]) -> None:
        """Take note of the last lines a tool call that ended has said."""
        if lines:
            self._outputs.append((branch, [line.rstrip() for line in lines]))

    def output_lines(self) -> list[Line]:
        """Return the ends of the outputs that were on the screen, which share its rows."""
        shown = self._outputs[-MAX_ROWS:]
        share = MAX_ROWS // max(1, len(shown))
        found = [
            Line((*branch_label(branch), (DIM, line)), RESULT_MARK, DIM, RESULT_MARK, shrinks=line)
            for branch, lines in shown
            for line in lines[-share:]
        ]
        if len(shown) < len(self._outputs) or any(len(lines) > share for _, lines in shown):
            whose = "its" if len(self._outputs) == 1 else "their"
            found += own_words(f"Ctrl-O shows {whose} output", "note")
        return found

    def ends_nothing(self) -> bool:
        """Return whether words made it that had waited for their turn, and nothing was cut off."""
        cuts = self.cuts().values()
        return self._is_by_words and not any(cut.agent or cut.ended for cut in cuts)

    def cuts(self) -> dict[str, Cut]:
        """Return what was cut, by place. An agent whose tools say it all is not named."""
        found = {}
        for place in dict.fromkeys((*self._agents, *self._ended)):
            ended = tuple(self._ended.get(place, ()))
            is_named = place in self._spoke or not ended
            found[place] = Cut(self._agents.get(place, "") if is_named else "", ended)
        return found

    def words(self) -> str:
        """Return what was cut in the place that was halted itself."""
        return " · ".join(cut_words(self.cuts().get(self.branch, Cut())))

    def lines(self, label: str, *, done: Sequence[str] = ()) -> list[Line]:
        """Return the halt on one line, and what was on the screen; where an error says it all, nothing.

        `done` are the branches that had finished before. Where neither an agent nor a tool was at
        work, what was cut off is the state: its handler, its wait, its question.
        """
        cuts = self.cuts()
        if not self._is_trouble:
            if self._state and not any(cut.agent or cut.ended for cut in cuts.values()):
                cuts[self.branch] = Cut(self._state)
            before = f"finished before: {named(done)}" if done else ""
            reason = " · ".join(filter(None, (before, self.reason)))
            told = interruption(cuts, reason, branch=self.branch, label=label)
            return [told, *self.output_lines()]
        ended = {place: cut for place, cut in cuts.items() if cut.ended or place != self.branch}
        if not ended:
            return []
        told = interruption(ended, "", branch=self.branch, label=label, heading="")
        return [told, *self.output_lines()]


class Halts:
    """The halts not told yet, by run and branch."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Halt] = {}

    def covering(self, run: str, branch: str) -> Halt | None:
        """Return the halt a branch is in, if there is one."""
        for (its_run, place), halt in self._open.items():
            if its_run == run and is_within(branch, place):
                return halt
        return None

    def begin(self, run: str, fact: Interrupted) -> Halt:
        """Return the halt a fact belongs to: the one it is within, or a new one."""
        halt = self.covering(run, fact.branch)
        if halt is None:
            halt = self._open[run, fact.branch] = Halt(fact)
        return halt

    def over(self, run: str, branch: str) -> list[Halt]:
        """Take out the halts that something further in this place comes after."""
        return self._taken(
            key
            for key in self._open
            if key[0] == run and (is_within(branch, key[1]) or is_within(key[1], branch))
        )

    def take(self, run: str, branch: str) -> None:
        """Forget a halt: it is told."""
        self._open.pop((run, branch), None)

    def idle(self, running: Iterable[tuple[str, str]]) -> list[tuple[str, Halt]]:
        """Take out the halts, each with its run, that wait for none of the calls that run."""
        places = list(running)
        keys = [
            key
            for key in self._open
            if not any(run == key[0] and is_within(place, key[1]) for run, place in places)
        ]
        return list(zip([run for run, _ in keys], self._taken(keys), strict=True))

    def _taken(self, keys: Iterable[tuple[str, str]]) -> list[Halt]:
        return [self._open.pop(key) for key in list(keys)]
