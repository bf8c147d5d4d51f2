"""The live region: what is on its way and not yet scrollback, only its tail. No IO."""

import re
from collections.abc import Sequence
from typing import Final

from midstream.console.lines import DIM, Line, Row, agent_style, clipped, rows, width_of
from midstream.console.painting import GUTTER, call_text
from midstream.core.events import ToolCalled

_TAIL_CHARS = 4000
_JOINERS: Final = re.compile("[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Joiners and variation selectors. The sanitizer has let them pass only where they belong."""


class LiveText:
    """The tails of the texts that stream, one for each agent of a run, in the order they began."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, str], str] = {}
        self._thoughts: dict[tuple[str, str], str] = {}
        self._progress: dict[tuple[str, str], str] = {}

    def add_words(self, run: str, agent: str, text: str) -> None:
        """Add words of an agent; its reasoning is over."""
        self._thoughts.pop((run, agent), None)
        self._words[run, agent] = (self._words.get((run, agent), "") + text)[-_TAIL_CHARS:]

    def add_thought(self, run: str, agent: str, text: str) -> None:
        """Add a piece of a model's reasoning, or say what its request is doing."""
        self._thoughts[run, agent] = (self._thoughts.get((run, agent), "") + text)[-400:]

    def add_progress(self, run: str, call_id: str, text: str) -> None:
        """Add output of a running tool; its last line is shown."""
        self._progress[run, call_id] = (self._progress.get((run, call_id), "") + text)[-400:]

    def drop_agent(self, run: str, agent: str) -> None:
        """Forget an agent: its words are scrollback now."""
        self._words.pop((run, agent), None)
        self._thoughts.pop((run, agent), None)

    def drop_call(self, run: str, call_id: str) -> None:
        """Forget a tool call that ended."""
        self._progress.pop((run, call_id), None)

    def drop_run(self, run: str) -> None:
        """Forget everything of a run."""
        for memory in (self._words, self._thoughts, self._progress):
            for key in [key for key in memory if key[0] == run]:
                del memory[key]

    def shown(
        self, calls: Sequence[tuple[str, ToolCalled]], *, height: int, width: int
    ) -> list[Row]:
        """Return at most `height` rows: each agent's newest words, then the running tools.

        Joined emoji stand side by side: drawn cell by cell, a joiner would be a cell of its own.
        """
        return [
            [(style, _JOINERS.sub("", text)) for style, text in row]
            for row in self._rows(calls, height, width)
        ]

    def _rows(
        self, calls: Sequence[tuple[str, ToolCalled]], height: int, width: int
    ) -> Sequence[Row]:
        if height <= 0:
            return []
        speakers = [*self._words, *(key for key in self._thoughts if key not in self._words)]
        tools = [self._call_row(run, call, width) for run, call in calls]
        tools = tools[-max(1, height // 2) :] if speakers else tools[-height:]
        room = height - len(tools)
        if not speakers or room <= 0:
            return tools
        share = max(1, room // len(speakers))
        found: list[Row] = []
        for key in speakers[-room:]:
            found += self._speaker_rows(key, share, width)
        return [*found[-room:], *tools]

    def _speaker_rows(self, key: tuple[str, str], height: int, width: int) -> list[Row]:
        agent = key[1]
        style = agent_style(agent)
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
        heading = rows(Line(((f"1;{style}", agent),), GUTTER, style, GUTTER), width)[:1]
        return laid[-height:] if height < 2 else [*heading, *laid[-(height - 1) :]]

    def _call_row(self, run: str, call: ToolCalled, width: int) -> Row:
        progress = self._progress.get((run, call.call_id), "").strip().split("\n")[-1]
        room = max(4, width - 3)
        # What it says now matters more than the end of a long command.
        said = clipped(f" {' '.join(progress.split())}" if progress else "", room // 2)
        what = clipped(" ".join(call_text(call).split()), room - width_of(said))
        return rows(Line(((DIM, what + said),), "⋯ ", DIM), width)[0]
