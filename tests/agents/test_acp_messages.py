"""Our types of the Agent Client Protocol beside the schema of the official library."""

import json
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.agents import acp_messages as ours

pytestmark = pytest.mark.needs("npm")

SCHEMA = (
    Path(__file__).parents[1]
    / "npm/node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json"
)
IN_THE_SCHEMA = {
    "ConfigSelect": "SessionConfigSelect",
    "Offered": "SessionListCapabilities",
    "PermissionOutcome": "SelectedPermissionOutcome",
    "SelectOption": "SessionConfigSelectOption",
    "SessionRequest": "CloseSessionRequest",
    "AgentMessageChunk": "ContentChunk",
    "AgentThoughtChunk": "ContentChunk",
    "UserMessageChunk": "ContentChunk",
    "ToolCallUpdated": "ToolCallUpdate",
    "AvailableCommandInput": "UnstructuredCommandInput",
}
"""Ours, where the schema's name is another."""
NOT_IN_IT = {"Chunk", "Message", "SteeringRequest", "SteeringResponse", "Update"}
UNIONS = {
    "ConfigSelect",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "McpServer",
    "PermissionOutcome",
    "ResourceContents",
    "SetSessionConfigOptionRequest",
}
"""Ours that stand for several of the schema's: some keys are of one of them only."""
TYPES = {
    name: kind
    for name, kind in vars(ours).items()
    if isinstance(kind, type) and issubclass(kind, ours.Message) and name not in NOT_IN_IT
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    defs: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    return defs


def test_types_have_the_keys_of_the_schema(schema: dict[str, Any]) -> None:
    wrong = {}
    for name, kind in TYPES.items():
        if name in UNIONS:
            continue
        theirs = schema[IN_THE_SCHEMA.get(name, name)]
        fields = msgspec.structs.fields(kind)
        keys = {field.encode_name for field in fields}
        required = {field.encode_name for field in fields if field.required}
        unknown = keys - {*theirs["properties"], "_meta"}
        if unknown or required != {*theirs.get("required", ())}:
            wrong[name] = unknown, required ^ {*theirs.get("required", ())}

    assert not wrong


def keys_of(node: Any, schema: dict[str, Any]) -> set[str]:
    """Return every key some form of a message may have."""
    if isinstance(node, list):
        return set().union(*(keys_of(each, schema) for each in node))
    found = {*node.get("properties", {})}
    for word in ("anyOf", "oneOf", "allOf"):
        found |= keys_of(node.get(word, []), schema)
    if "$ref" in node:
        found |= keys_of(schema[node["$ref"].rpartition("/")[2]], schema)
    return found


def test_types_of_several_forms_have_keys_of_some_form(schema: dict[str, Any]) -> None:
    names = {
        "ConfigSelect": "SessionConfigOption",
        "PermissionOutcome": "RequestPermissionOutcome",
        "ResourceContents": "EmbeddedResourceResource",
    }
    for name in UNIONS:
        keys = {field.encode_name for field in msgspec.structs.fields(TYPES[name])}
        assert keys <= keys_of(schema[names.get(name, name)], schema) | {"_meta", "type"}, name


def consts(node: Any, key: str) -> set[str]:
    """Return the constants of a word, or of the forms of a tagged message."""
    forms = node.get("oneOf") or node.get("anyOf")
    if key:
        return {form["properties"][key]["const"] for form in forms if key in form["properties"]}
    return {form["const"] for form in forms}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ours.ToolKind, "ToolKind"),
        (ours.ToolCallStatus, "ToolCallStatus"),
        (ours.StopReason, "StopReason"),
    ],
)
def test_words_are_those_of_the_schema(kind: Any, name: str, schema: dict[str, Any]) -> None:
    assert {*typing.get_args(kind)} == consts(schema[name], "")


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (ours.SessionUpdate, "SessionUpdate", "sessionUpdate"),
        (ours.ContentBlock, "ContentBlock", "type"),
        (ours.ToolCallContent, "ToolCallContent", "type"),
        (ours.ConfigSelect, "SessionConfigOption", "type"),
    ],
)
def test_tags_are_those_of_the_schema(
    kind: Any, name: str, key: str, schema: dict[str, Any]
) -> None:
    tags = {form.__struct_config__.tag for form in typing.get_args(kind) or (kind,)}

    assert tags <= consts(schema[name], key)
