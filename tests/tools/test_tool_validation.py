from typing import Any

import pytest

from midstream.tools.validation import validate

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z]"},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["fast", "slow"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def doubling(levels: int) -> dict[str, Any]:
    """Each level refers twice to the next: 2 ** levels steps from a small schema."""
    parts: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {}}}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_that_fits_has_no_problem() -> None:
    assert validate({"name": "Ada", "tags": [1], "mode": "fast"}, PERSON) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "'name' is a required property"),
        ({"name": "Ada", "tags": [1, "b"]}, "at $.tags[1]: 'b' is not of type 'integer'"),
        ({"name": "ada"}, "at $.name: 'ada' does not match '^[A-Z]'"),
        ({"name": "Ada", "nmae": 1}, "unknown property 'nmae'; there are: name, tags, mode"),
        ({"name": "Ada", "mode": "x"}, "at $.mode: 'x' is not one of ['fast', 'slow']"),
        ([], "[] is not of type 'object'"),
    ],
)
def test_a_problem_says_where_and_what(value: Any, words: str) -> None:
    assert words in validate(value, PERSON)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "objekt"}, "no JSON Schema"),
        ({"properties": 5}, "no JSON Schema"),
        ({"$ref": "https://example.com/schema.json"}, "cannot be used"),
        ({"$ref": "file:///etc/passwd"}, "cannot be used"),
        ({"$ref": "#/$defs/missing"}, "cannot be used"),
        ({"$ref": "#"}, "refers to itself"),
        (doubling(40), "more work than a check may take"),
        ({"pattern": "("}, "cannot be checked"),
        ({"pattern": "(?=look)"}, "cannot be checked"),
        ({"pattern": "((a{1000}){1000}){1000}"}, "cannot be checked"),
        ({"pattern": "a" * 5_000}, "longer than"),
        ({"allOf": nested(500)}, "too deeply nested"),
        ({"title": "\ud800"}, "cannot be used"),
        (None, "no object"),
    ],
)
def test_a_hostile_schema_fits_nothing_and_says_so(schema: Any, words: str) -> None:
    assert words in validate("text", schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"pattern": "^(a+)+$"}},
        {"items": {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}},
    ],
)
def test_a_catastrophic_pattern_costs_nothing(schema: Any) -> None:
    # A backtracking engine needs 2 ** 5000 steps for each of these.
    hostile = "a" * 5_000 + "!"

    assert validate([hostile], schema) != "" or validate([{hostile: 1}], schema) != ""


@pytest.mark.parametrize("value", [nested(500), [0] * 200_000, list(map(str, range(70_000)))])
def test_a_hostile_value_fits_nothing(value: Any) -> None:
    assert validate(value, {"items": {"type": ["string", "integer"]}}) != ""


def test_items_that_would_be_compared_each_with_each_are_refused() -> None:
    many = [{"n": number} for number in range(5_000)]

    assert "uniqueItems" in validate(many, {"uniqueItems": True})
    assert "non-unique" in validate([1, 1], {"uniqueItems": True})


def test_pattern_properties_and_additional_properties_work_together() -> None:
    schema = {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}

    assert validate({"x-a": 1}, schema) == ""
    assert "at $.x-a" in validate({"x-a": "1"}, schema).replace("['x-a']", ".x-a")
    assert "unknown property 'y'" in validate({"y": 1}, schema)


def test_a_huge_value_is_not_quoted_whole() -> None:
    assert len(validate("x" * 1_000_000, {"type": "integer"})) < 1_000
