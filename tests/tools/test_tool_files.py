import errno
import os
import stat
from pathlib import Path

import pytest
from toolbench import Bench, files_in

from midstream.system.workspace_paths import locate, read_in_slices
from midstream.tools import file_tools as files_module
from midstream.tools.base import Stopped, check_stop
from midstream.tools.file_tools import MAX_READ_BYTES
from midstream.tools.tool_text import MAX_CHARS, MAX_LINES

POEM = "Roses are red,\n  violets are blue,\nsugar is sweet,\n  and so are you.\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "poem.txt").write_text(POEM)
    return Bench(tmp_path)


# --- read_files ---------------------------------------------------------------------------------


async def test_a_large_file_is_read_in_slices_and_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = b"".join(b"line %07d\n" % number for number in range(200_000))
    (bench.context.workspace / "large.txt").write_bytes(large)
    sizes = sliced(monkeypatch)

    text = await bench.text("read_files", paths=["large.txt:199999-"])

    assert text.splitlines() == [
        "== large.txt (200000 lines) ==",
        "199999\tline 0199998",
        "200000\tline 0199999",
    ]
    assert max(sizes) <= 1 << 18
    assert sum(sizes) == len(large)


def test_reading_a_large_file_ends_with_the_slice_it_was_stopped_in(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.context.workspace / "large.txt").write_bytes(b"x" * 10_000_000)
    sizes = sliced(monkeypatch)
    bench.stop.set()

    with pytest.raises(Stopped):
        read_in_slices(
            locate(bench.context.workspace, "large.txt"),
            max_bytes=MAX_READ_BYTES,
            check=lambda: check_stop(bench.context),
        )

    assert len(sizes) == 1


