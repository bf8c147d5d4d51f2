"""What running commands say, in the live region: the last line of each, and of one the lines before it."""

from collections.abc import Sequence
from typing import Final

from midstream.core.events import ToolCalled
from midstream.safety.sanitize import sanitized
from midstream.tui.event_lines import branch_label
from midstream.tui.output_tail import MAX_LINES, OutputTail
from midstream.tui.styled_lines import DIM, Line, Row, clipped, rows, width_of

MAX_ROWS: Final = 6
LEAST_LINES: Final = 3
"""Lines of output from which a command has rows of its own; fewer fit beside its name."""

_MARK: Final = "┊ "


class Outputs:
    """The ends of the outputs of running tool calls, by run and call."""

    def __init__(self) -> None:
        self._tails: dict[tuple[str, str], OutputTail] = {}

    def add(self, run: str, call_id: str, text: str) -> None:
        """Take the next piece of a call's output."""
        self._tails.setdefault((run, call_id), OutputTail()).feed(text)

    def drop_call(self, run: str, call_id: str) -> None:
        """Forget a call that ended."""
        self._tails.pop((run, call_id), None)

    def drop_run(self, run: str) -> None:
        """Forget the calls of a run."""
        for key in [key for key in self._tails if key[0] == run]:
            del self._tails[key]

    def last_line(self, run: str, call_id: str) -> str:
        """Return what a call says now, "" for nothing."""
        return "".join(self.lines(run, call_id, 1))

    def loudest(self, calls: Sequence[tuple[str, ToolCalled]], run: str) -> ToolCalled | None:
        """Return the newest of the run's calls that says enough for rows of its own ("": of any run)."""
        for of, call in reversed(calls):
            enough = len(self.lines(of, call.call_id, LEAST_LINES)) == LEAST_LINES
            if enough and (not run or of == run):
                return call
        return None

    def rows(self, run: str, call: ToolCalled, *, height: int, width: int) -> list[Row]:
        """Return the last lines of a call's output, a row each, as many as there is room for."""
        named = branch_label(call.branch)
        room = max(1, width - 3 - sum(width_of(text) for _, text in named))
        found: list[Row] = []
        for line in self.lines(run, call.call_id, min(height, MAX_ROWS)):
            shown = clipped(sanitized(line.expandtabs(4)).rstrip(), room)
            found.append(rows(Line((*named, (DIM, shown)), _MARK, DIM, _MARK), width)[0])
        return found

    def lines(self, run: str, call_id: str, count: int = MAX_LINES) -> list[str]:
        """Return the last lines of a call's output that hold anything, at most so many."""
        tail = self._tails.get((run, call_id))
        return [] if tail is None else tail.last(count)
