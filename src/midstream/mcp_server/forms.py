"""A run's question as a form for a client's user, and the answer a filled form gives.

Clients draw only flat forms: text, numbers, yes or no, one of some words. What asks for more than that is
asked for as JSON text, which is then checked against the whole schema as every answer is.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from midstream.core.question import Question
from midstream.language.names import Json
from midstream.mcp_server.told import capped
from midstream.safety.sanitize import sanitized
from midstream.views.calls_in_words import question_heading

ANSWER: Final = "answer"
"""The one field of a form for a question whose answer is no object."""

MAX_TEXT: Final = 4_000
_KEPT: Final = {
    "string": ("title", "description", "minLength", "maxLength", "format", "default"),
    "number": ("title", "description", "minimum", "maximum", "default"),
    "integer": ("title", "description", "minimum", "maximum", "default"),
    "boolean": ("title", "description", "default"),
}
"""What a field of each type may say; clients refuse a form that says more."""

_FORMATS: Final = ("email", "uri", "date", "date-time")


def message_of(question: Question) -> str:
    """Return who asks what, made harmless for a terminal."""
    return capped(sanitized(f"{question_heading(question)}: {question.text}"), MAX_TEXT)


def form_of(question: Question) -> dict[str, Json]:
    """Return the JSON Schema of the form, as elicitation takes it."""
    if (parts := _parts(question)) is not None:
        needed = (question.schema or {}).get("required")
        required = [name for name in needed if name in parts] if isinstance(needed, list) else []
        return {"type": "object", "properties": parts, "required": required}
    field = {"title": "Answer", **_whole(question)}
    return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}


def answer_in(question: Question, content: Mapping[str, Json] | None) -> Json:
    """Return the answer a filled form gives, None where it gives none."""
    given = {name: value for name, value in (content or {}).items() if value is not None}
    return given.get(ANSWER) if _parts(question) is None else given


def _parts(question: Question) -> dict[str, Json] | None:
    """Return the fields of an answer that is an object, None where it is none or has other parts."""
    schema = question.schema
    if question.choices or schema is None or schema.get("type") != "object":
        return None
    properties = schema.get("properties")
    fields = (
        {name: _field(each) for name, each in properties.items()}
        if isinstance(properties, dict)
        else {}
    )
    return fields if _are_plain(list(fields)) and all(fields.values()) else None


def _whole(question: Question) -> dict[str, Json]:
    """Return the one field of an answer that is no such object."""
    if _are_plain(question.choices):
        return {"type": "string", "enum": list(question.choices)}
    if question.choices:  # a number picks one, too
        listed = (f"{number} {choice}" for number, choice in enumerate(question.choices, 1))
        return {"type": "string", "description": sanitized(f"By number: {', '.join(listed)}")}
    if question.schema is None:
        return {"type": "string"}
    told = msgspec.json.encode(question.schema).decode()[:MAX_TEXT]
    as_text = {"type": "string", "description": sanitized(f"JSON that fits {told}")}
    return _field(question.schema) or as_text


def _field(schema: Any) -> dict[str, Json] | None:
    """Return one field of a form, None where no form has such a field."""
    if not isinstance(schema, dict):
        return None
    choices, kind = schema.get("enum"), schema.get("type", "string" if "enum" in schema else "")
    if not isinstance(kind, str) or kind not in _KEPT:
        return None
    field: dict[str, Json] = {"type": kind}
    for key in _KEPT[kind]:
        value = schema.get(key)
        if value is None or (key == "format" and value not in _FORMATS):
            continue
        field[key] = sanitized(value) if isinstance(value, str) else value
    if choices is None:
        return field
    return {**field, "enum": choices} if kind == "string" and _are_plain(choices) else None


def _are_plain(names: Any) -> bool:
    """Return whether there are names, and all of them can be drawn as they are."""
    if not isinstance(names, list | tuple) or not names:
        return False
    return all(isinstance(each, str) and sanitized(each) == each for each in names)
