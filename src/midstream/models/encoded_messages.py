"""Our conversation as providers take it, encoded once.

Providers answer 400, for ever, to a history that is not as they want it. One made here is taken by
all of them, because it keeps the strictest of their rules:

* each call has exactly one result, in call order, directly after it;
* each reply answers something: words of the user, or results. Where nothing was said, `GO_ON` was:
  an agent that speaks twice, or first, or whose cue was trimmed away, was asked to with these words;
* so does the reply asked for now: a history never ends with the assistant's words, which some
  models complete and others refuse;
* no text is empty or blank; what a tool did not say is told as such.

A conversation grows at its end, and all of it is sent again with every request. So what a message
becomes in a dialect is a `Piece` of its own, kept from request to request: a turn costs what is new
in it.
"""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from midstream.core.conversation import Message, Side, cut_words
from midstream.core.pictures import Picture, mark_of
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.safety.decoding import clean

MAX_NAME: Final = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

NO_RESULT: Final = "No result was recorded for this call."
NO_OUTPUT: Final = "(no output)"
Contents: TypeAlias = Mapping[str, bytes] | None
"""The bytes of pictures by their keys, as far as they are kept; None: the model takes no pictures."""

NO_CONTENTS: Final[Contents] = MappingProxyType({})
NOT_SEEN: Final = "cannot be shown: this model takes no pictures."
NOT_TAKEN: Final = "cannot be shown: this model takes no pictures of its kind."
NOT_KEPT: Final = (
    "cannot be shown: newer pictures leave it no room, or its contents are not kept any more."
)

MAX_KEPT_BYTES: Final = 32_000_000
_BREATHS: Final = 64
"""After so many new messages the other threads get a turn, the event loop's among them."""


class Piece(msgspec.Struct, frozen=True, gc=False):
    """What a message becomes: JSON for what its side said, b"" for nothing, and for its calls' results."""

    side: Side
    said: bytes = b""
    results: bytes = b""


class Pieces:
    """Messages as pieces of one dialect, the newest kept. Any thread may ask.

    A message is known by the very texts, calls, results and pictures it is made of: views of a
    conversation are new messages around the same parts.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[Message, Piece]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def of(
        self,
        messages: Iterable[Message],
        encoded: Callable[[Message], Piece],
        contents: Contents = NO_CONTENTS,
    ) -> list[Piece]:
        """Return the pieces of a conversation, in order, new ones made by `encoded`.

        `contents` are those of its pictures. Blocks: call it off the loop.
        """
        with self._lock:
            made = 0
            pieces: list[Piece] = []
            for message in messages:
                key = (
                    message.role,
                    id(message.text),
                    id(message.calls),
                    id(message.results),
                    id(message.pictures),
                    message.interrupted,
                    message.calling,
                    # Most messages can have none, and each request asks this of all.
                    _shown(message, contents) if message.pictures or message.results else (),
                )
                found = self._kept.get(key)
                if found is None:
                    # The message is kept with it: no other can come to have these ids meanwhile.
                    found = self._kept[key] = message, encoded(message)
                    self._size += len(found[1].said) + len(found[1].results)
                    made += 1
                    if made % _BREATHS == 0:
                        time.sleep(0)
                else:
                    self._kept.move_to_end(key)
                pieces.append(found[1])
            while self._size > MAX_KEPT_BYTES:
                _, (_, piece) = self._kept.popitem(last=False)
                self._size -= len(piece.said) + len(piece.results)
            return pieces


def words_of(message: Message) -> str:
    """Return what a message says in words, "" where that is nothing.

    Words of a model that were cut are marked: they were shown and not finished, or a call was.
    """
    text = clean(message.text)
    if not (text.strip() or message.calling):
        return ""
    if not message.interrupted:
        return text
    return f"{text.rstrip()} [{cut_words(clean(message.calling))}]".lstrip()


def shown_of(
    pictures: Iterable[Picture], contents: Contents, *, refused: Collection[str] = ()
) -> Iterable[tuple[str, str, bytes | None]]:
    """Return (words before it, its media type, its bytes) for each picture.

    None instead of its bytes: there is nothing to show, and the words say why. `refused` are the media
    types that a provider does not take.
    """
    for picture in pictures:
        data = None if contents is None else contents.get(picture.key)
        why = ""
        if contents is None:
            why = NOT_SEEN
        elif picture.media in refused:
            data, why = None, NOT_TAKEN
        elif data is None:
            why = NOT_KEPT
        yield f"{mark_of(picture)} {why}".rstrip(), picture.media, data


def _shown(message: Message, contents: Contents) -> tuple[bool | None, ...]:
    """Return for each picture of a message whether it can be shown now: what is told of it says that."""
    return tuple(
        None if contents is None else each.key in contents for each in message.all_pictures
    )


def results_of(message: Message) -> Iterable[tuple[str, str, str]]:
    """Return (the call's id, its tool, what is told of it) for each call of a message, in order."""
    told = {result.call_id: result.text for result in message.results}
    for call in message.calls:
        text = clean(told.get(call.id, NO_RESULT))
        yield call.id, callable_name(call.name), text if text.strip() else NO_OUTPUT


def callable_name(name: str) -> str:
    """Return the name of a called tool as providers take it back.

    A model may call what no tool is called, such as `functions.add`; its own words, sent back, would
    then be refused for ever.
    """
    name = _NOT_IN_NAMES.sub("_", name)
    return (name if name[:1].isalpha() or name[:1] == "_" else f"_{name}")[:MAX_NAME]


def schema_of(tool: ToolSpec) -> dict[str, Json]:
    """Return a tool's schema as providers insist on it: an object with properties."""
    return {"type": "object", "properties": {}} | tool.parameters
