"""Questions whose answer is an object, as a form: what there is to say, and a line that says it.

Nobody writes JSON by hand who can write `kind=bug severity=low`.
"""

import re

import msgspec

from midstream.core.names import Json

MAX_FIELDS = 64
MAX_NAMED = 4
MAX_TEXT = 20_000
"""Characters of a line that is read as a form, whose schema may be a stranger's."""


class Field(msgspec.Struct, frozen=True):
    """One thing a form wants to know; `wants` says what, for a person."""

    name: str
    wants: str
    is_required: bool


def fields(schema: dict[str, Json] | None) -> tuple[Field, ...]:
    """Return the fields of a form, in order; none where the answer is no object with named parts."""
    properties = (schema or {}).get("properties")
    if schema is None or not isinstance(properties, dict):
        return ()
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return tuple(
        Field(name, _wants(spec if isinstance(spec, dict) else {}), name in needed)
        for name, spec in properties.items()
    )


def example(asked: tuple[Field, ...]) -> str:
    """Return how a form is filled in, such as `kind=... severity=...`; "" for no form."""
    wanted = [field.name for field in asked if field.is_required] or [f.name for f in asked[:1]]
    return " ".join(f"{name}=..." for name in wanted[:MAX_NAMED])


def read_form(text: str, schema: dict[str, Json]) -> dict[str, Json] | None:
    """Return the object a line such as `kind=bug, note: slow` stands for; None: it is no such line.

    A value reaches to the next field's name. A field that is named twice makes it none.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    names = [name for name in properties if name]
    if not 0 < len(names) <= MAX_FIELDS or len(text) > MAX_TEXT:
        return None
    any_name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    text = text.strip()
    found = list(re.finditer(rf"(?:^|(?<=[\s,;]))({any_name})[ \t]*[=:][ \t]*", text))
    if not found or found[0].start() != 0 or len({m[1] for m in found}) < len(found):
        return None
    ends = [*(m.start() for m in found[1:]), len(text)]
    return {
        m[1]: _value(text[m.end() : end].rstrip().rstrip(",;").rstrip(), properties[m[1]])
        for m, end in zip(found, ends, strict=True)
    }


def _wants(spec: dict[str, Json]) -> str:
    choices = spec.get("enum")
    if isinstance(choices, list):
        wants = " | ".join(c if isinstance(c, str) else _json(c) for c in choices)
    else:
        kind = spec.get("type", "")
        wants = {"string": "text"}.get(
            str(kind), str(kind) if isinstance(kind, str) else _json(kind)
        )
    description = spec.get("description")
    return f"{wants}  {description}".strip() if isinstance(description, str) else wants


def _value(text: str, spec: Json) -> Json:
    if isinstance(spec, dict) and spec.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