def sliced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return what is going to be the sizes of the pieces that are read."""
    sizes: list[int] = []
    real = os.read

    def read(handle: int, size: int) -> bytes:
        data = real(handle, size)
        if len(data) > 100_000 or data.endswith(b"\n"):
            sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "read", read)
    return sizes


async def test_files_come_with_line_numbers(bench: Bench) -> None:
    text = await bench.text("read_files", paths=["poem.txt"])

    assert text.splitlines()[:3] == [
        "== poem.txt (4 lines) ==",
        "     1\tRoses are red,",
        "     2\t  violets are blue,",
    ]


@pytest.mark.parametrize(
    ("span", "lines"), [("2-3", [2, 3]), ("4", [4]), ("3-99", [3, 4]), ("1-1", [1])]
)
async def test_a_range_gives_those_lines(bench: Bench, span: str, lines: list[int]) -> None:
    text = await bench.text("read_files", paths=[f"poem.txt:{span}"])

    assert [int(line.split("\t")[0]) for line in text.splitlines()[1:]] == lines


@pytest.mark.parametrize("span", ["0-2", "3-2", "5", "99-100"])
async def test_a_range_outside_the_file_is_explained(bench: Bench, span: str) -> None:
    assert "line" in await bench.failure("read_files", paths=[f"poem.txt:{span}"])


async def test_a_file_whose_name_ends_like_a_range_is_itself(bench: Bench) -> None:
    (bench.context.workspace / "log:1-2").write_text("odd\n")

    assert "1\todd" in await bench.text("read_files", paths=["log:1-2"])


async def test_one_missing_file_does_not_hide_the_others(bench: Bench) -> None:
    text = await bench.text("read_files", paths=["gone.txt", "poem.txt"])

    assert "== gone.txt: not read ==\nThere is no file 'gone.txt'." in text
    assert "Roses" in text


async def test_binary_files_are_named_not_shown(bench: Bench) -> None:
    (bench.context.workspace / "image.png").write_bytes(b"\x89PNG\0\0\1\2")

    assert "binary file, 8 bytes" in await bench.text("read_files", paths=["image.png"])


async def test_text_in_another_encoding_is_shown_as_well_as_it_can_be(bench: Bench) -> None:
    (bench.context.workspace / "old.txt").write_bytes("caf\xe9\n".encode("latin-1"))

    assert "caf\ufffd" in await bench.text("read_files", paths=["old.txt"])


async def test_only_a_newline_starts_a_line(bench: Bench) -> None:
    (bench.context.workspace / "feed.txt").write_bytes("a\x0cb\u2028c\r\nd".encode())

    text = await bench.text("read_files", paths=["feed.txt"])

    head = "== feed.txt (2 lines; Windows line ends) =="
    assert text == f"{head}\n     1\ta\x0cb\u2028c\n     2\td"


async def test_long_files_say_how_to_read_on(bench: Bench) -> None:
    (bench.context.workspace / "long.txt").write_text("x\n" * (MAX_LINES + 5))

    text = await bench.text("read_files", paths=["long.txt"])

    assert f"read them with long.txt:{MAX_LINES + 1}-{MAX_LINES + 5}" in text


async def test_what_does_not_fit_in_one_result_says_how_to_read_on(bench: Bench) -> None:
    for name in ("a.txt", "b.txt"):
        (bench.context.workspace / name).write_text(f"{'y' * 99}\n" * 400)

    text = await bench.text("read_files", paths=["a.txt", "b.txt"])

    assert len(text) < 50_000
    assert "read them with b.txt:" in text


async def test_a_large_file_does_not_take_the_room_of_small_ones(bench: Bench) -> None:
    (bench.context.workspace / "large.txt").write_text("a line of some length\n" * 9_000)
    (bench.context.workspace / "small.txt").write_text("one\ntwo\n")

    text = await bench.text("read_files", paths=["large.txt", "small.txt", "large.txt:9000-"])

    large, small, end = text.split("\n\n")
    assert large.startswith("== large.txt (9000 lines) ==\n     1\ta line")
    assert "lines left out" not in small
    assert small == "== small.txt (2 lines) ==\n     1\tone\n     2\ttwo"
    assert end == "== large.txt (9000 lines) ==\n  9000\ta line of some length"
    assert len(text) > 0.9 * MAX_CHARS


@pytest.mark.parametrize("path", ["a.txt:-5", "a.txt#L1-L2", "a.txt:L1", "a.txt:1,2", "a.txt:1:2"])
async def test_a_range_that_is_written_in_another_way_is_explained(bench: Bench, path: str) -> None:
    (bench.context.workspace / "a.txt").write_text("one\n")

    words = await bench.failure("read_files", paths=[path])

    assert "is no range of lines of a.txt. Write a.txt:FIRST-LAST, such as a.txt:10-40" in words


async def test_a_range_of_a_secret_does_not_say_that_there_is_one(bench: Bench) -> None:
    (bench.context.workspace / ".env").write_text("KEY=x\n")

    assert "range" not in await bench.failure("read_files", paths=[".env:L1"])


async def test_long_lines_are_shortened(bench: Bench) -> None:
    (bench.context.workspace / "min.js").write_text("z" * 100_000)

    text = await bench.text("read_files", paths=["min.js"])

    assert len(text) < 2_000
    assert "99,000 characters left out" in text


async def test_too_large_a_file_is_refused_with_a_way_on(bench: Bench) -> None:
    with (bench.context.workspace / "huge.bin").open("wb") as file:
        file.truncate(MAX_READ_BYTES + 1)

    assert "grep" in await bench.failure("read_files", paths=["huge.bin"])


# --- write_file ---------------------------------------------------------------------------------


async def test_a_new_file_is_written_with_its_folders(bench: Bench) -> None:
    text = await bench.text("write_file", path="a/b/c.txt", content="one\ntwo\n")

    assert text == "Created a/b/c.txt (2 lines)."
    assert (bench.context.workspace / "a/b/c.txt").read_text() == "one\ntwo\n"


async def test_replacing_keeps_the_permissions_and_leaves_nothing_beside(bench: Bench) -> None:
    script = bench.context.workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o750)

    assert "Replaced" in await bench.text("write_file", path="run.sh", content="new\r\n")

    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert script.read_bytes() == b"new\r\n"
    assert files_in(bench.context.workspace) == ["poem.txt", "run.sh"]


async def test_what_a_whole_new_text_loses_is_told(bench: Bench) -> None:
    (bench.context.workspace / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")

    text = await bench.text("write_file", path="dos.txt", content="one\nthree\n")

    assert "no byte order mark any more" in text
    assert "line ends were \\r\\n and are \\n now" in text


async def test_a_full_disk_leaves_the_file_as_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    text = await bench.failure("write_file", path="poem.txt", content="half")

    assert text == "poem.txt cannot be written: No space left on device. The file is as it was."
    assert (bench.context.workspace / "poem.txt").read_text() == POEM
    assert files_in(bench.context.workspace) == ["poem.txt"]


async def test_half_a_surrogate_pair_is_not_written(bench: Bench) -> None:
    assert "surrogate" in await bench.failure("write_file", path="a.txt", content="x\ud800")
    assert files_in(bench.context.workspace) == ["poem.txt"]


# --- edit_file ----------------------------------------------------------------------------------


async def test_an_edit_replaces_the_one_place_it_fits(bench: Bench) -> None:
    edits = [{"old_text": "violets are blue", "new_text": "violets are not"}]
    text = await bench.text("edit_file", path="poem.txt", edits=edits)

    assert text == "Edited poem.txt: replaced at line 2."
    assert (bench.context.workspace / "poem.txt").read_text() == POEM.replace("blue", "not")


async def test_edits_are_made_one_after_the_other(bench: Bench) -> None:
    edits = [
        {"old_text": "Roses", "new_text": "Tulips"},
        {"old_text": "Tulips are red", "new_text": "Tulips are pink"},
    ]
    await bench.text("edit_file", path="poem.txt", edits=edits)

    assert "Tulips are pink" in (bench.context.workspace / "poem.txt").read_text()


async def test_one_edit_that_fails_undoes_all(bench: Bench) -> None:
    edits = [{"old_text": "Roses", "new_text": "Tulips"}, {"old_text": "salt", "new_text": "x"}]
    text = await bench.failure("edit_file", path="poem.txt", edits=edits)

    assert text.startswith("Nothing was changed: edit 2 of 2 did not fit")
    assert (bench.context.workspace / "poem.txt").read_text() == POEM


async def test_a_place_that_is_not_unique_is_named(bench: Bench) -> None:
    edits = [{"old_text": "are", "new_text": "were"}]
    text = await bench.failure("edit_file", path="poem.txt", edits=edits)

    assert "fits 3 places, at lines 1, 2, 4." in text
    assert "replace_all" in text


async def test_replace_all_replaces_all(bench: Bench) -> None:
    edits = [{"old_text": "are", "new_text": "were", "replace_all": True}]
    text = await bench.text("edit_file", path="poem.txt", edits=edits)

    assert "at lines 1, 2, 4" in text
    assert (bench.context.workspace / "poem.txt").read_text() == POEM.replace("are", "were")


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("violets are  blue,", "differ only in blanks:\n     2\t  violets are blue,"),
        ("sugar is sweat,\n  and so are you.", "are:\n     3\tsugar is sweet,\n     4\t  and so"),
        ("qqqqqqq zzzzzzzz", "No line of it is much like a line of the file."),
    ],
)
async def test_a_near_miss_shows_the_nearest_lines(bench: Bench, old: str, words: str) -> None:
    edits = [{"old_text": old, "new_text": "x"}]

    assert words in await bench.failure("edit_file", path="poem.txt", edits=edits)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"old_text": "", "new_text": "x"}, "has no old_text"),
        ({"old_text": "red", "new_text": "red"}, "the same old_text and new_text"),
        ({"old_text": "red"}, "'new_text' is a required property"),
        ({"old_text": "\n\n", "new_text": "x"}, "not in the file"),
    ],
)
async def test_an_edit_of_nothing_is_explained(
    bench: Bench, edit: dict[str, str], words: str
) -> None:
    assert words in await bench.failure("edit_file", path="poem.txt", edits=[edit])


async def test_an_edit_cannot_make_a_file_endless(bench: Bench) -> None:
    (bench.context.workspace / "many.txt").write_text("a" * 100_000)
    edits = [{"old_text": "a", "new_text": "b" * 100_000, "replace_all": True}]

    assert "too large" in await bench.failure("edit_file", path="many.txt", edits=edits)


async def test_somebody_elses_save_is_not_undone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    poem = bench.context.workspace / "poem.txt"

    def edited_meanwhile(text: str, edits: object) -> tuple[str, str]:
        poem.write_text("theirs")
        return "ours", "replaced"

    monkeypatch.setattr(files_module, "edited", edited_meanwhile)
    edits = [{"old_text": "Roses", "new_text": "x"}]

    assert "changed since" in await bench.failure("edit_file", path="poem.txt", edits=edits)
    assert poem.read_text() == "theirs"


async def test_windows_line_ends_stay(bench: Bench) -> None:
    file = bench.context.workspace / "dos.txt"
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")

    edits = [{"old_text": "one\ntwo", "new_text": "eins\nzwei"}]
    await bench.text("edit_file", path="dos.txt", edits=edits)

    assert file.read_bytes() == b"eins\r\nzwei\r\nthree\r\n"


@pytest.mark.parametrize("path", ["missing.txt", ".git/HEAD", "../poem.txt", "."])
async def test_only_a_file_that_is_there_can_be_edited(bench: Bench, path: str) -> None:
    await bench.failure("edit_file", path=path, edits=[{"old_text": "a", "new_text": "b"}])


async def test_a_file_that_is_no_text_is_not_edited(bench: Bench) -> None:
    (bench.context.workspace / "bin").write_bytes(b"\xff\xfea")
    edits = [{"old_text": "a", "new_text": "b"}]

    assert "not UTF-8" in await bench.failure("edit_file", path="bin", edits=edits)
