"""The other tables: the listing, the inbox, the leases and the snapshots.

Every function but `listing`, `matching`, `run`, `lineage`, `posted`, `named`, `mail`, `undelivered`,
`kept_pages` and `newest_snapshot` writes, inside a transaction of the writing thread, and raises a refusal
only before it has written anything.
"""

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import islice, product
from typing import Any
from zlib import crc32

import apsw
import msgspec

from midstream.language.errors import WorldTrouble
from midstream.runtime.storage import KINDS, Claim, KeptRun, Mail, Place, RunKind, keys_in
from midstream.store.encoding import mail_body, seal
from midstream.store.facts import (
    HEAD,
    Head,
    head_in,
    head_numbered,
    head_of,
    lease_of,
    summary_of,
    text_in,
)
from midstream.store.owners import Owners, new_name
from midstream.store.refusals import has_forks, no_such_run, not_ended, owned
from midstream.store.schema import (
    DELIVERED,
    IS_WAITING,
    KIND,
    NAME,
    STANDING,
    WORKSPACE,
    WRITTEN_AT,
)
from midstream.views.listing import ACTIVE, ENDED, Standing, named_like

_LAST = "\U0010ffff"
"""Sorts behind whatever an id goes on with."""

_MAIL = msgspec.json.Decoder(Mail)
_COLUMNS = (
    "number, cast(run as blob), cast(id as blob), cast(body as blob), delivered, cast(seal as blob)"
)


