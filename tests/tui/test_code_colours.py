"""Code in colours: never another text, never a colour that vanishes, never for long."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.tui.markdown import MAX_CODE_CHARS, highlighted, rendered
from midstream.tui.themes import NO_COLOUR, THEMES, sgr

PYTHON = (
    '@cached\ndef f(x: int) -> str:\n    """Doc."""\n    return "a" if x > 1 else None  # why\n'
)
READABLE = {"", "1", *THEMES["auto"].colours}


def text_of(code: str, language: str) -> str:
    return "".join(text for _, text in highlighted(code, language))


def test_kinds_of_words_have_styles_of_their_own() -> None:
    styles = {text: style for style, text in highlighted(PYTHON, "py")}

    assert styles["def"] == "keyword"
    assert styles["f"] == "1"
    assert styles['"a"'] == "string"
    assert styles["# why"] == "muted"


@pytest.mark.parametrize(
    "language", ["python", "c++", "diff", "json", "bash", "sql", "html", "yaml"]
)
@given(code=st.text(st.sampled_from("ab\n\t \"'#{}()<>:-+/*\\é中1"), max_size=80))
@settings(max_examples=40, deadline=None)
def test_a_text_is_never_changed_and_its_colours_can_be_read(language: str, code: str) -> None:
    found = highlighted(code, language)

    assert "".join(text for _, text in found) == code
    assert {style for style, _ in found} <= READABLE


@pytest.mark.parametrize(
    ("code", "language"),
    [
        (PYTHON, ""),
        (PYTHON, "text"),
        (PYTHON, "no-such-language"),
        (PYTHON, "../../etc/passwd"),
        ("x = 1\n" * (MAX_CODE_CHARS // 6 + 1), "python"),
        ("x = 1" + " " * 600, "python"),
    ],
)
def test_what_is_unknown_or_large_stays_plain(code: str, language: str) -> None:
    assert highlighted(code, language) == [("", code)]


def test_what_takes_too_long_stays_plain() -> None:
    assert highlighted(PYTHON, "python", until=0.0) == [("", PYTHON)]


def test_a_blocks_language_colours_it_from_the_first_column_on() -> None:
    lines = rendered("```python\ndef f(): pass\n```", width=40)

    (line,) = lines
    assert line.mark == ""
    assert [(style, text) for style, text in line.fragments if text.strip()] == [
        ("keyword", "def"),
        ("1", "f"),
        ("", "(): "),
        ("keyword", "pass"),
    ]


def test_markdown_has_no_colour_that_vanishes() -> None:
    text = "# A\n\n[link](http://x.y)\n\n> quote\n\n* item\n\n1. one\n\n---\n\n`code`\n"
    lines = rendered(text, width=40)

    codes = {code for line in lines for style, _ in line.fragments for code in style.split(";")}
    assert codes <= {*READABLE, "3", "4", "9"}


def test_controls_in_code_are_visible() -> None:
    (line,) = rendered("```python\nx = '\x1b[2J'\n```", width=40)

    assert "␛[2J" in "".join(text for _, text in line.fragments)


def test_without_colour_code_keeps_its_weight() -> None:
    styles = {sgr(style, NO_COLOUR) for style, _ in highlighted(PYTHON, "python")}

    assert styles <= {"", "1", "2"}
