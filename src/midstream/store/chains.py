"""Runs as chains of facts, each with a checksum over all before it: how one is made longer, and walked.

What it takes to write and to read the rows is the store's.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from midstream.core.codec import FIRST, FORMAT, Undecodable, chained
from midstream.core.formats import fact_of
from midstream.core.notices import Envelope
from midstream.store.encoding import bodies_of, marked
from midstream.store.refusals import damaged, nothing_by_then, nothing_to_adopt
from midstream.views.listing import Summary, summarised

FactRow: TypeAlias = tuple[int, float, bytes, bytes, bool, int]
"""seq, at, body, checksum, ends, format."""

Piece: TypeAlias = tuple[int, int, int]
"""The number of a run, and the first and the last of the facts that are its own."""


class Tip(msgspec.Struct, frozen=True):
    """How far a run is: what the next fact is chained to."""

    seq: int = 0
    checksum: bytes = FIRST
    summary: Summary = Summary()


class Begun(msgspec.Struct, frozen=True):
    """The beginning of the run of a number, of which a fork is to be made: what comes first of it."""

    number: int
    tip: Tip


class Append:
    """Facts on their way into the journal.

    Args:
        run: the run's id.
        facts: what is appended.
        expected: how many facts the run has before.
        is_new: they are a run from elsewhere.
        ends: of such a run, the positions at which its appends ended; None: it is foreign for ever.
    """

    def __init__(
        self,
        run: str,
        facts: Iterable[Envelope],
        *,
        expected: int = 0,
        is_new: bool = False,
        ends: Collection[int] | None = None,
    ) -> None:
        self.run = run
        self.facts = tuple(facts)
        self.expected = expected
        self.is_new = is_new
        self.is_foreign = is_new and ends is None
        self.ends = frozenset(ends or ())
        self.bodies: list[bytes] = []

    def prepare(self) -> None:
        """Turn the facts into bytes; the journal is not locked meanwhile."""
        if self.is_new and not self.facts and not self.expected:
            raise nothing_to_adopt(self.run)
        self.bodies = bodies_of(self.run, self.expected, self.facts)

    def __call__(self, connection: object) -> None:
        """Do nothing: who takes it for work writes all that wait together."""

    @property
    def last(self) -> int:
        """Return how many facts the run has after it."""
        return self.expected + len(self.facts)

    def on(self, tip: Tip) -> tuple[list[FactRow], Tip]:
        """Return the rows of the facts, and the tip after them."""
        seq, checksum, summary = tip.seq, tip.checksum, tip.summary
        rows: list[FactRow] = []
        for envelope, body in zip(self.facts, self.bodies, strict=True):
            seq += 1
            # Foreign facts may be cut anywhere: each ends an append.
            at, is_end = float(envelope.at), seq == self.last or seq in self.ends
            ends = self.is_foreign or is_end
            checksum = chained(checksum, seq, at, marked(body, ends=ends, format=FORMAT))
            rows.append((seq, at, body, checksum, ends, FORMAT))
            summary = summarised(summary, envelope)
        return rows, Tip(seq, checksum, summary)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as it was read and found whole. `ends`: it is the last one of its append."""

    envelope: Envelope
    checksum: bytes
    ends: bool


def walked(
    run: str,
    pieces: Collection[Piece],
    after: int,
    rows: Callable[[int, int, int], Iterable[Sequence[Any]]],
    checksum_at: Callable[[int, int], bytes],
) -> Iterator[Kept]:
    """Yield the facts of a run behind `after`, each checked against the one before it.

    Args:
        run: its id.
        pieces: where its facts are, through the runs it was forked from, the oldest first.
        after: the position.
        rows: returns the rows of a run's own facts behind one position and up to another, as `FactRow`.
        checksum_at: returns the checksum of one of them, `FIRST` where there is none.

    Raises:
        JournalDamaged: one is missing before another, or is not what was written.
    """
    before, seq = FIRST, after
    for number, first, last in pieces:
        if after and first <= after <= last:
            before = checksum_at(number, after)
    for number, first, last in pieces:
        if last <= after:
            continue
        for row in rows(number, max(first - 1, after), last):
            seq += 1
            kept = _kept(run, seq, before, row)
            before = kept.checksum
            yield kept


def _kept(run: str, seq: int, before: bytes, row: Sequence[Any]) -> Kept:
    """Return a fact from its row, or raise JournalDamaged."""
    found, at, body, checksum, ends, format = row
    if found != seq:
        raise damaged(run, seq, "it is missing")
    try:
        covered = marked(body, ends=ends, format=format)
        if chained(before, seq, at, covered) != checksum:
            raise damaged(run, seq, "its checksum is wrong")
        event = fact_of(body, format)
    except (TypeError, ValueError) as error:
        why = str(error) if isinstance(error, Undecodable) else "it is not what was written"
        raise damaged(run, seq, why) from error
    envelope = Envelope(run=run, at=at, event=event, seq=seq)
    return Kept(envelope=envelope, checksum=checksum, ends=bool(ends))


def begun(source: str, at: int, number: int, facts: Iterable[Kept]) -> Begun:
    """Return the longest beginning of a run that cuts no append, of its first `at` facts.

    Raises:
        UserMistake: there is none.
    """
    summary, whole = Summary(), None
    for seq, kept in enumerate(facts, 1):
        summary = summarised(summary, kept.envelope)
        if kept.ends:
            whole = Tip(seq, kept.checksum, summary)
    if whole is None:
        raise nothing_by_then(source, at)
    return Begun(number, whole)
