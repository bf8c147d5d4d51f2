"""The strict rules of Google's dialect: each broken history is refused, in the API's own words."""

from typing import Any

import pytest
from support.google_rules import (
    CALL_TURN,
    COUNT,
    EMPTY_TEXT,
    FIRST_TURN,
    LAST_TURN,
    RESPONSE_TURN,
    problems,
)

Json = dict[str, Any]


def text(words: str) -> Json:
    return {"text": words}


def call(name: str = "add", **fields: Any) -> Json:
    return {"functionCall": {"name": name, "args": {}} | fields}


def answer(name: str = "add", **fields: Any) -> Json:
    return {"functionResponse": {"name": name, "response": {"return_value": "1"}} | fields}


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": [*parts] or [text("hi")]}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": [*parts] or [text("yes")]}


def body(*contents: Json, **fields: Any) -> Json:
    return {"contents": [*contents]} | fields


def declared(*names: str) -> list[Json]:
    return [{"functionDeclarations": [{"name": name} for name in names]}]


@pytest.mark.parametrize(
    "contents",
    [
        [user()],
        [user(), user(), model(), user()],
        [user(), model(), model(), user()],
        [user(), model(call()), user(answer())],
        [
            user(),
            model(text("Adding."), call(), call("sub")),
            user(answer(), answer("sub")),
            user(),
        ],
        [user(), model(call()), user(answer()), model(call()), user(answer()), model(), user()],
    ],
)
def test_a_whole_history_is_taken(contents: list[Json]) -> None:
    assert problems(body(*contents)) == []


@pytest.mark.parametrize(
    ("contents", "wording"),
    [
        ([], "contents is not specified"),
        ([{"role": "assistant", "parts": [text("hi")]}], "Please use a valid role: user, model."),
        ([{"role": "user", "parts": []}], "contents[0].parts: contents.parts must not be empty."),
        ([user({})], "required oneof field 'data' must have one initialized field"),
        ([user(text("a") | call())], "required oneof field 'data'"),
        ([user(text(""))], EMPTY_TEXT),
        ([model(), user()], FIRST_TURN),
        ([user(), model()], LAST_TURN),
        ([model(call()), user(answer())], CALL_TURN),
        ([user(), model(), model(call()), user(answer())], CALL_TURN),
        ([user(), model(call())], COUNT),
        ([user(), model(call()), user()], COUNT),
        ([user(), model(call(), call()), user(answer())], COUNT),
        ([user(), model(call()), user(answer(), answer())], COUNT),
        ([user(), model(call()), user(answer(), text("and?"))], COUNT),
        ([user(), model(call(), call("sub")), user(answer("sub"), answer())], COUNT),
        ([user(), model(call()), user(), user(answer())], RESPONSE_TURN),
        ([user(answer())], RESPONSE_TURN),
        ([user(), model(answer()), user()], RESPONSE_TURN),
        ([user(call()), user(answer())], "Function call should not be with role user"),
        (
            [user(), model(call("9")), user(answer("9"))],
            "Must start with a letter or an underscore",
        ),
        ([user(), model(call("a b")), user(answer("a b"))], "Must be alphanumeric"),
        ([user(), model(call(args="{}")), user(answer())], "google.protobuf.Struct"),
        ([user(), model(call()), user(answer(response="1"))], "google.protobuf.Struct"),
    ],
)
def test_a_broken_history_is_refused(contents: list[Json], wording: str) -> None:
    found = problems(body(*contents))

    assert any(wording in problem for problem in found), found


@pytest.mark.parametrize(
    ("fields", "wording"),
    [
        ({"max_tokens": 5}, 'Unknown name "max_tokens"'),
        ({"systemInstruction": {"parts": []}}, "system_instruction.parts"),
        ({"systemInstruction": {"parts": [text("")]}}, EMPTY_TEXT),
        ({"tools": declared("a b")}, "function_declarations[0].name: Invalid function name."),
        ({"tools": declared("x" * 65)}, "with a maximum length of 64"),
        ({"tools": declared("add", "add")}, "Duplicate function declaration found: add"),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
            "Function calling config is set without function_declarations.",
        ),
    ],
)
def test_a_wrong_field_is_refused(fields: Json, wording: str) -> None:
    assert any(wording in problem for problem in problems(body(user()) | fields))


def test_a_newer_model_wants_the_first_call_of_a_turn_signed() -> None:
    plain = body(user(), model(call(), call()), user(answer(), answer()))
    signed = body(
        user(), model(call() | {"thoughtSignature": "c2ln"}, call()), user(answer(), answer())
    )

    assert "missing a thought_signature" in problems(plain, model="gemini-3-pro-preview")[0]
    assert problems(signed, model="gemini-3-pro-preview") == []
    assert problems(plain, model="gemini-2.5-pro") == []


def test_what_is_no_object_is_refused() -> None:
    assert problems([]) == ["Invalid JSON payload received."]
