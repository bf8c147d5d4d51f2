"""A form: one field after the other, each checked when it is entered, nothing lost on the way."""

from typing import Any

import pytest

from midstream.core.question import Question
from midstream.language.names import Json
from midstream.tui.form import EMPTY_TEXT, Form, form_of, misfit, read_value

SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bug", "feature"]},
        "lines": {"type": "integer", "minimum": 1},
        "note": {"type": "string"},
    },
    "required": ["kind", "lines"],
}


PERSON: dict[str, Json] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "mail": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def opened(schema: dict[str, Json] = SCHEMA) -> Form:
    form = form_of(Question(id="q1", number=1, kind="question", text="?", schema=schema))
    assert form is not None
    return form


def name(form: Form) -> str:
    return "" if form.field is None else form.field.name


def test_lines_fill_in_one_field_after_the_other() -> None:
    form = opened().entered("bug").entered("12").entered("slow")

    assert form.field is None
    assert form.values == {"kind": "bug", "lines": 12, "note": "slow"}
    assert form.one_line() == "kind=bug lines=12 note=slow"


def test_a_line_that_does_not_fit_stays_with_why() -> None:
    form = opened().entered("bug").entered("0")

    assert (name(form), form.problem, form.line) == ("lines", "at least 1", "0")
    assert form.entered("3").problem == ""


def test_an_empty_line_leaves_out_what_may_be_and_nothing_else() -> None:
    form = opened()

    assert "has to be filled in" in form.entered("").problem
    assert form.entered("1").entered("2").entered("").values == {"kind": "bug", "lines": 2}


def test_an_empty_line_takes_what_the_field_holds() -> None:
    again = opened().entered("bug").entered("12").back("").back("").entered("").entered("")

    assert (name(again), again.values) == ("note", {"kind": "bug", "lines": 12})


def test_an_empty_line_takes_the_default() -> None:
    form = opened({"properties": {"n": {"type": "integer", "default": 7}}, "required": ["n"]})

    assert form.default == "7"
    assert form.entered("").values == {"n": 7}
    yes = opened({"properties": {"n": {"type": "boolean", "default": True}}, "required": ["n"]})
    assert yes.default == "yes"


def test_going_back_brings_what_stood_there_and_keeps_what_is_typed() -> None:
    form = opened().entered("bug").entered("12").back("half a no")

    assert (name(form), form.line) == ("lines", "12")
    forth = form.forth("12")
    assert (name(forth), forth.line) == ("note", "half a no")
    assert forth.left("half a note").line == "half a note"


def test_a_choice_that_was_made_is_marked_when_the_field_is_come_back_to() -> None:
    form = opened().entered("feature").back("")

    assert form.choices is not None
    assert (form.choices.label, form.line) == ("feature", "")
    assert form.chose("bug").values == {"kind": "bug"}


def test_going_back_from_the_first_field_stays_there() -> None:
    assert opened().back("bu").at == 0


def test_what_the_whole_does_not_fit_is_said_at_the_field_it_names() -> None:
    done = opened().entered("bug").entered("1").entered("x")

    assert name(done.refused("at $.lines: 1 is too small")) == "lines"
    assert done.refused("something else").field is None


@pytest.mark.parametrize(
    ("spec", "line", "value"),
    [
        ({"type": "string"}, "12", "12"),
        ({"type": "string"}, EMPTY_TEXT, ""),
        ({"type": "integer"}, " 12 ", 12),
        ({"type": "integer"}, "1" + "0" * 400, 10**400),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "array", "items": {"type": "string"}}, "a, b", ["a", "b"]),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "2 1", ["a", "b"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        (PERSON, "name=Bo Li mail=b@x", {"name": "Bo Li", "mail": "b@x"}),
        (PERSON, '{"name": "Bo"}', {"name": "Bo"}),
        ({"type": "boolean"}, "no", False),
        ({}, "words", "words"),
        ({}, "5", 5),
    ],
)
def test_a_line_is_read_as_what_its_field_wants(
    spec: dict[str, Json], line: str, value: Json
) -> None:
    assert read_value(line, spec) == (value, "")


@pytest.mark.parametrize(
    ("spec", "line", "problem"),
    [
        ({"type": "integer"}, "1.5", "1.5 is not a whole number"),
        ({"type": "integer"}, "many", "many is not a whole number"),
        ({"type": "integer", "maximum": 9}, "10", "at most 9"),
        ({"type": "integer", "minimum": 5}, "4", "at least 5"),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "more than 0"),
        ({"type": "number", "exclusiveMaximum": 1}, "1", "less than 1"),
        ({"type": "integer", "multipleOf": 5}, "7", "a multiple of 5"),
        ({"type": "string", "minLength": 3}, "ab", "at least 3 characters, not 2"),
        ({"type": "string", "maxLength": 1}, "ab", "at most 1 character, not 2"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "A1", "it has to match ^[a-z]+$"),
        ({"enum": ["a", "b"]}, "c", "c is not one of the choices: 1 a, 2 b"),
        ({"type": "boolean"}, "perhaps", "perhaps is not one of the choices: 1 yes, 2 no"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, "a", "at least 2 of"),
        ({"type": "array", "items": {"type": "integer"}}, "1, x", "x is not a whole number"),
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
            "1, 2",
            "at most 1 of them",
        ),
        ({"const": "yes"}, "no", "only yes fits"),
        ({"type": "object"}, "words", "words is not an object"),
        (PERSON, "Bo", "Bo is not an object: write name=..."),
        (PERSON, "mail=b@x", "name is missing: text"),
        (PERSON, '{"name": 5}', "name: 5 is not a text"),
        (PERSON, '{"name": "Bo", "age": 5}', "there is no age"),
    ],
)
def test_a_line_that_does_not_fit_is_told_in_plain_words(
    spec: dict[str, Json], line: str, problem: str
) -> None:
    assert read_value(line, spec)[1].startswith(problem)


def test_a_hostile_pattern_is_left_to_the_check_of_the_whole() -> None:
    spec: dict[str, Any] = {"type": "string", "pattern": "(?=x)" + "(a+)+" * 200}

    assert misfit("a" * 5000, spec) == ""


def test_true_is_no_number() -> None:
    assert misfit(True, {"type": "integer"}) != ""
    assert misfit(1, {"enum": [True]}) != ""


def test_a_schema_without_named_parts_is_no_form() -> None:
    question = Question(id="q", number=1, kind="question", text="?", schema={"type": "integer"})

    assert form_of(question) is None
