"""The live region: what is on its way and not yet scrollback, only its tail. No IO.

Of a run's branches one streams at a time, the first that spoke; the others have a line each that
says what they do, and their words are shown when they are whole. So no two are ever mixed.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from midstream.console.lines import DIM, YELLOW, Fragment, Line, Row, clipped, rows, width_of
from midstream.console.painting import GUTTER, branch_label, call_text, duration, speech_style
from midstream.core.events import ToolCalled
from midstream.core.views.clock import time_of_day
from midstream.core.views.status import Lane

_TAIL_CHARS = 4000
_JOINERS: Final = re.compile("[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Joiners and variation selectors. The sanitizer has let them pass only where they belong."""

_Key: TypeAlias = tuple[str, str, str]
"""A run, a branch of it ("": none), and an agent at work there."""


class LiveText:
    """The tails of the texts that stream, by who says them, in the order they began."""

    def __init__(self) -> None:
        self._words: dict[_Key, str] = {}
        self._thoughts: dict[_Key, str] = {}
        self._progress: dict[tuple[str, str], str] = {}
        self._since: dict[tuple[str, str], tuple[str, float]] = {}

    def add_words(self, run: str, agent: str, text: str, *, branch: str = "") -> None:
        """Add words of an agent; its reasoning is over."""
        key = (run, branch, agent)
        self._thoughts.pop(key, None)
        self._words[key] = (self._words.get(key, "") + text)[-_TAIL_CHARS:]

    def add_thought(self, run: str, agent: str, text: str, *, branch: str = "") -> None:
        """Add a piece of a model's reasoning, or say what its request is doing."""
        key = (run, branch, agent)
        self._thoughts[key] = (self._thoughts.get(key, "") + text)[-400:]

    def add_progress(self, run: str, call_id: str, text: str) -> None:
        """Add output of a running tool; its last line is shown."""
        self._progress[run, call_id] = (self._progress.get((run, call_id), "") + text)[-400:]

    def drop_agent(self, run: str, agent: str, *, branch: str = "") -> None:
        """Forget an agent: its words are scrollback now."""
        self._words.pop((run, branch, agent), None)
        self._thoughts.pop((run, branch, agent), None)

    def drop_branch(self, run: str, branch: str) -> None:
        """Forget everything that streamed in a branch that ended."""
        for memory in (self._words, self._thoughts):
            for key in [key for key in memory if key[:2] == (run, branch)]:
                del memory[key]

    def drop_call(self, run: str, call_id: str) -> None:
        """Forget a tool call that ended."""
        self._progress.pop((run, call_id), None)

    def drop_run(self, run: str) -> None:
        """Forget everything of a run."""
        for memory in (self._words, self._thoughts):
            for key in [key for key in memory if key[0] == run]:
                del memory[key]
        for call in [call for call in self._progress if call[0] == run]:
            del self._progress[call]

    def shown(
        self,
        calls: Sequence[tuple[str, ToolCalled]],
        *,
        height: int,
        width: int,
        lanes: Sequence[Lane] = (),
        now: float = 0.0,
    ) -> list[Row]:
        """Return at most `height` rows: what streams, then the running tools and branches.

        Joined emoji stand side by side: drawn cell by cell, a joiner would be a cell of its own.

        Args:
            calls: the running tool calls, each with its run.
            height: how many rows there are.
            width: how wide they are.
            lanes: the branches of the active run.
            now: a time in seconds that only grows, to tell how long a branch does what it does.
        """
        return [
            [(style, _JOINERS.sub("", text)) for style, text in row]
            for row in self._rows(calls, lanes, height, width, now)
        ]

    def _rows(
        self,
        calls: Sequence[tuple[str, ToolCalled]],
        lanes: Sequence[Lane],
        height: int,
        width: int,
        now: float,
    ) -> Sequence[Row]:
        since = self._timed(lanes, now)
        if height <= 0:
            return []
        speakers = self._speakers()
        paths = {(lane.run, lane.path) for lane in lanes}
        below = [
            self._call_row(run, call, width)
            for run, call in calls
            if (run, call.branch) not in paths
        ]
        below += [
            _lane_row(lane, self._doing(lane, calls), width, took_s=now - since[lane.path])
            for lane in lanes
        ]
        most = max(1, height // 2) if speakers else height
        if len(below) > most:
            more = Line(((DIM, f"+{len(below) - most + 1} more at work"),), "  ", DIM)
            below = [*below[: most - 1], rows(more, width)[0]] if lanes else below[-most:]
        room = height - len(below)
        if not speakers or room <= 0:
            return below
        share = max(1, room // len(speakers))
        items = {(lane.run, lane.path): lane.about for lane in lanes}
        found: list[Row] = []
        for key in speakers[-room:]:
            found += self._speaker_rows(key, items.get(key[:2], ""), share, width)
        return [*found[-room:], *below]

    def _speakers(self) -> list[_Key]:
        """Return who is heard: of a run's branches the first that began to speak, and still does."""
        found: dict[tuple[str, str], _Key] = {}
        for key in (*self._words, *self._thoughts):
            run, branch, agent = key
            found.setdefault((run, "" if branch else agent), key)
        return list(found.values())

    def _timed(self, lanes: Sequence[Lane], now: float) -> dict[str, float]:
        """Return since when each branch does what it does, by its path."""
        since: dict[tuple[str, str], tuple[str, float]] = {}
        for lane in lanes:
            said = f"{lane.state}: {lane.doing}"
            known = self._since.get((lane.run, lane.path))
            is_same = known is not None and known[0] == said
            since[lane.run, lane.path] = known if known is not None and is_same else (said, now)
        self._since = since
        return {path: at for (_, path), (_, at) in since.items()}

    def _doing(self, lane: Lane, calls: Sequence[tuple[str, ToolCalled]]) -> str:
        open_here = [call for run, call in calls if (run, call.branch) == (lane.run, lane.path)]
        if open_here:
            call = open_here[-1]
            progress = self._progress.get((lane.run, call.call_id), "").strip().split("\n")[-1]
            what = clipped(" ".join(call_text(call).split()), 40)
            more = f" (+{len(open_here) - 1})" if len(open_here) > 1 else ""
            return " ".join(f"{what}{more} {progress}".split())
        if (lane.run, lane.path, lane.agent) in self._words:
            return f"{lane.agent} is writing"
        if lane.until is not None:
            return f"{lane.doing} until {time_of_day(lane.until)}"
        return lane.doing

    def _speaker_rows(self, key: _Key, item: str, height: int, width: int) -> list[Row]:
        _, branch, agent = key
        style = speech_style(agent, branch)
        words = self._words.get(key)
        text, text_style = (words, "") if words else (self._thoughts.get(key, ""), DIM)
        # Only so much of the tail is laid out as can be seen at all.
        # A joiner at its end waits for what it joins, and would show as an escape until that comes.
        lines = text.rstrip("\n\u200d")[-width * (height + 1) :].split("\n")[-height:]
        laid = [
            row
            for line in lines
            for row in rows(Line(((text_style, line),), GUTTER, style, GUTTER), width)
        ]
        named = (*branch_label(f"{branch} {item}".rstrip()), (f"1;{style}", agent))
        heading = rows(Line(named, GUTTER, style, GUTTER), width)[:1]
        return laid[-height:] if height < 2 else [*heading, *laid[-(height - 1) :]]

    def _call_row(self, run: str, call: ToolCalled, width: int) -> Row:
        progress = self._progress.get((run, call.call_id), "").strip().split("\n")[-1]
        room = max(4, width - 3)
        # What it says now matters more than the end of a long command.
        said = clipped(f" {' '.join(progress.split())}" if progress else "", room // 2)
        what = clipped(" ".join(call_text(call).split()), room - width_of(said))
        named = branch_label(call.branch)
        return rows(Line((*named, (DIM, what + said)), "⋯ ", DIM), width)[0]


def _lane_row(lane: Lane, doing: str, width: int, *, took_s: float) -> Row:
    """Return a branch at work on one row: its name, its item, its state, what it does, how long."""
    named: list[Fragment] = [*branch_label(lane.path)]
    took = f" · {duration(took_s)}" if took_s >= 1 else ""
    room = max(4, width - 3 - sum(width_of(text) for _, text in named) - width_of(took))
    words = " ".join(doing.split())
    before = [lane.about] if lane.about else []
    if lane.state not in ("", lane.path.rpartition("/")[2], words.partition(" ")[0]):
        before.append(lane.state)
    # Where there is no room for all of it, what it does counts more than where.
    while before and width_of(" · ".join((*before, words))) > room:
        before.pop()
    what = clipped(" · ".join((*before, words)), room)
    mark, style = ("? ", YELLOW) if lane.is_parked else ("⋯ ", DIM)
    return rows(Line((*named, (DIM, what + took)), mark, style), width)[0]
