"""Forms: what a question wants to know, and the line that says it."""

import pytest

from midstream.core.forms import MAX_FIELDS, MAX_TEXT, Field, fields, read_form
from midstream.core.names import Json

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
        Field("tags", "array", False),
    )


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


def test_the_longer_of_two_names_that_begin_alike_is_meant() -> None:
    schema: dict[str, Json] = {"properties": {"a": {}, "a b": {}}}

    assert read_form("a b=1 a=2", schema) == {"a b": 1, "a": 2}


def test_what_would_take_long_to_read_is_not_read() -> None:
    many: dict[str, Json] = {"properties": {f"f{number}": {} for number in range(MAX_FIELDS + 1)}}

    assert read_form("f1=2", many) is None
    assert read_form("kind=" + "x" * MAX_TEXT, ISSUE) is None
