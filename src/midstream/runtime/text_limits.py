"""Texts as a conversation and a journal can hold them: readable, redacted, and never endless."""

from midstream.language.errors import WorldTrouble
from midstream.runtime.long_texts import PIECE, LongText, long_text
from midstream.runtime.ports import BlobStore, World
from midstream.runtime.redact_results import without_secrets
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor
from midstream.system.offloop import in_thread

MAX_TEXT = 1_000_000
"""Characters of a reply or a result that join a conversation. No model reads more."""

MAX_ERROR = 10_000
"""Characters of an error that are kept of it."""


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
    return _between(long, f"the whole is in {blobs.where(await blobs.put(long.whole))}")


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


def _between(long: LongText, where: str) -> str:
    head, tail = long.start[: MAX_TEXT // 2], long.end[-MAX_TEXT // 2 :]
    return _joined(head, tail, long.length, where)


def ends_of(text: str) -> str:
    """Return a text that nobody keeps the whole of: of an endless one its ends."""
    if len(text) <= MAX_TEXT:
        return text
    where = "the middle was left out"
    return _joined(text[: MAX_TEXT // 2], text[-MAX_TEXT // 2 :], len(text), where)


def _joined(head: str, tail: str, length: int, where: str) -> str:
    return f"{head}\n[cut: {length} characters, {where}]\n{tail}"


def short(text: str, redactor: Redactor) -> str:
    """Return the words of an error, of which a person reads no more."""
    # What is redacted may be shorter; a secret that is cut in two here is beyond what is kept.
    text = redactor.redacted(readable(text[: 2 * MAX_ERROR]))
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}..."


def named(error: BaseException, redactor: Redactor) -> str:
    """Return an error that is none of ours, by its kind and what it says."""
    return short(f"{type(error).__name__}: {error}", redactor)
