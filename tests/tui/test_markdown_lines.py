"""Markdown is drawn, and nothing of what was written is hidden by it."""

import pytest

from midstream.tui.markdown import has_markdown, rendered
from midstream.tui.styled_lines import to_ansi, to_plain


def plain(text: str, width: int = 60) -> str:
    return to_plain(rendered(text, width=width))


def test_headings_lists_and_tables_lose_their_marks() -> None:
    text = plain(
        "# Title\n\nSome **bold** text\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )

    assert text.startswith("Title\n")
    assert "Some bold text\n" in text
    assert " • one\n" in text
    assert "|" not in text


@pytest.mark.parametrize(
    "text",
    [
        "a <script>tag</script> and List<String>",
        "[hidden]: http://example.org/secret",
        "![alt](http://example.org/picture)",
        "[words](http://example.org/target)",
        "<!-- a comment -->",
    ],
)
def test_markdown_hides_nothing(text: str) -> None:
    shown = plain(text)

    for word in ("script", "String", "secret", "picture", "target", "comment"):
        assert (word in text) == (word in shown)


def test_line_breaks_stay() -> None:
    assert plain("one *two*\nthree") == "one two\nthree\n"


def test_code_is_shown_as_written_from_the_first_column_on_and_neither_folded_nor_cut() -> None:
    long = "x" * 100
    shown = plain(f"Look:\n```py\nif a:\n    {long}\n\nb = 1\n```\nThat is it.", width=40)

    assert shown == f"Look:\n\nif a:\n    {long}\n\nb = 1\n\nThat is it.\n"


def test_code_within_a_list_and_a_quote_is_code_as_well() -> None:
    text = "1. Run\n\n   ```sh\n   echo a\n     echo b\n   ```\n2. Then\n\n> ```\n> x = 1\n> ```\n"

    assert plain(text) == " 1 Run\necho a\n  echo b\n 2 Then\n\nx = 1\n"


def test_a_text_with_the_sign_that_stands_for_code_is_a_text() -> None:
    assert plain("*a* \ue0000\ue000\n\n```\nx\n```") == "a \ue0000\ue000\n\nx\n"


def test_quotes_and_rules_are_written_as_they_were() -> None:
    assert plain("> quoted *words*\n> - a\n\n---\n") == "> quoted words\n>  • a\n\n---\n"


def test_a_control_smuggled_in_as_an_entity_is_made_visible() -> None:
    lines = rendered("*a* &#8238;b &#x9b;", width=60)
    text = "".join(to_ansi(line.fragments) for line in lines)

    assert "\u202e" not in text
    assert "\x9b" not in text


def test_rich_markup_and_emoji_codes_are_just_text() -> None:
    assert "[red]x[/red] :smile:" in plain("**b** [red]x[/red] :smile:")


def test_plain_words_are_told_from_markdown() -> None:
    assert has_markdown("some `code`")
    assert has_markdown("- item")
    assert not has_markdown("Plain words, nothing else.")
