"""Facts as the bytes a store keeps, and the checks that nothing wrong is kept or used.

What is kept can be read again: a fact is decoded once before it is written, because a run with one
fact that cannot be read is lost from there on.
"""

import hashlib
import math
from collections.abc import Collection, Sequence

import msgspec

from midstream.core.codec import decode_fact, encode_fact
from midstream.core.data_edits import Splice
from midstream.core.events import AnyFact, Fact, HandlerRan, StateTransition
from midstream.core.notices import Envelope
from midstream.language.errors import AuthorMistake, OurBug
from midstream.runtime.storage import Mail

MAX_FACT_BYTES = 64 * 1024 * 1024
"""The largest fact that is kept. Larger contents belong in the blob store."""

_ENCODER = msgspec.json.Encoder()
_MAIL = msgspec.json.Decoder(Mail)


def bodies_of(run: str, expected: int, facts: Sequence[Envelope]) -> list[bytes]:
    """Return the JSON of each of these facts of the run, which are numbered from `expected + 1`.

    Raises:
        OurBug: they are no facts of it, or not those. Nothing may be kept of them.
        AuthorMistake: see `body_of`.
    """
    bodies = []
    for seq, envelope in enumerate(facts, expected + 1):
        if not isinstance(envelope.event, Fact):
            raise OurBug(f"A {envelope.type} of run {run} is no fact and cannot be journaled.")
        if envelope.run != run or envelope.seq != seq:
            raise OurBug(
                f"Fact {seq} of run {run} was to be journaled as fact {envelope.seq} of run "
                f"{envelope.run}."
            )
        if not math.isfinite(envelope.at):
            raise OurBug(f"Fact {seq} of run {run} has no time.")
        bodies.append(body_of(envelope))
    return bodies


def body_of(envelope: Envelope) -> bytes:
    """Return a fact's JSON, of which it is sure that it can be read again.

    Raises:
        AuthorMistake: it holds what JSON cannot (half a surrogate pair, NaN, a set), is too deep or
            too large.
    """
    fact: AnyFact = envelope.event  # type: ignore[assignment]
    try:
        body = encode_fact(fact)
        if len(body) > MAX_FACT_BYTES:
            raise ValueError(f"it is {len(body)} bytes long, and {MAX_FACT_BYTES} is the most")
        is_plain = type(fact) is StateTransition or (type(fact) is HandlerRan and _is_plain(fact))
        if not is_plain and decode_fact(body) != fact:
            _refuse_strange(fact)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise AuthorMistake(
            f"A {envelope.type} of run {envelope.run} cannot be journaled: {error}.",
            hint="Use JSON values only; put large contents into a file.",
        ) from error
    return body


def _is_plain(fact: HandlerRan) -> bool:
    """Return whether a fact holds names and texts only, as a transition does: these read as written."""
    if fact.changed or fact.variables:
        return False
    for edit in fact.edits:
        if not isinstance(edit, Splice):
            return False
        put = edit.put
        if type(put) is not str and (type(put) is not list or not _TEXT.issuperset(map(type, put))):
            return False
    return True


_TEXT = frozenset({str})


def _refuse_strange(fact: AnyFact) -> None:
    """Raise ValueError where a fact holds what JSON quietly says otherwise, such as NaN or a set.

    A tuple may stand for a list: it reads the same.
    """
    todo: list[object] = [fact]
    while todo:
        match todo.pop():
            case msgspec.Struct() as struct:
                todo += (getattr(struct, name) for name in struct.__struct_fields__)
            case dict() as mapping:
                todo += mapping.values()
                if strange := [key for key in mapping if not isinstance(key, str)]:
                    raise ValueError(f"{strange[0]!r} is a key but not text")
            case list() | tuple() as sequence:
                todo += sequence
            case float() as number if not math.isfinite(number):
                raise ValueError(f"{number} is not a JSON number")
            case None | str() | bool() | int() | float():
                continue
            case other:
                raise ValueError(f"{type(other).__name__} is not a JSON type")


def mail_body(mail: Mail) -> bytes:
    """Return a message as JSON.

    Raises:
        AuthorMistake: it holds half a surrogate pair, or is too large.
    """
    try:
        body = _ENCODER.encode(mail)
        if len(body) > MAX_FACT_BYTES:
            raise ValueError(f"they are {len(body)} bytes long, and {MAX_FACT_BYTES} is the most")
        _MAIL.decode(body)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise AuthorMistake(
            f"The words {mail.id!r} to run {mail.run!r} cannot be kept: {error}.",
            hint="Send plain text; put large contents into a file.",
        ) from error
    return body


def marked(body: bytes, *, ends: bool, format: int) -> bytes:
    """Return what a fact's checksum covers: its JSON, and how it is kept."""
    return b"%d %d " % (ends, format) + body


def seal(parts: Collection[object]) -> bytes:
    """Return a checksum (16 bytes) over a row of a table. Text and bytes, numbers and None only."""
    return hashlib.blake2b(msgspec.msgpack.encode(tuple(parts)), digest_size=16).digest()
