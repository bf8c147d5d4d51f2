"""One effect under way that streams, and what of it may be shown when."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from midstream.core.events import Usage
from midstream.core.inputs import EffectKey, Shown
from midstream.core.notices import (
    AgentThinking,
    AnyNotice,
    FileChanged,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from midstream.core.run import OpenCall
from midstream.runtime.json_values import kept_usage
from midstream.runtime.text_limits import MAX_TEXT, ends_of, one_line
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor
from midstream.views.side_effects import FileDiff

_MAX_NAMES: Final = 8
"""Calls of one reply that are named where it is cut."""

Notify: TypeAlias = Callable[[AnyNotice], None]


class StreamingEffect:
    """A model request or a tool call under way, and what of it was shown.

    While an input is being journaled, pieces that stream in are held back: should the input turn
    out to halt the reply, they were never shown and are not kept. So is the end of a text that may
    still become a secret.
    """

    __slots__ = (
        "_calling",
        "_checkpoints",
        "_held",
        "_is_closed",
        "_is_holding",
        "_notify",
        "_output",
        "_redactor",
        "_shown",
        "_shown_chars",
        "_thoughts",
        "_told_calls",
        "_used",
        "_words",
        "agent",
        "checkpoint",
        "checkpoint_soon",
        "has_calls",
        "key",
        "on_calls",
        "state",
        "stop",
        "stopper",
    )

    def __init__(
        self, key: EffectKey, agent: str, state: str, notify: Notify, redactor: Redactor
    ) -> None:
        self.key = key
        self.agent = agent
        self.state = state
        self.stop: asyncio.Event | None = None
        self.stopper: asyncio.Task[None] | None = None
        self.checkpoint: asyncio.Task[None] | None = None
        self.checkpoint_soon: Callable[[], None] | None = None
        self.has_calls = False
        self.on_calls: Callable[[tuple[OpenCall, ...]], None] | None = None
        self._notify = notify
        self._redactor = redactor
        self._words = redactor.sliding()
        self._thoughts = redactor.sliding()
        self._output = redactor.sliding()
        self._shown: list[str] = []
        self._shown_chars = 0
        self._checkpoints = (0, 0)
        self._calling: list[str] = []
        self._told_calls = 0
        self._held: list[AnyNotice] = []
        self._is_holding = False
        self._is_closed = False
        self._used: Callable[[], Usage | None] | None = None

    @property
    def is_closed(self) -> bool:
        """Return whether nobody is owed the effect any more."""
        return self._is_closed

    def shown(self) -> Shown:
        """Return what a reader has seen of the reply, of an endless one its ends."""
        text = ends_of("".join(self._shown))
        return Shown(
            key=self.key,
            text=text,
            has_calls=self.has_calls,
            usage=self.used(),
            calling=self.calls,
        )

    def used(self) -> Usage | None:
        """Return what the request has used so far, None where its model does not say."""
        try:
            return None if self._used is None else kept_usage(self._used())
        except Exception:  # an adapter's: what it cannot say holds up no halt
            return None

    @property
    def words(self) -> str:
        """Return all that was shown of the reply."""
        return "".join(self._shown)

    @property
    def calls(self) -> str:
        """Return the names of the tools it has begun to ask for, in order; of many the last ones."""
        if not self._calling:
            return ""
        names = self._calling[-_MAX_NAMES:]
        return ", ".join(["...", *names] if len(names) < len(self._calling) else names)

    @property
    def chars(self) -> int:
        """Return how many characters that is."""
        return self._shown_chars

    @property
    def has_begun(self) -> bool:
        """Return whether some of a reply has come: words that were shown, or half a call."""
        return bool(self._shown_chars or self.has_calls)

    def next_checkpoint(self) -> str:
        """Return what was shown since this was last asked, to be journaled; of an endless reply no more."""
        self._checkpoints = (self._checkpoints[1], len(self._shown))
        pieces = self._shown[slice(*self._checkpoints)]
        return "".join(pieces) if self._shown_chars <= MAX_TEXT else ""

    def next_calls(self) -> str:
        """Return the same of `calls`, "" if there is none more since this was last asked."""
        told, self._told_calls = self._told_calls, len(self._calling)
        return self.calls if told < self._told_calls else ""

    def checkpoint_failed(self) -> None:
        """Hear that what was returned last could not be journaled: it is returned again."""
        self._checkpoints = (0, self._checkpoints[0])
        self._told_calls = 0
        if self.checkpoint_soon is not None:
            self.checkpoint_soon()

    def hold(self) -> None:
        """Hold back what streams in from now on."""
        self._is_holding = True

    def release(self) -> None:
        """Show what was held back, and go on showing."""
        self._is_holding = False
        if self._held:
            held, self._held = self._held, []
            for notice in held:
                self._show(notice)

    def close(self) -> None:
        """Show nothing any more, whatever still comes in."""
        self._is_closed = True
        self._held.clear()

    def _show(self, notice: AnyNotice) -> None:
        if self._is_closed:
            return
        if self._is_holding:
            self._held.append(notice)
            return
        if isinstance(notice, TextDelta):
            self._shown.append(notice.text)
            self._shown_chars += len(notice.text)
            if self.checkpoint is None and self.checkpoint_soon is not None:
                self.checkpoint_soon()
        elif isinstance(notice, AgentThinking) and notice.calling:
            self._begun(notice.calling)
        self._notify(notice)

    def changed(self, call_id: str, diff: FileDiff) -> None:
        """Hear what a tool has done to a file."""
        self._show(
            FileChanged(
                call_id=call_id,
                path=self._redactor.redacted(readable(diff.path)),
                added=diff.added,
                removed=diff.removed,
                diff=self._redactor.redacted(readable(diff.diff)),
            )
        )

    def progress(self, call_id: str, name: str, text: str) -> None:
        """Hear a piece of a tool's output."""
        if clean := self._output.fed(readable(text)):
            self._show(ToolProgress(call_id=call_id, name=name, text=clean))

    # The ReplyListener of a model request.

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""
        if clean := self._words.fed(readable(delta)):
            self._show(TextDelta(agent=self.agent, text=clean))

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""
        if clean := self._thoughts.fed(readable(delta)):
            self._show(ThinkingDelta(agent=self.agent, text=clean))

    def ended(self) -> None:
        """Hear that the reply has ended well: what waited to become a secret is none.

        The end of a reply that was cut off may be half of one, and is not shown.
        """
        if rest := self._words.rest():
            self._show(TextDelta(agent=self.agent, text=rest))
        if rest := self._thoughts.rest():
            self._show(ThinkingDelta(agent=self.agent, text=rest))

    def calling(self, name: str) -> None:
        """Hear that the model has begun to ask for a tool, by which name, "" while that is not known."""
        self.has_calls = True
        if name := one_line(name, self._redactor):
            self._show(AgentThinking(agent=self.agent, state=self.state, calling=name))

    def _begun(self, name: str) -> None:
        """Know that a call has begun, and have it journaled soon."""
        self._calling.append(name)
        if self.checkpoint is None and self.checkpoint_soon is not None:
            self.checkpoint_soon()

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear how to find out what the request has used so far."""
        self._used = used

    def status(self, text: str) -> None:
        """Hear what the request is doing."""
        status = self._redactor.redacted(readable(text))
        self._show(AgentThinking(agent=self.agent, state=self.state, status=status))
