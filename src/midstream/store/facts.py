"""The table of facts and the heads of runs: appending, reading strictly, forking.

Reading goes along the chain of checksums, through the runs a fork came from, and stops at the first
fact that is missing or is not what was written.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice, product
from typing import Any

import apsw
import msgspec

from midstream.core.codec import FIRST, FORMAT, Undecodable, chained
from midstream.core.formats import fact_of
from midstream.core.notices import Envelope
from midstream.runtime.storage import KINDS, RunKind
from midstream.store.encoding import bodies_of, marked, seal
from midstream.store.owners import Owners
from midstream.store.refusals import (
    damaged,
    elsewhere,
    moved,
    no_such_run,
    nothing_by_then,
    nothing_to_adopt,
    taken,
)
from midstream.store.schema import KIND, NAME, STANDING, WORKSPACE, WRITTEN_AT
from midstream.views.listing import ACTIVE, ENDED, Standing, Summary, named_like, summarised

_SUMMARY = msgspec.json.Decoder(Summary)
_ENCODER = msgspec.json.Encoder()


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A run's row: how far it is. `is_whole`: the row is what was written."""

    number: int = 0
    id: str = ""
    seq: int = 0
    checksum: bytes = FIRST
    summary: bytes = b""
    parent: int | None = None
    parent_seq: int = 0
    is_foreign: bool = False
    is_whole: bool = True


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as it was read and found whole. `ends`: it is the last one of its append."""

    envelope: Envelope
    checksum: bytes
    ends: bool


# Judged where the rows are: of a thousand runs elsewhere no line is read. What is damaged is of nowhere.
_LAST = "\U0010ffff"
"""Sorts behind whatever an id goes on with."""

# What was damaged need not be text any more: it is read as bytes.
_COLUMNS = (
    "number, cast(id as blob), seq, cast(head as blob), cast(summary as blob), parent, parent_seq,"
    " is_foreign, cast(seal as blob)"
)


def head_of(connection: apsw.Connection, run: str, *, expected: bool = False) -> Head | None:
    """Return the row of a run, None where there is none.

    `expected`: it should be there. Then one the index does not lead to is looked for in all rows:
    an index that was damaged must not hide a run.
    """
    query = f"select {_COLUMNS} from runs where id=?"  # nosec B608  # columns of ours
    rows = connection.execute(query, (run,)).fetchall()
    if not rows and expected:
        rows = connection.execute(query.replace("where id", "where +id"), (run,)).fetchall()
    return head_in(rows[0]) if rows else None


def listing(
    connection: apsw.Connection,
    *,
    workspace: str | None,
    kind: RunKind | None,
    status: Collection[Standing] | None,
    after: tuple[float, str] | None,
    limit: int,
) -> list[Head]:
    """Return the rows of some runs, the one written last first; see `storage.Catalogue.listing`.

    Of one folder each kind and standing is a piece of the index that is in order already: the first
    entries of the pieces are merged, and only the rows of the page are read. Without a folder that is
    done for each folder there is.
    """
    wanted = (workspace, kind, status, after, limit)
    try:
        return _listing(connection, *wanted, source="runs indexed by runs_here")
    except apsw.CorruptError:
        # An index that cannot be read hides no run: the rows are looked through.
        return _listing(connection, *wanted, source="runs not indexed")


def _listing(
    connection: apsw.Connection,
    workspace: str | None,
    kind: RunKind | None,
    status: Collection[Standing] | None,
    after: tuple[float, str] | None,
    limit: int,
    *,
    source: str,
) -> list[Head]:
    folders = {workspace, ""} if workspace is not None else _folders(connection, source)
    kinds = KINDS if kind is None else (kind,)
    standings = {*ACTIVE, *ENDED} if status is None else set(status)
    before, behind = "true", tuple[Any, ...]()
    if after is not None:
        # By the first condition the place is found in the index: it does not understand the second.
        before = f"{WRITTEN_AT}<=?4 and ({WRITTEN_AT}, id)<(?4, ?5)"
        behind = (int(Decimal(repr(after[0])).scaleb(6)), after[1])
    query = (
        f"select {WRITTEN_AT}, cast(id as blob), number from {source}"  # nosec B608  # columns of ours
        f" where {WORKSPACE}=?1 and {KIND}=?2 and {STANDING}=?3 and {before}"
        f" order by {WRITTEN_AT} desc, id desc limit ?{4 + len(behind)}"
    )
    pieces: list[list[Any]] = [
        connection.execute(query, (*piece, *behind, limit)).fetchall()
        for piece in product(folders, kinds, standings)
    ]
    newest = islice(heapq.merge(*pieces, key=_when, reverse=True), limit)
    found = (head_numbered(connection, number) for _, _, number in newest)
    return [head for head in found if head is not None]


def _when(entry: Sequence[Any]) -> tuple[int, bytes]:
    return entry[0], entry[1]


def _folders(connection: apsw.Connection, source: str) -> list[str]:
    """Return the folders of all runs: each is one step in the index, however many runs it has."""
    found: list[str] = []
    first = f"select {WORKSPACE} from {source} where true order by 1 limit 1"  # nosec B608
    following = first.replace("true", f"{WORKSPACE}>?")
    rows = connection.execute(first).fetchall()
    while rows:
        found.append(str(rows[0][0]))
        rows = connection.execute(following, (found[-1],)).fetchall()
    return found


def matching(
    connection: apsw.Connection, text: str, *, workspace: str | None, limit: int
) -> list[Head]:
    """Return the rows of runs by the beginning of an id, and by name; see `storage.Catalogue.matching`."""
    place = "true" if workspace is None else f"{WORKSPACE} in (?, '')"
    places = () if workspace is None else (workspace,)
    begun = connection.execute(
        f"select {_COLUMNS} from runs where id>=? and id<? and {place} order by id limit ?",  # nosec B608  # columns of ours
        (text, text + _LAST, *places, limit),
    ).fetchall()
    found = [head_in(row) for row in begun]
    known = {head.id for head in found}
    names = connection.execute(
        f"select cast(id as blob), cast({NAME} as blob) from runs indexed by runs_named"  # nosec B608  # columns of ours
        f" where {NAME} != '' and {place} order by id",
        places,
    )
    said = [(text_in(id), text_in(name)) for id, name in names]
    named = named_like(text, [pair for pair in said if pair[0] not in known])[:limit]
    return found + [head for id in named if (head := head_of(connection, id)) is not None]


def head_numbered(connection: apsw.Connection, number: int) -> Head | None:
    """Return the row of the run with this number, None where there is none."""
    query = f"select {_COLUMNS} from runs where number=?"  # nosec B608  # columns of ours
    rows = connection.execute(query, (number,)).fetchall()
    return head_in(rows[0]) if rows else None


def head_in(row: Sequence[Any]) -> Head:
    """Return the row as a value. Of one that is not whole only what can be used is there."""
    number, name, seq, checksum, summary, parent, parent_seq, is_foreign, sealed = row
    id = text_in(name)
    is_whole = seal((number, id, *row[2:-1])) == sealed
    return Head(
        number=number,
        id=id,
        seq=seq if isinstance(seq, int) else 0,
        checksum=checksum,
        summary=summary if isinstance(summary, bytes) else b"",
        parent=parent if isinstance(parent, int) else None,
        parent_seq=parent_seq if isinstance(parent_seq, int) else 0,
        is_foreign=bool(is_foreign),
        is_whole=is_whole,
    )


def text_in(column: object) -> str:
    """Return the text of a column read as bytes: one that was damaged need not be text any more."""
    return column.decode(errors="replace") if isinstance(column, bytes) else repr(column)


def summary_of(head: Head) -> Summary:
    """Return a run's line in a listing; an empty one where it cannot be read."""
    try:
        return _SUMMARY.decode(head.summary)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Summary(updated_at=_written_at(head.summary))


