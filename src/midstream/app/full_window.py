"""Chats that near what their model takes: they are told of, and trimmed or summarised before."""

import asyncio
import contextlib
from typing import Final

from midstream.app.switching import Switching
from midstream.core.events import (
    AgentResponded,
    CompactionEnded,
    ConversationCompacted,
    ResultsTrimmed,
)
from midstream.core.notices import Envelope
from midstream.core.summaries import INTERRUPTED
from midstream.language.errors import MidstreamError
from midstream.runtime.ports import Machine
from midstream.views.amounts import token_words

FULL: Final = (75, 90)
"""Percent of a model's window at which a person is told, each once; at the last the chat is compacted."""

ROOM: Final = 50
"""Percent of a window that is full at most once old results of tools have given way; where they cannot
free so much, a summary is made.
"""

SUMMARISES: Final = (
    "The older turns are being summarised. Esc or your next line ends that; /queue TEXT waits."
)


class FullWindow:
    """Looks after each reply in a chat how full its model's window is.

    Args:
        switching: where the runs and the screen are.
        compacts: a chat that nears what its model takes is summarised unasked.
    """

    def __init__(self, switching: Switching, *, compacts: bool) -> None:
        self._runs = switching.runs
        self._ui = switching.ui
        self._compacts = compacts
        self._is_closed = False
        self._warned: dict[str, int] = {}
        self._futile: set[str] = set()
        """Chats whose summary came to nothing: none is asked for unasked again."""
        self._windows: dict[str, tuple[str, int | None]] = {}
        self._looking: set[asyncio.Task[None]] = set()

    def on_event(self, envelope: Envelope, machine: Machine | None) -> None:
        """Look, after a reply in a chat, whether the conversation nears what its model takes."""
        event = envelope.event
        if self._is_closed:
            return
        if isinstance(event, ConversationCompacted | ResultsTrimmed):
            self._warned.pop(envelope.run, None)
        if isinstance(event, CompactionEnded) and event.reason != INTERRUPTED:
            self._futile.add(envelope.run)
        if not isinstance(event, AgentResponded) or machine is None or not machine.run.is_chat:
            return
        if event.branch:
            return  # what a task has read is not in the conversation
        usage = event.usage
        definition = machine.run.definition
        if usage is None or not event.is_final or definition is None:
            return
        level = next(iter(definition.roles.values())).level
        used = usage.input_tokens + usage.output_tokens
        task = asyncio.create_task(self._look(machine, level, usage.model, used))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, machine: Machine, level: str, model: str, used: int) -> None:
        if model not in self._windows:
            try:
                self._windows[model] = await self._runs.parts.models.window(level)
            except MidstreamError:
                return  # nothing is known of it: nothing is said
        name, window = self._windows[model]
        share = 0 if not window else 100 * used // window
        reached = max((percent for percent in FULL if share >= percent), default=0)
        if not window or not reached:
            return
        full = (
            f"This conversation fills {share} % of the context window of {name} ({token_words(used)} "
            f"of {token_words(window)})"
        )
        if self._compacts and reached == FULL[-1] and machine.run.id not in self._futile:
            # Words may have begun another turn meanwhile, or nothing is old enough: then it is told.
            with contextlib.suppress(MidstreamError):
                await machine.compact(room=used - window * ROOM // 100)
                if machine.run.compacting is not None:
                    self._ui.say(f"{full}. {SUMMARISES}", kind="note")
                    self._ui.refresh()
                return
        if reached > self._warned.get(machine.run.id, 0):
            self._warned[machine.run.id] = reached
            self._ui.say(f"{full}: /compact replaces its older turns by a summary.", kind="warning")

    async def close(self) -> None:
        """Leave nothing behind, and look at nothing more."""
        self._is_closed = True
        for task in tuple(self._looking):
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)
