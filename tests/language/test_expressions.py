"""Conditions: what may be said in them, what they come to, and what is refused before they run."""

from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from midstream.language.expressions import BadExpression, ExpressionFailed, compiled

VALUES: dict[str, Any] = {
    "common_data": {
        "count": 3,
        "score": 7.5,
        "done": False,
        "files": [{"name": "a.py"}, {"name": "b.py"}],
        "tags": ["red", "blue"],
        "user-name": "Ada",
        "items": [1, 2],
        "format": "pdf",
        "__class__": "a key like any other",
        "nothing": None,
    },
    "input": "Fix the parser",
    "last": {"text": "LGTM\nVerdict: yes", "arguments": {"verdict": "yes"}, "value": None},
    "resume_input": None,
    "variables": {"limit": 3},
    "visits": {"start": 1, "review": 4},
}


def value_of(text: str, values: dict[str, Any] = VALUES) -> object:
    return compiled(text).evaluate(values)


def refusal(text: str) -> str:
    with pytest.raises(BadExpression) as caught:
        compiled(text)
    return f"{caught.value.column}: {caught.value}"


def failure(text: str, values: dict[str, Any] = VALUES) -> str:
    with pytest.raises(ExpressionFailed) as caught:
        value_of(text, values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("common_data.score >= 7 and not common_data.done", True),
        ("'LGTM' in last.text or visits.review > 3", True),
        ("matches(lower(input), 'fix|repair') and len(common_data.files) < 20", True),
        ("1 < common_data.count <= 3 < 4", True),
        ("1 < common_data.count <= 2 < 4", False),
        ("common_data['user-name'] == \"Ada\"", True),
        ("common_data.files[0].name", "a.py"),
        ("common_data.files[-1]['name']", "b.py"),
        ("'red' in common_data.tags and 'green' not in common_data.tags", True),
        ("'count' in common_data", True),
        ("last.arguments.verdict in ('yes', 'y')", True),
        ("common_data.count + 1 - 2 * 3 / 4", 2.5),
        ("common_data.count // 2 + common_data.count % 2", 2),
        ("-common_data.count", -3),
        ("'a' + 'b'", "ab"),
        ("([1] + [2])[1]", 2),
        ("min(3, common_data.count, 9)", 3),
        ("max(common_data.items)", 2),
        ("min('b', 'a')", "a"),
        ("any([0, common_data.tags]) and all(common_data.items)", True),
        ("len('äöü') + len(common_data.tags) + len(visits)", 7),
        ("common_data.files != []", True),
        ("common_data.nothing is None and common_data.count is not None", True),
        ("resume_input or 'none'", "none"),
        ("visits.start + visits.never_entered", 1),
        (r"matches(last.text, '(?m)^Verdict:\s+yes$')", True),
        (r"'\n' in last.text and '\\' not in last.text", True),
        ("  input ==\n 'Fix the parser'", True),
        ("None", None),
    ],
)
def test_what_an_expression_comes_to(text: str, value: object) -> None:
    assert value_of(text) == value


def test_a_key_is_a_key_whatever_python_calls_so() -> None:
    assert value_of("common_data.items") == [1, 2]
    assert value_of("common_data.format") == "pdf"
    assert value_of("common_data.__class__") == "a key like any other"
    assert value_of("common_data.get") is None


@pytest.mark.parametrize(
    "text",
    [
        "common_data.x",
        "common_data.x.y.z",
        "common_data.files[7].name",
        "common_data['x']",
        "last.value.x",
    ],
)
def test_what_is_not_there_is_null(text: str) -> None:
    assert value_of(text) is None
    assert value_of(f"not {text} and {text} is None and {text} != 1") is True
    assert value_of(text, {}) is None


