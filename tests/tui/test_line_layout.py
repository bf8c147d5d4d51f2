"""Lines become rows: never wider than the terminal, never a letter lost, always marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.tui.styled_lines import Line, lines_of, rows, to_ansi, to_plain, without_end
from midstream.tui.themes import NO_COLOUR, sgr
from midstream.views.cells import clipped, width_of

words = st.text(st.sampled_from("ab ä中👍\t"), max_size=120)


def shown(line: Line, width: int) -> list[str]:
    return ["".join(text for _, text in row) for row in rows(line, width)]


def test_a_short_line_is_one_row_behind_its_mark() -> None:
    assert shown(Line((("", "hello"), ("1", " you")), "→ "), 40) == ["→ hello you"]


def test_a_long_line_breaks_at_spaces_and_repeats_its_gutter() -> None:
    line = Line((("", "one two three four"),), "▌ ", "", "▌ ")

    assert shown(line, 12) == ["▌ one two ", "▌ three four"]


def test_no_row_begins_with_the_blank_the_line_breaks_at() -> None:
    line = Line((("", "one two three"),), "| ", "", "| ")

    assert shown(line, 9) == ["| one ", "| two ", "| three"]


def test_styles_survive_a_break_in_the_middle_of_a_fragment() -> None:
    line = Line((("31", "red red red"), ("32", "green")), "")

    assert rows(line, 8) == [[("31", "red red ")], [("31", "red"), ("32", "green")]]


def test_a_newline_inside_a_fragment_cannot_shake_off_the_gutter() -> None:
    line = Line((("", "a\n› /exit"),), "▌ ", "", "▌ ")

    assert shown(line, 40) == ["▌ a␊› /exit"]
    assert to_plain([line]) == "▌ a␊› /exit\n"


def test_wide_letters_are_counted_as_two_cells() -> None:
    assert shown(Line((("", "中文中文"),), ""), 4) == ["中文", "中文"]
    assert width_of("中a") == 3


@given(words, words, st.integers(min_value=4, max_value=40))
def test_rows_fit_and_hold_every_letter(first: str, second: str, width: int) -> None:
    line = Line((("1", first), ("", second)), "", "", "")

    laid = shown(line, width)

    assert all(width_of(row) <= width for row in laid)
    # What could pass for a mark of ours at the beginning of a row has blanks before it.
    written = first.expandtabs(4) + second.expandtabs(4)
    assert "".join(laid).replace(" ", "") == written.replace(" ", "")


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_even_on_a_few_columns_something_is_shown(width: int) -> None:
    laid = shown(Line((("", "hello"),), "▌ ", "", "▌ "), width)

    assert "h" in "".join(laid)


def test_clipping_says_that_something_was_cut() -> None:
    assert clipped("abcdef", 4) == "abc…"
    assert clipped("abcd", 4) == "abcd"


def test_lines_after_the_first_stand_under_it() -> None:
    assert to_plain(lines_of("one\ntwo", mark="· ")) == "· one\n  two\n"


def test_without_colour_bold_stays() -> None:
    assert sgr("1;accent", NO_COLOUR) == "1"
    assert to_ansi([("1;accent", "x"), ("failed", "y")], NO_COLOUR) == "\x1b[1mx\x1b[0my"


# --- text that runs from right to left ----------------------------------------------------------


def test_right_to_left_text_turns_round_within_its_fragment_alone() -> None:
    row = [("accent", "▌ "), ("", "שלום עולם"), ("muted", " · 120 lines")]

    drawn = to_ansi(row)
    assert drawn == (
        "\u200e\x1b[0m\x1b[36m▌ \u200e\x1b[0mשלום עולם\u200e\x1b[0m\x1b[2m · 120 lines\u200e\x1b[0m"
    )
    assert drawn.replace("\u200e", "").replace("\x1b[0m", "").endswith(" · 120 lines")


@pytest.mark.parametrize("text", ["plain", "中文 👍", "été", "ру́сский"])
def test_any_other_text_gets_no_such_mark(text: str) -> None:
    assert "\u200e" not in to_ansi([("36", "▌ "), ("", text)])


@pytest.mark.parametrize("text", ["שלום", "مرحبا بالعالم", "ܫܠܡܐ", "ﷺ"])
def test_the_mark_takes_no_cell(text: str) -> None:
    drawn = to_ansi([("", "▌ "), ("", text)])

    assert drawn.count("\u200e") == 3
    assert width_of("\u200e") == 0


# --- lines that shrink --------------------------------------------------------------------------


LONG = Line(
    (("", f"run({'x' * 60})"), ("2", " · exit 1 · 40 lines")),
    "✗ ",
    "31",
    shrinks=f"run({'x' * 60})",
)


def test_a_line_shrinks_where_it_then_fits_on_one_row() -> None:
    assert shown(LONG, 60) == [f"✗ run({'x' * 33}… · exit 1 · 40 lines"]
    assert shown(LONG, 200) == [f"✗ run({'x' * 60}) · exit 1 · 40 lines"]


def test_what_would_not_fit_anyway_is_shown_whole() -> None:
    assert "".join(shown(LONG, 30)).count("x") == 61


def test_in_a_pipe_nothing_is_cut() -> None:
    assert to_plain([LONG]) == f"✗ run({'x' * 60}) · exit 1 · 40 lines\n"


# --- foreign text in the first column -----------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["!keep", "?? new.py", "#include <a>", "|a|", "éte", "中文", "„So“"]
)
def test_a_line_without_a_mark_stands_as_it_was_written(text: str) -> None:
    assert to_plain([Line((("", text),))]) == f"{text}\n"


@pytest.mark.parametrize(
    "text", ["› x", "✔ x", "! x", "!", "? ", "│   ├── x", "✅ x", "ǃ x", "\xa0x"]
)
def test_what_could_pass_for_a_mark_moves_in(text: str) -> None:
    assert shown(Line((("", text),)), 40) == [f"  {text}"]
    assert to_plain([Line((("", text),))]) == f"  {text}\n"


def test_a_mark_that_would_begin_a_further_row_moves_in() -> None:
    assert shown(Line((("", "one two › three"),)), 8) == ["one two ", "  › ", "three"]


def test_a_line_of_code_is_left_to_the_terminal_unless_a_row_could_begin_like_ours() -> None:
    safe = Line((("1", "x = "), ("", "a" * 30)), is_code=True)
    ours = Line((("", "x = " + "›" * 30),), is_code=True)

    assert [width_of(row) for row in shown(safe, 20)] == [34]
    assert all(width_of(row) <= 20 for row in shown(ours, 20))
    assert all(row.startswith(("x", "  ›")) for row in shown(ours, 20))


def test_nothing_is_printed_behind_the_end_of_a_row() -> None:
    assert without_end([("1", "a  "), ("", "  ")]) == [("1", "a")]


@pytest.mark.parametrize("width", [2, 3, 5])
def test_an_accent_never_becomes_part_of_a_mark_without_its_space(width: int) -> None:
    row = shown(Line((("", "\u1b70a"),), mark="▌ "), width)[0]

    assert row == "▌a"
