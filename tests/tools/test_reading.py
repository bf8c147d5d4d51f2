"""How read_files shows lines: of large files, long lines, other encodings; and how to read on."""

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolbench import Bench

from midstream.tools import tool_text
from midstream.tools.tool_text import MAX_LINES, shown_lines


@given(
    lines=st.lists(st.text(alphabet="ab\x0c\u2028é", max_size=4), min_size=1, max_size=30),
    first=st.integers(min_value=1, max_value=30),
    last=st.none() | st.integers(min_value=1, max_value=40),
)
def test_a_range_is_those_lines_with_their_numbers(
    lines: list[str], first: int, last: int | None
) -> None:
    text = "\n".join(lines) + "\n"
    if first > len(lines) or (last is not None and last < first):
        return

    shown = shown_lines("f", text.encode(), first, last, room=10_000).split("\n")

    assert shown[0].startswith(f"== f ({len(lines)} line")
    assert shown[1:] == [
        f"{number:>6}\t{line}"
        for number, line in enumerate(lines, 1)
        if first <= number <= (last or len(lines))
    ]


def test_lines_far_into_a_large_file_are_found() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1, 400_001))

    shown = shown_lines("log", data, 399_999, None, room=10_000)

    assert shown == "== log (400000 lines) ==\n399999\tline 399999\n400000\tline 400000"


@pytest.mark.parametrize("first", range(1, 41))
def test_a_line_is_found_wherever_the_steps_to_it_end(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(tool_text, "_STEP", 5)
    data = b"".join(b"%d\n" % number for number in range(1, 41))

    shown = shown_lines("f", data, first, first, room=100)

    assert shown == f"== f (40 lines) ==\n{first:>6}\t{first}"


def test_every_part_says_where_the_next_begins() -> None:
    data = b"x\n" * (2 * MAX_LINES + 5)
    read, first = 0, 1
    while True:
        *lines, last = shown_lines("f", data, first, None, room=10**6).split("\n")[1:]
        if not last.startswith("[..."):
            read += len(lines) + 1
            break
        read += len(lines)
        first = int(last.rpartition("f:")[2].partition("-")[0])

    assert read == 2 * MAX_LINES + 5


@pytest.mark.parametrize(
    ("data", "about"),
    [
        (codecs.BOM_UTF8 + "é\n".encode(), "1 line; UTF-8 with a byte order mark, which is kept"),
        (codecs.BOM_UTF16_LE + "é\n".encode("utf-16-le"), "1 line; UTF-16, which edit_file"),
        (codecs.BOM_UTF16_BE + "é\n".encode("utf-16-be"), "1 line; UTF-16, which edit_file"),
        ("é\r\n".encode(), "1 line; Windows line ends"),
    ],
)
def test_other_ways_to_write_text_are_read_and_named(data: bytes, about: str) -> None:
    head, line = shown_lines("f", data, 1, None, room=1_000).split("\n")

    assert head.startswith(f"== f ({about}")
    assert line == "     1\té"


def test_what_is_no_utf8_is_said_to_be_none() -> None:
    assert "not all of it UTF-8" in shown_lines("f", b"caf\xe9\n", 1, None, room=1_000)
    assert "UTF-8" not in shown_lines("f", "its own \ufffd\n".encode(), 1, None, room=1_000)


def test_a_minified_file_says_how_to_see_the_rest() -> None:
    shown = shown_lines("min.js", b"z" * 3_000_000, 1, None, room=10_000)

    assert len(shown) < 2_000
    assert "[... a line of 3,000,000 bytes]" in shown
    assert "exact_search shows what is around a text" in shown


async def test_an_open_range_goes_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")

    text = await Bench(tmp_path).text("read_files", paths=["a.txt:2-"])

    assert text == "== a.txt (3 lines) ==\n     2\t2\n     3\t3"


async def test_a_range_of_a_file_too_large_to_edit_is_read(tmp_path: Path) -> None:
    with (tmp_path / "big.log").open("w") as file:
        for number in range(1_200_001):
            file.write(f"line {number}\n")

    text = await Bench(tmp_path).text("read_files", paths=["big.log:1200000-1200001"])

    assert text.startswith("== big.log (1200001 lines) ==\n1200000\tline 1199999\n")
