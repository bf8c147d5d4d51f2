"""The JSON Schema of the files people write, made from the types they are read into.

An editor that is given it completes keys, shows what they mean and marks what does not fit. What it
cannot know (whether a name leads anywhere) `midstream validate` says.
"""

from typing import Any

import msgspec

from midstream.language.names import START, STOP, Json
from midstream.language.spec import Role, Workflow
from midstream.views.schema_words import EXAMPLES, WORDS

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_RULES: dict[str, Json] = {
    "type": "array",
    "items": {
        "type": "string",
        "pattern": "^(read|write|write_protected|exec|shell|outside|net|tool|ask_user): ?.",
        "examples": ["exec: git push *", "write: docs/**", "net: docs.python.org"],
    },
}

_TOP: dict[str, Json] = {
    "type": "string",
    "description": "Where this schema is, for editors; midstream passes over it.",
}


def workflow_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a workflow file."""
    schema = _schema_of(Workflow, "A midstream workflow")
    top = schema["$defs"]["Workflow"]
    top["properties"]["$schema"] = _TOP
    top["properties"]["states"]["allOf"] = [
        {"contains": {"properties": {"name": {"const": name}}, "required": ["name"]}}
        for name in (START, STOP)
    ]
    return schema


def roles_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a role file: an object of roles by name."""
    schema = _schema_of(Role, "midstream roles")
    tools = schema["$defs"]["Role"]["properties"]["parsingTools"]
    tools["items"] = {"anyOf": [{"type": "string"}, tools["items"]]}
    del schema["$ref"]
    return schema | {
        "type": "object",
        "properties": {"$schema": _TOP},
        "additionalProperties": {"$ref": "#/$defs/Role"},
    }


_TEXTS: dict[str, Json] = {"type": "object", "additionalProperties": {"type": "string"}}
_WORDS: dict[str, Json] = {"type": "array", "items": {"type": "string"}}
_MOST_AN_HOUR: dict[str, Json] = {"type": "number", "minimum": 0.01, "maximum": 3_600}
_MCP_SERVER: dict[str, Json] = {
    "type": "object",
    "properties": {
        "type": {"enum": ["stdio", "http", "streamable-http"]},
        "command": {"description": "The program to start.", "type": "string"},
        "args": _WORDS,
        "env": {"description": "Variables it gets besides a few harmless ones.", **_TEXTS},
        "passEnv": {"description": "Names of your own variables it gets.", **_WORDS},
        "cwd": {"description": "Where it runs, from the workspace.", "type": "string"},
        "url": {"description": "Where it is, instead of a command.", "type": "string"},
        "headers": {"description": "Values may name variables: ${NAME}.", **_TEXTS},
        "timeoutSeconds": _MOST_AN_HOUR,
        "startTimeoutSeconds": _MOST_AN_HOUR,
        "trustAnnotations": {
            "description": "Believe what its tools say of themselves. Not in a workspace's file.",
            "type": "boolean",
        },
        "disabled": {"type": "boolean"},
    },
    "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
    "additionalProperties": False,
}


def settings_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of application.json."""
    seconds = {"type": "number", "minimum": 0.01, "maximum": 86_400}
    level = {"type": "string", "pattern": r"\S", "examples": ["openai:gpt-5", "offline"]}
    levels = ("base", "smart", "fast")
    patience = ("firstByteSeconds", "silenceSeconds", "totalSeconds")
    properties: dict[str, Json] = {
        "$schema": _TOP,
        "currentMode": {
            "description": "The mode the console begins in.",
            "type": "string",
            "pattern": "^(role|workflow):.+",
            "examples": ["role:dude", "workflow:coder_reviewer"],
        },
        "defaultRole": {
            "description": "The older name of `currentMode`: a role.",
            "type": "string",
            "deprecated": True,
        },
        "autoResume": {
            "description": "Whether runs that were cut off go on when the console starts.",
            "type": "boolean",
        },
        "editing": {
            "description": "Whose keys the line is edited with. A workspace's file may not say so.",
            "enum": ["emacs", "vi"],
        },
        "notifications": {
            "description": "How you are called when a question waits or a run is done, and you have "
            "not typed for ten seconds. A workspace's file may not say so.",
            "enum": ["off", "bell", "desktop"],
        },
        "models": {
            "description": "The model of each level of role. A workspace's file may not say so.",
            "type": "object",
            "properties": dict.fromkeys(levels, level),
            "additionalProperties": False,
        },
        "modelPatience": {
            "description": "How long a model may take, in seconds, and how often it is asked again.",
            "type": "object",
            "properties": {
                **dict.fromkeys(patience, seconds),
                "attempts": {"type": "integer", "minimum": 1, "maximum": 100},
            },
            "additionalProperties": False,
        },
        "mcpServers": {
            "description": "MCP servers: programs to start, or addresses. A person approves each. A "
            "workspace's file only proposes.",
            "type": "object",
            "propertyNames": {"pattern": "^[a-zA-Z0-9][a-zA-Z0-9-]{0,23}$"},
            "additionalProperties": _MCP_SERVER,
        },
        "permissionMode": {
            "description": "How much happens unasked. A workspace's file may not say so.",
            "enum": ["plan", "ask", "auto"],
        },
        "permissions": {
            "description": "Rules such as `exec: git status`, `write: docs/**`, `net: *.python.org`. "
            "A workspace's file may only ask and deny.",
            "type": "object",
            "properties": dict.fromkeys(("allow", "ask", "deny"), _RULES),
            "additionalProperties": False,
        },
    }
    return {
        "$schema": DRAFT,
        "title": "midstream settings",
        "type": "object",
        "properties": properties,
    }


def _schema_of(type_: Any, title: str) -> dict[str, Json]:
    (root,), found = msgspec.json.schema_components((type_,), ref_template="#/$defs/{name}")
    parts: dict[str, dict[str, Json]] = found
    for name, part in parts.items():
        part["description"] = " ".join(part.get("description", "").split())
        for key, value in part.get("properties", {}).items():
            part["properties"][key] = _described(f"{name}.{key}", value)
    whole = {"$schema": DRAFT, "title": title, **root, "$defs": parts}
    # Defaults are tuples so far, which JSON does not know.
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(whole))
    return plain


def _described(key: str, value: dict[str, Json]) -> dict[str, Json]:
    """Return a property's schema with words; in 2020-12 they may stand beside a reference."""
    said: dict[str, Json] = {"description": WORDS[key]} if key in WORDS else {}
    if key in EXAMPLES:
        said["examples"] = EXAMPLES[key]
    return {**said, **value}
