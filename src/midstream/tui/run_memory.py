"""What lines about a run need to remember of it: its branches, its interruptions, what it cost. No IO.

An interruption is told once all that it stopped has ended. Of a run that is taken up what it has cost is
known, and not since when it was at work: only that is told.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from midstream.core import events as e
from midstream.core.costs import Cost, costs, in_words, is_unknown
from midstream.core.events import BranchStarted, Interrupted
from midstream.core.routing import living
from midstream.core.run import Run
from midstream.language.names import Outcome
from midstream.tui.event_lines import (
    RESULT_MARK,
    Block,
    Cut,
    begun,
    branch_label,
    cut_words,
    interruption,
    joined,
    labelled,
    named,
    own_words,
)
from midstream.tui.keymap import called
from midstream.tui.output_tail import MAX_ROWS
from midstream.tui.styled_lines import Line
from midstream.tui.themes import MUTED
from midstream.views.amounts import span_words
from midstream.views.calls_in_words import beginning
from midstream.views.lanes import about


def forget(run: str, *memories: dict[Any, Any]) -> None:
    """Take out of each memory what its keys, which begin with a run's id, say is of this run."""
    for memory in memories:
        for key in [key for key in memory if key[0] == run]:
            del memory[key]


class Branches:
    """The branches of all runs. Those that begin, or go on, together are told on one line."""

    def __init__(self) -> None:
        self._about: dict[tuple[str, str], str] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._states: dict[tuple[str, str], str] = {}
        self._done: dict[tuple[str, str, str], dict[str, bool]] = {}
        self._moved: list[tuple[str, str, str, str]] = []

    def label(self, run: str, branch: str) -> str:
        """Return what a branch is called on the screen: its path, and the item it is for."""
        item = self._about.get((run, branch), "")
        return f"{branch} {item}" if item else branch

    def labelled(self, run: str, branch: str, lines: list[Line]) -> list[Block]:
        """Return lines about something in a branch, with what it is called before each."""
        return [*labelled(self.label(run, branch), lines)]

    def recall(self, run: Run) -> None:
        """Remember the branches of a run nobody listened to so far."""
        self._states[run.id, ""] = run.visit.state
        for branch in living(run):
            self._about[run.id, branch.branch.path] = about(branch.input, branch.variables)
            self._states[run.id, branch.branch.path] = branch.visit.state
            place, _, name = branch.branch.path.rpartition("/")
            if not branch.branch.call_id:
                self._siblings(run.id, place).setdefault(name, False)
        for name, branch in run.visit.branches.items():
            if not branch.branch.call_id:
                self._siblings(run.id, "")[name] = branch.status == "finished"

    def entered(self, run: str, branch: str, state: str) -> None:
        """Remember the state a place is in."""
        self._states[run, branch] = state

    def state(self, run: str, branch: str) -> str:
        """Return the state a place is in."""
        return self._states.get((run, branch), "")

    def begin(self, run: str, fact: BranchStarted, at: float) -> None:
        """Remember a branch that begins."""
        path = f"{fact.branch}/{fact.name}".lstrip("/")
        self._about[run, path] = about(fact.input, fact.variables)
        self._since[run, path] = at
        if not fact.call_id:  # Tasks that were handed on end with their calls: nothing joins them.
            self._siblings(run, fact.branch)[fact.name] = False
        task = fact.input if fact.call_id and isinstance(fact.input, str) else ""
        verb = beginning(task) if task else "begin"
        self._moved.append((run, fact.branch, verb, self._short(run, path)))

    def goes_on(self, run: str, branch: str) -> None:
        """Remember a branch that goes on where it was halted."""
        place = branch.rpartition("/")[0]
        self._moved.append((run, place, "go on", self._short(run, branch)))

    def end(self, run: str, branch: str, at: float, *, is_done: bool) -> float:
        """Remember how a branch ended; return for how many seconds it was at work."""
        place, _, name = branch.rpartition("/")
        siblings = self._siblings(run, place)
        if name in siblings:
            siblings[name] = is_done
        return at - self._since.pop((run, branch), at)

    def finished(self, run: str, branch: str) -> list[str]:
        """Return the branches of the state of a place that have finished, while others have not."""
        done = self._done.get((run, branch, self.state(run, branch)), {})
        return [name for name, is_done in done.items() if is_done] if not all(done.values()) else []

    def join(self, run: str, branch: str) -> list[Line]:
        """Return what the branches of the state of a place came to, nothing if it had but one."""
        state = self.state(run, branch)
        done = self._done.pop((run, branch, state), {})
        if len(done) < 2:
            return []
        return [joined(state, sum(done.values()), len(done), within=self.label(run, branch))]

    def moved(self) -> list[Line]:
        """Return the lines of those that began or went on since the last time."""
        groups: dict[tuple[str, str, str], list[str]] = {}
        for run, place, verb, name in self._moved:
            groups.setdefault((run, place, verb), []).append(name)
        self._moved.clear()
        return [
            begun(names, verb, within=self.label(run, place))
            for (run, place, verb), names in groups.items()
        ]

    def forget(self, run: str) -> None:
        """Forget the branches of a run that has ended."""
        forget(run, self._about, self._since, self._states, self._done)

    def _short(self, run: str, path: str) -> str:
        place = path.rpartition("/")[0]
        return self.label(run, path).removeprefix(f"{place}/")

    def _siblings(self, run: str, place: str) -> dict[str, bool]:
        return self._done.setdefault((run, place, self.state(run, place)), {})


# --- interruptions --------------------------------------------------------------------------------


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
            Line(
                (*branch_label(branch), (MUTED, line)),
                RESULT_MARK,
                MUTED,
                RESULT_MARK,
                shrinks=line,
            )
            for branch, lines in shown
            for line in lines[-share:]
        ]
        if len(shown) < len(self._outputs) or any(len(lines) > share for _, lines in shown):
            whose = "its" if len(self._outputs) == 1 else "their"
            found += own_words(f"{called('show_last') or '/last'} shows {whose} output", "note")
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


# --- what runs took and cost ----------------------------------------------------------------------


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

    def count(self, run: str, fact: e.AnyFact, at: float) -> None:
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

    def ended_words(self, run: str, at: float) -> str:
        """Return what a run that ended took and cost, "" where nothing is worth telling; forget it."""
        began, cost = self._began.pop(run, None), self._costs.pop(run, Cost())
        took = 0.0 if began is None else at - began
        parts = [f"after {span_words(took)}" if took >= 1 else ""]
        is_worth_it = cost.requests and not (is_unknown(cost) and self._said_unknown)
        parts += [in_words(cost) if is_worth_it else ""]
        self._said_unknown = self._said_unknown or is_unknown(cost)
        return " · ".join(filter(None, parts))
