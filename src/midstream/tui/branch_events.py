"""What lines about branches need to remember: their names, when they began, how each ended. No IO."""

from typing import Any

from midstream.core.events import BranchStarted
from midstream.core.routing import living
from midstream.core.run import Run
from midstream.tui.event_lines import Block, begun, joined, labelled
from midstream.tui.styled_lines import Line
from midstream.views.lanes import about


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
            self._siblings(run.id, place).setdefault(name, False)
        for name, branch in run.visit.branches.items():
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
        self._siblings(run, fact.branch)[fact.name] = False
        self._moved.append((run, fact.branch, "begin", self._short(run, path)))

    def goes_on(self, run: str, branch: str) -> None:
        """Remember a branch that goes on where it was halted."""
        place = branch.rpartition("/")[0]
        self._moved.append((run, place, "go on", self._short(run, branch)))

    def end(self, run: str, branch: str, at: float, *, is_done: bool) -> float:
        """Remember how a branch ended; return for how many seconds it was at work."""
        place, _, name = branch.rpartition("/")
        self._siblings(run, place)[name] = is_done
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
        memories: tuple[dict[Any, Any], ...] = (self._about, self._since, self._states, self._done)
        for memory in memories:
            for key in [key for key in memory if key[0] == run]:
                del memory[key]

    def _short(self, run: str, path: str) -> str:
        place = path.rpartition("/")[0]
        return self.label(run, path).removeprefix(f"{place}/")

    def _siblings(self, run: str, place: str) -> dict[str, bool]:
        return self._done.setdefault((run, place, self.state(run, place)), {})
