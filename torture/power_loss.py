"""Power loss: every write of a session is recorded, then the disk is rebuilt as it may have been left.

A disk that loses power has what was synced, and of the rest anything: kept, dropped, or torn within a
sector's bounds, in any combination. At every cut between two operations some of these disks are built;
each has to open, and to hold every fact, message and blob key acknowledged before the cut.
"""

# ruff: noqa: N802 - SQLite's own names of what a file system does
import asyncio
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import apsw
import msgspec

from midstream.core.events import WorkflowOutput
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError
from midstream.runtime.storage import Mail
from midstream.store.sqlite import SqliteStore
from torture.report import Broken, Report

SECTOR = 512
"""Bytes a disk writes as one."""

VFS_NAME = "midstream-recorded"


class Write(msgspec.Struct, frozen=True):
    """Bytes written into a file at a place; `data` None: it was cut to the length `offset`."""

    file: str
    offset: int
    data: bytes | None


class Sync(msgspec.Struct, frozen=True):
    """Everything written into a file so far is on the disk."""

    file: str


class Deleted(msgspec.Struct, frozen=True):
    """A file is gone, the folder synced."""

    file: str


class Acknowledged(msgspec.Struct, frozen=True):
    """Somebody was told that this is safe: facts of a run up to a seq, or a message."""

    kind: Literal["facts", "letter"]
    run: str
    what: str


Operation: TypeAlias = Write | Sync | Deleted | Acknowledged

_LOG: list[Operation] = []


class _File(apsw.VFSFile):
    def __init__(self, name: object, flags: list[int]) -> None:
        super().__init__("", name, flags)  # type: ignore[arg-type]
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name or "")
        self.file = Path(path).name

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        _LOG.append(Write(self.file, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        _LOG.append(Write(self.file, size, None))

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A file opened to be read only: SQLite itself takes this for "not now".
            raise apsw.BusyError from error

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        _LOG.append(Sync(self.file))


class _Recorded(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS_NAME, "")

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:
        return _File(name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        _LOG.append(Deleted(Path(name).name))


def recorded(appends: int, seed: int) -> list[Operation]:
    """Return every operation of a session of several runs and messages, acknowledgements between."""
    vfs = _Recorded()
    _LOG.clear()
    folder = Path(tempfile.mkdtemp())
    try:
        asyncio.run(_session(folder / "journal.db", appends, random.Random(seed)))
    finally:
        shutil.rmtree(folder)
        vfs.unregister()
    return list(_LOG)


async def _session(path: Path, appends: int, chance: random.Random) -> None:
    store = SqliteStore.opened(path, vfs=VFS_NAME)
    positions = {f"run{n}": 0 for n in range(4)}

    async def append(run: str) -> None:
        first, count = positions[run], chance.randint(1, 4)
        text = "x" * chance.choice((10, 200, 5000))
        facts = [
            Envelope(run=run, at=float(seq), event=WorkflowOutput(text=f"{seq} {text}"), seq=seq)
            for seq in range(first + 1, first + count + 1)
        ]
        await store.append(run, first, facts)
        positions[run] = first + count
        _LOG.append(Acknowledged("facts", run, str(first + count)))

    for number in range(appends):
        # Now one alone, now several that share a commit.
        runs = chance.sample(sorted(positions), chance.choice((1, 1, 3)))
        await asyncio.gather(*map(append, runs))
        if number % 5 == 0:
            mail = Mail(id=f"l{number}", run="run0", at=1.0, text=f"words {number}")
            await store.post(mail)
            _LOG.append(Acknowledged("letter", "run0", mail.id))
        if number == appends // 2:
            await store.aclose()
            store = SqliteStore.opened(path, vfs=VFS_NAME)
    await store.aclose()


def disks(log: list[Operation], seed: int) -> Iterator[tuple[int, str, dict[str, bytes]]]:
    """Yield (cut, kind, files): for every cut the disk with the unsynced kept, dropped, and torn."""
    synced: dict[str, bytearray] = {}
    loose: list[Write] = []
    for cut, operation in enumerate(log, 1):
        match operation:
            case Write():
                loose.append(operation)
            case Sync(file=file):
                for write in loose:
                    if write.file == file:
                        _apply(synced, write)
                loose = [write for write in loose if write.file != file]
            case Deleted(file=file):
                synced.pop(file, None)
                loose = [write for write in loose if write.file != file]
            case Acknowledged():
                pass
        for kind in ("kept", "dropped", "torn", "mixed"):
            chance = random.Random(f"{seed} {cut} {kind}")
            yield cut, kind, _disk(synced, loose, kind, chance)


def _disk(
    synced: dict[str, bytearray], loose: list[Write], kind: str, chance: random.Random
) -> dict[str, bytes]:
    files = {name: bytearray(data) for name, data in synced.items()}
    for write in loose:
        if kind == "dropped" or (kind == "mixed" and chance.random() < 0.5):
            continue
        if kind in ("torn", "mixed") and write.data is not None and chance.random() < 0.5:
            sectors = range(0, len(write.data), SECTOR)
            for start in sectors:
                if chance.random() < 0.5:
                    piece = write.data[start : start + SECTOR]
                    _apply(files, Write(write.file, write.offset + start, piece))
            continue
        _apply(files, write)
    return {name: bytes(data) for name, data in files.items()}


def _apply(files: dict[str, bytearray], write: Write) -> None:
    data = files.setdefault(write.file, bytearray())
    if write.data is None:
        del data[write.offset :]
        return
    missing = write.offset - len(data)
    if missing > 0:
        data.extend(bytes(missing))
    data[write.offset : write.offset + len(write.data)] = write.data


def losses(images: int, seed: int) -> Report:
    """Return what of at most so many rebuilt disks failed to open, or lacked what was acknowledged."""
    log = recorded(appends=max(10, images // 40), seed=seed)
    every = list(disks(log, seed))
    chosen = random.Random(seed).sample(every, min(images, len(every)))
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    broken: list[Broken] = []
    try:
        for cut, kind, files in chosen:
            what = _wrong_with(folder, files, log[:cut])
            if what:
                again = f"python -m torture power --seed {seed} --images {images}"
                broken.append(Broken(point=f"{cut} {kind}", what=what, again=again))
    finally:
        shutil.rmtree(folder)
    return Report(name="power loss", tried=len(chosen), broken=tuple(broken))


def _wrong_with(folder: Path, files: dict[str, bytes], before: list[Operation]) -> str:
    place = Path(tempfile.mkdtemp(dir=folder))
    for name, data in files.items():
        if name.startswith("journal.db"):
            (place / name).write_bytes(data)
    try:
        return asyncio.run(_read_whole(place / "journal.db", before))
    except MidstreamError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(place)


async def _read_whole(path: Path, before: list[Operation]) -> str:
    store = SqliteStore.opened(path)
    try:
        mails = {mail.id for mail in await store.mail("")}
        for acknowledged in before:
            if not isinstance(acknowledged, Acknowledged):
                continue
            if acknowledged.kind == "letter" and acknowledged.what not in mails:
                return f"the message {acknowledged.what} is lost"
        last = {
            a.run: int(a.what) for a in before if isinstance(a, Acknowledged) and a.kind == "facts"
        }
        for run, seq in last.items():
            facts = await store.read(run)
            if len(facts) < seq:
                return f"{run} has {len(facts)} facts of {seq} that were acknowledged"
            if [fact.seq for fact in facts] != list(range(1, len(facts) + 1)):
                return f"{run} has a gap"
    finally:
        await store.aclose()
    return ""
