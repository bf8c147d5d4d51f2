"""Edits: exact or not at all, and what is said of one that does not fit."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolbench import Bench

from midstream.language.errors import UserMistake
from midstream.tools.edits import Edit, edited

CODE = """\
def price(a):
    if a:
        return "x"

    return 'y'
def total(b):
\treturn b + 1\x20\x20
class Foo:
    pass
"""


def refusal(text: str, *edits: Edit) -> str:
    with pytest.raises(UserMistake) as caught:
        edited(text, list(edits))
    return str(caught.value)


def replacing(old: str, new: str = "new text", *, replace_all: bool = False) -> Edit:
    return Edit(old_text=old, new_text=new, replace_all=replace_all)


# --- what holds of all edits --------------------------------------------------------------------

pieces = st.text(alphabet="ab\n \t", max_size=6)
texts = st.text(alphabet="ab\n \t", max_size=60)
any_edits = st.lists(st.builds(Edit, old_text=pieces, new_text=pieces, replace_all=st.booleans()))


def attempted(text: str, edits: list[Edit]) -> tuple[str | None, str]:
    try:
        return edited(text, edits)
    except UserMistake as error:
        return None, str(error)


def naive(text: str, edits: list[Edit]) -> str | None:
    """Return the text as plain replacing makes it, None where an edit may not be made."""
    whole = text
    for edit in edits:
        old, new = edit.old_text, edit.new_text
        starts = [at for at in range(len(text)) if old and text.startswith(old, at)]
        if not starts or old == new or (len(starts) > 1 and not edit.replace_all):
            return None
        text = text.replace(old, new)
    return None if text == whole else text


@given(text=texts, edits=any_edits.filter(bool))
def test_edits_are_plain_replacements_all_or_none(text: str, edits: list[Edit]) -> None:
    made, words = attempted(text, edits)

    assert made == naive(text, edits)
    assert made is not None or words.startswith("Nothing was changed:")


@given(text=texts, data=st.data())
def test_an_edit_of_a_line_that_stands_once_changes_nothing_else(
    text: str, data: st.DataObject
) -> None:
    line = "a line that stands once"
    at = data.draw(st.integers(min_value=0, max_value=len(text)))

    made, _ = edited(text[:at] + line + text[at:], [replacing(line, "other words")])

    assert made == text[:at] + "other words" + text[at:]


@example(old="\u200b", text="")
@given(old=st.text(min_size=1), text=st.text(max_size=300))
def test_whatever_does_not_fit_is_answered_in_words(old: str, text: str) -> None:
    if old not in text:
        assert "did not fit" in refusal(text, replacing(old, old + "x"))


@given(lines=st.lists(st.text(alphabet="ab ", max_size=5), min_size=2, max_size=8))
def test_windows_line_ends_are_kept_whatever_the_edit(lines: list[str]) -> None:
    text = "\r\n".join([*lines, "the last", ""])

    made, _ = edited(text, [replacing("the last\n", "one\ntwo\r\nthree\n")])

    assert made == "\r\n".join([*lines, "one", "two", "three", ""])


@given(text=st.text(alphabet="ab\n", max_size=30))
def test_a_byte_order_mark_stays_where_it_is(text: str) -> None:
    made, _ = edited(f"\ufefffirst\n{text}", [replacing("first\n", "1\n")])

    assert made == f"\ufeff1\n{text}"


# --- what is refused ----------------------------------------------------------------------------


def test_places_that_overlap_are_not_one_place() -> None:
    words = refusal("x\n}\n}\n}\n", replacing("}\n}\n", "}\n"))

    assert "fits places that overlap, from line 2 on" in words


def test_edits_that_undo_each_other_are_told() -> None:
    assert "undo each other" in refusal("a b", replacing("a", "c"), replacing("c", "a"))


def test_an_edit_of_what_an_earlier_one_took_away_says_so() -> None:
    words = refusal(CODE, replacing("class Foo", "class Bar"), replacing("class Foo", "class Baz"))

    assert "edit 2 of 2 did not fit" in words
    assert "before the edits above it" in words


def test_of_two_edits_of_the_same_lines_the_second_is_told_how_they_stand_now() -> None:
    words = refusal(
        CODE,
        replacing("        return \"x\"\n\n    return 'y'", "        return 1\n\n    return 2"),
        replacing("    return 'y'\ndef total(b):", "    return 'z'\ndef total(b):"),
    )

    assert "edit 2 of 2 did not fit" in words
    assert (
        "Make one edit of those that change the same lines, or write it as they leave it." in words
    )
    assert '  file:     "    return 2"\n  old_text: "    return \'y\'"' in words


def test_edits_with_the_same_old_text_are_named() -> None:
    twice = refusal(CODE, replacing("class Foo", "class Bar"), replacing("class Foo", "class Baz"))
    each = refusal("a\nb\na\n", replacing("a\n", "x\n"), replacing("a\n", "y\n"))

    assert "Edit 1 has the same old_text: leave one out, or where they mean several" in twice
    assert "edit 1 of 2 fits 2 places, at lines 1, 3. Add lines" in each
    assert "Edit 2 has the same old_text: each needs the lines around its own place." in each


def test_a_second_place_that_an_earlier_edit_made_is_told_from_one_that_was_there() -> None:
    words = refusal("a\nb\n", replacing("a", "b"), replacing("b", "c"))

    assert "at lines 1, 2 of the file as the edits above it leave it" in words
    assert "One of them was there before: make this edit first." in words


def test_edits_side_by_side_are_both_made() -> None:
    made, report = edited("one\ntwo\n", [replacing("one\n", "1\n"), replacing("two", "2")])

    assert made == "1\n2\n"
    assert report == "replaced at line 1; replaced at line 2"


def test_an_edit_may_be_of_what_an_earlier_one_put_there() -> None:
    made, _ = edited("a\n", [replacing("a", "def f():"), replacing("def f():", "def g():")])

    assert made == "def g():\n"


def test_an_edit_that_was_made_already_says_so() -> None:
    words = refusal(CODE, replacing("return 'z'", "return 'y'"))

    assert "Its new_text is there already, at line 5." in words


def test_an_edit_without_an_old_text_names_the_tool_for_new_files() -> None:
    assert "write_file" in refusal("", replacing(""))


# --- near misses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("def price(a):\n  if a:", "Line 2: indentation (4 spaces in the file, 2 spaces in"),
        ("def total(b):\n    return b + 1", "Line 7: indentation (1 tab in the file, 4 spaces in"),
        ("\treturn b + 1\n", "Line 7: trailing blanks (2 spaces in the file, none in old_text)."),
        ("\n  return 'y'", "Line 5: indentation (4 spaces in the file, 2 spaces in old_text)."),
        ("return b  + 1", "Line 7: blanks."),
        ("return b+1", "Line 7: blanks."),
        ("return “x”", "Line 3: quotes."),
        ('return "y"', "Line 5: quotes."),
        ("CLASS foo:", "Line 8: upper and lower case."),
        ("return\u00a0b + 1", "Line 7: characters that look alike (plain ones in the file, U+00A0"),
        (
            "class\u200b Foo:",
            "look alike (plain ones in the file, U+200B ZERO WIDTH SPACE in old_text).",
        ),
        ("p\u0430ss", "look alike (plain ones in the file, U+0430 CYRILLIC SMALL LETTER A in"),
        ("Class foo:\n        pass", "differ only in upper and lower case and indentation:"),
        ('return "x"\n    return', "differ only in blank lines:"),
    ],
)
def test_a_near_miss_names_how_it_differs(old: str, words: str) -> None:
    found = refusal(CODE, replacing(old))

    assert "The nearest lines differ only in " in found
    assert words in found


def test_a_near_miss_quotes_the_lines_as_they_stand() -> None:
    words = refusal(CODE, replacing("def total(b):\n    return b + 1"))

    assert "\n     6\tdef total(b):\n     7\t\treturn b + 1  \nLine 7" in words


def test_several_near_misses_are_all_named() -> None:
    assert "So do those from line 3, 5 on." in refusal("A b\nx\na B\ny\nA B\n", replacing("a b"))


def test_copied_line_numbers_are_named() -> None:
    words = refusal(CODE, replacing("     5\t    return 'y'\n     6\tdef total(b):"))

    assert "numbers, as read_files shows them: leave them out" in words
    assert "Without them it is at line 5." in words


def test_copied_line_numbers_of_what_is_not_there_either_are_named() -> None:
    words = refusal(CODE, replacing("     8\tclass Foo:\n     9\t\tpass"))

    assert "leave them out. Without them it does not fit either." in words
    assert "Line 9: indentation (4 spaces in the file, 1 tab in old_text)." in words


def test_numbers_that_are_the_text_are_not_taken_for_copied_ones() -> None:
    words = refusal("1: one\n2: two\n", replacing("1: one\n2: too"))

    assert "leave them out" not in words
    assert "2: two" in words


def test_numbers_upon_numbers_are_answered_in_words() -> None:
    assert "leave them out" in refusal(CODE, replacing("1\t" * 5_000))


def test_a_text_escaped_twice_is_named() -> None:
    assert "two characters each" in refusal(CODE, replacing("class Foo:\\n    pass"))


@pytest.mark.parametrize(
    ("text", "old", "words"),
    [
        ("x\r\na\r\nb\nq", "a\nb", "at line 2, but for the line ends: the file has both"),
        ("a\nb\n", "a\r\nb", "the file has \\n, old_text \\r\\n"),
    ],
)
def test_other_line_ends_are_named(text: str, old: str, words: str) -> None:
    assert words in refusal(text, replacing(old))


@pytest.mark.parametrize(
    ("text", "old", "words"),
    [
        ("a\nb", "b\n", "It is at line 2, but the file does not end with a line break"),
        ("a\r\nb", "b\r\n", "It is at line 2, but the file does not end with a line break"),
        ("a\nb\n", "\na\nb", "It is at line 1, where no line break comes before it"),
        ("f(a,\n  b)\n", "f(a, b)", "The same words are at lines 1-2, with other line breaks:"),
        ("f(a, b)\n", "f(a,\n  b)", "The same words are at line 1, with other line breaks:"),
        ("a\rb\rc\r", "b\nc", "The same words are at line 1, with other line breaks:"),
        ("if a < b:\n", "if a &lt; b:", "written for HTML (such as &lt; for <)"),
        ("x\na = 1\n", "```python\na = 1\n```", "Without the ``` lines around it it is at line 2"),
        (
            "a\nb\nc\nd\n",
            "a\n# ... existing code ...\nd",
            "nothing can stand for lines of the file",
        ),
        ("a\nb\nc\nd\n", "a\n...\nd", "old_text has the line '...'"),
    ],
)
def test_mistakes_that_are_made_again_and_again_are_named(text: str, old: str, words: str) -> None:
    assert words in refusal(text, replacing(old))


def test_a_line_of_three_dots_that_is_the_files_own_is_not_taken_for_one_left_out() -> None:
    assert "stand for" not in refusal("class A:\n    ...\n", replacing("class B:\n    ..."))


def test_a_line_that_was_forgotten_is_among_those_shown() -> None:
    words = refusal("a = 1\nb = 2\nc = 3\n", replacing("a = 1\nc = 3"))

    assert "     3\tc = 3" in words


def test_in_a_long_file_the_lines_around_one_that_fits_are_compared() -> None:
    text = "".join(f"line number {at}\n" for at in range(1, 50_001))

    words = refusal(text, replacing("line number 40000\nline number 40001 as it was"))

    assert "\n 40000\tline number 40000\n 40001\tline number 40001\n" in words
    assert "What differs first, at line 40001 (line 2 of old_text):" in words
    assert "(Only lines 30000-49999 of 50001 were compared.)" in words


def test_in_a_long_file_where_no_line_fits_what_was_not_compared_is_said() -> None:
    text = "".join(f"line number {at}\n" for at in range(1, 30_001))

    words = refusal(text, replacing("LINE NUMBER 29000"))

    assert "(Only lines 1-20000 of 30001 were compared.)" in words


def test_what_is_only_like_it_is_shown_with_the_first_difference() -> None:
    words = refusal(CODE, replacing('def price(a):\n    if a is None:\n        return "x"'))

    assert "What differs first, at line 2 (line 2 of old_text):" in words
    assert '  file:     "    if a:"\n  old_text: "    if a is None:"' in words


def test_a_change_by_somebody_else_in_the_middle_still_finds_the_lines() -> None:
    text = "\n".join(f"line number {at}" for at in range(1, 400))
    old = "line number 200\nline number 201 as it was\nline number 202"

    assert "\n   200\tline number 200\n" in refusal(text, replacing(old))


async def test_nothing_that_nearly_fits_is_written(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    edits = [
        {"old_text": "class Foo", "new_text": "class Bar"},
        {"old_text": "RETURN b", "new_text": "x"},
    ]

    await Bench(tmp_path).failure("edit_file", path="code.py", edits=edits)

    assert (tmp_path / "code.py").read_text() == CODE
