"""The strict rules of Anthropic's dialect: each broken history is refused, in the API's own words."""

from typing import Any

import pytest
from support.anthropic_rules import problems

Json = dict[str, Any]

TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
NO_PREFILL = "does not support assistant message prefill"
UNANSWERED = "`tool_use` ids were found without `tool_result` blocks immediately after: "


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(call: str, **fields: Any) -> Json:
    return {"type": "tool_use", "id": call, "name": "add", "input": {}} | fields


def result(call: str, *content: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": call, "content": [*content] or [text("1")]}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": [*blocks] or [text("hi")]}


def reply(*blocks: Json) -> Json:
    return {"role": "assistant", "content": [*blocks] or [text("yes")]}


def system(words: str) -> Json:
    return {"role": "system", "content": [text(words)]}


def body(*messages: Json, **fields: Any) -> Json:
    whole = {"model": "claude-opus-5", "max_tokens": 100, "messages": [*messages], "tools": [TOOL]}
    return whole | fields


@pytest.mark.parametrize(
    "messages",
    [
        [user()],
        [user(), reply(), user()],
        [{"role": "user", "content": "plain"}],
        [user(), user(), reply(), reply(), user()],
        [user(), reply(text("Adding."), use("a"), use("b")), user(result("b"), result("a"))],
        [user(), reply(use("a")), user(result("a"), text("and?"))],
        [user(), reply(use("a")), user(result("a")), user()],
        [user(), reply(use("a")), reply(use("b")), user(result("a")), user(result("b"))],
        [user(), system("Be kind."), reply(), user(), system("Be brief.")],
        [user(), reply(use("a")), user({"type": "tool_result", "tool_use_id": "a"})],
    ],
)
def test_a_whole_history_is_taken(messages: list[Json]) -> None:
    assert problems(body(*messages)) == []


@pytest.mark.parametrize(
    ("messages", "wording"),
    [
        ([], "messages: at least one message is required"),
        ([reply(), user()], 'first message must use the "user" role'),
        ([system("Be kind."), user()], 'first message must use the "user" role'),
        ([user(), reply(), system("Now!"), user()], "must immediately follow a `user` message"),
        ([{"role": "tool", "content": "1"}], 'Unexpected role "tool"'),
        ([user(text(""))], "text content blocks must be non-empty"),
        ([user(text(" \n"))], "text content blocks must contain non-whitespace text"),
        ([{"role": "user", "content": []}], "all messages must have non-empty content"),
        ([{"role": "user", "content": ""}], "all messages must have non-empty content"),
        ([user(), reply(use("a")), user(result("a", text("")))], "must be non-empty"),
        ([user(), reply(use("a"))], f"messages.1: {UNANSWERED}a."),
        ([user(), reply(use("a")), user()], f"messages.1: {UNANSWERED}a."),
        ([user(), reply(use("a"), use("b")), user(result("b"))], f"{UNANSWERED}a."),
        ([user(), reply(use("a")), user(text("wait"), result("a"))], f"{UNANSWERED}a."),
        ([user(), reply(use("a")), user(), user(result("a"))], f"{UNANSWERED}a."),
        ([user(), reply(use("a")), reply(), user()], f"{UNANSWERED}a."),
        ([user(result("a"))], "messages.0.content.0: unexpected `tool_use_id` found"),
        (
            [user(), reply(use("a")), user(result("a")), reply(), user(result("a"))],
            "messages.4.content.0: unexpected `tool_use_id` found",
        ),
        (
            [user(), reply(use("a")), user(result("a"), result("a"))],
            "each tool_use must have a single result",
        ),
        (
            [user(), reply(use("a")), user(result("a")), reply(use("a")), user(result("a"))],
            "`tool_use` ids must be unique",
        ),
        ([user(), reply(use("a b")), user(result("a b"))], "tool_use.id: String should match"),
        ([user(), reply(use("a", name="x.y")), user(result("a"))], "tool_use.name: String should"),
        ([user(), reply(use("a", input="{}")), user(result("a"))], "should be a valid dictionary"),
        ([user(use("a")), user(result("a"))], "`tool_use` blocks can only be in `assistant`"),
        ([user(), reply()], NO_PREFILL),
        ([user(), system("Now!"), reply()], NO_PREFILL),
    ],
)
def test_a_broken_history_is_refused(messages: list[Json], wording: str) -> None:
    found = problems(body(*messages))

    assert any(wording in problem for problem in found), found


@pytest.mark.parametrize(
    ("fields", "wording"),
    [
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"frequency_penalty": 1}, "frequency_penalty: Extra inputs are not permitted"),
        ({"tools": [TOOL, TOOL]}, "tools: Tool names must be unique."),
        ({"tools": [TOOL | {"name": "x y"}]}, "tools.0.custom.name: String should match pattern"),
        ({"tools": [{"name": "add"}]}, "tools.0.custom.input_schema: Field required"),
        ({"tools": [TOOL | {"input_schema": {"type": "array"}}]}, "Input should be 'object'"),
        (
            {"tools": [TOOL | {"input_schema": {"type": "object", "anyOf": []}}]},
            "does not support oneOf, allOf, or anyOf at the top level",
        ),
        (
            {"tools": [TOOL | {"input_schema": {"type": "object", "properties": {"a b": {}}}}]},
            "Property keys should match pattern",
        ),
        ({"tools": [], "tool_choice": {"type": "any"}}, "only be specified while providing tools"),
        ({"system": [text("")]}, "system: text content blocks must be non-empty"),
        (
            {"model": "claude-sonnet-4-5", "messages": [user(), system("Now!")]},
            'messages: Unexpected role "system"',
        ),
    ],
)
def test_a_wrong_field_is_refused(fields: Json, wording: str) -> None:
    assert any(wording in problem for problem in problems(body(user()) | fields))


@pytest.mark.parametrize("field", ["model", "max_tokens", "messages"])
def test_a_required_field_is_missed(field: str) -> None:
    whole = body(user())
    del whole[field]

    assert f"{field}: Field required" in problems(whole)


@pytest.mark.parametrize(
    "model", ["claude-3-7-sonnet-latest", "claude-sonnet-4-5", "claude-opus-4-20250514"]
)
def test_an_older_model_goes_on_with_words_at_the_end_but_not_with_a_blank_after_them(
    model: str,
) -> None:
    assert problems(body(user(), reply(), model=model)) == []
    assert problems(body(user(), reply(text("So ")), model=model)) == [
        "messages: final assistant content cannot end with trailing whitespace"
    ]


def test_what_is_no_object_is_refused() -> None:
    assert problems(None) == ["The request body is not valid JSON"]
