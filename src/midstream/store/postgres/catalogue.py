"""Which runs there are: the listing, runs by the beginning of an id or a name, lineages; how some stand."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
import psycopg

from midstream.runtime.storage import KINDS, KeptRun, Place, Placement, RunKind
from midstream.store.postgres.appends import NOBODY
from midstream.store.postgres.link import Connection, Link, Row, text_in, texts
from midstream.store.postgres.tables import LISTED_S
from midstream.store.refusals import has_forks, no_such_run, not_ended, owned
from midstream.views.listing import ACTIVE, ENDED, Standing, Summary

_SUMMARY = msgspec.json.Decoder(Summary)
_LAST = "\U0010ffff"
"""Sorts behind whatever an id or a name goes on with."""

COLUMNS: Final = (
    "r.id, r.seq, r.summary, r.written_at, p.id, r.parent_seq, r.is_foreign, r.owner,"
    " r.host, r.queue, r.person, r.repository, r.revision, r.push"
)
"""Of `runs r left join runs p on p.number = r.parent`; see `kept_runs`."""

_FROM: Final = "midstream.runs r left join midstream.runs p on p.number = r.parent"


def kept_runs(link: Link, rows: Collection[Row]) -> list[KeptRun]:
    """Return the runs of some rows, with who has them."""
    living = living_of(link, {row[7] for row in rows})
    return [_kept(row, living) for row in rows]


def living_of(link: Link, owners: Iterable[str]) -> set[str]:
    """Return those of some owners that live."""
    asked = [owner for owner in owners if owner not in ("", NOBODY)]
    if not asked:
        return set()
    found = link.rows(
        "select name from unnest(%(names)s::text[]) name where midstream.lives(name)",
        {"names": asked},
    )
    return {name for (name,) in found}


def _kept(row: Row, living: Collection[str]) -> KeptRun:
    id, seq, said, written_at, parent, parent_seq, is_foreign, owner, *place = row
    damaged = ""
    try:
        summary = _SUMMARY.decode(said)
    except msgspec.MsgspecError:
        summary, damaged = Summary(updated_at=written_at), "its row is not what was written"
    return KeptRun(
        id=text_in(id),
        seq=seq,
        summary=summary,
        parent="" if parent is None else text_in(parent),
        parent_seq=parent_seq,
        is_foreign=is_foreign,
        owner=owner if owner in living else "",
        was_cut=bool(owner) and owner not in living,
        damaged=damaged,
        placement=_placement(*place),
    )


def _placement(
    host: str | None, queue: str, person: str, repository: str, revision: str, push: str
) -> Placement | None:
    if host is None:
        return None
    return Placement(
        host=host, queue=queue, user=person, repository=repository, commit=revision, push=push
    )


def run(link: Link, id: str) -> KeptRun | None:
    """Return a run, None where there is none of that id."""
    query = f"select {COLUMNS} from {_FROM} where r.id = %(id)s and r.seq > 0"  # nosec B608  # columns of ours
    found = kept_runs(link, link.rows(query, {"id": texts(id)}))
    return found[0] if found else None


def listing(
    link: Link,
    *,
    workspace: str | None,
    kind: RunKind | None,
    status: Collection[Standing] | None,
    after: Place | None,
    limit: int,
) -> list[KeptRun]:
    """Return some runs, the one written last first.

    Of one folder, kind and standing the runs are a piece of an index, in order but for those that were
    written within the same seconds: the first of each piece are merged, so a page costs what it returns.
    """
    values: dict[str, object] = {
        "kinds": list(KINDS if kind is None else (kind,)),
        "ways": list({*ACTIVE, *ENDED} if status is None else set(status)),
        "limit": limit,
    }
    pieces, here, before = "unnest(%(kinds)s::text[]) kind, unnest(%(ways)s::text[]) way", "", ""
    if workspace is not None:
        values["folders"] = list({texts(workspace), ""})
        pieces += ", unnest(%(folders)s::text[]) folder"
        here = "and workspace = folder"
    if after is not None:
        values |= {"at": after[0], "id": texts(after[1]), "span": after[0] // LISTED_S}
        before = "and listed_in <= %(span)s and (written_at, id) < (%(at)s, %(id)s)"
    query = f"""
        select {COLUMNS} from (
            select number from {pieces}, lateral (
                select number, written_at, id from midstream.runs
                where runs.kind = kind.kind and standing = way and listed_in is not null {here} {before}
                order by listed_in desc, written_at desc, id desc limit %(limit)s) piece
            order by written_at desc, id desc limit %(limit)s) page
        join midstream.runs r using (number) left join midstream.runs p on p.number = r.parent
        order by r.written_at desc, r.id desc
    """  # nosec B608  # columns of ours
    return kept_runs(link, link.rows(query, values)) if limit > 0 else []


def matching(link: Link, text: str, *, workspace: str | None, limit: int) -> list[KeptRun]:
    """Return runs by the beginning of an id, and behind them by name."""
    here = "true" if workspace is None else "r.workspace in (%(here)s, '')"
    begin = texts(text)
    values: dict[str, object] = {
        "here": texts(workspace or ""),
        "limit": limit,
        "from": begin,
        "to": begin + _LAST,
    }
    query = (
        f"select {COLUMNS} from {_FROM} where r.seq > 0 and {here} and {{}}"  # nosec B608  # columns of ours
        " order by r.id limit %(limit)s"
    )
    found = link.rows(query.format("r.id >= %(from)s and r.id < %(to)s"), values)
    key = texts(" ".join(text.split()).casefold())
    if key:
        values |= {"key": key, "end": key + _LAST, "known": [row[0] for row in found]}
        unknown = "r.named <> '' and r.id <> all(%(known)s::text[]) and "
        named = link.rows(query.format(unknown + "r.named = %(key)s"), values)
        begun = unknown + "r.named >= %(key)s and r.named < %(end)s"
        found = found + (named or link.rows(query.format(begun), values))
    return kept_runs(link, found)


def lineage(link: Link, id: str) -> list[KeptRun]:
    """Return a run and the runs it was forked from, the run itself first."""
    query = f"""
        with recursive line as (
            select number, parent, 0 as depth from midstream.runs where id = %(id)s and seq > 0
            union all
            select above.number, above.parent, line.depth + 1 from line
            join midstream.runs above on above.number = line.parent and above.number < line.number)
        select {COLUMNS} from line join midstream.runs r using (number)
        left join midstream.runs p on p.number = r.parent order by line.depth
    """  # nosec B608  # columns of ours
    return kept_runs(link, link.rows(query, {"id": texts(id)}))


def forget(link: Link, id: str) -> None:
    """Delete a run that has ended, and what belongs to it."""
    link.do(lambda connection: _forget(connection, texts(id), id))


def _forget(connection: Connection, key: str, id: str) -> None:
    with connection.transaction():
        rows = connection.execute(
            "select number, standing, owner, owner not in ('', '-') and midstream.lives(owner)"
            " from midstream.runs where id = %s and seq > 0 for update",
            (key,),
        ).fetchall()
        if not rows:
            raise no_such_run(id)
        number, standing, owner, is_owned = rows[0]
        if is_owned:
            raise owned(id, owner)
        if standing not in ENDED:
            raise not_ended(id)
        if connection.execute("select from midstream.runs where parent = %s", (number,)).rowcount:
            raise has_forks(id)
        connection.execute("delete from midstream.facts where run = %s", (number,))
        connection.execute("delete from midstream.runs where number = %s", (number,))
        for table in ("inbox", "snapshots", "pages"):
            connection.execute(f"delete from midstream.{table} where run = %s".encode(), (key,))  # nosec B608  # tables of ours


# --- seeing that others have written --------------------------------------------------------------

_SNAPSHOT: Final = "select pg_current_snapshot()::text"

_RUNS: Final = """
select watched, seq, owner, epoch, (
    select array_agg(i.number order by i.number) from midstream.inbox i
    where i.run = watched and not i.is_delivered)
from unnest(%(ids)s::text[]) watched left join midstream.runs on runs.id = watched
"""


class Looking:
    """How the runs stand that somebody waits for; see `midstream.store.commit_watch.Look`.

    A snapshot of the server is another one as soon as any transaction that wrote has ended, and costs
    nothing to ask for. Only then the rows of the runs are looked at: one look for all who wait.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._snapshot = ""
        self._known: set[str | None] = set()

    def __call__(self, wanted: Collection[str | None]) -> Mapping[str | None, object]:
        """Return how these runs stand; nothing where nobody wrote since, or it cannot be seen."""
        try:
            ((snapshot,),) = self._link.rows(_SNAPSHOT)
            if snapshot == self._snapshot and self._known.issuperset(wanted):
                return {}
            ids = [texts(run) for run in wanted if run is not None]
            rows = self._link.rows(_RUNS, {"ids": ids}) if ids else []
        except psycopg.Error:
            return {}
        self._snapshot, self._known = snapshot, set(wanted)
        return {None: snapshot} | {text_in(id): tuple(map(str, how)) for id, *how in rows}
