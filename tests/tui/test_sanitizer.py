"""Nothing foreign moves a terminal's cursor, changes its modes, hides words or reorders them."""

import base64

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.safety.sanitize import masked, sanitized, scrubbed
from midstream.tui.desktop import copying
from midstream.tui.styled_lines import LEFT_TO_RIGHT, Line, rows, to_ansi

nasty = st.text(
    st.one_of(
        st.characters(exclude_categories=()),
        st.sampled_from(
            "\x00\x07\x08\x1b\x7f\x9b\x9d\u202e\u2066\u200b\u200d\ufe0f\U000e0041\ud800"
        ),
        st.sampled_from("[]0123456789;?hlmJHABu\\\r\n\t "),
    ),
    max_size=80,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, naïve – 中文 ünï", "plain words, naïve – 中文 ünï"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("a\x00b\x07c\x7f", "a␀b␇c␡"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten", "over␍written"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("pass\u200dword", "pass\\u200dword"),
        ("a\ufe0f", "a\\ufe0f"),
        ("\ufeffbom", "\\ufeffbom"),
        ("fill\u3164er", "fill\\u3164er"),
        ("half \ud83d", "half \ufffd"),
        ("line\u2028separator", "line\\u2028separator"),
        ("\u0301at the start", "\\u0301at the start"),
    ],
)
def test_what_a_terminal_would_obey_or_a_reader_not_see_is_made_visible(
    text: str, shown: str
) -> None:
    assert sanitized(text) == shown


@pytest.mark.parametrize("text", ["👨‍👩‍👧‍👦", "❤️", "1️⃣", "می‌خواهم", "क्‍ष", "e\u0301te\u0301", "👍🏽"])
def test_what_scripts_and_emoji_need_passes(text: str) -> None:
    assert sanitized(text) == text


def test_marks_piled_on_one_letter_are_cut_off_after_eight() -> None:
    assert sanitized("x" + "\u0301" * 10) == "x" + "\u0301" * 8 + "\\u0301\\u0301"


@given(nasty)
def test_sanitizing_twice_changes_nothing(text: str) -> None:
    once = sanitized(text)

    assert sanitized(once) == once
    assert not any(ord(char) < 32 and char not in "\n\t" for char in once)
    once.encode("utf-8")


@given(nasty)
def test_a_masked_text_keeps_its_length_and_holds_no_control(text: str) -> None:
    shown = masked(text)

    assert len(shown) == len(text)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in shown)


@given(nasty)
def test_a_scrubbed_text_can_be_stored(text: str) -> None:
    scrubbed(text).encode("utf-8")


@given(nasty, st.integers(min_value=4, max_value=60))
def test_no_foreign_text_reaches_the_first_column_or_changes_the_screen(
    text: str, width: int
) -> None:
    screen = pyte.Screen(width, 400)
    stream = pyte.Stream(screen)
    modes = set(screen.mode)
    line = Line((("31", text),), "▌ ", "36", "▌ ")

    laid = rows(line, width)
    for row in laid:
        # A sign without a cell begins no row on a terminal; behind a full one it does on this screen.
        stream.feed(to_ansi(row).replace(LEFT_TO_RIGHT, "") + "\r\n")

    assert all(display[0] == "▌" for display in screen.display[: len(laid)])
    assert not "".join(screen.display[len(laid) :]).strip()
    assert screen.cursor.y == len(laid)
    assert (set(screen.mode), screen.title) == (modes, "")


# --- the clipboard --------------------------------------------------------------------------------


def test_a_text_goes_into_the_clipboard_of_a_terminal_that_is_known_to_take_it() -> None:
    sequence = copying("x = 1\n\x1b[201~rm", {"KITTY_WINDOW_ID": "1"})

    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\x07")
    assert base64.b64decode(sequence[7:-1]).decode() == "x = 1\n␛[201~rm"


@pytest.mark.parametrize("environ", [{}, {"KITTY_WINDOW_ID": "1", "TMUX": "x"}, {"TERM": "xterm"}])
def test_elsewhere_nothing_is_sent(environ: dict[str, str]) -> None:
    assert copying("x", environ) == ""


def test_what_a_terminal_would_drop_is_not_sent() -> None:
    assert copying("x" * 60_000, {"KITTY_WINDOW_ID": "1"}) == ""
