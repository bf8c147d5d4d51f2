"""Getting what is whole out of a damaged journal.

SQLite stops at the first page it cannot follow, and takes the pages behind it along. Here every page of
the file and of its log is looked at by itself, whatever led to it: a record is a candidate, and the
checksums say which are what was written. A fact is whole if it chains to the whole fact before it,
from the first of its run, or of the run it was forked from, on. Nothing else is taken.

Pages and records are read as SQLite's file format has them. `facts` has no rowid: its rows stand in
pages of indexes, the inner ones too.
"""

import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec

from midstream.core.codec import FIRST, chained
from midstream.core.formats import fact_of
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.store.encoding import marked, seal
from midstream.store.facts import Head, head_in, keep_head, summary_of
from midstream.store.owners import Owners
from midstream.store.schema import DELIVERED, LEAST_BYTES, prepared, refuse_newer
from midstream.views.listing import Summary, summarised

_LEAF_INDEX, _INNER_INDEX, _LEAF_TABLE = 0x0A, 0x02, 0x0D
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_MAX_OVERFLOW = 100_000

Row: TypeAlias = list[Any]
Written: TypeAlias = tuple[float, bytes, bytes, int, int]
"""A fact as it stands in its row: at, body, checksum, ends, format."""


class Salvaged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run: `facts` of the `had` it had (0: not known) are whole, from the first on.

    `renamed`: its name is lost, and `id` is made up.
    """

    id: str
    facts: int
    had: int
    renamed: bool = False


class Salvage(msgspec.Struct, frozen=True, kw_only=True):
    """What was got out, and the file that was damaged, under its new name; None: all was whole."""

    runs: tuple[Salvaged, ...]
    mails: int = msgspec.field(name="letters")  # as programs read it
    damaged: Path | None


def salvage(path: Path) -> Salvage:
    """Put what is whole of a journal into a new one in its place; keep the old file. Blocking.

    The folder beside it stays: contents in the blob store are named by their checksums.

    Raises:
        UserMistake: there is nothing, or a midstream that runs has it open; nothing was changed.
        WorldTrouble: the files cannot be read or written; nothing was changed.
    """
    path = path.absolute()
    if not path.exists() and not Path(f"{path}-wal").exists():
        raise UserMistake(f"There is no journal {path}.", hint="MIDSTREAM_JOURNAL names another.")
    _refuse_used(path)
    try:
        scan = _Scan(path)
        fresh = path.with_name(f"{path.name}.salvaged")
        _remove(fresh)
        runs = _rebuilt(fresh, scan)
        if all(run.facts == run.had for run in runs) and _is_whole(path, fresh):
            _remove(fresh)
            return Salvage(runs=runs, mails=len(scan.mails), damaged=None)
        damaged = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        for end in ("", "-wal", "-shm"):
            if os.path.lexists(f"{path}{end}"):
                os.rename(f"{path}{end}", f"{damaged}{end}")
        os.rename(fresh, path)
        _remove(fresh)
    except (OSError, apsw.Error) as error:
        raise WorldTrouble(
            f"The journal {path} cannot be salvaged: {error}.",
            hint="Make its folder writable and see that there is room for another file as large.",
        ) from error
    return Salvage(runs=runs, mails=len(scan.mails), damaged=damaged)


def _refuse_used(path: Path) -> None:
    owners = Owners(Path(f"{path}.d"))
    try:
        for lock in Path(f"{path}.d").glob("*.lock"):
            if lock.stem != owners.me and owners.is_alive(lock.stem):
                raise UserMistake(
                    f"A running midstream has the journal {path} open.",
                    hint="Quit it first (or write its runs elsewhere with /export FILE).",
                )
    finally:
        owners.close()


def _remove(path: Path) -> None:
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        file.unlink(missing_ok=True)
    folder = Path(f"{path}.d")
    if folder.is_dir():
        folder.rmdir()


def _is_whole(path: Path, fresh: Path) -> bool:
    """Return whether SQLite finds nothing wrong with the journal. It looks at a copy."""
    if not path.exists() or path.stat().st_size < LEAST_BYTES:
        return False
    copy = Path(f"{fresh}.copy")
    _remove(copy)
    try:
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists():
                Path(f"{copy}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
        with closing(apsw.Connection(str(copy))) as connection:
            ((words,),) = connection.execute("pragma integrity_check(1)").fetchall()
            return bool(words == "ok")
    except (apsw.Error, OSError):
        return False
    finally:
        _remove(copy)


def _rebuilt(fresh: Path, scan: "_Scan") -> tuple[Salvaged, ...]:
    """Write a journal of all that is whole; return what became of each run."""
    found: list[Salvaged] = []
    chains: dict[int, list[Written]] = {}
    with closing(prepared(fresh, None)) as connection:
        connection.execute("begin immediate")
        for number in sorted({*scan.heads, *(run for run, _ in scan.facts)}):
            head = head_in(scan.heads[number]) if number in scan.heads else None
            parent, parent_seq = (None, 0) if head is None else (head.parent, head.parent_seq)
            begun = [] if parent is None else chains.get(parent, [])[:parent_seq]
            chain = chains[number] = [*begun]
            if len(begun) == (0 if parent is None else parent_seq):
                chain += _chained(scan, number, begun, None if head is None else head.seq)
            id = f"salvaged{number}" if head is None else head.id
            had = 0 if head is None else head.seq
            found.append(Salvaged(id=id, facts=len(chain), had=had, renamed=head is None))
            if not chain:
                continue
            is_all = head is not None and len(chain) == head.seq
            summary = summary_of(head) if head is not None and is_all else _summed(id, chain)
            connection.execute("insert into runs values(?,?,0,x'',x'',null,0,0,x'')", (number, id))
            connection.executemany(
                "insert into facts values(?,?,?,?,?,?,?)",
                [(number, n, *chain[n - 1]) for n in range(len(begun) + 1, len(chain) + 1)],
            )
            saved = Head(
                number=number,
                id=id,
                seq=len(chain),
                checksum=chain[-1][2],
                summary=msgspec.json.encode(summary),
                parent=parent,
                parent_seq=len(begun),
                is_foreign=head is not None and head.is_foreign,
            )
            keep_head(connection, saved)
        for number, (run, id, body, delivered) in scan.mails.items():
            connection.execute(
                "insert or ignore into inbox values(?,?,?,?,?,?)",
                (number, run, id, body, delivered, seal((run, id, body))),
            )
        connection.execute("commit")
    return tuple(found)


def _chained(
    scan: "_Scan", number: int, begun: Sequence[Written], upto: int | None
) -> Iterator[Written]:
    """Yield the facts of a run that chain to those it began with, up to the first that does not."""
    seq, before = len(begun), begun[-1][2] if begun else FIRST
    while upto is None or seq < upto:
        seq += 1
        whole = next((w for w in scan.facts.get((number, seq), ()) if _fits(before, seq, w)), None)
        if whole is None:
            return
        before = whole[2]
        yield whole


def _fits(before: bytes, seq: int, written: Written) -> bool:
    at, body, checksum, ends, format = written
    if chained(before, seq, at, marked(body, ends=bool(ends), format=format)) != checksum:
        return False
    refuse_newer(format, Path("that is to be salvaged"))
    try:
        fact_of(body, format)
    except ValueError:
        return False
    return True


def _summed(id: str, chain: Sequence[Written]) -> Summary:
    summary = Summary()
    for seq, (at, body, _, _, format) in enumerate(chain, 1):
        envelope = Envelope(run=id, at=at, event=fact_of(body, format), seq=seq)
        summary = summarised(summary, envelope)
    return summary


# --- what is on the pages -----------------------------------------------------------------------


class _Scan:
    """All records that may be rows of ours, from all pages there are."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes() if path.exists() else b""
        log = Path(f"{path}-wal")
        frames = log.read_bytes() if log.exists() else b""
        size = _page_size(data, frames)
        self.size = size
        self._old = {n + 1: data[n * size : (n + 1) * size] for n in range(len(data) // size)}
        self._new = dict(self._old)
        written: list[tuple[int, bytes]] = []
        for at in range(32, len(frames) - size - 23, size + 24):
            number = int.from_bytes(frames[at : at + 4])
            page = frames[at + 24 : at + 24 + size]
            self._new[number] = page
            written.append((number, page))
        self.facts: dict[tuple[int, int], set[Written]] = {}
        self.heads: dict[int, Row] = {}
        self.mails: dict[int, Row] = {}
        for number, page in [*self._old.items(), *written]:
            self._look(page, 100 if number == 1 else 0)

    def _look(self, page: bytes, start: int) -> None:
        kind = page[start] if len(page) > start else 0
        if kind in (_LEAF_INDEX, _INNER_INDEX):
            for at in _cells(page, start, 12 if kind == _INNER_INDEX else 8):
                for row in self._records(page, at + (4 if kind == _INNER_INDEX else 0)):
                    self._take_fact(row)
        elif kind == _LEAF_TABLE:
            for at in _cells(page, start, 8):
                _, past = _varint(page, at)
                number, _ = _varint(page, past)
                for row in self._records(page, at, is_table=True):
                    self._take_row(number, row)

    def _records(self, page: bytes, at: int, *, is_table: bool = False) -> Iterator[Row]:
        """Yield what a cell may hold: its rest is on pages of which there may be two versions."""
        length, at = _varint(page, at)
        if is_table:
            _, at = _varint(page, at)
        size = self.size
        most = size - 35 if is_table else (size - 12) * 64 // 255 - 23
        local = length
        if length > most:
            least = (size - 12) * 32 // 255 - 23
            local = least + (length - least) % (size - 4)
            local = local if local <= most else least
        head = page[at : at + local]
        if length <= most:
            texts = {head}
        else:
            follows = int.from_bytes(page[at + local : at + local + 4])
            texts = {
                head + _followed(pages, follows, length - local) for pages in (self._new, self._old)
            }
        for text in texts:
            row = _record(text) if len(text) == length else None
            if row is not None:
                yield row

    def _take_fact(self, row: Row) -> None:
        match row:
            case [int(run), int(seq), int() | float() as at, bytes(body), bytes(sum), ends, format]:
                if isinstance(ends, int) and isinstance(format, int):
                    self.facts.setdefault((run, seq), set()).add(
                        (float(at), body, sum, ends, format)
                    )

    def _take_row(self, number: int, row: Row) -> None:
        if len(row) == 9:  # a run
            head = head_in([number, *row[1:]])
            known = self.heads.get(number)
            if head.is_whole and (known is None or known[2] <= row[2]):
                self.heads[number] = [number, *row[1:]]
        elif len(row) == 6:  # a message
            _, run, id, body, delivered, sealed = row
            if not (isinstance(run, bytes) and isinstance(id, bytes) and isinstance(body, bytes)):
                return
            values = (run.decode(errors="replace"), id.decode(errors="replace"), body)
            if seal(values) == sealed and self.mails.get(number, [0])[-1] != DELIVERED:
                self.mails[number] = [*values, DELIVERED if delivered == DELIVERED else 0]


def _page_size(data: bytes, frames: bytes) -> int:
    for size in (int.from_bytes(data[16:18]), int.from_bytes(frames[8:12])):
        if size >= 512 and size & (size - 1) == 0:
            return size
    return 4096


def _cells(page: bytes, start: int, head: int) -> Iterator[int]:
    """Yield where the cells of a page begin."""
    count = int.from_bytes(page[start + 3 : start + 5])
    for index in range(min(count, len(page) // 2)):
        place = start + head + 2 * index
        at = int.from_bytes(page[place : place + 2])
        if start + head <= at < len(page):
            yield at


def _followed(pages: dict[int, bytes], number: int, length: int) -> bytes:
    parts: list[bytes] = []
    for _ in range(_MAX_OVERFLOW):
        page = pages.get(number)
        if page is None or length <= 0:
            break
        parts.append(page[4 : 4 + length])
        length -= len(page) - 4
        number = int.from_bytes(page[:4])
    return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of SQLite's kind, and where it ends."""
    value = 0
    for index in range(at, min(at + 9, len(data))):
        byte = data[index]
        if index == at + 8:
            return value << 8 | byte, index + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    return value, len(data)


def _record(data: bytes) -> Row | None:
    """Return the values of a record, texts as bytes; None where it is none."""
    size, at = _varint(data, 0)
    body, row = size, []
    while at < size:
        kind, at = _varint(data, at)
        if kind == 7:
            value: Any = struct.unpack(">d", data[body : body + 8].ljust(8, b"\0"))[0]
            body += 8
        elif kind in _INTEGERS:
            value = int.from_bytes(data[body : body + _INTEGERS[kind]], signed=True)
            body += _INTEGERS[kind]
        elif kind in (8, 9):
            value = kind - 8
        elif kind >= 12:
            value = data[body : body + (kind - 12) // 2]
            body += (kind - 12) // 2
        else:
            value = None
        row.append(value)
        if body > len(data) or len(row) > 9:
            return None
    return row if at == size else None
