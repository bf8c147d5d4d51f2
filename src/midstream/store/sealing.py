"""Facts as the bytes a store keeps, and the checks that nothing wrong is kept or used.

What is kept can be read again: a fact is decoded once before it is written, because a run with one
fact that cannot be read is lost from there on. What older versions wrote is brought up to today on
reading, one format at a time (`UPGRADES`); the bytes on the disk stay as they are.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import msgspec

from midstream.core.codec import FORMAT, Undecodable, decode_fact, encode_fact
from midstream.core.errors import AuthorMistake, OurBug
from midstream.core.events import AnyFact, Fact, HandlerRan, StateTransition
from midstream.core.notices import Envelope
from midstream.storage import Letter

MAX_FACT_BYTES = 64 * 1024 * 1024
"""The largest fact that is kept. Larger contents belong on the shelf."""

_ENCODER = msgspec.json.Encoder()
_LETTER = msgspec.json.Decoder(Letter)

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def _with_reviews(fact: dict[str, Any]) -> dict[str, Any]:
    """Return a fact of format 2, when a yes was one to a tool, with calls of our tools reviewed."""
    if "definition" in fact:
        _review(fact["definition"])
    return fact


def _review(definition: dict[str, Any]) -> None:
    tools = definition.get("tools", {})
    for name in _REVIEWED_SINCE_3 & tools.keys():
        tools[name].update(needs_approval=False, reviewed=True)
    for inner in definition.get("workflows", {}).values():
        _review(inner)


_REVIEWED_SINCE_3 = {"edit_file", "execute_terminal", "write_file"}

UPGRADES: dict[int, Upgrade] = {
    1: lambda fact: fact,
    2: _with_reviews,
    3: lambda fact: fact,
    4: lambda fact: fact,
}
"""For each older format: how one of its facts, as a JSON object, reads in the next format."""


def checked(run: str, expected: int, facts: Sequence[Envelope]) -> None:
    """Check that these envelopes are facts of the run, numbered from `expected + 1`.

    Raises:
        OurBug: they are not. Nothing may be kept of them.
    """
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
        if not _is_plain(fact) and decode_fact(body) != fact:
            _refuse_strange(fact)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise AuthorMistake(
            f"A {envelope.type} of run {envelope.run} cannot be journaled: {error}.",
            hint="Use JSON values only; put large contents into a file.",
        ) from error
    return body


def _is_plain(fact: AnyFact) -> bool:
    """Return whether a fact of every transition holds names only: those read as they were written."""
    if type(fact) is StateTransition:
        return True
    return type(fact) is HandlerRan and not (fact.changed or fact.variables)


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


def letter_body(letter: Letter) -> bytes:
    """Return a letter as JSON.

    Raises:
        AuthorMistake: it holds half a surrogate pair, or is too large.
    """
    try:
        body = _ENCODER.encode(letter)
        if len(body) > MAX_FACT_BYTES:
            raise ValueError(f"they are {len(body)} bytes long, and {MAX_FACT_BYTES} is the most")
        _LETTER.decode(body)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise AuthorMistake(
            f"The words {letter.id!r} to run {letter.run!r} cannot be kept: {error}.",
            hint="Send plain text; put large contents into a file.",
        ) from error
    return body


def fact_of(body: bytes, format: int) -> AnyFact:
    """Return the fact that was written in a format, as today's.

    Raises:
        Undecodable: it is not one, or its format is not known here.
    """
    if format == FORMAT:
        return decode_fact(body)
    if format > FORMAT:
        raise Undecodable(f"it has format {format}, and this version knows {FORMAT}")
    try:
        fact = msgspec.json.decode(body, type=dict[str, Any])
        for older in range(format, FORMAT):
            fact = UPGRADES[older](fact)
        return decode_fact(msgspec.json.encode(fact))
    except Undecodable:
        raise
    except KeyError as error:
        raise Undecodable(f"its format is unknown, {format}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise Undecodable(str(error)) from error


def marked(body: bytes, *, ends: bool, format: int) -> bytes:
    """Return what a fact's checksum covers: its JSON, and how it is kept."""
    return b"%d %d " % (ends, format) + body


def seal(parts: Collection[object]) -> bytes:
    """Return a checksum (16 bytes) over a row of a table. Text and bytes, numbers and None only."""
    return hashlib.blake2b(msgspec.msgpack.encode(tuple(parts)), digest_size=16).digest()
