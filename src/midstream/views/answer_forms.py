"""A question as a form that another program draws, and the answer a filled-in form gives.

They draw only flat forms: text, numbers, yes or no, one of some words. Some also check patterns, and have
any number of some words picked (`is_wide`).
"""

from collections.abc import Mapping
from typing import Any, Final

from midstream.core.question import Question
from midstream.language.names import Json
from midstream.safety.sanitize import sanitized

ANSWER: Final = "answer"
"""The one field of a form for a question whose answer is no object."""

_KEPT: Final = {
    "string": ("title", "description", "minLength", "maxLength", "format", "default"),
    "number": ("title", "description", "minimum", "maximum", "default"),
    "integer": ("title", "description", "minimum", "maximum", "default"),
    "boolean": ("title", "description", "default"),
}
"""What a field of each type may say; programs refuse a form that says more."""

_FORMATS: Final = ("email", "uri", "date", "date-time")


def form_of(question: Question, *, is_wide: bool = False) -> dict[str, Json] | None:
    """Return the JSON Schema of the form, None where none holds the answer."""
    if (parts := _parts(question, is_wide)) is not None:
        needed = (question.schema or {}).get("required")
        required = [name for name in needed if name in parts] if isinstance(needed, list) else []
        return {"type": "object", "properties": parts, "required": required}
    if _are_plain(question.choices):
        return single({"type": "string", "enum": list(question.choices)})
    if question.choices:  # a number picks one, too
        listed = (f"{number} {choice}" for number, choice in enumerate(question.choices, 1))
        return single(
            {"type": "string", "description": sanitized(f"By number: {', '.join(listed)}")}
        )
    schema = {"type": "string"} if question.schema is None else question.schema
    field = _field(schema, is_wide)
    return None if field is None else single(field)


def single(field: dict[str, Json]) -> dict[str, Json]:
    """Return the form of one field."""
    properties = {ANSWER: {"title": "Answer", **field}}
    return {"type": "object", "properties": properties, "required": [ANSWER]}


def answer_in(
    question: Question, content: Mapping[str, Json] | None, *, is_wide: bool = False
) -> Json:
    """Return the answer a filled-in form gives, None where it gives none."""
    given = {name: value for name, value in (content or {}).items() if value is not None}
    return given.get(ANSWER) if _parts(question, is_wide) is None else given


def _parts(question: Question, is_wide: bool) -> dict[str, Json] | None:
    """Return the fields of an answer that is an object, None where it is none or has other parts."""
    schema = question.schema
    if question.choices or schema is None or schema.get("type") != "object":
        return None
    properties = schema.get("properties")
    named = properties.items() if isinstance(properties, dict) else ()
    fields = {name: _field(each, is_wide) for name, each in named}
    return {**fields} if _are_plain(list(fields)) and all(fields.values()) else None


def _field(schema: Any, is_wide: bool) -> dict[str, Json] | None:
    """Return one field of a form, None where no form has such a field."""
    if not isinstance(schema, dict):
        return None
    choices, kind = schema.get("enum"), schema.get("type", "string" if "enum" in schema else "")
    if kind == "array" and is_wide:
        items = schema.get("items")
        words = items.get("enum") if isinstance(items, dict) else None
        picked: dict[str, Json] = {"type": "array", "items": {"type": "string", "enum": words}}
        return picked | _said(schema, ("title", "description")) if _are_plain(words) else None
    if not isinstance(kind, str) or kind not in _KEPT:
        return None
    more = ("pattern",) if kind == "string" and is_wide else ()
    field = {"type": kind, **_said(schema, (*_KEPT[kind], *more))}
    if choices is None:
        return field
    return {**field, "enum": choices} if kind == "string" and _are_plain(choices) else None


def _said(schema: Mapping[str, Json], keys: tuple[str, ...]) -> dict[str, Json]:
    found = {key: schema[key] for key in keys if schema.get(key) is not None}
    if found.get("format") not in _FORMATS:
        found.pop("format", None)
    return {key: sanitized(each) if isinstance(each, str) else each for key, each in found.items()}


def _are_plain(names: Any) -> bool:
    """Return whether there are names, and all of them can be drawn as they are."""
    if not isinstance(names, list | tuple) or not names:
        return False
    return all(isinstance(each, str) and sanitized(each) == each for each in names)
