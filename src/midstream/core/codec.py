"""Facts and runs as bytes, strictly both ways: what does not decode exactly is refused.

A fact is one JSON object: the event with its `type`. Its checksum covers the one before it, so that a
fact that was changed, left out or moved is noticed at its place (`chained`). `FORMAT` is the version
of all of this; it grows with every change that older readers would misread.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from midstream.core.append_only import PAGE, Book, Log, Page, plainly
from midstream.core.conversation import Message
from midstream.core.costs import Cost, Costs, costs
from midstream.core.events import AnyFact, Usage
from midstream.core.fold.fold_states import with_definition
from midstream.core.question import Question
from midstream.core.run import InputRecord, Run
from midstream.language.plan import NO_PLAN
from midstream.safety.redaction import Redactor

FORMAT = 13
"""The format of the facts written by this version.

1: runs that are in one state at a time. 2: what happens in branches, waits, tools that states call.
3: reviews of what calls would do, budgets that ask. 4: summaries of older turns, names, AGENTS.md.
5: what was shown of a reply that streams. 6: what changed within a large value.
7: tasks that agents hand on. 8: the todo list.
9: how hard a role thinks, what came from a cache, which skills there are.
12: what requests that were cut off had used. 13: which tools they were asking for.
"""

T = TypeVar("T")

FIRST = b""
"""The checksum before a run's first fact."""

_ENCODER = msgspec.json.Encoder(enc_hook=plainly)
_FACTS = msgspec.json.Decoder(AnyFact)


class Undecodable(ValueError):
    """The bytes are no fact, or no run, of this version."""


encode_fact: Callable[[AnyFact], bytes] = _ENCODER.encode
"""Returns a fact as JSON, in UTF-8.

Raises:
    ValueError, OverflowError: it holds what JSON cannot, such as half a surrogate pair. What comes
        from outside is made harmless before it becomes a fact.
"""


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
    _, types = msgspec.json.schema_components((_Head,))
    for each in types.values():
        each.pop("description", None)
    told = _ENCODER.encode((FORMAT, PAGE, types))
    return hashlib.blake2b(told, digest_size=8).hexdigest().encode()


