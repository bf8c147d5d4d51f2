"""Deleting contents that nothing names any more.

Contents are old where nobody has put them for a week. Old ones that no fact and no message names, and no
contents that are young or named themselves, are in nobody's hands: whoever is about to name some has put
them, or what names them, and so made them young. Each row is looked at once more under its lock before it
goes, and whoever puts the same again waits for that lock and then writes it anew.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Final

from midstream.language.errors import WorldTrouble
from midstream.runtime.storage import SWEPT_DAYS, keys_in, named_by, still_named
from midstream.store.postgres.blobs import HERE, Blobs
from midstream.store.postgres.link import Connection, Link, Row

_OLD: Final = f"put_at < clock_timestamp() - interval '{SWEPT_DAYS} days'"

_PAGE: Final = 1000
"""Rows of a page of facts: the server looks through one in well under the time that an answer may take."""

_FEW: Final = 50
"""Rows of a page that come with what they hold, and contents that are deleted at once."""

_FACTS: Final = """
select run, seq, case when encode(body, 'escape') ~ '[0-9a-f]{64}' then body end from midstream.facts
where (run, seq) > (%(run)s, %(seq)s) order by run, seq limit %(page)s
"""
_WORDS: Final = """
select number, body from midstream.inbox where number > %(number)s order by number limit %(page)s
"""
_NAMES: Final = f"""
select key, {_OLD}, names from midstream.blobs where names <> '' and key > %(key)s order by key
limit %(page)s
"""  # nosec B608  # columns of ours
_LISTS: Final = f"""
select key, {_OLD}, data from midstream.blobs
where names is null and substr(data, 1, 1) in ('[', '{{') and key > %(key)s order by key limit %(page)s
"""  # nosec B608  # columns of ours


def sweep(link: Link, blobs: Blobs | None) -> int:
    """Delete old contents that nothing names; return how many. Those kept elsewhere stay without `blobs`.

    Raises:
        WorldTrouble: some may be left.
    """
    rows = link.rows(f"select key, names is not null from midstream.blobs where {_OLD}")  # nosec B608
    unnamed: dict[str, bool] = {
        key: is_elsewhere for key, is_elsewhere in rows if blobs is not None or not is_elsewhere
    }
    if not unnamed:
        return 0
    contents = chain(_named_elsewhere(link), _named_here(link))
    named = (key for body in chain(_bodies(link), _words(link)) for key in keys_in(body))
    gone = sorted(unnamed.keys() - still_named(contents, named))
    if any(unnamed[key] for key in gone):
        link.do(_require_home)
    return sum(_deleted(link, blobs, gone[at : at + _FEW]) for at in range(0, len(gone), _FEW))


def _pages(link: Link, query: str, place: dict[str, object], page: int) -> Iterator[Row]:
    """Yield the rows of a query a page at a time; its first columns are the place of a row."""
    while rows := link.rows(query, {**place, "page": page}):
        yield from rows
        place = dict(zip(place, rows[-1], strict=False))


def _named_elsewhere(link: Link) -> Iterator[tuple[str, bool, Collection[str]]]:
    for key, is_old, names in _pages(link, _NAMES, {"key": ""}, _PAGE):
        yield key, is_old, names.split()


def _named_here(link: Link) -> Iterator[tuple[str, bool, Collection[str]]]:
    for key, is_old, data in _pages(link, _LISTS, {"key": ""}, _FEW):
        yield key, is_old, named_by(data)


def _bodies(link: Link) -> Iterator[bytes]:
    for *_, body in _pages(link, _FACTS, {"run": 0, "seq": 0}, _PAGE):
        if body is not None:
            yield body


def _words(link: Link) -> Iterator[bytes]:
    for _, body in _pages(link, _WORDS, {"number": 0}, _PAGE):
        yield body


def _deleted(link: Link, blobs: Blobs | None, keys: Sequence[str]) -> int:
    """Delete those of some contents that are old still; return how many."""

    def delete(connection: Connection) -> int:
        with connection.transaction():
            rows = connection.execute(
                f"select key, names is not null from midstream.blobs"  # nosec B608
                f" where key = any(%s) and {_OLD} for update".encode(),
                (list(keys),),
            ).fetchall()
            old = [key for key, _ in rows]
            elsewhere = [key for key, is_elsewhere in rows if is_elsewhere]
            if elsewhere and blobs is not None:
                blobs.delete(elsewhere)
            connection.execute("delete from midstream.blobs where key = any(%s)", (old,))
            return len(old)

    return link.do(delete)


def _require_home(connection: Connection) -> None:
    """Return if contents elsewhere are this database's to delete.

    One that was made of a backup has the same contents as the one of the backup, which may be in use still;
    so has one that was recovered, or has taken over from a server that hangs.

    Raises:
        WorldTrouble: it was made of another one.
    """
    with connection.transaction():
        ((home, here),) = connection.execute(
            f"select home, {HERE} from midstream.journal for update".encode()  # nosec B608
        ).fetchall()
        if home is None:
            connection.execute("update midstream.journal set home = %s", (here,))
    if home not in (None, here):
        raise WorldTrouble(
            "This database was restored from a backup of another one, or took over from it, and that may"
            " use the same contents.",
            hint="Where that is gone, do here: update midstream.journal set home = null; then prune again.",
        )
