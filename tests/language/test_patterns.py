"""Regular expressions that cannot run away: they find what Python's find, at a cost that is counted."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.language.patterns import BadPattern, compiled


def is_in(pattern: str, text: str) -> bool:
    return compiled(pattern).is_in(text)


def refusal(pattern: str) -> str:
    with pytest.raises(BadPattern) as caught:
        compiled(pattern)
    return f"{caught.value.column}: {caught.value}"


PIECES = st.sampled_from(
    [
        *"abA1_ .^$|()[]*+?{},-\\\néßı",
        *(r"\d", r"\w", r"\b", r"\B", r"\s", r"\W", r"\A", r"\Z", "(?:", "(?i)", "(?m)", "(?s)"),
        *("(?a)", "[^a]", "[a-b1]", "{2}", "{0,2}", "{1,}", "a*", "(a|b)"),
    ]
)
TEXTS = st.text(st.sampled_from("aabbA1_ \n.é$ßſKk"), max_size=8)


@settings(max_examples=1_500, deadline=None)
@given(st.lists(PIECES, max_size=9).map("".join), st.lists(TEXTS, min_size=1, max_size=4))
def test_what_is_taken_finds_what_python_finds(pattern: str, texts: list[str]) -> None:
    try:
        ours = compiled(pattern)
    except BadPattern:
        return
    theirs = re.compile(pattern)
    for text in texts:
        # In an empty text \B fits from Python 3.14 on, as it does here.
        is_odd = not text and "\\B" in pattern
        # A newline that a `$` has passed over is not found again behind it.
        is_odd |= "$" in pattern and text.endswith("\n")
        assert is_odd or ours.is_in(text) == bool(theirs.search(text))


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("fix|repair", "please repair it", True),
        ("^ok$", "ok", True),
        ("^ok$", "ok\n", True),
        ("^ok$", "ok\nmore", False),
        (r"(?m)^ok$", "not\nok\nmore", True),
        (r"(?im)^verdict:\s*(yes|no)\b", "Thoughts.\nVERDICT: Yes.", True),
        (r"\bcat\b", "concatenate", False),
        (r"a.c", "a\nc", False),
        (r"(?s)a.c", "a\nc", True),
        (r"[^a-c]", "abc", False),
        ("[^^a]", "^a", False),
        ("[^^a]", "b", True),
        ("(?i)FIX[A-C]", "fixb", True),
        (r"(?i)[^a]", "A", False),
        (r"\d{3}-\d{4}", "call 555-1234", True),
        (r"x{2,3}?y", "xy xxy", True),
        (r"(?P<name>a+)b", "aab", True),
        (r"[]^]", "^", True),
        (r"a{,2}b{}", "b{}", True),
        (r"\u00e9", "é", True),
        ("", "", True),
    ],
)
def test_the_kept_forms(pattern: str, text: str, found: bool) -> None:
    assert is_in(pattern, text) is found
    assert bool(re.search(pattern, text)) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|a)*b",
        "(a|aa)+b",
        "a*a*a*a*a*b",
        "(.*)(.*)(.*)b",
        "((a*)*)*b",
        r"(\w+\s?)*b",
        "a?" * 60 + "b",
    ],
)
def test_what_takes_python_years_is_looked_for_at_once(pattern: str) -> None:
    text = "a" * 20_000 + "!"

    assert not is_in(pattern, text)
    assert compiled(pattern).cost(text) < len(text)


def test_a_search_costs_more_where_much_is_counted_in_the_pattern() -> None:
    text = "word " * 1_000

    costs = [compiled(each).cost(text) for each in ("a+", "a{100}", "(a{20}){20}")]

    assert costs == [1_251, 16_251, 66_251]


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(a", '1: The pattern is wrong: a "(" is not closed.'),
        ("a)", '2: The pattern is wrong: there is a ")" without "(". Or write "\\)".'),
        ("[a", '1: The pattern is wrong: a "[" is not closed.'),
        ("*a", '1: The pattern is wrong: there is nothing to repeat. Such as "*" itself is "\\*".'),
        (
            "a**",
            "3: The pattern is wrong: one repetition follows another. Put the first one into a group.",
        ),
        (
            "a++",
            '2: The pattern is wrong: a possessive repetition is not supported. Leave out the second "+".',
        ),
        (r"(a)\1", '4: The pattern is wrong: "\\1" looks back at a group, which is not supported.'),
        (r"\q", '1: The pattern is wrong: "\\q" means nothing. A backslash itself is "\\\\".'),
        ("a{3,2}", "3: The pattern is wrong: the first number of a count is larger."),
        ("^*", '2: The pattern is wrong: there is nothing to repeat. Such as "*" itself is "\\*".'),
        ("[z-a]", "2: The pattern is wrong: bad character range z-a."),
        (
            "(?=a)",
            '1: The pattern is wrong: the group "(?=a" is not kept. '
            "Groups are ( ), (?: ) and (?P<name> ); no looking around, no flags inside.",
        ),
        (
            "(?x)a",
            '1: The pattern is wrong: the flags "x" are not supported. Supported flags: i m s a.',
        ),
        (
            "[[a]",
            '1: The pattern is wrong: "[" first or one of -- && ~~ || in a set is ambiguous. '
            "Write \\[ or \\-.",
        ),
        (
            r"\w{2000}",
            "1: The pattern is too large. Use a smaller count, or + or *.",
        ),
        (
            "((a{99}){99}){99}",
            "1: The pattern is too large. Use a smaller count, or + or *.",
        ),
        ("a{99999999999}", "1: The pattern is too large. Use a smaller count, or + or *."),
        ("a" * 301, "1: A pattern may have 300 characters, not 301."),
        ("\\", '1: The pattern is wrong: "\\" means nothing. A backslash itself is "\\\\".'),
    ],
)
def test_the_refusals(pattern: str, told: str) -> None:
    assert refusal(pattern) == told
