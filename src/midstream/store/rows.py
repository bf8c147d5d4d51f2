"""The other tables: the listing, the inbox, the leases and the snapshots.

Every function but `listed`, `posted`, `Waiting` and `newest_snapshot` writes, inside a transaction of the
writing thread, and raises a refusal only before it has written anything.
"""

import apsw
import msgspec

from midstream.core.errors import WorldTrouble
from midstream.storage import Claim, KeptRun, Letter
from midstream.store.facts import head_of, heads, lease_of, summary_of, text_in
from midstream.store.owners import Owners, new_name
from midstream.store.refusals import owned
from midstream.store.schema import DELIVERED
from midstream.store.sealing import letter_body, seal

_LETTER = msgspec.json.Decoder(Letter)
_COLUMNS = (
    "number, cast(run as blob), cast(id as blob), cast(body as blob), delivered, cast(seal as blob)"
)


def listed(connection: apsw.Connection, owners: Owners) -> list[KeptRun]:
    """Return every run, the oldest first. One that is damaged says so; the others are as ever."""
    leases = {
        text_in(run): text_in(owner)
        for run, owner in connection.execute(
            "select cast(run as blob), cast(owner as blob) from leases"
        )
    }
    alive = {owner: owners.is_alive(owner) for owner in set(leases.values())}
    broken = _damaged_letters(connection)
    found = list(heads(connection))
    names = {head.number: head.id for head in found}
    runs = []
    for head in found:
        owner = leases.get(head.id, "")
        lives = bool(owner) and alive[owner]
        runs.append(
            KeptRun(
                id=head.id,
                seq=head.seq,
                summary=summary_of(head),
                parent=names.get(head.parent, "?") if head.parent is not None else "",
                parent_seq=head.parent_seq,
                is_foreign=head.is_foreign,
                owner=owner if lives else "",
                was_cut=bool(owner) and not lives,
                damaged=_damage(head.is_whole, head.id in broken),
            )
        )
    return runs


def _damage(is_whole: bool, has_broken_letter: bool) -> str:
    if not is_whole:
        return "its row is not what was written"
    return "words sent to it are not what was written" if has_broken_letter else ""


# --- the inbox ----------------------------------------------------------------------------------


def post(connection: apsw.Connection, letter: Letter) -> Letter:
    """Keep a letter, or return the one of that id."""
    body = letter_body(letter)
    kept = connection.execute(
        f"select {_COLUMNS} from inbox where run=? and id=?",  # nosec B608  # columns of ours
        (letter.run, letter.id),
    ).fetchall()
    if kept:
        earlier = _letter_in(kept[0])
        if earlier is None:
            raise WorldTrouble(
                f"The words {letter.id} to run {letter.run} are damaged in the journal.",
                hint="Send them once more, under another id.",
            )
        return earlier
    connection.execute(
        "insert into inbox values(null,?,?,?,0,?)",
        (letter.run, letter.id, body, seal((letter.run, letter.id, body))),
    )
    return letter


def posted(connection: apsw.Connection, run: str) -> list[Letter]:
    """Return every letter to a run, the oldest first. Damaged ones are left out."""
    rows = connection.execute(f"select {_COLUMNS} from inbox where run=? order by number", (run,))  # nosec B608  # columns of ours
    return [letter for row in rows if (letter := _letter_in(row)) is not None]


def deliver(connection: apsw.Connection, run: str, id: str) -> None:
    """Hand a letter out no more."""
    connection.execute("update inbox set delivered=? where run=? and id=?", (DELIVERED, run, id))


class Waiting:
    """The letters not yet delivered, found without walking through all that ever were.

    Before `_from` all are delivered, and a delivered one stays so. Used by one thread.
    """

    def __init__(self) -> None:
        self._from = 0

    def letters(self, connection: apsw.Connection, run: str | None) -> list[Letter]:
        """Return them, of one run or of all, the oldest first. Damaged ones are left out."""
        found: list[Letter] = []
        is_gapless = True
        for row in connection.execute(
            f"select {_COLUMNS} from inbox where number>? order by number",  # nosec B608  # columns of ours
            (self._from,),
        ):
            if row[4] == DELIVERED:
                if is_gapless:
                    self._from = row[0]
                continue
            is_gapless = False
            letter = _letter_in(row)
            if letter is not None and (run is None or letter.run == run):
                found.append(letter)
        return found


def _letter_in(row: tuple[object, ...]) -> Letter | None:
    run, id, (body, delivered, sealed) = text_in(row[1]), text_in(row[2]), row[3:]
    if delivered not in (0, DELIVERED) or not isinstance(body, bytes):
        return None
    if seal((run, id, body)) != sealed:
        return None
    try:
        return _LETTER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _damaged_letters(connection: apsw.Connection) -> set[str]:
    """Return the runs some undelivered letter of which cannot be read."""
    rows = connection.execute(f"select {_COLUMNS} from inbox where delivered!=?", (DELIVERED,))  # nosec B608  # columns of ours
    return {text_in(row[1]) for row in rows if _letter_in(row) is None}


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


def keep_snapshot(connection: apsw.Connection, run: str, seq: int, data: bytes) -> None:
    """Keep the snapshot instead of the one before."""
    connection.execute(
        "insert or replace into snapshots values(?,?,?,?)", (run, seq, data, seal((run, seq, data)))
    )


def newest_snapshot(connection: apsw.Connection, run: str) -> tuple[int, bytes] | None:
    """Return the snapshot of a run if it is what was kept."""
    rows = connection.execute(
        "select seq, data, seal from snapshots where run=?", (run,)
    ).fetchall()
    for seq, data, sealed in rows:
        if seal((run, seq, data)) == sealed and isinstance(seq, int) and isinstance(data, bytes):
            return seq, data
    return None


def forget_snapshots(connection: apsw.Connection, run: str | None) -> None:
    """Delete the snapshots of one run, or all."""
    if run is None:
        connection.execute("delete from snapshots")
    else:
        connection.execute("delete from snapshots where run=?", (run,))