class _Grown(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What grew with a run: the names of the pages its first values stand on, and the rest of it."""

    pages: tuple[str, ...]
    rest: tuple[T, ...]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """A run but for what stands on its pages. `costs`: agent, model, and what came of all usages."""

    run: Run
    contexts: dict[str, _Grown[Message]]
    questions: _Grown[Question]
    requests: _Grown[tuple[str, Usage]]
    lines: _Grown[InputRecord]
    costs: tuple[tuple[str, str, Cost], ...]


_HEADS = msgspec.json.Decoder(_Head)
_MESSAGES = msgspec.json.Decoder(tuple[Message, ...])
_QUESTIONS = msgspec.json.Decoder(tuple[Question, ...])
_USAGES = msgspec.json.Decoder(tuple[tuple[str, Usage], ...])
_RECORDS = msgspec.json.Decoder(tuple[InputRecord, ...])
_KEYS = msgspec.json.Decoder(tuple[str, ...])


def encode_run(run: Run) -> tuple[bytes, Mapping[str, bytes]]:
    """Return a folded run, for a snapshot: its head, and the pages it names.

    What grows with a run stands on pages of `PAGE` values. One that is full is the same in every later
    snapshot: it has the same name, and is made only where it is asked for. So a snapshot costs what
    came since the last one. The definition is in the head, and not what is derived from it.
    """
    written = _Written()
    book = run.inbox.lines if isinstance(run.inbox.lines, Book) else Book(run.inbox.lines)
    lines = written.grown(book.log, _lines)
    head = _Head(
        run=replace(
            _bare(run),
            definition=run.definition,
            contexts={},
            inbox=replace(run.inbox, lines={}, questions=()),
            usage=replace(run.usage, requests=()),
        ),
        contexts={name: written.grown(each, _list) for name, each in run.contexts.items()},
        questions=written.grown(run.inbox.questions, _list),
        requests=written.grown(run.usage.requests, _list),
        lines=_Grown(pages=lines.pages, rest=tuple(record for _, record in lines.rest)),
        costs=tuple((*who, cost) for who, cost in costs(run.usage.requests).rows.items()),
    )
    return _shape() + b"\n" + _ENCODER.encode(head), written


class _Written(Mapping[str, bytes]):
    """Pages by their names, which say what they hold. Each is made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Callable[[], bytes]] = {}

    def grown(self, values: Sequence[T], encoded: Callable[[Sequence[T]], bytes]) -> _Grown[T]:
        """Return what grew, with its full pages among these."""
        log = values if isinstance(values, Log) else Log(values)
        names, rest = log.on_pages(lambda page: _named(encoded(page)))
        for number, name in enumerate(names):
            self._made[name] = partial(_of_page, log, number, encoded)
        return _Grown(pages=names, rest=rest)

    def __getitem__(self, name: str) -> bytes:
        return self._made[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._made  # without making it

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _of_page(log: Log[T], number: int, encoded: Callable[[Sequence[T]], bytes]) -> bytes:
    return encoded(log.page(number))


def _named(page: bytes) -> str:
    return hashlib.blake2b(page, digest_size=16).hexdigest()


def _list(values: Sequence[object]) -> bytes:
    return _ENCODER.encode(values)


def _lines(lines: Sequence[tuple[str, InputRecord]]) -> bytes:
    """Return lines of the user, with their keys before them: those are looked up without the lines."""
    keys, records = zip(*lines, strict=True)
    return _ENCODER.encode(keys) + b"\n" + _ENCODER.encode(records)


def _bare(run: Run) -> Run:
    """Return a run, or branch, without its definition, where that follows from the run around it."""
    cuts = tuple(replace(cut, branches=_bare_all(cut.branches)) for cut in run.halt.cuts)
    return replace(
        run,
        definition=run.definition if run.branch.call_id and not run.branch.role else None,
        plan=NO_PLAN,
        visit=replace(run.visit, branches=_bare_all(run.visit.branches)),
        halt=replace(run.halt, cuts=cuts),
    )


def _bare_all(branches: dict[str, Run]) -> dict[str, Run]:
    return {name: _bare(branch) for name, branch in branches.items()}


def _never_changed(run: Run) -> Run:
    """Return a run, just decoded, with its sequences as values that cannot be changed."""
    cuts = tuple(replace(cut, branches=_never_changed_all(cut.branches)) for cut in run.halt.cuts)
    return replace(
        run,
        contexts={name: tuple(messages) for name, messages in run.contexts.items()},
        inbox=replace(run.inbox, questions=tuple(run.inbox.questions)),
        # One that stands for "none yet" stays that very value: it is left out when it is written again.
        usage=replace(run.usage, requests=tuple(run.usage.requests))
        if run.usage.requests
        else run.usage,
        visit=replace(run.visit, branches=_never_changed_all(run.visit.branches)),
        halt=replace(run.halt, cuts=cuts),
    )


def _never_changed_all(branches: dict[str, Run]) -> dict[str, Run]:
    return {name: _never_changed(branch) for name, branch in branches.items()}


def decode_run(head: bytes, pages: Mapping[str, bytes]) -> Run:
    """Return the run of `encode_run`. Its pages, which are what was written, are read when asked for.

    Raises:
        Undecodable: it is not one of this version, or a page is not there; fold the facts instead.
    """
    try:
        shape, _, body = head.partition(b"\n")
        if shape != _shape():
            raise Undecodable("another version wrote this run")
        run = _whole(_HEADS.decode(body), pages)
    except KeyError as error:
        raise Undecodable(f"its page {error} is not there") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable(str(error)) from error
    if run.definition is None:
        return run
    return with_definition(run, run.definition)


def _whole(head: _Head, pages: Mapping[str, bytes]) -> Run:
    rows = {(agent, model): cost for agent, model, cost in head.costs}
    total = reduce(Cost.plus, rows.values(), Cost())
    rest = tuple((record.id, record) for record in head.lines.rest)
    keys = [key for name in head.lines.pages for key in _keys_of(pages[name])]
    run = _never_changed(head.run)
    questions = _read(head.questions.pages, pages, _QUESTIONS.decode)
    requests = _read(head.requests.pages, pages, _USAGES.decode)
    return replace(
        run,
        contexts={
            name: Log.of_pages(_read(each.pages, pages, _MESSAGES.decode), each.rest)
            for name, each in head.contexts.items()
        },
        inbox=replace(
            run.inbox,
            lines=Book.of_pages(
                Log.of_pages(_read(head.lines.pages, pages, _lines_of), rest),
                [*keys, *(key for key, _ in rest)],
            ),
            questions=Log.of_pages(questions, head.questions.rest),
        ),
        usage=replace(
            run.usage,
            requests=Log.of_pages(
                requests, head.requests.rest, {costs: Costs(rows=rows, total=total)}
            ),
        ),
    )


def _read(
    names: Sequence[str], pages: Mapping[str, bytes], decoded: Callable[[bytes], tuple[T, ...]]
) -> Iterator[Page[T]]:
    return (Page(name, partial(decoded, pages[name])) for name in names)


def _keys_of(page: bytes) -> tuple[str, ...]:
    return _KEYS.decode(memoryview(page)[: page.index(b"\n")])


def _lines_of(page: bytes) -> tuple[tuple[str, InputRecord], ...]:
    records = _RECORDS.decode(memoryview(page)[page.index(b"\n") :])
    return tuple((record.id, record) for record in records)
