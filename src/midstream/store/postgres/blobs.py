"""Contents by what they are: small ones in the database, large ones in a folder or bucket, if one is named.

Each has its row, those kept elsewhere, too: without data, but with the keys they name. So the database
alone is asked what there is. Whoever puts contents makes the row first, or makes it young again, and
only then writes them elsewhere: what nobody names yet is young.
"""

import hashlib
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from midstream.config.directories import ADDRESS_MARK
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.storage import named_by
from midstream.store.blob_store import FileBlobStore
from midstream.store.postgres.link import Link
from midstream.store.refusals import contents_missing

LARGE: Final = 64 * 1024
"""From how many bytes on contents are kept elsewhere, where a place for them is named."""

IN_BUCKET: Final = "s3://"
"""How the place of a bucket begins."""

HERE: Final = (
    "(select system_identifier from pg_control_system()) || '/' || (select oid from pg_database"
    " where datname = current_database()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)"
)
"""What names this database: its server, its number, and the timeline, which is another after a recovery."""

_YOUNG: Final = "clock_timestamp() - interval '1 day'"


class Blobs(Protocol):
    """Where large contents are kept, by what they are. Its methods block, each in a thread of its own."""

    def put(self, key: str, data: bytes) -> None:
        """Return once the data is safe under its key (SHA-256, in hex): whole, or not there at all."""

    def get(self, key: str) -> bytes:
        """Return the data of a key.

        Raises:
            ContentsMissing: it is not there, or not what was put there.
            WorldTrouble: it cannot be read now.
        """

    def delete(self, keys: Collection[str]) -> None:
        """Delete what is there of some keys."""


def opened_blobs(place: str, link: Link, owner: str) -> Blobs:
    """Return what keeps the large contents of this journal in a folder or a bucket.

    Several journals may share a place: each has a folder of its own there.

    Raises:
        UserMistake: it is no place, or what speaks to buckets is not installed.
        WorldTrouble: the folder is not there.
    """
    ((journal, is_used, is_new),) = link.rows(
        "select id, is_used, home is null and not is_used and not pg_is_in_recovery()"
        " from midstream.journal,"
        " (select exists(select from midstream.blobs where names is not null) as is_used) as contents"
    )
    if is_new:
        link.rows(f"update midstream.journal set home = {HERE} where home is null")  # nosec B608
    if place.startswith(IN_BUCKET):
        try:
            from midstream.store.bucket import Bucket
        except ImportError as error:
            raise UserMistake(
                f"Contents in {place} need obstore, which is not installed: {error}.",
                hint='Install it with: pip install "midstream[s3]"',
            ) from error
        return Bucket(place, journal)
    if ADDRESS_MARK in place:
        raise UserMistake(
            f"{place} is no place for contents.",
            hint="MIDSTREAM_BLOBS names a folder, or s3://bucket/folder.",
        )
    folder = Path(place) / journal
    if not is_used:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise WorldTrouble(
                f"Contents cannot be kept in {place}: {error.strerror or error}.",
                hint="Make that folder, on a disk that all machines have; MIDSTREAM_BLOBS names it.",
            ) from error
    return FileBlobStore(folder, owner, is_shared=True)


def about(data: bytes) -> tuple[str, set[str]]:
    """Return the key of contents, and the keys they name."""
    return hashlib.sha256(data).hexdigest(), named_by(data)


def put(link: Link, key: str, data: bytes, names: Collection[str]) -> None:
    """Keep contents in the database; see `announce`."""
    _make_young(link, names)
    if _known(link, key) != "here":
        link.rows(
            "insert into midstream.blobs(key, data) values (%(key)s, %(data)b) on conflict (key)"
            " do update set data = excluded.data, names = null, put_at = clock_timestamp()",
            {"key": key, "data": data},
        )


def announce(link: Link, key: str, names: Collection[str]) -> bool:
    """Have it known that contents are about to be kept elsewhere; return False where they are here.

    Args:
        link: the database.
        key: theirs.
        names: the keys they name.
    """
    _make_young(link, names)
    known = _known(link, key)
    if known is None:
        ((is_elsewhere,),) = link.rows(
            "insert into midstream.blobs as b (key, data, names) values (%(key)s, '', %(names)s)"
            " on conflict (key) do update set put_at = clock_timestamp() returning names is not null",
            {"key": key, "names": " ".join(sorted(names))},
        )
        return bool(is_elsewhere)
    return known == "elsewhere"


def _make_young(link: Link, keys: Collection[str]) -> None:
    """Have contents known as if they were put now: other contents that are about to be named name them."""
    if keys:
        link.rows(
            "update midstream.blobs set put_at = clock_timestamp()"  # nosec B608
            f" where key = any(%(keys)s) and not put_at > {_YOUNG}",
            {"keys": sorted(keys)},
        )


Known: TypeAlias = Literal["here", "elsewhere"]


def _known(link: Link, key: str) -> Known | None:
    """Return where contents are that were put not long ago, None where they have to be put again."""
    rows = link.rows(
        f"select names is null from midstream.blobs where key = %(key)s and put_at > {_YOUNG}",  # nosec B608
        {"key": key},
    )
    return None if not rows else "here" if rows[0][0] else "elsewhere"


def get(link: Link, key: str) -> tuple[str, bytes | None]:
    """Return the whole key of one, or of the one that begins so, and its data: None where it is elsewhere.

    Raises:
        ContentsMissing: there is none, or it is not what was put there; or several keys begin so.
    """
    is_known = set(key) <= set("0123456789abcdef") and 8 <= len(key) <= 64
    rows = (
        link.rows(
            "select key, names is null, data from midstream.blobs"
            " where key >= %(key)s and key < %(end)s limit 2",
            {"key": key, "end": f"{key}g"},
        )
        if is_known
        else []
    )
    if len(rows) == 1:
        whole, is_here, data = rows[0]
        if not is_here:
            return whole, None
        if hashlib.sha256(data).hexdigest() == whole:
            return whole, bytes(data)
    raise contents_missing(key, "the journal")


def attempt(blobs: Blobs) -> None:
    """Put something no run can name, get it, and delete it.

    Raises:
        WorldTrouble: that cannot be done.
    """
    key = hashlib.sha256(data := b"midstream doctor " + secrets.token_bytes(16)).hexdigest()
    blobs.put(key, data)
    blobs.get(key)
    blobs.delete([key])


def unnamed_place(key: str) -> WorldTrouble:
    """Return why contents cannot be read that another process keeps elsewhere."""
    return WorldTrouble(
        f"The contents {key[:16]} are kept beside the database, and it is not said where.",
        hint="Set MIDSTREAM_BLOBS here as it is where they were put.",
    )
