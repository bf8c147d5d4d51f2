"""Snapshots of folded runs and their pages."""

from collections.abc import Collection, Mapping
from typing import Final
from zlib import crc32

from midstream.store.encoding import seal
from midstream.store.postgres.link import Connection, Link, text_in, texts


def kept_pages(link: Link, run: str) -> set[str]:
    """Return the names of the pages that are kept of a run."""
    query = "select name from midstream.pages where run = %(run)s"
    return {text_in(name) for (name,) in link.rows(query, {"run": texts(run)})}


def keep_snapshot(
    link: Link,
    run: str,
    seq: int,
    data: bytes,
    names: Collection[str],
    new: Mapping[str, bytes],
) -> None:
    """Keep the snapshot and its pages instead of the one before.

    Nothing is kept where one of its pages is neither new nor kept any more: another snapshot of the run
    came meanwhile.
    """
    id = texts(run)

    def keep(connection: Connection) -> None:
        with connection.transaction():
            connection.execute(_SNAPSHOT, (id, seq, data, seal((run, seq, data))), prepare=True)
            rows = connection.execute("select name from midstream.pages where run = %s", (id,))
            kept = {text_in(name) for (name,) in rows}
            if not kept | new.keys() >= set(names):
                raise _Overtaken
            gone = [texts(name) for name in kept - set(names)]
            if gone:
                connection.execute(
                    "delete from midstream.pages where run = %s and name = any(%s::text[])",
                    (id, gone),
                )
            if new:
                connection.cursor().executemany(
                    _PAGE,
                    [
                        (id, texts(name), page, crc32(page, crc32(name.encode())))
                        for name, page in new.items()
                    ],
                )

    try:
        link.do(keep)
    except _Overtaken:
        return


class _Overtaken(Exception):
    """Another snapshot of the run came meanwhile."""


_SNAPSHOT: Final = (
    b"insert into midstream.snapshots values (%s, %s, %b, %b) on conflict (run) do update set"
    b" seq = excluded.seq, data = excluded.data, seal = excluded.seal"
)
_PAGE: Final = (
    b"insert into midstream.pages values (%s, %s, %b, %s) on conflict (run, name) do update set"
    b" data = excluded.data, checksum = excluded.checksum"
)


def newest_snapshot(link: Link, run: str) -> tuple[int, bytes, Mapping[str, bytes]] | None:
    """Return the snapshot of a run if it and its pages are what was kept; a damaged one is deleted."""
    rows = link.rows(
        "select s.seq, s.data, s.seal, p.name, p.data, p.checksum from midstream.snapshots s"
        " left join midstream.pages p on p.run = s.run where s.run = %(run)s",
        {"run": texts(run)},
    )
    if not rows:
        return None
    seq, data, sealed = rows[0][:3]
    pages = {text_in(name): (page, check) for *_, name, page, check in rows if name is not None}
    is_whole = seal((run, seq, data)) == sealed and all(
        crc32(page, crc32(name.encode())) == check for name, (page, check) in pages.items()
    )
    if not is_whole:
        forget_snapshots(link, run)
        return None
    return seq, data, {name: page for name, (page, _) in pages.items()}


def forget_snapshots(link: Link, run: str | None) -> None:
    """Delete the snapshots of one run, or all."""
    where = "" if run is None else " where run = %(run)s"
    for table in ("snapshots", "pages"):
        link.rows(f"delete from midstream.{table}{where}", {"run": texts(run or "")})  # nosec B608  # a table of ours
