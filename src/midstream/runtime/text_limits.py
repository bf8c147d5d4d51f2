"""Texts as a conversation and a journal can hold them: readable, redacted, and never endless.

Those of models and tools may be very long, and are made readable piece by piece. A thread is not enough:
while one call looks through 100 MB, no other thread runs, the event loop's neither. Between pieces it does.
"""

import io
from collections.abc import Iterator

import msgspec

from midstream.language.errors import WorldTrouble, in_words
from midstream.runtime.ports import BlobStore, World
from midstream.runtime.redact_results import without_secrets
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor, ending
from midstream.system.offloop import in_thread

MAX_TEXT = 1_000_000
"""Characters of a reply or a result that join a conversation. No model reads more."""

MAX_ERROR = 10_000
"""Characters of an error that are kept of it."""

MAX_NAME = 100
"""Characters of a name that somebody else gave."""


_LEFT_OUT = "the middle was left out"

PIECE = 16_384
"""Characters that are made readable at once: less than a millisecond, whatever they are."""


async def capped(text: str, blobs: BlobStore) -> str:
    """Return a readable text a conversation can hold; the whole of a larger one goes in the blob store.

    Raises:
        JournalFull: there is no room for it.
    """
    if len(text) <= min(PIECE, MAX_TEXT):
        return readable(text)
    long = await in_thread(lambda: long_text(text, MAX_TEXT))
    if long.length <= MAX_TEXT:
        return long.start
    return _between(long, f"the whole: midstream blob {await blobs.put(long.whole)}")


async def kept(text: str, world: World) -> str:
    """Return the same of what models and tools say (`capped`), their secrets redacted.

    The run cannot be asked again: without room the middle is lost.
    """
    clean = await without_secrets(text, world.redactor)
    try:
        return await capped(clean, world.blobs)
    except WorldTrouble as error:
        long = await in_thread(lambda: long_text(clean, MAX_TEXT))
        why = short(error.what, world.redactor)
        return _between(long, f"the whole could not be kept: {why}")


def _between(long: "LongText", where: str) -> str:
    head, tail = long.start[: MAX_TEXT // 2], long.end[-MAX_TEXT // 2 :]
    return _joined(head, tail, long.length, where)


def ends_of(text: str) -> str:
    """Return a text that nobody keeps the whole of: of an endless one its ends."""
    if len(text) <= MAX_TEXT:
        return text
    return _joined(text[: MAX_TEXT // 2], text[-MAX_TEXT // 2 :], len(text), _LEFT_OUT)


def ends_redacted(text: str, redactor: Redactor) -> str:
    """Return the same of a text whose secrets are still in it; none is left in two halves."""
    if len(text) <= MAX_TEXT:
        return redactor.redacted(readable(text))
    half = MAX_TEXT // 2
    tail = ending(text, half, lambda part: redactor.redacted(readable(part)))
    return _joined(start_of(text, half, redactor), tail, len(text), _LEFT_OUT)


def _joined(head: str, tail: str, length: int, where: str) -> str:
    return f"{head}\n[cut: {length} characters, {where}]\n{tail}"


def start_of(text: str, looked_at: int, redactor: Redactor) -> str:
    """Return what may be told of a text's first characters: not half of a secret that goes on there."""
    return redactor.redacted(readable(text[:looked_at]), is_whole=len(text) <= looked_at)


def short(text: str, redactor: Redactor) -> str:
    """Return the words of an error, of which a person reads no more."""
    text = start_of(text, 2 * MAX_ERROR, redactor)
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}..."


def one_line(name: str, redactor: Redactor) -> str:
    """Return a name that somebody else gave, on one line that a person may read."""
    name = " ".join(start_of(name, 4 * MAX_NAME, redactor).split())
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."


def named(error: BaseException, redactor: Redactor) -> str:
    """Return an error that is none of ours, by its kind and what it says."""
    return short(in_words(error), redactor)


# --- very long ones, piece by piece ------------------------------------------------------------


class LongText(msgspec.Struct, frozen=True):
    """A readable text: its ends, how many characters it has, and all of it in UTF-8."""

    start: str
    end: str
    length: int
    whole: bytes


def long_text(text: str, max_end: int) -> LongText:
    """Return a text of which `max_end` characters of each end are wanted. Blocking: use a thread."""
    length, whole = 0, io.BytesIO()
    start: list[str] = []
    end: list[str] = []
    started = ended = 0
    for piece in _pieces(text):
        clean = readable(piece)
        length += len(clean)
        whole.write(clean.encode())
        if started < max_end:
            start.append(clean)
            started += len(clean)
        end.append(clean)
        ended += len(clean)
        if ended - len(end[0]) >= max_end:
            ended -= len(end.pop(0))
    # Of what was written, `getvalue` makes no copy.
    return LongText("".join(start)[:max_end], "".join(end)[-max_end:], length, whole.getvalue())


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces. Two halves of one character, side by side, stay together."""
    at = 0
    while at < len(text):
        end = at + PIECE
        if (
            "\ud800" <= text[end - 1 : end] <= "\udbff"
            and "\udc00" <= text[end : end + 1] <= "\udfff"
        ):
            end += 1
        yield text[at:end]
        at = end
