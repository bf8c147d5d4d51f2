"""A run as one readable file, for bug reports: written here, read strictly anywhere.

JSON lines, in this order:

    {"midstream_run": 1, "run": ..., "facts": N, "files": M, "format": F, "made_by": ..., "parents": [...]}
    {"seq": 1, "at": ..., "checksum": ..., "fact": {...}}          N of them, without gaps
    {"key": SHA-256, "base64": ...}                                M of them, contents of files

Checksums are chained over the facts as in a journal, so that a line that was changed, left out or
moved is noticed at its place. A fork's file holds all of its facts, those of its parents included.

A file comes from somebody else. Nothing in it is used before all of it is found whole and folds to a
run; an imported run is foreign and never goes on by itself.
"""

import base64
import binascii
import contextlib
import hashlib
import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from midstream.config.portable import O_CLOEXEC
from midstream.config.private_files import way_out
from midstream.core.codec import FIRST, FORMAT, Undecodable, chained, encode_fact, redacted_fact
from midstream.core.events import (
    AnyFact,
    Fact,
    FileWritten,
    InputReceived,
    RunStarted,
    ToolReturned,
)
from midstream.core.fold.apply import apply
from midstream.core.formats import fact_of
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.state_machine import new_run_id
from midstream.runtime.storage import KeptRun, Store
from midstream.safety.redaction import Redactor
from midstream.system.offloop import in_thread
from midstream.system.own_process import own_redactor
from midstream.system.put_in_place import MAX_KEPT_BYTES
from midstream.views.side_effects import TREE

LAYOUT = 1
"""The version of the file's own layout; `format` is that of the facts."""

MAX_FILE_BYTES = 1_000_000_000
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_T = TypeVar("_T")


class Parent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run the exported one was forked from: it shares the first `seq` facts."""

    run: str
    seq: int


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line. `parents` begin with the nearest."""

    midstream_run: int
    run: str
    facts: int
    files: int = 0
    format: int
    made_by: str
    parents: tuple[Parent, ...] = ()


class FactLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact. `fact` is kept as the bytes the checksum covers."""

    seq: int
    at: float
    checksum: str
    fact: msgspec.Raw


class FileLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file held before the run wrote it, or a picture that the run was shown."""

    key: str
    base64: str


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import came to. `named` is the run's id in the file, `id` the one it has here.

    `was_there`: the same facts were here already, under that id; nothing was changed.
    """

    id: str
    named: str
    facts: int
    files: int
    was_there: bool = False


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A run's file. `missing` counts the contents that are not in the blob store any more."""

    lines: tuple[bytes, ...]
    facts: int
    files: int
    missing: int


_ENCODER = msgspec.json.Encoder()


# --- export -----------------------------------------------------------------------------------


async def exported(store: Store, id: str, *, made_by: str, with_files: bool = False) -> Exported:
    """Return a run's file, a line each with its line end.

    It goes to somebody else: secrets are redacted in it, in what people typed and in the workflow too.
    Contents of files are as they were.

    Args:
        store: what keeps the run.
        id: the run's whole id.
        made_by: name and version of the program.
        with_files: with what the files held before the run wrote them, and the pictures it was shown.

    Raises:
        UserMistake: there is no such run.
        JournalDamaged: a fact is not what was written.
    """
    facts = await store.read(id)
    if not facts:
        raise UserMistake(f"There is no run {id}.", hint="midstream runs lists them.")
    line: list[KeptRun] = []
    with contextlib.suppress(WorldTrouble):  # a journal that was lost lists nothing any more
        line = await store.lineage(id)
    parents = tuple(Parent(run=kept.parent, seq=kept.parent_seq) for kept in line if kept.parent)
    files, missing = await _contents(store, facts) if with_files else ([], 0)
    header = Header(
        midstream_run=LAYOUT,
        run=id,
        facts=len(facts),
        files=len(files),
        format=FORMAT,
        made_by=made_by,
        parents=parents,
    )
    written = await in_thread(lambda: tuple(_fact_lines(facts, own_redactor())))
    return Exported(
        lines=(_line(header), *written, *files),
        facts=len(facts),
        files=len(files),
        missing=missing,
    )


