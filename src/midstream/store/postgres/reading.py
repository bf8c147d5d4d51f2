"""Reading facts along the chain of checksums, through the runs a fork came from, strictly.

It stops at the first fact that is missing or is not what was written.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from midstream.core.codec import FIRST, FORMAT
from midstream.core.notices import Envelope
from midstream.language.errors import JournalTooNew
from midstream.store.chains import Begun, Kept, Piece, begun, walked
from midstream.store.postgres.link import Link, Row, texts
from midstream.store.refusals import damaged, no_such_run, taken

_HEAD = """
with recursive line as (
    select number, seq, head, format, parent, parent_seq, 0 as depth from midstream.runs
    where id = %(id)s and seq > 0
    union all
    select r.number, r.seq, r.head, r.format, r.parent, r.parent_seq, line.depth + 1
    from line join midstream.runs r on r.number = line.parent and r.number < line.number)
select number, seq, head, format, parent, parent_seq from line order by depth
"""

_FACTS = """
select seq, at, body, checksum, ends, format from midstream.facts
where run = %(run)s and seq > %(after)s and seq <= %(upto)s order by seq
"""

_CHECKSUM = "select checksum from midstream.facts where run = %(run)s and seq = %(seq)s"


class _Line(msgspec.Struct, frozen=True):
    """A run and where its facts are: (run number, first, last), the oldest piece first."""

    number: int
    seq: int
    checksum: bytes
    pieces: tuple[Piece, ...]


def _line_of(link: Link, run: str) -> _Line | None:
    rows = link.rows(_HEAD, {"id": texts(run)})
    if not rows:
        return None
    number, seq, checksum, format, *_ = rows[0]
    if format > FORMAT:
        raise JournalTooNew(
            f"Run {run} was written by a newer midstream (format {format}; this one knows {FORMAT}).",
            hint="Use the newer midstream.",
        )
    pieces: list[Piece] = []
    end = seq
    for each, _, _, _, parent, parent_seq in rows:
        first = parent_seq + 1 if parent is not None else 1
        if end >= first:
            pieces.append((each, first, end))
        end = min(end, parent_seq)
    return _Line(number, seq, checksum, tuple(pieces[::-1]))


def read(link: Link, run: str, after: int, upto: int | None) -> list[Envelope]:
    """Return the facts of a run after a position, up to one. Raises JournalDamaged."""
    line = _line_of(link, run)
    if line is None:
        return []
    return [kept.envelope for kept in _verified(link, line, run, max(after, 0), upto)]


def _verified(link: Link, line: _Line, run: str, after: int, upto: int | None) -> Iterator[Kept]:
    """Walk the chain of a run from `after`, checking every fact."""
    end = line.seq if upto is None else min(line.seq, upto)
    if after >= end:
        return
    before, seq = FIRST, after
    pieces = [(number, first, min(last, end)) for number, first, last in line.pieces]
    rows, checksum_at = partial(_rows, link), partial(_checksum_at, link)
    for kept in walked(run, pieces, after, rows, checksum_at):
        before, seq = kept.checksum, seq + 1
        yield kept
    if seq < end:
        raise damaged(run, seq + 1, "it is missing")
    if end == line.seq and before != line.checksum:
        raise damaged(run, seq, "it is not the one the run ended with")


def _rows(link: Link, number: int, after: int, upto: int) -> list[Row]:
    return link.rows(_FACTS, {"run": number, "after": after, "upto": upto})


def _checksum_at(link: Link, number: int, seq: int) -> bytes:
    rows = link.rows(_CHECKSUM, {"run": number, "seq": seq})
    return bytes(rows[0][0]) if rows else FIRST


def prefix(link: Link, source: str, at: int) -> Begun:
    """Return the longest beginning of a run that cuts no append and has `at` facts at most.

    Raises:
        UserMistake: there is no such run, or no such beginning.
        JournalDamaged: one of the facts is not what was written.
    """
    line = _line_of(link, source)
    if line is None:
        raise no_such_run(source)
    return begun(source, at, line.number, _verified(link, line, source, 0, max(at, 0)))


FORK: Final = """
with begun as (
    insert into midstream.runs as r (id, seq, head, format, summary, workspace, kind, standing, named,
        written_at, parent, parent_seq, host, queue, person, repository, revision, push)
    select %(id)s, %(seq)s, %(head)s, %(format)s, %(summary)s, %(workspace)s, %(kind)s, %(standing)s,
        %(named)s, %(written_at)s, number, %(seq)s, host, queue, person, repository, revision, push
    from midstream.runs where number = %(number)s for key share
    on conflict (id) do update set seq = excluded.seq, head = excluded.head, format = excluded.format,
        summary = excluded.summary, workspace = excluded.workspace, kind = excluded.kind,
        standing = excluded.standing, named = excluded.named, written_at = excluded.written_at,
        parent = excluded.parent, parent_seq = excluded.parent_seq
    where r.seq = 0
    returning r.number)
select number from begun union all
select number from midstream.runs where id = %(id)s and parent = %(number)s and parent_seq = %(seq)s
    and seq = %(seq)s and head = %(head)s and %(again)s
"""
"""Of the values of `fork_values`; with `again` one that is there already is the one that was made."""


def begin_fork(link: Link, id: str, begun: Begun) -> int:
    """Make a run that begins with a prefix of another; return how many facts it has."""
    tries = iter((False, *[True] * 1_000_000))
    # Tried again, one that is there already is the one that was made without an answer.
    if not link.do(
        lambda it: it.execute(FORK.encode(), fork_values(id, begun, again=next(tries))).fetchall()
    ):
        raise taken(id)
    return begun.tip.seq


def fork_values(id: str, begun: Begun, *, again: bool = False) -> dict[str, object]:
    """Return what `FORK` is given to make a run of a beginning."""
    tip, summary = begun.tip, begun.tip.summary
    return {
        "again": again,
        "id": texts(id),
        "seq": tip.seq,
        "head": tip.checksum,
        "format": FORMAT,
        "summary": msgspec.json.encode(summary).decode(),
        "workspace": texts(summary.workspace),
        "kind": summary.kind,
        "standing": summary.standing,
        "named": texts(summary.name.casefold()),
        "written_at": summary.updated_at,
        "number": begun.number,
    }


def append_ends(link: Link, run: str, after: int) -> list[int]:
    """Return the positions behind `after` at which an append of the run ended. Raises JournalDamaged."""
    line = _line_of(link, run)
    if line is None:
        return []
    read = _verified(link, line, run, max(after, 0), None)
    return [kept.envelope.seq or 0 for kept in read if kept.ends]
