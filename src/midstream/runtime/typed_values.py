"""The types of a program's own functions: their JSON Schema, and JSON values as what they say.

msgspec knows plain hints, enums, typed dicts, dataclasses and its own structs. A pydantic model says its
schema and reads its values itself, wherever it stands in them; pydantic is not imported for that.
"""

import re
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from midstream.language.names import Json

TYPES: Final = (
    "Use str, int, float, bool, list, dict, Literal and the like, enums, typed dicts, dataclasses, or "
    "msgspec or pydantic models."
)
SHOWN_PROBLEMS: Final = 3

T = TypeVar("T")


def schema_of(wanted: Any) -> dict[str, Json]:
    """Return the JSON Schema of a type; a dict is one already.

    Raises:
        TypeError: it has none.
    """
    if isinstance(wanted, dict):
        return wanted
    parts: dict[str, Json] = {}

    def put(name: str, part: Json) -> None:
        if parts.setdefault(name, part) != part:
            raise TypeError(f"two types are called {name}")

    def of_model(kind: Any) -> dict[str, Json]:
        if not hasattr(kind, "model_json_schema"):
            raise TypeError(f"the type {kind.__qualname__} has no JSON Schema")
        schema: dict[str, Json] = kind.model_json_schema(ref_template="#/$defs/{model}")
        for name, part in schema.pop("$defs", {}).items():
            put(name, part)
        if "$ref" in schema:  # one that holds itself
            return schema
        name = re.sub(r"[^\w.-]", "_", kind.__name__)
        put(name, schema)
        return {"$ref": f"#/$defs/{name}"}

    try:
        (schema,), others = msgspec.json.schema_components(
            (wanted,), schema_hook=of_model, ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        if "custom type" not in str(error):
            raise
        raise TypeError(
            "in a union a pydantic model may stand beside None alone. Make a model of the union: "
            "pydantic.RootModel[A | B]"
        ) from error
    for name, part in others.items():
        put(name, part)
    top = str(schema.get("$ref", "")).rpartition("/")[2]
    if top in parts:  # an agent is told an object as such, not by a reference to one
        schema = parts[top]
        if f'"#/$defs/{top}"' not in msgspec.json.encode(parts).decode():
            del parts[top]
    return {**schema, "$defs": parts} if parts else schema


def typed_value(value: Json, wanted: type[T]) -> T:
    """Return a JSON value as a value of the type `wanted`.

    Raises:
        msgspec.ValidationError: it does not fit; the message says where, and is for a model to read.
    """
    return msgspec.convert(value, wanted, dec_hook=_as_model)


def _as_model(kind: Any, value: Json) -> Any:
    from pydantic_core import ValidationError

    try:
        return kind.model_validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        words = [
            ": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"])))
            for each in problems[:SHOWN_PROBLEMS]
        ]
        raise ValueError("; ".join(words)) from error


_NOTES: Final = (
    *("description", "ge", "gt", "le", "lt"),
    *("multiple_of", "min_length", "max_length", "pattern"),
)


def noted(hint: Any) -> Any:
    """Return a type hint whose `Annotated` notes are msgspec's.

    Text describes, and what annotated-types and pydantic's `Field` say holds.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[noted(inner[0]), *(_note(each) for each in inner[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, map(noted, inner))
    if origin in (list, dict, set, tuple) and inner:
        return origin[tuple(noted(each) for each in inner)]
    return hint


def _note(note: Any) -> Any:
    if isinstance(note, msgspec.Meta):
        return note
    if isinstance(note, str):
        return msgspec.Meta(description=note)
    parts = (note, *getattr(note, "metadata", ()))
    found = ((name, getattr(part, name, None)) for part in parts for name in _NOTES)
    return msgspec.Meta(**{name: value for name, value in found if value is not None})
