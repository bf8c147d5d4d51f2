"""The reader that knows places: what it takes, what it refuses, and where it says so."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.language.json_text import Node, parse

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def root_of(text: str) -> Node:
    parsed = parse(text)
    assert parsed.root is not None, parsed.flaws
    assert parsed.flaws == ()
    return parsed.root


def flaws_of(text: str) -> list[str]:
    return [
        f"{flaw.line}:{flaw.column} {flaw.path} {flaw.message} {flaw.hint}".rstrip()
        for flaw in parse(text).flaws
    ]


@given(JSON_VALUES)
def test_whatever_json_writes_reads_back_the_same(value: object) -> None:
    assert root_of(json.dumps(value)).value == value
    assert root_of(json.dumps(value, ensure_ascii=False, indent=2)).value == value
    assert root_of(msgspec.json.encode(value).decode()).value == value


@settings(max_examples=300)
@given(st.text(st.sampled_from('{}[],:"\\/*u0a1-.eE \n\ttrufalsn\ufeff\ud800')) | st.text())
def test_no_text_makes_it_raise_and_a_refusal_says_why(text: str) -> None:
    parsed = parse(text)

    assert parsed.root is not None or parsed.flaws
    for flaw in parsed.flaws:
        assert flaw.line >= 1
        assert flaw.column >= 1


@given(JSON_VALUES, st.data())
def test_a_text_cut_anywhere_is_refused_or_a_shorter_value(
    value: object, data: st.DataObject
) -> None:
    text = json.dumps([value])
    cut = text[: data.draw(st.integers(min_value=0, max_value=len(text) - 1))]

    assert parse(cut).flaws


def test_every_value_and_key_knows_its_place_and_path() -> None:
    root = root_of('{\n  "states": [\n    {"name": "start"},\n    {"my agent": 7}\n  ]\n}')

    second = root.members["states"].node.items[1]
    member = second.members["my agent"]
    assert (second.line, second.column, second.path) == (4, 5, "$.states[1]")
    assert (member.line, member.column) == (4, 6)
    assert (member.node.line, member.node.column) == (4, 18)
    assert member.node.path == '$.states[1]["my agent"]'


def test_offsets_cut_the_value_out_of_the_text() -> None:
    text = '{ "a" : [1, 2] , "b": "x" }'
    root = root_of(text)

    assert [text[m.start : m.node.end] for m in root.members.values()] == [
        '"a" : [1, 2]',
        '"b": "x"',
    ]


def test_comments_and_trailing_commas_are_taken() -> None:
    text = '// first\n{"a": [1, 2,], /* two\nlines **/ "b": "// no comment",}\n// last'

    assert root_of(text).value == {"a": [1, 2], "b": "// no comment"}


def test_a_byte_order_mark_is_stepped_over_and_not_counted() -> None:
    assert root_of("\ufeff{}").column == 1
    assert flaws_of("\ufeff?")[0].startswith("1:1 ")


def test_escapes_and_surrogate_pairs_are_read() -> None:
    assert root_of(r'"\n\u00e9\ud83d\ude00\/"').value == "\né😀/"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["1:1 $ the file is empty: expected an object {...}."]),
        ("// a\n", ["2:1 $ the file is empty: expected an object {...}."]),
        ("{} x", ['1:4 $ expected the end of the file, found "x".']),
        ('{"a" 1}', ['1:6 $.a expected ":" after the key, found "1".']),
        (
            "{a: 1}",
            [
                '1:2 $ expected a key in double quotes or "}", found "a". '
                "Keys stand in double quotes."
            ],
        ),
        ('{"a": }', ['1:7 $.a expected a value, found "}".']),
        ('{"a": True}', ['1:7 $.a expected a value, found "True". JSON spells it true.']),
        ("['a']", ["1:2 $[0] expected a value, found \"'a'\". Strings stand in double quotes."]),
        ("[NaN]", ['1:2 $[0] expected a value, found "NaN". Numbers must be finite.']),
        ("-Infinity", ['1:1 $ expected a number, found "-Infinity". Numbers must be finite.']),
        ("[01]", ['1:2 $[0] "01" is not a number.']),
        ("[1.]", ['1:2 $[0] "1." is not a number.']),
        (
            "1e999",
            ["1:1 $ the number is too large. Write it as a string if it must stay."],
        ),
        (
            "18446744073709551616",
            ["1:1 $ the number is too large. Write it as a string if it must stay."],
        ),
        (
            "[1",
            [
                '1:3 $ expected "," or "]", found the end of the file. '
                'The "[" is on line 1, column 1.'
            ],
        ),
        (
            "{\n\n[",
            [
                '3:1 $ expected a key in double quotes or "}", found "[". '
                "Keys stand in double quotes."
            ],
        ),
        (
            '["open\n"]',
            [
                '1:2 $[0] this string is never closed. Close it with " on its line; '
                "write \\n for a line break."
            ],
        ),
        ('"\t"', ["1:2 $ the character U+0009 must be written as \\u escape."]),
        (r'"\x"', [r'1:2 $ "\\x" is not an escape. For a backslash write \\.']),
        (r'"\ud800!"', ["1:2 $ half of a surrogate pair stands alone."]),
        (r'"\udc00"', ["1:2 $ half of a surrogate pair stands alone."]),
        (r'"a\u0000"', ["1:3 $ the character NUL cannot be used."]),
        ("[] // \0", ["1:7 $ the character NUL cannot be used."]),
        ("{ /* never", ["1:3 $ this comment is never closed. Close it with */."]),
    ],
)
def test_what_is_no_json_is_refused_where_it_stands(text: str, said: list[str]) -> None:
    assert flaws_of(text) == said


def test_a_missing_comma_is_reported_and_the_rest_is_read() -> None:
    parsed = parse('{\n  "a": 1\n  "b": [1 2],\n  "c": 3\n}')

    assert parsed.root is not None
    assert parsed.root.value == {"a": 1, "b": [1, 2], "c": 3}
    assert [(flaw.line, flaw.column, flaw.message) for flaw in parsed.flaws] == [
        (2, 9, 'expected "," or "}", found "b".'),
        (3, 10, 'expected "," or "]", found "2".'),
    ]


def test_a_key_twice_is_reported_at_the_second() -> None:
    assert flaws_of('{"a": 1,\n "b": 2, "a": 3}') == [
        '2:10 $.a the key "a" stands here twice, first on line 1. Keep one of them.'
    ]


def test_depth_and_size_are_capped() -> None:
    assert root_of("[" * 64 + "]" * 64).kind == "array"
    assert flaws_of("[" * 65 + "]" * 65) == [f"1:65 ${'[0]' * 64} nested deeper than 64 levels."]
    assert parse("[" * 100_000).root is None
    assert "more than the 10 allowed" in parse(" " * 11, max_chars=10).flaws[0].message


def test_hostile_length_does_not_slow_it_down_beyond_reading_once() -> None:
    assert parse("/*" + "*" * 500_000).root is None
    assert parse("[" + " " * 500_000).root is None
    assert parse('"' + "a" * 500_000).root is None
    assert parse("1" * 500_000).root is None