def _written_at(summary: bytes) -> float:
    """Return what the index has read of a line that is no summary: pages go on by it."""
    try:
        return float(msgspec.json.decode(summary.decode(errors="replace"))["updated_at"])
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
        return 0.0


class Append:
    """Facts on their way into the journal. The checks come before anything is written.

    Args:
        run: the run's id.
        facts: what is appended.
        expected: how many facts the run has before.
        owners: says who lives; None for a run from elsewhere: it is new.
        ends: of such a run, the positions at which its appends ended; None: it is foreign for ever.
        begun: of such a run, the row of the fork it begins as.
    """

    def __init__(
        self,
        run: str,
        facts: Iterable[Envelope],
        *,
        expected: int = 0,
        owners: Owners | None,
        ends: Collection[int] | None = None,
        begun: Head | None = None,
    ) -> None:
        self._run = run
        self._facts = tuple(facts)
        self._expected = expected if begun is None else begun.seq
        self._owners = owners
        self._ends = None if ends is None else frozenset(ends)
        self._begun = begun
        self._bodies: list[bytes] = []

    def prepare(self) -> None:
        """Turn the facts into bytes; the journal is not locked meanwhile."""
        if self._owners is None and not self._facts and self._begun is None:
            raise nothing_to_adopt(self._run)
        self._bodies = bodies_of(self._run, self._expected, self._facts)

    def __call__(self, connection: apsw.Connection) -> None:
        """Append. Raises JournalMoved, JournalDamaged, UserMistake where an imported run's id is taken."""
        head = self._begun
        if self._owners is None:
            refuse_taken(connection, self._run)
            if head is not None:
                number = _new_head(connection, self._run).number
                head = msgspec.structs.replace(head, number=number, id=self._run)
                keep_head(connection, head)
        else:
            head = head_of(connection, self._run, expected=self._expected > 0)
            self._refuse_moved(connection, head, self._owners)
        if self._facts:
            self._write(connection, head or _new_head(connection, self._run))

    def _refuse_moved(self, connection: apsw.Connection, head: Head | None, owners: Owners) -> None:
        run, kept = self._run, 0 if head is None else head.seq
        if head is not None and not head.is_whole:
            raise damaged(run, kept + 1, "the row of the run is not what was written")
        if kept != self._expected:
            raise moved(run, kept, self._expected)
        owner = lease_of(connection, run)
        if owner not in ("", owners.me) and owners.is_alive(owner):
            raise elsewhere(run)

    def _write(self, connection: apsw.Connection, head: Head) -> None:
        """Write the facts. Foreign ones may be cut anywhere: each ends an append."""
        is_foreign = self._owners is None and self._ends is None
        seq, checksum, summary = head.seq, head.checksum, summary_of(head)
        last = seq + len(self._facts)
        rows = []
        for envelope, body in zip(self._facts, self._bodies, strict=True):
            seq += 1
            is_end = self._ends is not None and seq in self._ends
            at, ends = float(envelope.at), is_foreign or is_end or seq == last
            checksum = chained(checksum, seq, at, marked(body, ends=ends, format=FORMAT))
            rows.append((head.number, seq, at, body, checksum, int(ends), FORMAT))
            summary = summarised(summary, envelope)
        connection.executemany("insert into facts values(?,?,?,?,?,?,?)", rows)
        grown = msgspec.structs.replace(
            head,
            seq=seq,
            checksum=checksum,
            summary=_ENCODER.encode(summary),
            is_foreign=is_foreign or head.is_foreign,
        )
        keep_head(connection, grown)