def test_what_needs_a_value_says_which_one_is_missing() -> None:
    assert failure("common_data.cuont > 2") == (
        '">" orders two numbers or two texts, and common_data.cuont is not there. Did you mean '
        "'count'? If it may be missing, check first: common_data.cuont is not None and ..."
    )
    assert failure("len(last.arguments.findings)") == (
        "len takes text, a list or an object, and last.arguments.findings is not there. last.arguments "
        "has: verdict. If it may be missing, check first: last.arguments.findings is not None and ..."
    )
    assert failure("lower(common_data.nothing)") == (
        "lower takes text, and common_data.nothing is null. "
        "If it may be missing, check first: common_data.nothing is not None and ..."
    )
    assert failure("common_data.files[5].name + 'x'") == (
        '"+" calculates with numbers, and common_data.files[5].name is not there. common_data.files is '
        "a list of 2, numbered from 0. If it may be missing, check first: "
        "common_data.files[5].name is not None and ..."
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("common_data.count.x", "common_data.count is a number: it has no parts."),
        ("input[0]", "input is text: it has no parts."),
        (
            "common_data.files.name",
            "common_data.files is a list: its items have numbers. common_data.files[0]",
        ),
        ("common_data[1]", "common_data is an object: its parts have names, not a number."),
        (
            "common_data.count < input",
            '"<" orders two numbers or two texts, not a number and text.',
        ),
        ("common_data.done + 1", '"+" calculates with numbers, not true or false.'),
        ("input * 3", '"*" calculates with numbers, not text.'),
        ("input % 3", '"%" calculates with numbers, not text.'),
        ("[1] * 3", '"*" calculates with numbers, not a list.'),
        ("1 in input", '"in" looks for text in text, not a number.'),
        ("1 in 2", '"in" looks into a list, an object or text, not a number.'),
        ("len(3)", "len takes text, a list or an object, not a number."),
        ("max(3)", "max takes a list or several values, not a number."),
        ("max(3, 'a')", "max takes numbers only or texts only, not text."),
        ("min([])", "min of an empty list is nothing."),
        ("any(3)", "any takes a list, not a number."),
        ("matches(3, 'a')", "matches takes text, not a number."),
        ("1 / 0", "It divides by zero. Check the divisor first: n != 0 and x / n > 1."),
        ("9223372036854775807 + 1", "A whole number grows beyond 64 bits."),
        ("1e308 * 10", "A number grows too large or is not a number."),
        ("None < 1", '"<" orders two numbers or two texts, not None.'),
    ],
)
def test_what_fails_says_so(text: str, told: str) -> None:
    assert failure(text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1: The expression is empty. Without when, a transition is always taken."),
        (
            "comon_data.x",
            "1: there is no name \"comon_data\" in an expression. Did you mean 'common_data'?",
        ),
        ("input == true", '10: there is no name "true" in an expression. Did you mean True?'),
        (
            "last_response",
            '1: there is no name "last_response" in an expression. Did you mean last.text?',
        ),
        ("length(input)", '1: there is no function "length" in an expression. Did you mean len?'),
        ("len > 1", '1: "len" is a function, which has to be called. Write len(...).'),
        ("len(input, input)", "1: len takes one value, not 2."),
        ("max(input, key=len)", "1: max takes no named values."),
        ("input.lower()", '1: ".lower(...)" cannot be called. Write lower(...) around the value.'),
        ("input = 'a'", '7: Python cannot read it from "= \'a\'" on. Write "==" to compare.'),
        ("input == 'a' && last", '14: "&" has no place here. Write "and".'),
        ("!input", '1: "!" has no place here. Write "not", or "!=" for unequal.'),
        ("${input} == 1", '1: "$" has no place here. Write names without ${ } here.'),
        (
            "input == 'a",
            "10: A text is not closed. A text ends with the quote it began with. Inside it use the "
            "other one.",
        ),
        (
            "common_data.class",
            '13: "class" is a word of Python\'s own. Write ["class"] without the dot.',
        ),
        ("common_data.a.0", "14: A part after a dot is a name. Write [0] for an item of a list."),
        ("input is 'a'", '10: "is" asks for None only. Write "==".'),
        (
            "input, last",
            '1: A list is not a condition: it is always true. Join with "and" or "or".',
        ),
        (
            r"input == '\d'",
            '10: "\\d" means nothing in a text. There are \\n, \\t and \\\\; patterns belong into '
            'matches(text, "...").',
        ),
        (r"matches(input, '(a')", '17: The pattern is wrong: a "(" is not closed.'),
        (
            "matches(input, last.text)",
            "16: The pattern of matches is a text written here. A pattern from elsewhere could not be "
            "checked before the run.",
        ),
        (
            r"matches(input, r'\d')",
            '17: Texts have no mark like "r" before them. A backslash in a pattern needs no second one.',
        ),
        ("99999999999999999999 > 1", "1: This number has more than 64 bits."),
        (
            "1 and " * 70 + "1",
            "379: The expression has more than 64 parts. Use several transitions, or let a "
            "transition_handler decide.",
        ),
        (
            "not " * 20 + "1",
            "65: The expression is more than 16 deep. Use several transitions, or let a "
            "transition_handler decide.",
        ),
        ("1" * 501, "1: An expression may have 500 characters, not 501."),
    ],
)
def test_what_is_refused_says_where_and_what_instead(text: str, told: str) -> None:
    assert refusal(text) == told


@pytest.mark.parametrize(
    "text",
    [
        *("().__class__.__bases__", "input.__class__.mro()", "__import__('os')", "eval('1')"),
        *("lambda: 1", "[x for x in input]", "{1: 2}", "{1}", "f'{input}'", "b'a'", "(x := 1)"),
        *("2 ** 9", "1 << 9", "1 >> 9", "1 @ 2", "1 ^ 2", "~1", "+1", "1j", "...", "0x10", "1_000"),
        *(
            "input[1:2]",
            "input[1, 2]",
            "1 if input else 2",
            "len(*input)",
            "min(**input)",
            "*input",
        ),
        *(
            "(yield)",
            "1; 2",
            "import os",
            "x = 1",
            "'a' 'b'",
            "1or 2",
            "len(input)(1)",
            "[len][0](1)",
            "''.x",
            "[1][0]",
        ),
        *("len.__self__", "\ud800", "'\ud800'", "\x00", "'\x00'", "'\ue000'", "#", "input # why"),
        *("(" * 240 + ")" * 240, "-" * 450 + "1", "input[" * 90 + "]" * 90),
    ],
)
def test_nothing_else_can_be_said(text: str) -> None:
    assert refusal(text)


