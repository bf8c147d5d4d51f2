"""Hearing a reply as it streams: pieces to the listener, words kept as they were shown."""

from typing import TYPE_CHECKING, Final

from midstream.ai.troubles import ReplyTooLarge
from midstream.core.safety.decoding import clean
from midstream.ports import ReplyListener

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent


MAX_CALLS: Final = 128
"""Tool calls of one reply."""


class Heard:
    """What of a reply has been heard. `is_nothing` until its first words, thoughts or call."""

    __slots__ = ("_calls", "_listener", "_pieces", "is_nothing")

    def __init__(self, listener: ReplyListener) -> None:
        self.is_nothing = True
        self._calls = 0
        self._listener = listener
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """Return the words so far, exactly as the listener was told them."""
        return "".join(self._pieces)

    def say(self, text: str) -> None:
        """Let the listener hear words of the reply."""
        if not text:
            return
        self.is_nothing = False
        text = clean(text)
        self._pieces.append(text)
        self._listener.text(text)

    def take(self, event: "ModelResponseStreamEvent") -> None:
        """Let the listener hear what an event of the stream brings, if anything."""
        from pydantic_ai import messages as theirs

        match event:
            case theirs.PartStartEvent(part=theirs.TextPart(content=text)):
                self.say(text)
            case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
                self.say(text)
            case theirs.PartStartEvent(part=theirs.ThinkingPart(content=text)):
                self._think(text)
            case theirs.PartDeltaEvent(delta=theirs.ThinkingPartDelta(content_delta=str() as text)):
                self._think(text)
            case theirs.PartStartEvent(part=theirs.ToolCallPart()):
                self.is_nothing = False
                self._calls += 1
                if self._calls > MAX_CALLS:
                    raise ReplyTooLarge(f"more than {MAX_CALLS} tool calls")
                self._listener.calling()
            case _:
                pass

    def _think(self, text: str) -> None:
        if text:
            self.is_nothing = False
            self._listener.thinking(clean(text))