def _new_head(connection: apsw.Connection, run: str) -> Head:
    """Make the row of a run without facts, to be kept as soon as it has some."""
    connection.execute("insert into runs values(null,?,0,x'',x'',null,0,0,x'')", (run,))
    return Head(number=connection.last_insert_rowid(), id=run)


def keep_head(connection: apsw.Connection, head: Head) -> None:
    """Write how far a run is into its row."""
    row = (
        *(head.number, head.id, head.seq, head.checksum, head.summary),
        *(head.parent, head.parent_seq, int(head.is_foreign)),
    )
    connection.execute(
        "update runs set seq=?3, head=?4, summary=?5, parent=?6, parent_seq=?7, is_foreign=?8,"
        " seal=?9 where number=?1 and id=?2",
        (*row, seal(row)),
    )


def lease_of(connection: apsw.Connection, run: str) -> str:
    """Return the owner a run was last claimed by and not released, alive or not; "" for none."""
    rows = connection.execute(
        "select cast(owner as blob) from leases where run=?", (run,)
    ).fetchall()
    return text_in(rows[0][0]) if rows else ""


def read(connection: apsw.Connection, run: str, after: int, upto: int | None) -> list[Envelope]:
    """Return the facts of a run after a position, up to one. Raises JournalDamaged."""
    head = head_of(connection, run, expected=True)
    if head is None:
        return []
    return [kept.envelope for kept in _verified(connection, head, run, max(after, 0), upto)]


