"""The JSON Schema of the files people write: right, complete, and no laxer or stricter than reading."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from midstream.language.json_text import parse
from midstream.language.lint import lint_workflow
from midstream.language.lint_scopes import Known
from midstream.language.spec import Role
from midstream.views.file_schema import (
    EXAMPLES,
    WORDS,
    plugin_schema,
    roles_schema,
    settings_schema,
    workflow_schema,
)

DEFAULTS = Path(__file__).parents[2] / "src" / "midstream" / "config" / "defaults"
WORKFLOWS = [*sorted(DEFAULTS.glob("workflows/*.json")), DEFAULTS / "starter" / "workflow.json"]
ROLES = sorted(DEFAULTS.glob("roles/*.json"))


def value_of(path: Path) -> Any:
    root = parse(path.read_text(encoding="utf-8")).root
    assert root is not None
    return root.value


def fits(schema: dict[str, Any], value: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize(
    "schema", [workflow_schema(), roles_schema(), settings_schema(), plugin_schema()]
)
def test_it_is_a_right_schema_of_2020_12(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_workflows_of_the_package_fit(path: Path) -> None:
    assert fits(workflow_schema(), {"$schema": "https://example.org/x.json", **value_of(path)})


@pytest.mark.parametrize("path", ROLES, ids=lambda path: path.stem)
def test_the_roles_of_the_package_fit(path: Path) -> None:
    assert fits(roles_schema(), {"$schema": "./roles.schema.json", **value_of(path)})


def test_the_settings_of_the_package_fit() -> None:
    assert fits(settings_schema(), value_of(DEFAULTS / "application.json"))


START, STOP = {"name": "start"}, {"name": "stop"}


@pytest.mark.parametrize(
    "more",
    [
        {"state": []},
        {"states": [START]},
        {"states": [STOP, START, {}]},
        {"states": [START, STOP, {"name": "a", "agnet": "dude"}]},
        {"states": [START, STOP, {"name": "a", "on_input": "halt"}]},
        {"states": [START, STOP, {"name": "a", "ask": {"choices": []}}]},
        {"states": [START, STOP, {"name": "a", "catch": [{"on": ["nothing"], "to": "stop"}]}]},
        {"states": [START, STOP, {"name": "a", "wait": "long"}]},
        {"states": [START, STOP, {"name": "a", "join": "most"}]},
        {"states": [START, STOP, {"name": "a", "retry": {"max_attempts": "3"}}]},
        {"start_condition": "now"},
        {"workflow_name": 3},
        {"agents": [{"agent_role": "dude"}]},
    ],
    ids=str,
)
def test_what_has_not_the_shape_does_not_fit_and_is_an_error_of_lint(more: dict[str, Any]) -> None:
    value = {"workflow_name": "w", "states": [START, STOP], **more}
    workflow, _ = lint_workflow(
        json.dumps(value), Known(roles={}, handlers=None, script_file="s"), file="f"
    )

    assert not fits(workflow_schema(), value)
    assert workflow is None


@pytest.mark.parametrize(
    "more",
    [
        {"wait": 3},
        {"wait": {"until": "2030-01-31T09:00:00Z"}},
        {"ask": "Which?"},
        {"ask": {"question": "Which?", "schema": {"type": "integer"}, "default": 3}},
        {"parallel": ["start", {"states": [{"name": "a"}]}], "join": 1},
        {"for_each": {"items": "input", "states": [{"name": "a"}]}},
        {"workflow": "sub"},
        {"budget": {"usd": 1}, "retry": {}, "timeout_s": 3, "max_visits": 2},
        {"agent": None, "next": None},
    ],
    ids=str,
)
def test_every_kind_of_state_fits(more: dict[str, Any]) -> None:
    states = [{**START, **more}, STOP]

    assert fits(workflow_schema(), {"workflow_name": "w", "states": states})


@pytest.mark.parametrize(
    ("settings", "is_right"),
    [
        ({"currentMode": "role:dude", "models": {"base": "offline"}, "autoResume": True}, True),
        ({"modelPatience": {"attempts": 3, "totalSeconds": 60}}, True),
        ({"permissionMode": "auto", "permissions": {"deny": ["exec: git push *"]}}, True),
        ({"permissionMode": "full"}, False),
        ({"permissions": {"deny": ["git push"]}}, False),
        ({"permissions": {"allowed": []}}, False),
        ({"currentMode": "dude"}, False),
        ({"models": {"big": "offline"}}, False),
        ({"modelPatience": {"attempts": 0}}, False),
    ],
)
def test_settings_are_held_to_what_is_read(settings: dict[str, Any], is_right: bool) -> None:
    assert fits(settings_schema(), settings) is is_right


def test_a_parsing_tool_may_be_its_name_alone() -> None:
    assert fits(roles_schema(), {"r": {"parsingTools": ["verdict", {"name": "other"}]}})
    assert not fits(roles_schema(), {"r": {"parsingTools": [3]}})


def test_every_key_has_words_for_editors() -> None:
    parts = {**workflow_schema()["$defs"], **roles_schema()["$defs"]}
    keys = {
        f"{name}.{key}"
        for name, part in parts.items()
        for key in part.get("properties", {})
        if key != "$schema"
    }

    assert keys == set(WORDS)
    assert set(EXAMPLES) <= keys
    assert all(part["description"] for part in parts.values())
    assert "Role.systemMessage" in WORDS
    assert "systemMessage" in Role.__struct_fields__


def test_examples_fit_what_they_are_examples_of() -> None:
    schema = workflow_schema()
    for key, examples in EXAMPLES.items():
        name, _, field = key.partition(".")
        part = {**schema["$defs"][name]["properties"][field], "$defs": schema["$defs"]}
        for example in examples:
            assert fits(part, example), key
