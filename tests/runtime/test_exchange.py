"""One file for one run: readable, whole, and strictly read; the golden one is never edited."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from time_travel_kit import DEADLINE_S, chatted

from midstream.core.codec import FORMAT
from midstream.core.events import FileWritten
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.engine import run_file
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.run_file import LAYOUT, Imported, exported, imported, read_parcel
from midstream.runtime.engine.time_travel import fork
from midstream.store.memory import MemoryStore

GOLDEN = Path(__file__).parents[1] / "journals"


async def written(
    folder: Path, store: MemoryStore, id: str, *, with_files: bool = False, name: str = "run.jsonl"
) -> Path:
    made = await exported(store, id, made_by="midstream test", with_files=with_files)
    path = folder / name
    path.write_bytes(b"".join(made.lines))
    return path


async def with_a_write(store: MemoryStore) -> str:
    """Return a chat in which a file was written; what it held is in the blob store."""
    id = await chatted(store, "one")
    facts = await store.read(id)
    fact = FileWritten(call_id="c1", path="/w/a", before=await store.put(b"old\n"), after=None)
    await store.append(id, len(facts), [Envelope(run=id, at=9.5, event=fact, seq=len(facts) + 1)])
    return id


async def test_a_run_comes_out_of_its_file_as_it_went_in(tmp_path: Path) -> None:
    here, there = MemoryStore(), MemoryStore()
    id = await with_a_write(here)
    path = await written(tmp_path, here, id)

    came = await imported(there, path)

    assert came == Imported(id=id, named=id, facts=len(await here.read(id)), files=0)
    assert await there.read(id) == await here.read(id)
    assert await opened(there, id) == await opened(here, id)


async def test_an_imported_run_is_foreign_and_nobodys(tmp_path: Path) -> None:
    here, there = MemoryStore(), MemoryStore()
    id = await chatted(here, "one")
    await imported(there, await written(tmp_path, here, id))

    (kept,) = await there.listing()
    assert (kept.is_foreign, kept.owner, kept.was_cut) == (True, "", False)


async def test_files_come_along_where_asked_for(tmp_path: Path) -> None:
    here, there, bare = MemoryStore(), MemoryStore(), MemoryStore()
    id = await with_a_write(here)

    came = await imported(there, await written(tmp_path, here, id, with_files=True))
    await imported(bare, await written(tmp_path, here, id, name="bare.jsonl"))

    key = hashlib.sha256(b"old\n").hexdigest()
    assert came.files == 1
    assert await there.get(key) == b"old\n"
    with pytest.raises(WorldTrouble):
        await bare.get(key)


async def test_contents_that_are_lost_are_counted(tmp_path: Path) -> None:
    store = MemoryStore()
    id = await with_a_write(store)
    store._contents.blobs.clear()

    made = await exported(store, id, made_by="x", with_files=True)

    assert (made.files, made.missing) == (0, 1)


async def test_a_fork_is_exported_whole_and_names_where_it_came_from(tmp_path: Path) -> None:
    store, there = MemoryStore(), MemoryStore()
    source = await chatted(store, "one", "two")
    middle = await fork(store, source, 9)
    last = await fork(store, middle.id, 3)
    path = await written(tmp_path, store, last.id)

    head = json.loads(path.read_bytes().split(b"\n")[0])
    assert head["parents"] == [
        {"run": middle.id, "seq": last.seq},
        {"run": source, "seq": middle.seq},
    ]
    assert (await imported(there, path)).facts == last.seq


async def test_the_same_run_again_is_said_to_be_there(tmp_path: Path) -> None:
    store = MemoryStore()
    id = await chatted(store, "one")
    before = await store.listing()

    came = await imported(store, await written(tmp_path, store, id))

    assert (came.id, came.was_there) == (id, True)
    assert await store.listing() == before


async def test_another_run_of_the_same_id_gets_a_new_one(tmp_path: Path) -> None:
    here, there = MemoryStore(), MemoryStore()
    id = await chatted(here, "one")
    path = await written(tmp_path, here, id)
    text = path.read_text(encoding="utf-8")
    other = await chatted(there, "other")
    path.write_text(text.replace(f'"run":"{id}"', f'"run":"{other}"'), encoding="utf-8")

    came = await imported(there, path)

    assert came.named == other
    assert came.id != other
    assert [f.event for f in await there.read(came.id)] == [f.event for f in await here.read(id)]


# --- what is not whole is refused -----------------------------------------------------------------

Change = Callable[[list[dict[str, Any]]], None]


def fact(lines: list[dict[str, Any]], seq: int) -> dict[str, Any]:
    found: dict[str, Any] = lines[seq]
    return found


def moved(lines: list[dict[str, Any]]) -> None:
    lines[3], lines[4] = lines[4], lines[3]


def retyped(lines: list[dict[str, Any]]) -> None:
    lines[2]["fact"] = {"type": "never_heard_of"}
    rechain(lines)


def another_field(lines: list[dict[str, Any]]) -> None:
    lines[2]["fact"]["extra"] = 1
    rechain(lines)


def started_twice(lines: list[dict[str, Any]]) -> None:
    lines[2]["fact"] = lines[1]["fact"]
    rechain(lines)


def not_following(lines: list[dict[str, Any]]) -> None:
    lines[2]["fact"] = {
        "type": "tool_returned",
        "call_id": "c9",
        "name": "x",
        "outcome": "completed",
        "result": "",
    }
    rechain(lines)


def rechain(lines: list[dict[str, Any]]) -> None:
    """Make the checksums right again, as somebody does who knows how."""
    before = b""
    for line in lines[1 : 1 + lines[0]["facts"]]:
        body = json.dumps(line["fact"], separators=(",", ":"), ensure_ascii=False).encode()
        head = b"%b\0%d\0%b\0" % (before, line["seq"], repr(line["at"]).encode())
        before = hashlib.blake2b(head + body, digest_size=16).digest()
        line["checksum"] = before.hex()


@pytest.mark.parametrize(
    ("change", "number", "words"),
    [
        (lambda lines: lines[0].update(run="../x"), 1, "not the id of a run"),
        (lambda lines: lines[0].update(midstream_run=0), 1, "not an exported run"),
        (lambda lines: lines[0].update(facts=0), 1, "not an exported run"),
        (lambda lines: lines[0].update(more=1), 1, "unknown field"),
        (lambda lines: lines[0].pop("facts"), 1, "facts"),
        (lambda lines: lines[3].update(at=1.0), 4, "checksum of fact 3 is wrong"),
        (lambda lines: lines[3]["fact"].update(text="?"), 4, "checksum of fact 3 is wrong"),
        (lambda lines: lines[3].update(checksum="00"), 4, "checksum of fact 3 is wrong"),
        (lambda lines: lines[3].update(seq=9), 4, "fact 3 is missing"),
        (lambda lines: lines[3].update(odd=1), 4, "unknown field"),
        (lambda lines: lines[3].update(at="then"), 4, "at"),
        (moved, 4, "fact 3 is missing"),
        (retyped, 3, "fact 2 is none"),
        (another_field, 3, "fact 2 is none"),
        (started_twice, 3, "the start of a run must come first, and only once"),
        (not_following, 3, "fact 2 does not follow"),
        (lambda lines: lines[-1].update(base64="!"), 0, "no base64"),
        (
            lambda lines: lines[-1].update(base64=base64.b64encode(b"x").decode()),
            0,
            "not what their checksum says",
        ),
        (lambda lines: lines.pop(), -1, "the file ends here"),
        (lambda lines: lines.append(lines[-1]), 0, "there is more"),
    ],
)
async def test_a_file_that_is_not_whole_is_refused_with_its_line(
    tmp_path: Path, change: Change, number: int, words: str
) -> None:
    here, there = MemoryStore(), MemoryStore()
    path = await written(tmp_path, here, await with_a_write(here), with_files=True)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(lines)
    path.write_text("".join(f"{compact(line)}\n" for line in lines), encoding="utf-8")

    with pytest.raises(UserMistake) as refused:
        await imported(there, path)

    last = len(lines)
    wanted = number if number > 0 else last
    assert refused.value.what.startswith(f"{path}:{wanted}: ")
    assert words in refused.value.what
    assert await there.listing() == []


def compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def test_a_run_that_goes_on_after_its_end_is_refused(tmp_path: Path) -> None:
    lines = [
        json.loads(line)
        for line in (GOLDEN / "1" / "export.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lines[0]["facts"] += 1
    lines[-1:] = [{**lines[18], "seq": 24}, lines[-1]]
    rechain(lines)
    path = tmp_path / "run.jsonl"
    path.write_text("".join(f"{compact(line)}\n" for line in lines), encoding="utf-8")

    with pytest.raises(UserMistake, match=":25: the run had ended before"):
        read_parcel(path)


@pytest.mark.parametrize("field", ["midstream_run", "format"])
async def test_a_newer_file_is_refused_as_such(tmp_path: Path, field: str) -> None:
    newer = {"midstream_run": LAYOUT, "format": FORMAT, "made_by": "midstream 9", "news": True}
    newer[field] += 1  # type: ignore[operator]
    path = tmp_path / "new.jsonl"
    path.write_text(json.dumps(newer), encoding="utf-8")

    with pytest.raises(UserMistake, match="made by a newer version") as refused:
        read_parcel(path)
    assert refused.value.hint == "Import it with that one."


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "[]\n", "{}\n", '{"type":"run_started"}\n'])
def test_what_is_no_exported_run_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UserMistake, match=":1: this is not an exported run"):
        read_parcel(path)


def test_too_large_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "MAX_FILE_BYTES", 3)
    (tmp_path / "x").write_text("four", encoding="utf-8")

    with pytest.raises(UserMistake, match="larger than 3 bytes"):
        read_parcel(tmp_path / "x")


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(UserMistake, match="not a regular file"):
            read_parcel(path)


# A process of its own: what threads of other tests take at that moment would count, too.
READING = """
import sys, tracemalloc
from pathlib import Path
from midstream.language.errors import UserMistake
from midstream.runtime.engine.run_file import read_parcel
tracemalloc.start()
try:
    read_parcel(Path(sys.argv[1]))
