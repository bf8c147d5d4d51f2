"""Forms: what a question wants to know, and the line that says it."""

import pytest

from midstream.language.forms import MAX_FIELDS, MAX_TEXT, Field, fields, read_form
from midstream.language.names import Json

ISSUE: dict[str, Json] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bug", "feature"]},
        "severity": {"type": "integer", "description": "1 to 5"},
        "note": {"type": "string"},
        "tags": {"type": "array"},
    },
    "required": ["kind", "severity"],
}


def test_a_form_says_what_it_wants_to_know() -> None:
    assert fields(ISSUE) == (
        Field("kind", "bug | feature", True),
        Field("severity", "integer  1 to 5", True),
        Field("note", "text", False),
        Field("tags", "list", False),
    )


@pytest.mark.parametrize(
    ("spec", "wants"),
    [
        ({"type": "boolean"}, "yes | no"),
        (
            {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
            "integer, 1 to 5, default 2",
        ),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number, at most 1, more than 0"),
        ({"type": "boolean", "default": True}, "yes | no, default yes"),
        ({"type": "string", "default": ""}, 'text, default ""'),
        ({"type": "string", "default": "x" * 99}, "text, with a default"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "some of a | b"),
        ({"type": "array", "items": {"type": "string"}}, "list of text"),
        ({"type": "array", "items": {}}, "list"),
        ({"type": ["string", "null"]}, '["string","null"]'),
        (
            {"type": "object", "properties": {"name": {}, "mail": {}}, "required": ["name"]},
            "name=... [mail=...]",
        ),
        (
            {"type": "object", "properties": {n: {} for n in "abcde"}, "required": [*"abcde"]},
            "a=... b=... c=... d=... ...",
        ),
        ({"type": "object"}, "object"),
    ],
)
def test_a_form_says_what_fits_before_it_is_tried(spec: Json, wants: str) -> None:
    assert fields({"properties": {"x": spec}}) == (Field("x", wants, False),)


def test_a_schema_as_deep_as_a_stranger_likes_is_told_on_one_level() -> None:
    deep: dict[str, Json] = {"type": "object"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}

    assert fields(deep) == (Field("a", "a=...", True),)
    assert read_form("a=a=a=1", deep) == {"a": {"a": "a=1"}}


@pytest.mark.parametrize("schema", [None, {}, {"type": "integer"}, {"properties": []}])
def test_an_answer_of_one_thing_is_no_form(schema: dict[str, Json] | None) -> None:
    assert fields(schema) == ()
    assert read_form("kind=bug", schema or {}) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kind=bug severity=3", {"kind": "bug", "severity": 3}),
        ("kind: bug, severity: 3;", {"kind": "bug", "severity": 3}),
        ("severity = 3\nkind = bug", {"severity": 3, "kind": "bug"}),
        ("kind=bug note=slow, and hot: very", {"kind": "bug", "note": "slow, and hot: very"}),
        ("note=7", {"note": "7"}),
        ('tags=["a", "b"] kind=bug', {"tags": ["a", "b"], "kind": "bug"}),
        ("tags=a, b kind=bug", {"tags": ["a", "b"], "kind": "bug"}),
        ("kind=", {"kind": ""}),
        ("unkind=bug", None),
        ("it is a bug", None),
        ("well, kind=bug", None),
        ("kind=bug kind=feature", None),
        ("", None),
    ],
)
def test_a_line_is_read_field_by_field(line: str, expected: Json) -> None:
    assert read_form(line, ISSUE) == expected


def test_what_a_form_shows_as_yes_is_read_as_yes_and_parts_as_parts() -> None:
    schema: dict[str, Json] = {
        "properties": {
            "breaks": {"type": "boolean"},
            "by": {"type": "object", "properties": {"name": {"type": "string"}, "age": {}}},
            "lines": {"type": "array", "items": {"type": "integer"}},
        }
    }

    assert read_form("breaks=Yes lines=1, 2 by=name=Bo Li age=7", schema) == {
        "breaks": True,
        "lines": [1, 2],
        "by": {"name": "Bo Li", "age": 7},
    }
    assert read_form('by={"name": "Bo"} breaks=perhaps', schema) == {
        "by": {"name": "Bo"},
        "breaks": "perhaps",
    }


def test_the_longer_of_two_names_that_begin_alike_is_meant() -> None:
    schema: dict[str, Json] = {"properties": {"a": {}, "a b": {}}}

    assert read_form("a b=1 a=2", schema) == {"a b": 1, "a": 2}


def test_what_would_take_long_to_read_is_not_read() -> None:
    many: dict[str, Json] = {"properties": {f"f{number}": {} for number in range(MAX_FIELDS + 1)}}

    assert read_form("f1=2", many) is None
    assert read_form("kind=" + "x" * MAX_TEXT, ISSUE) is None
