"""The statements that keep facts, with the fence in them.

Each moves runs' rows on from the position and the checksum it expects, unless another owner that lives has
them, and keeps the facts of those it moved. One run that goes on, the most frequent by far, has a statement
of plain values: arrays take the client and the server twice as long.
"""

from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from midstream.core.codec import FORMAT
from midstream.store.chains import FactRow, Tip
from midstream.store.postgres.link import Connection, texts
from midstream.views.listing import Summary

FEW: Final = 8
"""Of how many facts at most an append is written as plain values."""

_ENCODER = msgspec.json.Encoder()


class Move(NamedTuple):
    """What is to be kept of a run: it stands at `before`, and with the facts of `rows` at `after`."""

    run: str
    before: Tip
    after: Tip
    rows: list[FactRow]
    is_foreign: bool


_FENCE: Final = "(r.owner in ('', '-', %(me)b) or not midstream.lives(r.owner))"

_MANY: Final = f"""
with heads as materialized (
    select * from unnest(
        %(n)b::int[], %(id)b::text[], %(expected)b::int[], %(tip)b::bytea[], %(seq)b::int[],
        %(head)b::bytea[], %(summary)b::text[], %(workspace)b::text[], %(kind)b::text[],
        %(standing)b::text[], %(named)b::text[], %(written_at)b::float8[], %(is_foreign)b::bool[])
    as h(n, id, expected, tip, seq, head, summary, workspace, kind, standing, named, written_at,
        is_foreign)),
known as (
    update midstream.runs r set seq = h.seq, head = h.head, format = greatest(r.format, {FORMAT}),
        summary = h.summary,
        workspace = h.workspace, kind = h.kind, standing = h.standing, named = h.named,
        written_at = h.written_at, is_foreign = r.is_foreign or h.is_foreign
    from heads h
    where r.id = h.id and r.seq = h.expected and r.head = h.tip and {_FENCE}
    returning h.n, r.number),
begun as (
    insert into midstream.runs(id, seq, head, format, summary, workspace, kind, standing, named, written_at,
        is_foreign)
    select id, seq, head, {FORMAT}, summary, workspace, kind, standing, named, written_at, is_foreign
    from heads h
    where expected = 0 and not exists(select from midstream.runs r where r.id = h.id)
    on conflict (id) do nothing returning id, number),
kept as (select n, number from known union all select h.n, b.number from begun b join heads h using (id)),
written as (
    insert into midstream.facts(run, seq, at, body, checksum, ends, format)
    select k.number, f.seq, f.at, f.body, f.checksum, f.ends, f.format
    from unnest(%(of)b::int[], %(fact)b::int[], %(at)b::float8[], %(body)b::bytea[], %(checksum)b::bytea[],
        %(ends)b::bool[], %(formats)b::int[]) as f(n, seq, at, body, checksum, ends, format)
    join kept k using (n))
select n from kept
"""  # nosec B608  # numbers of ours

_ONE: Final = f"""
with known as (
    update midstream.runs r set seq = %b, head = %b, summary = %b, workspace = %b, kind = %b, standing = %b,
        named = %b, written_at = %b, format = greatest(r.format, {FORMAT})
    where r.id = %b and r.seq = %b and r.head = %b and {_FENCE.replace("%(me)b", "%b")}
    returning r.number)
insert into midstream.facts(run, seq, at, body, checksum, ends, format)
select known.number, f.* from known, (values {{}}) f
"""  # nosec B608  # numbers of ours

_HEADS: Final = (
    *("n", "id", "expected", "tip", "seq", "head", "summary", "workspace", "kind", "standing"),
    *("named", "written_at", "is_foreign"),
)
_FACTS: Final = ("of", "fact", "at", "body", "checksum", "ends", "formats")


def keep(connection: Connection, me: str, moves: list[Move]) -> set[str]:
    """Move runs on in one statement; return those that were where they were expected and may be moved."""
    first = moves[0]
    goes_on = first.before.seq > 0 and not first.is_foreign
    if len(moves) == 1 and goes_on and len(first.rows) <= FEW:
        return {first.run} if _moved(connection, me, first) else set()
    found = connection.execute(_MANY.encode(), _values(me, moves), prepare=True).fetchall()
    return {moves[n].run for (n,) in found}


def _moved(connection: Connection, me: str, move: Move) -> bool:
    values: list[Any] = [move.after.seq, move.after.checksum, *_listed(move.after.summary)]
    values += (texts(move.run), move.before.seq, move.before.checksum, me)
    for row in move.rows:
        values += row
    return connection.execute(_one(len(move.rows)), values, prepare=True).rowcount > 0


@cache
def _one(facts: int) -> bytes:
    row = "(%b::int, %b::float8, %b::bytea, %b::bytea, %b::bool, %b::int)"
    return _ONE.format(", ".join([row] * facts)).encode()


def _listed(summary: Summary) -> tuple[str, str, str, str, str, float]:
    """Return a run's line in the listing, and what it is found by."""
    return (
        _ENCODER.encode(summary).decode(),
        texts(summary.workspace),
        summary.kind,
        summary.standing,
        texts(summary.name.casefold()),
        float(summary.updated_at),
    )


def _values(me: str, moves: list[Move]) -> dict[str, object]:
    heads: list[tuple[Any, ...]] = []
    facts: list[tuple[Any, ...]] = []
    for n, (run, before, after, rows, is_foreign) in enumerate(moves):
        heads.append(
            (
                *(n, texts(run), before.seq, before.checksum, after.seq, after.checksum),
                *_listed(after.summary),
                is_foreign,
            )
        )
        facts += ((n, *row) for row in rows)
    values: dict[str, object] = {"me": me}
    values |= zip(_HEADS, map(list, zip(*heads, strict=True)), strict=True)
    values |= zip(_FACTS, map(list, zip(*facts, strict=True)), strict=True)
    return values