except UserMistake as error:
    print(tracemalloc.get_traced_memory()[1], error.what)
"""


@pytest.mark.parametrize("head", [b"", b'{"midstream_run":1,"format":1,"run":"a","facts":2000000,'])
def test_a_file_of_nothing_but_line_ends_takes_no_memory(tmp_path: Path, head: bytes) -> None:
    first = head + b'"made_by":"x"}' if head else b""
    path = tmp_path / "x"
    path.write_bytes(first + b"\n" * 2_000_001)

    ran = subprocess.run(
        [sys.executable, "-c", READING, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    peak, what = ran.stdout.split(maxsplit=1)
    assert re.search(r":[12]: ", what)
    assert int(peak) < 8_000_000


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(WorldTrouble, match="cannot be read"):
        read_parcel(tmp_path / "gone")


# --- the golden file ------------------------------------------------------------------------------


async def test_the_golden_file_of_the_first_format_is_still_read() -> None:
    store = MemoryStore()

    came = await imported(store, GOLDEN / "1" / "export.jsonl")

    assert (came.id, came.files) == ("golden22", 1)
    run = await opened(store, came.id)
    assert (run.status, run.output) == ("finished", "Second.")


@pytest.mark.parametrize("format", [2, 3, 4, 5, 6, 7, 8])
async def test_the_golden_file_of_an_older_format_says_the_same_in_todays(
    tmp_path: Path, format: int
) -> None:
    store, golden = MemoryStore(), GOLDEN / str(format) / "export.jsonl"

    came = await imported(store, golden)
    again = await exported(store, came.id, made_by="midstream 0.1.0", with_files=True)

    run = await opened(store, came.id)
    fanned = {"left": "layers", "right": "tests"}
    talk = run.common_data.get("talk")
    output = {
        2: "start 1",
        3: "Linted.",
        4: "Linted.",
        5: fanned,
        6: talk,
        7: None,
        8: "Done.",
    }[format]
    assert (run.status, run.output) == ("stopped" if format == 7 else "finished", output)
    path = tmp_path / "again.jsonl"
    path.write_bytes(b"".join(again.lines))
    ours, theirs = read_parcel(path), read_parcel(golden)
    assert (ours.facts, ours.files) == (theirs.facts, theirs.files)
    assert ours.header == msgspec.structs.replace(theirs.header, format=FORMAT)


async def test_the_golden_file_is_read_and_written_the_same() -> None:
    store, golden = MemoryStore(), GOLDEN / str(FORMAT) / "export.jsonl"

    came = await imported(store, golden)
    again = await exported(store, came.id, made_by="midstream 0.1.0", with_files=True)

    run = await opened(store, came.id)
    assert (run.status, len(run.usage.requests)) == ("failed", 5)
    assert again.lines == tuple(golden.read_bytes().splitlines(keepends=True))
