"""Before a tool changes a file, what it holds is recorded; where that fails, nothing is changed."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from toolbench import Bench, files_in

from midstream.language.errors import JournalFull
from midstream.system import put_in_place

POEM = "Roses are red,\nviolets are blue.\n"
EDIT = [{"old_text": "red", "new_text": "white"}]


def held(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


class Recorder:
    """Hears of changes; `seen` is what the file held on the disk at that moment."""

    def __init__(self) -> None:
        self.told: list[tuple[Path, bytes | None, bytes | None]] = []
        self.seen: list[bytes | None] = []
        self.folders: list[tuple[str, ...]] = []
        self.trouble: Exception | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    async def __call__(
        self, path: Path, before: bytes | None, after: bytes | None, folders: Sequence[Path] = (), /
    ) -> None:
        await asyncio.sleep(0)
        self.folders.append(tuple(folder.name for folder in folders if not folder.exists()))
        self.told.append((path, before, after))
        self.seen.append(held(path))
        self.meanwhile()
        if self.trouble is not None:
            raise self.trouble


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def bench(tmp_path: Path, recorder: Recorder) -> Bench:
    (tmp_path / "poem.txt").write_text(POEM)
    bench = Bench(tmp_path.resolve())
    bench.context = msgspec.structs.replace(bench.context, changing=recorder)
    return bench


async def test_a_replaced_file_is_recorded_before_it_changes(
    bench: Bench, recorder: Recorder
) -> None:
    await bench.text("write_file", path="poem.txt", content="new")

    path = bench.context.workspace / "poem.txt"
    assert recorder.told == [(path, POEM.encode(), b"new")]
    assert recorder.seen == [POEM.encode()]
    assert path.read_bytes() == b"new"


async def test_a_new_file_was_nothing_before(bench: Bench, recorder: Recorder) -> None:
    await bench.text("write_file", path="a/b.txt", content="new")

    assert recorder.told == [(bench.context.workspace / "a/b.txt", None, b"new")]
    assert recorder.seen == [None]


async def test_the_folders_a_new_file_takes_are_told_before_they_are_made(
    bench: Bench, recorder: Recorder
) -> None:
    for number, path in enumerate(("a/b/c.txt", "a/b/d/e.txt", "a/b/c.txt", "f.txt")):
        await bench.text("write_file", path=path, content=f"new {number}")
        await bench.text("read_files", paths=[path])

    assert recorder.folders == [("a", "b"), ("d",), (), ()]


async def test_an_edit_is_recorded_with_the_whole_file(bench: Bench, recorder: Recorder) -> None:
    await bench.text("edit_file", path="poem.txt", edits=EDIT)

    after = POEM.replace("red", "white").encode()
    assert recorder.told == [(bench.context.workspace / "poem.txt", POEM.encode(), after)]
    assert recorder.seen == [POEM.encode()]


async def test_an_edit_that_does_not_fit_records_nothing(bench: Bench, recorder: Recorder) -> None:
    await bench.failure("edit_file", path="poem.txt", edits=[{"old_text": "x!", "new_text": "y"}])

    assert recorder.told == []


async def test_a_link_is_recorded_as_the_file_it_leads_to(bench: Bench, recorder: Recorder) -> None:
    (bench.context.workspace / "link.txt").symlink_to("poem.txt")

    await bench.text("write_file", path="link.txt", content="new")

    assert recorder.told[0][0] == bench.context.workspace / "poem.txt"


@pytest.mark.parametrize(
    ("name", "rest"), [("write_file", {"content": "new"}), ("edit_file", {"edits": EDIT})]
)
async def test_what_cannot_be_recorded_is_not_changed(
    bench: Bench, recorder: Recorder, name: str, rest: dict[str, object]
) -> None:
    recorder.trouble = JournalFull("There is no room.")

    assert "There is no room." in await bench.failure(name, path="poem.txt", **rest)
    assert (bench.context.workspace / "poem.txt").read_text() == POEM
    assert files_in(bench.context.workspace) == ["poem.txt"]


async def test_a_file_that_changed_while_it_was_recorded_is_left(
    bench: Bench, recorder: Recorder
) -> None:
    poem = bench.context.workspace / "poem.txt"
    recorder.meanwhile = lambda: poem.write_text("theirs")

    text = await bench.failure("write_file", path="poem.txt", content="ours")

    assert "by somebody else" in text
    assert poem.read_text() == "theirs"


async def test_a_file_that_came_up_while_it_was_recorded_is_left(
    bench: Bench, recorder: Recorder
) -> None:
    other = bench.context.workspace / "other.txt"
    recorder.meanwhile = lambda: other.write_text("theirs")

    await bench.failure("write_file", path="other.txt", content="ours")

    assert other.read_text() == "theirs"


async def test_a_call_stopped_while_it_recorded_changes_nothing(
    bench: Bench, recorder: Recorder
) -> None:
    recorder.meanwhile = bench.stop.set

    ended = await bench.call("edit_file", path="poem.txt", edits=EDIT)

    assert ended.outcome == "stopped"
    assert (bench.context.workspace / "poem.txt").read_text() == POEM


async def test_a_file_too_large_to_be_kept_is_not_replaced(
    bench: Bench, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_in_place, "MAX_KEPT_BYTES", 10)

    await bench.failure("write_file", path="poem.txt", content="new")

    assert recorder.told == []
    assert (bench.context.workspace / "poem.txt").read_text() == POEM
