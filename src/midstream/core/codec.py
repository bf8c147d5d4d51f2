"""Facts and runs as bytes, strictly both ways: what does not decode exactly is refused.

A fact is one JSON object: the event with its `type`. Its checksum covers the one before it, so that a
fact that was changed, left out or moved is noticed at its place (`chained`). `FORMAT` is the version
of all of this; it grows with every change that older readers would misread.
"""

import hashlib
from functools import cache

import msgspec

from midstream.core.conversation import Message, ToolCall, ToolResult
from midstream.core.events import AnyFact, Usage
from midstream.core.question import Question
from midstream.core.run import Correction, Cut, InputRecord, OpenCall, Response, Run, Turn
from midstream.core.spec import Definition, Role, State, ToolSpec, Workflow, plan_of

FORMAT = 1
"""The format of the facts written by this version."""

FIRST = b""
"""The checksum before a run's first fact."""

_ENCODER = msgspec.json.Encoder()
_FACTS = msgspec.json.Decoder(AnyFact)
_RUNS = msgspec.json.Decoder(Run)


class Undecodable(ValueError):
    """The bytes are no fact, or no run, of this version."""


def encode_fact(fact: AnyFact) -> bytes:
    """Return a fact as JSON, in UTF-8.

    Raises:
        ValueError, OverflowError: it holds what JSON cannot, such as half a surrogate pair. What comes
            from outside is made harmless before it becomes a fact.
    """
    return _ENCODER.encode(fact)


def decode_fact(data: bytes) -> AnyFact:
    """Return the fact of `encode_fact`.

    Raises:
        Undecodable: an unknown type or field, a wrong type, or no JSON.
    """
    try:
        fact: AnyFact = _FACTS.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(str(error)) from error
    return fact


def chained(before: bytes, seq: int, at: float, data: bytes) -> bytes:
    """Return the checksum (16 bytes) of a fact at a place, given that of the fact before it."""
    head = b"%b\0%d\0%b\0" % (before, seq, repr(at).encode())
    return hashlib.blake2b(head + data, digest_size=16).digest()


@cache
def _shape() -> bytes:
    """Return what tells this version's folded runs from another's, which may lack what ours have."""
    fields = [f"{part.__name__}{part.__struct_fields__}" for part in _PARTS]
    return hashlib.blake2b(f"{FORMAT}{fields}".encode(), digest_size=8).hexdigest().encode()


_PARTS: tuple[type[msgspec.Struct], ...] = (
    Run,
    Turn,
    OpenCall,
    Correction,
    Cut,
    Response,
    InputRecord,
    Question,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    Definition,
    Workflow,
    State,
    ToolSpec,
    Role,
)


def encode_run(run: Run) -> bytes:
    """Return a folded run, for a snapshot. It holds its definition, not its plan."""
    return _shape() + b"\n" + _ENCODER.encode(msgspec.structs.replace(run, plan=None))


def decode_run(data: bytes) -> Run:
    """Return the run of `encode_run`.

    Raises:
        Undecodable: it is not one of this version; fold the facts instead.
    """
    try:
        shape, _, body = data.partition(b"\n")
        if shape != _shape():
            raise Undecodable("another version folded this run")
        run = _RUNS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(str(error)) from error
    if run.definition is None:
        return run
    return msgspec.structs.replace(run, plan=plan_of(run.definition.workflow))
