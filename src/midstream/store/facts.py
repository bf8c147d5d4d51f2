"""The table of facts and the heads of runs: appending, reading strictly, forking.

Reading goes along the chain of checksums, through the runs a fork came from, and stops at the first
fact that is missing or is not what was written.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import apsw
import msgspec

from midstream.core.codec import FIRST
from midstream.core.notices import Envelope
from midstream.store.chains import Append, Begun, Kept, Piece, Tip, begun, walked
from midstream.store.encoding import seal
from midstream.store.owners import Owners
from midstream.store.refusals import (
    damaged,
    elsewhere,
    moved,
    no_such_run,
    taken,
)
from midstream.views.listing import Summary

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


# What was damaged need not be text any more: it is read as bytes.
HEAD = (
    "number, cast(id as blob), seq, cast(head as blob), cast(summary as blob), parent, parent_seq,"
    " is_foreign, cast(seal as blob)"
)


def head_of(connection: apsw.Connection, run: str, *, expected: bool = False) -> Head | None:
    """Return the row of a run, None where there is none.

    `expected`: it should be there. Then one the index does not lead to is looked for in all rows:
    an index that was damaged must not hide a run.
    """
    query = f"select {HEAD} from runs where id=?"  # nosec B608  # columns of ours
    rows = connection.execute(query, (run,)).fetchall()
    if not rows and expected:
        rows = connection.execute(query.replace("where id", "where +id"), (run,)).fetchall()
    return head_in(rows[0]) if rows else None


def head_numbered(connection: apsw.Connection, number: int) -> Head | None:
    """Return the row of the run with this number, None where there is none."""
    query = f"select {HEAD} from runs where number=?"  # nosec B608  # columns of ours
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


def append(connection: apsw.Connection, append: Append, owners: Owners) -> None:
    """Append to a run. Raises JournalMoved, JournalDamaged before anything is written."""
    run = append.run
    head = head_of(connection, run, expected=append.expected > 0)
    kept = 0 if head is None else head.seq
    if head is not None and not head.is_whole:
        raise damaged(run, kept + 1, "the row of the run is not what was written")
    if kept != append.expected:
        raise moved(run, kept, append.expected)
    owner = lease_of(connection, run)
    if owner not in ("", owners.me) and owners.is_alive(owner):
        raise elsewhere(run)
    if append.facts:
        _write(connection, append, head or _new_head(connection, run))


def adopt(connection: apsw.Connection, append: Append, begun: Begun | None) -> None:
    """Make a run that comes from elsewhere. Raises UserMistake where its id is taken."""
    head = _begun_head(connection, append.run, begun)
    if append.facts:
        _write(connection, append, head)


def begin_fork(connection: apsw.Connection, id: str, begun: Begun) -> int:
    """Make a run that begins with a prefix of another; return how many facts it has."""
    return _begun_head(connection, id, begun).seq


def _begun_head(connection: apsw.Connection, id: str, begun: Begun | None) -> Head:
    """Make the row of a new run that begins with a prefix of another, or with nothing."""
    if head_of(connection, id) is not None:
        raise taken(id)
    head = _new_head(connection, id)
    if begun is not None:
        head = _at(head, begun.tip, parent=begun.number, parent_seq=begun.tip.seq)
        keep_head(connection, head)
    return head


def _at(head: Head, tip: Tip, **more: Any) -> Head:
    """Return a run's row as it is at a tip."""
    summary = _ENCODER.encode(tip.summary)
    return msgspec.structs.replace(
        head, seq=tip.seq, checksum=tip.checksum, summary=summary, **more
    )


def _write(connection: apsw.Connection, append: Append, head: Head) -> None:
    rows, tip = append.on(Tip(head.seq, head.checksum, summary_of(head)))
    connection.executemany(
        "insert into facts values(?,?,?,?,?,?,?)", [(head.number, *row) for row in rows]
    )
    keep_head(connection, _at(head, tip, is_foreign=append.is_foreign or head.is_foreign))


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


def prefix(connection: apsw.Connection, source: str, at: int) -> Begun:
    """Return the longest beginning of a run that cuts no append and has `at` facts at most.

    Raises:
        UserMistake: there is no such run, or no such beginning.
        JournalDamaged: one of the facts is not what was written.
    """
    head = head_of(connection, source, expected=True)
    if head is None:
        raise no_such_run(source)
    return begun(source, at, head.number, _verified(connection, head, source, 0, max(at, 0)))


def append_ends(connection: apsw.Connection, run: str, after: int) -> list[int]:
    """Return the positions behind `after` at which an append of the run ended. Raises JournalDamaged."""
    head = head_of(connection, run, expected=True)
    if head is None:
        return []
    read = _verified(connection, head, run, max(after, 0), None)
    return [kept.envelope.seq or 0 for kept in read if kept.ends]


def _verified(
    connection: apsw.Connection, head: Head, run: str, after: int, upto: int | None
) -> Iterator[Kept]:
    """Walk the chain of a run from `after`, checking every fact."""
    is_all = upto is None or upto >= head.seq
    # Where the row is not whole its length is no proof: whatever chains is read, and then reported.
    end = (upto if upto is not None else 1 << 62) if not head.is_whole else head.seq
    if upto is not None:
        end = min(end, upto)
    before, seq = FIRST, after
    rows, checksum_at = partial(_rows, connection), partial(_checksum_at, connection)
    try:
        pieces = _pieces(connection, head, end)
        for kept in walked(run, pieces, after, rows, checksum_at):
            before, seq = kept.checksum, seq + 1
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


def _pieces(connection: apsw.Connection, head: Head, end: int) -> list[Piece]:
    """Return (run number, first, last) for where a run's facts are, the oldest piece first."""
    found: list[Piece] = []
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


def _rows(connection: apsw.Connection, number: int, after: int, upto: int) -> apsw.Cursor:
    return connection.execute(
        "select seq, at, body, checksum, ends, format from facts"
        " where run=? and seq>? and seq<=? order by seq",
        (number, after, upto),
    )


def _checksum_at(connection: apsw.Connection, number: int, seq: int) -> bytes:
    rows = connection.execute(
        "select checksum from facts where run=? and seq=?", (number, seq)
    ).fetchall()
    return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else FIRST
