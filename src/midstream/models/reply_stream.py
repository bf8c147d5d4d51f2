"""A model that can be asked, and hearing its reply as it streams: pieces to the listener, words kept as
they were shown.
"""

from collections.abc import Callable
from typing import Final, Literal, Protocol

import msgspec

from midstream.models.provider_errors import Failed
from midstream.runtime.ports import ModelRequest, ReplyListener
from midstream.safety.decoding import clean

MAX_CALLS: Final = 128
"""Tool calls of one reply."""

Ended = Literal["stop", "length", "content_filter", "error"]


class SentCall(msgspec.Struct, frozen=True):
    """A tool call as a provider sent it: `arguments` are text that nobody has looked at yet."""

    name: str
    arguments: str


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider says it counted; `read` and `written` of `sent` its cache had, or keeps."""

    sent: int
    made: int
    read: int = 0
    written: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request besides the words, which were heard: all of it, or it would be an error.

    `refusal`: words in which the provider said why it says nothing; `is_refusal`: those that were heard
    are such. `model`: the name it answered under. `tokens` is None where nothing was told.
    """

    ended: Ended = "stop"
    calls: tuple[SentCall, ...] = ()
    tokens: Tokens | None = None
    model: str = ""
    refusal: str = ""
    is_refusal: bool = False


class Heard:
    """What of a reply has been heard. `is_nothing` until its first words, thoughts or call.

    `sent_chars` are those of the request, 0 until it is out, `chars` those of the reply, with thoughts and
    arguments of calls, `tokens` what the provider has counted of both so far.
    """

    __slots__ = ("_calls", "_listener", "_pieces", "chars", "is_nothing", "sent_chars", "tokens")

    def __init__(self, listener: ReplyListener) -> None:
        self.is_nothing = True
        self.chars = 0
        self.sent_chars = 0
        self.tokens: Tokens | None = None
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
        self.chars += len(text)
        self._pieces.append(text)
        self._listener.text(text)

    def think(self, text: str) -> None:
        """Let the listener hear a piece of the model's reasoning."""
        if text:
            self.is_nothing = False
            self.chars += len(text)
            self._listener.thinking(clean(text))

    def call(self, name: str) -> None:
        """Let the listener hear that a call begins, by which name, "" while that is not known.

        Raises:
            Failed: there were enough of them.
        """
        self.is_nothing = False
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise Failed("large", f"more than {MAX_CALLS} tool calls")
        self.named(name)

    def named(self, name: str) -> None:
        """Let the listener hear the name of the call that has begun."""
        self._listener.calling(clean(name))

    def argue(self, text: str) -> None:
        """Hear a piece of a call's arguments."""
        self.chars += len(text)


Watch = Callable[[bytes], None]
"""Hears the bytes of an answer as they come. What it raises ends the answer."""


class Speaker(Protocol):
    """A model that can be asked."""

    async def ask(self, request: ModelRequest, heard: Heard, watch: Watch) -> Answer:
        """Return the answer to a request, its words heard as they come.

        Raises:
            Exception: what `provider_errors.trouble_of` makes words of.
        """
