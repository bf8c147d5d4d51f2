"""Snapshots of folded runs and their pages, and large contents by what they are."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Final, Protocol
from zlib import crc32

from midstream.language.errors import ContentsMissing
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


class Blobs(Protocol):
    """Where large contents are kept, by what they are. Its methods block, each in a thread of its own."""

    def put(self, data: bytes) -> str:
        """Return the key (SHA-256, in hex) once the data is safe."""

    def get(self, key: str) -> bytes:
        """Return the data of a key, or of the one key that begins so: eight digits at least.

        Raises:
            WorldTrouble: it is missing, or not what was put there; or several keys begin so.
        """


def put(link: Link, data: bytes) -> str:
    """Keep contents in the database; return their key."""
    key = hashlib.sha256(data).hexdigest()
    if not link.rows("select from midstream.blobs where key = %(key)s", {"key": key}):
        link.rows(
            "insert into midstream.blobs values (%(key)s, %(data)b) on conflict (key) do nothing",
            {"key": key, "data": data},
        )
    return key


def get(link: Link, key: str) -> bytes:
    """Return the contents of a key, or of the one key that begins so."""
    is_known = set(key) <= set("0123456789abcdef") and 8 <= len(key) <= 64
    rows = (
        link.rows(
            "select key, data from midstream.blobs where key >= %(key)s and key < %(end)s limit 2",
            {"key": key, "end": f"{key}g"},
        )
        if is_known
        else []
    )
    if len(rows) != 1 or hashlib.sha256(rows[0][1]).hexdigest() != rows[0][0]:
        raise ContentsMissing(
            f"The contents {key[:16]} are missing from the journal, or damaged.",
            hint="They cannot be put back; everything else is as it was.",
        )
    return bytes(rows[0][1])