def test_the_names_are_the_paths_it_reads() -> None:
    text = (
        "common_data.a.b > 1 and common_data['c'].d[0] in common_data[input].e "
        "and common_data.f[variables.n].g and len(last.text) and common_data['x.y']"
    )

    assert compiled(text).names == {
        *("common_data.a.b", "common_data.c.d.0", "common_data", "input", "common_data.f"),
        *("variables.n", "last.text"),
    }


def test_the_rest_of_a_condition_is_not_asked_once_it_is_decided() -> None:
    assert value_of("common_data.x is not None and common_data.x > 1") is False
    assert value_of("common_data.count or 1 / 0") == 3
    assert value_of("1 < 0 < 1 / 0") is False


def test_the_same_text_is_read_once() -> None:
    assert compiled("input == 'once'") is compiled("input == 'once'")


def test_nothing_of_a_run_is_kept_after_an_evaluation() -> None:
    first = value_of("common_data.list + [4]", {"common_data": {"list": [1]}})

    assert first == [1, 4]
    assert value_of("common_data.list", {}) is None


# --- work ---------------------------------------------------------------------------------------


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def doubled(times: int) -> list[Any]:
    """Return a list that is small in memory and would take 2 ** times to look through."""
    value: list[Any] = [1]
    for _ in range(times):
        value = [value, value]
    return value


TOO_MUCH = "The values are too large for an expression."


@cache
def huge() -> dict[str, Any]:
    return {
        "common_data": {
            "deep": nested(100_000),
            "deep_too": nested(100_000),
            "doubled": doubled(60),
            "doubled_too": doubled(60),
            "list": list(range(1_000_000)),
            "text": "a" * 10_000_000,
            "turkish": "İ" * 190_000,
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        "common_data.deep == common_data.deep_too",
        "common_data.doubled == common_data.doubled_too",
        "common_data.doubled in [common_data.doubled_too]",
        "-1 in common_data.list",
        "[] in common_data.list",
        "max(common_data.list)",
        "all(common_data.list) or any([]) or all(common_data.list + [])",
        "'b' in common_data.text",
        "common_data.text == common_data.text + ''",
        "lower(common_data.turkish) + lower(common_data.turkish) == lower(common_data.turkish)",
        "matches(common_data.text, 'b')",
    ],
)
def test_work_ends_where_its_budget_does(text: str) -> None:
    told = failure(text, huge())

    assert told.startswith(
        (TOO_MUCH, "10,000,000 characters", "1,000,000 items", "380,000 characters")
    )


def test_what_an_expression_makes_is_short() -> None:
    values = {"input": "a" * 150_000, "resume_input": [1] * 6_000}

    assert failure("input + input", values) == (
        "300,000 characters are more than the 200,000 an expression may make."
    )
    assert failure("resume_input + resume_input", values) == (
        "12,000 items are more than the 10,000 an expression may make."
    )


def test_what_needs_not_be_looked_at_costs_nothing() -> None:
    assert value_of("len(common_data.list) + len(common_data.text)", huge()) == 11_000_000
    assert value_of("common_data.list != common_data.deep", huge()) is True
    assert value_of("common_data.list[-1]", huge()) == 999_999
    assert value_of("not common_data.deep", huge()) is False


def test_a_common_reply_is_searched_with_room_to_spare() -> None:
    text = "All tests pass.\n" * 6_000 + "Verdict: approved"

    assert value_of(
        r"matches(last.text, '(?im)^verdict:\s*(approved|rejected)')", {"last": {"text": text}}
    )


# --- as in Python -------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner),
    max_leaves=8,
)


@given(JSON, JSON)
@example({"a": 1}, {"b": 1})
@example([{"a": [1]}], [{"a": [2]}])
@example([1, True], [1.0, 1])
def test_equality_and_truth_are_pythons(one: object, other: object) -> None:
    values = {"input": one, "resume_input": other}

    assert value_of("input == resume_input", values) == (one == other)
    assert value_of("input in [resume_input, 1]", values) == (one in [other, 1])
    assert value_of("not input", values) == (not one)
    assert value_of("input and resume_input", values) == (one and other)
    assert compiled("input").holds(values) == bool(one)


@given(st.integers(-99, 99) | st.floats(-9, 9), st.integers(-99, 99) | st.floats(-9, 9))
def test_calculating_is_pythons(one: float, other: float) -> None:
    values = {"input": one, "resume_input": other}

    assert value_of("input + resume_input * 2 - 1", values) == one + other * 2 - 1
    assert value_of("input < resume_input", values) == (one < other)
    if abs(other) > 1e-3:
        assert value_of("input / resume_input", values) == one / other
        assert value_of("input // resume_input % 7", values) == one // other % 7