def prefix(connection: apsw.Connection, source: str, at: int) -> Head:
    """Return the row of a fork to be: the longest beginning of a run that cuts no append.

    Args:
        connection: one that reads.
        source: the run.
        at: how many facts of it the fork has at most.

    Raises:
        UserMistake: there is no such run, or no such beginning.
        JournalDamaged: one of the facts is not what was written.
    """
    head = head_of(connection, source, expected=True)
    if head is None:
        raise no_such_run(source)
    summary, whole = Summary(), None
    for seq, kept in enumerate(_verified(connection, head, source, 0, max(at, 0)), 1):
        summary = summarised(summary, kept.envelope)
        if kept.ends:
            whole = (seq, kept.checksum, summary)
    if whole is None:
        raise nothing_by_then(source, at)
    seq, checksum, summary = whole
    return Head(
        seq=seq,
        checksum=checksum,
        summary=_ENCODER.encode(summary),
        parent=head.number,
        parent_seq=seq,
    )


def append_ends(connection: apsw.Connection, run: str, after: int) -> list[int]:
    """Return the positions behind `after` at which an append of the run ended. Raises JournalDamaged."""
    head = head_of(connection, run, expected=True)
    if head is None:
        return []
    read = _verified(connection, head, run, max(after, 0), None)
    return [kept.envelope.seq or 0 for kept in read if kept.ends]


def begin_fork(connection: apsw.Connection, id: str, begun: Head) -> int:
    """Make a run that begins with a prefix of another; return how many facts it has."""
    refuse_taken(connection, id)
    number = _new_head(connection, id).number
    keep_head(connection, msgspec.structs.replace(begun, number=number, id=id))
    return begun.seq


def refuse_taken(connection: apsw.Connection, id: str) -> None:
    """Raise UserMistake where a run of that id is there."""
    if head_of(connection, id) is not None:
        raise taken(id)


def _verified(
    connection: apsw.Connection, head: Head, run: str, after: int, upto: int | None
) -> Iterator[Kept]:
    """Walk the chain of a run from `after`, checking every fact."""
    is_all = upto is None or upto >= head.seq
    # Where the row is not whole its length is no proof: whatever chains is read, and then reported.
    end = (upto if upto is not None else 1 << 62) if not head.is_whole else head.seq
    if upto is not None:
        end = min(end, upto)
    before = FIRST
    seq = after
    try:
        pieces = _pieces(connection, head, end)
        if after:
            before = _checksum_at(connection, pieces, after)
        for number, first, last in pieces:
            for row in connection.execute(
                "select seq, at, body, checksum, ends, format from facts"
                " where run=? and seq>? and seq<=? order by seq",
                (number, max(first - 1, after), last),
            ):
                seq += 1
                kept = kept_fact(run, seq, before, row)
                before = kept.checksum
                yield kept
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        raise damaged(run, seq + 1, str(error)) from error
    if not head.is_whole:
        if upto is None or seq < upto:
            raise damaged(run, seq + 1, "the row of the run is not what was written")
    elif after < head.seq:
        if seq < end:
            raise damaged(run, seq + 1, "it is missing")
        if is_all and before != head.checksum:
            raise damaged(run, seq, "it is not the one the run ended with")


def _pieces(connection: apsw.Connection, head: Head, end: int) -> list[tuple[int, int, int]]:
    """Return (run number, first, last) for where a run's facts are, the oldest piece first."""
    found: list[tuple[int, int, int]] = []
    number, parent, parent_seq = head.number, head.parent, head.parent_seq
    while True:
        first = parent_seq + 1 if parent is not None else 1
        if end >= first:
            found.append((number, first, end))
        # A parent is older than its fork; a row that says otherwise is damaged.
        if parent is None or parent >= number:
            break
        end, number = min(end, parent_seq), parent
        rows = connection.execute(
            "select parent, parent_seq from runs where number=?", (number,)
        ).fetchall()
        if not rows:
            break
        ((above, above_seq),) = rows
        if not isinstance(above_seq, int) or not (above is None or isinstance(above, int)):
            break
        parent, parent_seq = above, above_seq
    return found[::-1]


def _checksum_at(
    connection: apsw.Connection, pieces: Sequence[tuple[int, int, int]], seq: int
) -> bytes:
    for number, first, last in pieces:
        if first <= seq <= last:
            rows = connection.execute(
                "select checksum from facts where run=? and seq=?", (number, seq)
            ).fetchall()
            return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else FIRST
    return FIRST


def kept_fact(run: str, seq: int, before: bytes, row: Sequence[Any]) -> Kept:
    """Return a fact from its row (seq, at, body, checksum, ends, format), or raise JournalDamaged."""
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