def _fact_lines(facts: Sequence[Envelope], redactor: Redactor) -> Iterator[bytes]:
    before = FIRST
    for seq, envelope in enumerate(facts, 1):
        assert isinstance(envelope.event, Fact)
        body = encode_fact(redacted_fact(envelope.event, redactor))
        at = float(envelope.at)
        before = chained(before, seq, at, body)
        yield _line(FactLine(seq=seq, at=at, checksum=before.hex(), fact=msgspec.Raw(body)))


async def _contents(store: Store, facts: Sequence[Envelope]) -> tuple[list[bytes], int]:
    keys: dict[str | None, None] = {}
    for envelope in facts:
        match envelope.event:
            case FileWritten(call_id=call_id, after=after) if call_id == TREE:
                keys[after] = None
            case FileWritten(before=before):
                keys[before] = None
            case RunStarted() | InputReceived() | ToolReturned() as fact:
                keys |= dict.fromkeys(picture.key for picture in fact.pictures)
    lines, missing = [], 0
    for key in keys:
        if key is None:
            continue
        try:
            data = await store.get(key)
        except WorldTrouble:
            missing += 1
        else:
            lines.append(await in_thread(partial(_file_line, key, data)))
    return lines, missing


def _file_line(key: str, data: bytes) -> bytes:
    return _line(FileLine(key=key, base64=base64.b64encode(data).decode()))


def _line(value: msgspec.Struct) -> bytes:
    return _ENCODER.encode(value) + b"\n"


def write_new(path: Path, lines: Sequence[bytes]) -> None:
    """Write a file only its owner can read, which must not be there yet; all of it or none. Blocking.

    Raises:
        UserMistake: it is there already.
        WorldTrouble: it cannot be written.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_CLOEXEC, 0o600)
        try:
            with open(handle, "wb") as stream:
                stream.writelines(lines)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
    except FileExistsError as error:
        raise UserMistake(f"{path} is there already.", hint="Name another file.") from error
    except OSError as error:
        raise WorldTrouble(
            f"{path} cannot be written: {error.strerror}.", hint=way_out(error)
        ) from error


# --- import -----------------------------------------------------------------------------------


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds, all of it found whole."""

    header: Header
    facts: tuple[Envelope, ...]
    files: tuple[bytes, ...]


async def imported(store: Store, path: Path) -> Imported:
    """Keep the run of a file, foreign for ever, and return what became of it.

    A run of that id that is here with the same facts is left as it is; with other facts, the
    imported one gets a new id.

    Raises:
        UserMistake: the file is none of ours, damaged or too new; it says which line. Nothing was kept.
        WorldTrouble: it cannot be read.
    """
    parcel = await in_thread(partial(read_parcel, path))
    named, id = parcel.header.run, parcel.header.run
    known = await store.read(id)
    if known:
        if await in_thread(lambda: _all_told(known) == _all_told(parcel.facts)):
            return Imported(id=id, named=named, facts=len(known), files=0, was_there=True)
        id = new_run_id()
    for data in parcel.files:
        await store.put(data)
    await store.adopt(id, [msgspec.structs.replace(fact, run=id) for fact in parcel.facts])
    return Imported(id=id, named=named, facts=len(parcel.facts), files=len(parcel.files))


def _all_told(facts: Sequence[Envelope]) -> list[tuple[object, ...]]:
    return [(fact.seq, fact.at, fact.event) for fact in facts]


def read_parcel(path: Path) -> Parcel:
    """Return what a file holds. Blocking. Raises as `imported` does."""
    try:
        # Opening a pipe would wait for somebody who writes.
        handle = os.open(path, _READING)
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):  # a pipe or a device may never end
            os.close(handle)
            raise UserMistake(f"{path} is not a regular file.", hint="Name a regular file.")
        with open(handle, "rb") as stream:
            if about.st_size > MAX_FILE_BYTES:
                raise UserMistake(
                    f"{path} is larger than {MAX_FILE_BYTES:,} bytes.",
                    hint="No exported run is that large: check the name.",
                )
            return _Reading(path, stream).parcel()
    except OSError as error:
        raise WorldTrouble(
            f"{path} cannot be read: {error.strerror or error}.", hint=way_out(error)
        ) from error


