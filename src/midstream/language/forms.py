"""Questions whose answer is an object, as a form: what there is to say, and a line that says it.

Nobody writes JSON by hand who can write `kind=bug severity=low`.
"""

import re

import msgspec

from midstream.language.names import Json, is_number

MAX_FIELDS = 64
MAX_NAMED = 4
MAX_DEFAULT = 40
MAX_TEXT = 20_000
"""Characters of a line that is read as a form, whose schema may be a stranger's."""


class Field(msgspec.Struct, frozen=True):
    """One thing a form wants to know; `wants` says what, for a person."""

    name: str
    wants: str
    is_required: bool


def fields(schema: dict[str, Json] | None) -> tuple[Field, ...]:
    """Return the fields of a form, in order; none where the answer is no object with named parts."""
    if schema is None or not (named := _names(schema)):
        return ()
    specs = schema["properties"]
    return tuple(
        Field(name, _wants(spec if isinstance(spec := specs[name], dict) else {}), is_needed)
        for name, is_needed in named
    )


def example(asked: tuple[Field, ...]) -> str:
    """Return how a form is filled in, such as `kind=... severity=...`; "" for no form."""
    wanted = [field.name for field in asked if field.is_required] or [f.name for f in asked[:1]]
    return " ".join(f"{name}=..." for name in wanted[:MAX_NAMED])


def read_form(
    text: str, schema: dict[str, Json], *, is_part: bool = False
) -> dict[str, Json] | None:
    """Return the object a line such as `kind=bug, note: slow` stands for; None: it is no such line.

    A value reaches to the next field's name. A field that is named twice makes it none. The parts of
    a field are read alike, those of a part (`is_part`) are JSON.
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
        m[1]: _value(text[m.end() : end].rstrip().rstrip(",;").rstrip(), properties[m[1]], is_part)
        for m, end in zip(found, ends, strict=True)
    }


def _wants(spec: dict[str, Json]) -> str:
    wants = ", ".join(filter(None, (_kind(spec), _bounds(spec), _default(spec))))
    description = spec.get("description")
    return f"{wants}  {description}".strip() if isinstance(description, str) else wants


def _kind(spec: dict[str, Json]) -> str:
    """Return what a value is, in words: its choices, its type, or the parts it has."""
    choices, kind = spec.get("enum"), spec.get("type", "")
    if isinstance(choices, list):
        return _choices(choices)
    items = spec.get("items")
    if kind == "array" and isinstance(items, dict):
        if isinstance(some := items.get("enum"), list):
            return f"some of {_choices(some)}"
        return f"list of {each}" if (each := _type(items.get("type", ""))) else "list"
    if kind == "object" and (parts := _names(spec)):
        named = [f"{name}=..." if is_needed else f"[{name}=...]" for name, is_needed in parts]
        return " ".join([*named[:MAX_NAMED], *(["..."] if len(named) > MAX_NAMED else [])])
    return _type(kind)


def _choices(values: list[Json]) -> str:
    return " | ".join(value if isinstance(value, str) else _json(value) for value in values)


def _type(kind: Json) -> str:
    words = {"string": "text", "boolean": "yes | no", "array": "list"}
    return words.get(str(kind), str(kind) if isinstance(kind, str) else _json(kind))


def _names(schema: dict[str, Json]) -> list[tuple[str, bool]]:
    """Return the names of an object's parts, and whether each has to be there."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return []
    needed = required if isinstance(required, list) else []
    return [(name, name in needed) for name in properties]


def _bounds(spec: dict[str, Json]) -> str:
    least, most = spec.get("minimum"), spec.get("maximum")
    if is_number(least) and is_number(most):
        return f"{_json(least)} to {_json(most)}"
    named = (
        ("at least", least),
        ("at most", most),
        ("more than", spec.get("exclusiveMinimum")),
        ("less than", spec.get("exclusiveMaximum")),
    )
    return ", ".join(f"{words} {_json(bound)}" for words, bound in named if is_number(bound))


def _default(spec: dict[str, Json]) -> str:
    if "default" not in spec:
        return ""
    value = spec["default"]
    if isinstance(value, bool):
        return f"default {'yes' if value else 'no'}"
    text = value if isinstance(value, str) and value else _json(value)
    return f"default {text}" if len(text) <= MAX_DEFAULT else "with a default"


_YES_NO = {"yes": True, "y": True, "no": False, "n": False}


def _value(text: str, spec: Json, is_part: bool) -> Json:
    kind = spec.get("type") if isinstance(spec, dict) else None
    if kind == "string":
        return text
    if kind == "boolean" and text.casefold() in _YES_NO:
        return _YES_NO[text.casefold()]
    if kind == "array" and text and not text.startswith(("[", "{")):
        items = spec.get("items") if isinstance(spec, dict) else None
        return [_value(part.strip(), items, True) for part in text.split(",") if part.strip()]
    if kind == "object" and isinstance(spec, dict) and not is_part and text[:1] != "{":
        parts = read_form(text, spec, is_part=True)
        return text if parts is None else parts
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
