"""Facts and runs as bytes, strictly both ways: what does not decode exactly is refused.

A fact is one JSON object: the event with its `type`. Its checksum covers the one before it, so that a
fact that was changed, left out or moved is noticed at its place (`chained`). `FORMAT` is the version
of all of this; it grows with every change that older readers would misread.
"""

import hashlib
from functools import cache

import msgspec
from msgspec.structs import replace

from midstream.core.conversation import Message, ToolCall, ToolResult
from midstream.core.events import AnyFact, Usage
from midstream.core.folding.states import with_definition
from midstream.core.question import Question
from midstream.core.run import (
    Change,
    Compacting,
    Correction,
    Cut,
    InputRecord,
    OpenCall,
    Response,
    Run,
    Span,
    Trouble,
    Turn,
)
from midstream.core.safety.redaction import Redactor
from midstream.core.spec import (
    Ask,
    Branch,
    Budget,
    Catch,
    Definition,
    ForEach,
    Guidance,
    Retry,
    Role,
    State,
    SubWorkflow,
    ToolSpec,
    Transition,
    Wait,
    Workflow,
)

FORMAT = 4
"""The format of the facts written by this version.

1: runs that are in one state at a time. 2: what happens in branches, waits, tools that states call.
3: reviews of what calls would do, budgets that ask. 4: summaries of older turns, names, AGENTS.md.
"""

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


def redacted_fact(fact: AnyFact, redactor: Redactor) -> AnyFact:
    """Return a fact for somebody else's eyes: with every secret in it redacted, whoever told it."""
    told = msgspec.to_builtins(fact)
    clean = redactor.redacted_json(told)
    return fact if clean == told else msgspec.convert(clean, AnyFact)


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
    Span,
    Change,
    Trouble,
    Response,
    InputRecord,
    Compacting,
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
    Ask,
    Branch,
    Budget,
    Catch,
    ForEach,
    Guidance,
    Retry,
    SubWorkflow,
    Transition,
    Wait,
)


def encode_run(run: Run) -> bytes:
    """Return a folded run, for a snapshot. It holds its definition, not what is derived from it."""
    return _shape() + b"\n" + _ENCODER.encode(replace(_bare(run), definition=run.definition))


def _bare(run: Run) -> Run:
    """Return a run, or branch, without its definition, which follows from the run around it."""
    cuts = tuple(replace(cut, branches=_bare_all(cut.branches)) for cut in run.cuts)
    return replace(run, definition=None, plan=None, branches=_bare_all(run.branches), cuts=cuts)


def _bare_all(branches: dict[str, Run]) -> dict[str, Run]:
    return {name: _bare(branch) for name, branch in branches.items()}


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
    return with_definition(run, run.definition)