class _Reading:
    """A file being read, a line at a time: what is wrong with it is said with its line.

    Its lines are never all in memory: a file may well hold nothing but line ends.
    """

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self._path = path
        self._stream = stream
        self._promised = ""

    def parcel(self) -> Parcel:
        """Return all that the file holds."""
        header = self._header()
        self._promised = f"{header.facts} facts and {header.files} files"
        facts, files = tuple(self._facts(header)), tuple(self._files(header))
        if self._stream.read(1):
            raise self._wrong(
                2 + header.facts + header.files, "there is more than the first line says"
            )
        return Parcel(header=header, facts=facts, files=files)

    def _header(self) -> Header:
        first = self._stream.readline()
        try:
            versions = msgspec.json.decode(first, type=_Versions)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._wrong(1, "this is not an exported run") from error
        if versions.midstream_run > LAYOUT or versions.format > FORMAT:
            raise UserMistake(
                f"{self._path}:1: it was made by a newer version ({versions.made_by[:80]!r}).",
                hint="Import it with that one.",
            )
        header = self._decoded(1, Header, first)
        if versions.midstream_run < 1 or header.facts < 1 or header.files < 0:
            raise self._wrong(1, "this is not an exported run")
        if not _ID.fullmatch(header.run):
            raise self._wrong(1, f"{header.run[:80]!r} is not the id of a run")
        return header

    def _facts(self, header: Header) -> Iterator[Envelope]:
        run, before = Run(id=header.run), FIRST
        for seq in range(1, header.facts + 1):
            number = seq + 1
            line = self._decoded(number, FactLine)
            if line.seq != seq:
                raise self._wrong(number, f"fact {seq} is missing, {line.seq} stands here")
            if not math.isfinite(line.at):
                raise self._wrong(number, f"fact {seq} has no time")
            body = bytes(line.fact)
            before = chained(before, seq, line.at, body)
            if before.hex() != line.checksum:
                raise self._wrong(number, f"the checksum of fact {seq} is wrong")
            try:
                fact = fact_of(body, header.format)
            except Undecodable as error:
                raise self._wrong(number, f"fact {seq} is none: {error}") from error
            run = self._folded(number, run, fact)
            yield Envelope(run=header.run, at=line.at, event=fact, seq=seq)

    def _folded(self, number: int, run: Run, fact: AnyFact) -> Run:
        if isinstance(fact, RunStarted) != (run.seq == 0):
            raise self._wrong(number, "the start of a run must come first, and only once")
        if run.is_over:
            raise self._wrong(number, "the run had ended before")
        try:
            return apply(run, fact)
        except Exception as error:  # facts that do not fit together may break folding anywhere
            raise self._wrong(number, f"fact {run.seq + 1} does not follow") from error

    def _files(self, header: Header) -> Iterator[bytes]:
        for number in range(header.facts + 2, header.facts + header.files + 2):
            line = self._decoded(number, FileLine)
            try:
                data = base64.b64decode(line.base64, validate=True)
            except (binascii.Error, ValueError) as error:
                raise self._wrong(number, "this is no base64") from error
            if hashlib.sha256(data).hexdigest() != line.key or len(data) > MAX_KEPT_BYTES:
                raise self._wrong(number, "the contents are not what their checksum says")
            yield data

    def _decoded(self, number: int, wanted: type[_T], line: bytes | None = None) -> _T:
        """Return the next line, or the one given, as what it must be."""
        data = self._stream.readline() if line is None else line
        if not data:
            why = f"the file ends here, with {self._promised} promised"
            raise self._wrong(number - 1, why)
        try:
            value: _T = msgspec.json.decode(data, type=wanted)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._wrong(number, str(error)) from error
        return value

    def _wrong(self, number: int, why: str) -> UserMistake:
        return UserMistake(
            f"{self._path}:{number}: {why}.", hint="Nothing was imported; export the run again."
        )


class _Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of a first line before the rest of it is read."""

    midstream_run: int
    format: int = 0
    made_by: str = ""