def listing(
    connection: apsw.Connection,
    owners: Owners,
    *,
    workspace: str | None,
    kind: RunKind | None,
    status: Collection[Standing] | None,
    after: Place | None,
    limit: int,
) -> list[KeptRun]:
    """Return some runs, the one written last first.

    Of one folder each kind and standing is a piece of the index that is in order already: the first
    entries of the pieces are merged, and only the rows of the page are read. Without a folder that is
    done for each folder there is.
    """
    kinds = KINDS if kind is None else (kind,)
    standings = {*ACTIVE, *ENDED} if status is None else set(status)
    before, behind = "true", tuple[Any, ...]()
    if after is not None:
        # By the first condition the place is found in the index: it does not understand the second.
        before = f"{WRITTEN_AT}<=?4 and ({WRITTEN_AT}, id)<(?4, ?5)"
        behind = (int(Decimal(repr(after[0])).scaleb(6)), after[1])

    def page(source: str) -> list[Head]:
        folders = {workspace, ""} if workspace is not None else _folders(connection, source)
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

    try:
        heads = page("runs indexed by runs_here")
    except apsw.CorruptError:
        # An index that cannot be read hides no run: the rows are looked through.
        heads = page("runs not indexed")
    return _kept_all(connection, owners, heads)


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
    connection: apsw.Connection, owners: Owners, *, text: str, workspace: str | None, limit: int
) -> list[KeptRun]:
    """Return runs by the beginning of an id, and by name."""
    place = "true" if workspace is None else f"{WORKSPACE} in (?, '')"
    places = () if workspace is None else (workspace,)
    # Judged where the rows are: of a thousand runs elsewhere no line is read. What is damaged is nowhere.
    begun = connection.execute(
        f"select {HEAD} from runs where id>=? and id<? and {place} order by id limit ?",  # nosec B608  # columns of ours
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
    found += [head for id in named if (head := head_of(connection, id)) is not None]
    return _kept_all(connection, owners, found)


def run(connection: apsw.Connection, id: str, owners: Owners) -> KeptRun | None:
    """Return a run, None where there is none."""
    head = head_of(connection, id, expected=True)
    return None if head is None else _kept_all(connection, owners, [head])[0]


def lineage(connection: apsw.Connection, run: str, owners: Owners) -> list[KeptRun]:
    """Return a run and the runs it was forked from, the run itself first."""
    head = head_of(connection, run, expected=True)
    found: list[KeptRun] = []
    while head is not None:
        parent = _parent_of(connection, head)
        found.append(_kept(connection, head, parent, owners.is_alive))
        # A parent is older than its fork; a row that says otherwise is damaged.
        head = parent if parent is not None and parent.number < head.number else None
    return found


def _kept_all(connection: apsw.Connection, owners: Owners, heads: Sequence[Head]) -> list[KeptRun]:
    is_alive = cache(owners.is_alive)
    return [_kept(connection, head, _parent_of(connection, head), is_alive) for head in heads]


def _kept(
    connection: apsw.Connection, head: Head, parent: Head | None, is_alive: Callable[[str], bool]
) -> KeptRun:
    """Return the run of a row, with who has it and what is damaged."""
    owner = lease_of(connection, head.id)
    lives = bool(owner) and is_alive(owner)
    return KeptRun(
        id=head.id,
        seq=head.seq,
        summary=summary_of(head),
        parent="" if head.parent is None else "?" if parent is None else parent.id,
        parent_seq=head.parent_seq,
        is_foreign=head.is_foreign,
        owner=owner if lives else "",
        was_cut=bool(owner) and not lives,
        damaged=_damage(connection, head),
    )


def _parent_of(connection: apsw.Connection, head: Head) -> Head | None:
    return None if head.parent is None else head_numbered(connection, head.parent)


def _damage(connection: apsw.Connection, head: Head) -> str:
    if not head.is_whole:
        return "its row is not what was written"
    is_broken = any(_mail_in(row) is None for row in _undelivered(connection, head.id))
    return "words sent to it are not what was written" if is_broken else ""


def forget(connection: apsw.Connection, run: str, owners: Owners) -> None:
    """Delete a run that has ended, and what belongs to it."""
    head = head_of(connection, run, expected=True)
    if head is None:
        raise no_such_run(run)
    if owner := living_owner(connection, run, owners):
        raise owned(run, owner)
    if not summary_of(head).is_over:
        raise not_ended(run)
    if connection.execute("select 1 from runs where parent=?", (head.number,)).fetchall():
        raise has_forks(run)
    connection.execute("delete from facts where run=?", (head.number,))
    connection.execute("delete from runs where number=?", (head.number,))
    for table in ("inbox", "leases", "snapshots", "pages"):
        connection.execute(f"delete from {table} where run=?", (run,))  # nosec B608  # tables of ours


# --- the inbox ----------------------------------------------------------------------------------


def post(connection: apsw.Connection, mail: Mail) -> Mail:
    """Keep a message, or return the one of that id."""
    body = mail_body(mail)
    kept = connection.execute(
        f"select {_COLUMNS} from inbox where run=? and id=?",  # nosec B608  # columns of ours
        (mail.run, mail.id),
    ).fetchall()
    if kept:
        earlier = _mail_in(kept[0])
        if earlier is None:
            raise WorldTrouble(
                f"The words {mail.id} to run {mail.run} are damaged in the journal.",
                hint="Send them once more, under another id.",
            )
        return earlier
    connection.execute(
        "insert into inbox values(null,?,?,?,0,?)",
        (mail.run, mail.id, body, seal((mail.run, mail.id, body))),
    )
    return mail


def posted(connection: apsw.Connection, run: str) -> list[Mail]:
    """Return every message to a run, the oldest first. Damaged ones are left out."""
    rows = connection.execute(f"select {_COLUMNS} from inbox where run=? order by number", (run,))  # nosec B608  # columns of ours
    return [mail for row in rows if (mail := _mail_in(row)) is not None]


def named(connection: apsw.Connection) -> set[str]:
    """Return what may be keys of the blob store in all facts and messages."""
    found: set[str] = set()
    for table in ("facts", "inbox"):
        for (body,) in connection.execute(f"select cast(body as blob) from {table}"):  # nosec B608
            found |= keys_in(body)
    return found


def deliver(connection: apsw.Connection, run: str, id: str) -> None:
    """Hand a message out no more."""
    connection.execute("update inbox set delivered=? where run=? and id=?", (DELIVERED, run, id))


def mail(connection: apsw.Connection, owner: str, owners: Owners) -> list[Mail]:
    """Return the undelivered messages to the runs of an owner, the oldest first, damaged ones left out."""
    query = f"select {_COLUMNS} from inbox {{}} where {IS_WAITING} order by number"  # nosec B608  # columns of ours
    try:
        rows = connection.execute(query.format("indexed by inbox_waiting")).fetchall()
    except apsw.CorruptError:
        rows = connection.execute(query.format("not indexed")).fetchall()
    is_alive = cache(owners.is_alive)

    @cache
    def is_meant(run: str) -> bool:
        leased = lease_of(connection, run)
        return leased == owner if leased and is_alive(leased) else not owner

    meant = (row for row in rows if is_meant(text_in(row[1])))
    return [mail for row in meant if (mail := _mail_in(row)) is not None]


def undelivered(connection: apsw.Connection, run: str) -> list[Mail]:
    """Return the undelivered messages to one run, the oldest first. Damaged ones are left out."""
    rows = _undelivered(connection, run)
    return [mail for row in rows if (mail := _mail_in(row)) is not None]


def _mail_in(row: tuple[object, ...]) -> Mail | None:
    run, id, (body, delivered, sealed) = text_in(row[1]), text_in(row[2]), row[3:]
    if delivered not in (0, DELIVERED) or not isinstance(body, bytes):
        return None
    if seal((run, id, body)) != sealed:
        return None
    try:
        return _MAIL.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _undelivered(connection: apsw.Connection, run: str) -> apsw.Cursor:
    """Return the rows of the messages to a run that are not delivered, the oldest first."""
    query = f"select {_COLUMNS} from inbox where run=? and {IS_WAITING} order by number"  # nosec B608  # columns of ours
    return connection.execute(query, (run,))


# --- who has which run --------------------------------------------------------------------------


def claim(connection: apsw.Connection, run: str, owners: Owners) -> Claim:
    """Make the run ours."""
    owner = lease_of(connection, run)
    if owner == owners.me:
        return Claim(was_cut=_is_cut(connection, run, owners))
    if owner and owners.is_alive(owner):
        raise owned(run, owner)
    connection.execute("insert or replace into leases values(?,?)", (run, owners.me))
    owners.cut.pop(run, None)
    if owner:
        owners.cut[run] = _length(connection, run)
    return Claim(was_cut=bool(owner))


def _is_cut(connection: apsw.Connection, run: str, owners: Owners) -> bool:
    """Return whether a run of ours was cut and nothing was appended to it since."""
    return owners.cut.get(run) == _length(connection, run)


def _length(connection: apsw.Connection, run: str) -> int:
    head = head_of(connection, run)
    return 0 if head is None else head.seq


def release(connection: apsw.Connection, run: str | None, owners: Owners) -> None:
    """Let go of a run, or of all, that are ours. What is still cut stays a dead owner's."""
    for cut in tuple(owners.cut) if run is None else (run,):
        if _is_cut(connection, cut, owners):
            connection.execute(
                "update leases set owner=? where run=? and owner=?", (new_name(), cut, owners.me)
            )
    if run is None:
        connection.execute("delete from leases where owner=?", (owners.me,))
    else:
        connection.execute("delete from leases where run=? and owner=?", (run, owners.me))


def living_owner(connection: apsw.Connection, run: str, owners: Owners) -> str:
    """Return who has a run and lives, "" for nobody."""
    owner = lease_of(connection, run)
    return owner if owner and owners.is_alive(owner) else ""


# --- snapshots ----------------------------------------------------------------------------------


def kept_pages(connection: apsw.Connection, run: str) -> set[str]:
    """Return the names of the pages that are kept of a run."""
    rows = connection.execute("select cast(name as blob) from pages where run=?", (run,))
    return {text_in(name) for (name,) in rows}


def keep_snapshot(
    connection: apsw.Connection,
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
    kept = kept_pages(connection, run)
    if not kept | new.keys() >= set(names):
        return
    connection.execute(
        "insert or replace into snapshots values(?,?,?,?)", (run, seq, data, seal((run, seq, data)))
    )
    connection.executemany(
        "delete from pages where run=? and name=?", [(run, name) for name in kept - set(names)]
    )
    connection.executemany(
        "insert or replace into pages values(?,?,?,?)",
        [(run, name, page, crc32(page, crc32(name.encode()))) for name, page in new.items()],
    )


class Damaged(msgspec.Struct, frozen=True):
    """Something of a snapshot is not what was written."""


def newest_snapshot(
    connection: apsw.Connection, run: str
) -> tuple[int, bytes, Mapping[str, bytes]] | Damaged | None:
    """Return the snapshot of a run if it and its pages are what was kept."""
    rows = connection.execute(
        "select seq, data, seal from snapshots where run=?", (run,)
    ).fetchall()
    for seq, data, sealed in rows:
        pages = _pages_of(connection, run)
        if pages is None or seal((run, seq, data)) != sealed:
            return Damaged()
        if not (isinstance(seq, int) and isinstance(data, bytes)):
            return Damaged()
        return seq, data, pages
    return None


def _pages_of(connection: apsw.Connection, run: str) -> dict[str, bytes] | None:
    """Return the pages kept of a run, None where one is not what was written.

    Their checksum is a small one that costs a quarter of a seal: they may be megabytes, and they are
    a cache. It notices what disks do; whoever can write to the journal can write a seal as well.
    """
    pages: dict[str, bytes] = {}
    for name, page, check in connection.execute(
        "select cast(name as blob), data, checksum from pages where run=?", (run,)
    ):
        if not isinstance(page, bytes) or crc32(page, crc32(name)) != check:
            return None
        pages[text_in(name)] = page
    return pages


def forget_snapshots(connection: apsw.Connection, run: str | None) -> None:
    """Delete the snapshots of one run, or all."""
    for table in ("snapshots", "pages"):
        if run is None:
            connection.execute(f"delete from {table}")  # nosec B608  # a table of ours
        else:
            connection.execute(f"delete from {table} where run=?", (run,))  # nosec B608
