import hashlib
import random

import pytest

from midstream.system import diff
from midstream.system.diff import MAX_SHOWN_CHARS, MAX_SHOWN_LINES, shown_change

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def shown(before: str | None, after: str) -> list[str]:
    data = None if before is None else before.encode()
    return shown_change("a.md", data, after.encode()).split("\n")


def test_a_change_is_shown_with_three_lines_around() -> None:
    assert shown(TEN, TEN.replace("line 5", "line V")) == [
        "--- a.md",
        "+++ a.md",
        "@@ -2,7 +2,7 @@",
        *(" line 2", " line 3", " line 4", "-line 5", "+line V", " line 6", " line 7", " line 8"),
    ]


def test_changes_far_apart_are_two_stretches() -> None:
    after = TEN.replace("line 1\n", "line I\n").replace("line 10\n", "line X\n")

    assert [line for line in shown(TEN, after) if line.startswith("@@")] == [
        "@@ -1,4 +1,4 @@",
        "@@ -7,4 +7,4 @@",
    ]


def test_a_new_file_shows_all_of_its_text() -> None:
    assert shown(None, "one\ntwo\n") == [
        "--- /dev/null",
        "+++ a.md",
        "@@ -0,0 +1,2 @@",
        "+one",
        "+two",
    ]


def test_a_file_that_becomes_empty_shows_what_it_loses() -> None:
    assert shown("one\n", "")[2:] == ["@@ -1,1 +0,0 @@", "-one"]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [("x\n", "x\n", "(nothing changes)"), (None, "", "(a new, empty file)")],
)
def test_what_changes_nothing_says_so(before: str | None, after: str, line: str) -> None:
    assert shown(before, after)[-1] == line


def test_a_last_line_without_its_newline_is_told_from_one_with_it() -> None:
    assert shown("one\n", "one")[2:] == [
        "@@ -1,1 +1,1 @@",
        *("-one", "+one", "\\ No newline at end of file"),
    ]


def test_line_ends_of_windows_and_other_controls_are_kept_for_the_face_to_escape() -> None:
    assert shown("one\n", "one\r\n\x1b[2J\n")[3:] == ["-one", "+one\r", "+\x1b[2J"]


@pytest.mark.parametrize("data", [b"\x89PNG\0\1", b"caf\xe9\n"])
def test_what_is_no_text_shows_its_size_and_digest(data: bytes) -> None:
    told = shown_change("a.bin", data, b"text\n")

    assert f"Before: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}." in told


@pytest.mark.parametrize(
    "after",
    [
        "x\n" * (MAX_SHOWN_LINES + 50),
        "y" * 200 + "\n" + "z" * (MAX_SHOWN_CHARS * 3),
        "z\n" * 300_000,
    ],
)
def test_what_is_left_out_is_counted_and_bound_by_a_digest(after: str) -> None:
    told = shown(None, after)
    other = shown(None, after[:-2] + "!\n")

    assert len("\n".join(told)) < MAX_SHOWN_CHARS + 500
    assert told[-1].startswith("[")
    assert "SHA-256 before: no file, after: " in told[-1]
    assert "more" in "\n".join(told[-2:])
    assert told[-1] != other[-1]


def test_no_file_can_hold_the_line_that_says_what_is_left_out() -> None:
    told = shown("[+9 more lines; x]\n--- b.md\n", "[+7 more lines; y]\n+++ b.md\n")

    assert [line for line in told if line.startswith("[")] == []
    assert told[:2] == ["--- a.md", "+++ a.md"]
    assert "--- b.md" not in told


@pytest.mark.parametrize(("before", "after"), [("a\nb\n", "a\nb  \n"), ("\n", "\t\n")])
def test_lines_that_look_the_same_are_said_to_differ(before: str, after: str) -> None:
    seen = shown_change("a.md", before.encode(), after.encode()).split("\n")

    assert seen[-1].startswith("[Lines that look the same differ in the blanks")


def test_lines_that_were_only_moved_are_not_said_to_look_the_same() -> None:
    assert "look the same" not in shown_change("a.md", b"a\nb\nc \n", b"b\nc \na\nd\n")


def test_a_rewritten_file_is_shown_whole_instead_of_compared_for_ever() -> None:
    before = "".join(f"{number % 7}\n" for number in range(1_400))
    after = "".join(f"{number % 5}\n" for number in range(1_400))

    told = shown_change("a.md", before.encode(), after.encode())

    assert told.startswith("--- a.md\n+++ a.md\n@@ -3,1398 +3,1398 @@\n 2\n 3\n 4\n-5\n-6\n-0\n")


def patched(before: str, shown: str) -> str:
    """Return a text after a difference, each line of which has to fit, as `patch` would."""
    old = before.split("\n")
    out: list[str] = []
    at = 0
    for line in shown.split("\n")[2:]:
        if line.startswith("@@"):
            start, count = line.split()[1][1:].split(",")
            until = int(start) - (count != "0")
            out += old[at:until]
            at = until
        elif line.startswith("\\"):
            out[-1] += "<no newline>"
        else:
            if line[0] in " -":
                assert old[at] == line[1:]
                at += 1
            if line[0] in " +":
                out.append(line[1:])
    return "\n".join(out + old[at:])


@pytest.mark.parametrize("most", [0, 3, 500])
def test_what_is_shown_is_all_that_changes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "MAX_COMPARED", most)
    chance = random.Random(most)
    for _ in range(400):
        lines = [chance.choice("abc") for _ in range(chance.randrange(40))]
        after = list(lines)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(after) + 1)
            after[at : at + chance.randrange(4)] = chance.choices("xab", k=chance.randrange(3))
        texts = ["".join(f"{line}\n" for line in each) for each in (lines, after)]
        told = shown_change("a.md", *(text.encode() for text in texts))
        if lines != after:
            assert patched(texts[0], told) == texts[1]
