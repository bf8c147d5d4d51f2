"""A workflow's `variables`, changed from outside: by name, and only to a value of the same kind."""

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.language.nearest import did_you_mean


def changed(
    own: Mapping[str, Json], values: Mapping[str, Json], settings: Sequence[str]
) -> dict[str, Json]:
    """Return the variables to override.

    Args:
        own: the workflow's variables, with their values.
        values: new values by name.
        settings: `name=value` texts. A value is read as JSON, or as it is where the workflow's own
            value is text.

    Raises:
        UserMistake: a text sets nothing, there is no such variable, or its value is of another kind
            (null takes any).
    """
    found = {**values, **dict(_set(text, own) for text in settings)}
    for name, value in found.items():
        _require(name, own)
        wanted = _kind(own[name])
        if wanted not in ("anything", _kind(value)):
            raise UserMistake(
                f"The variable {name} takes {wanted}, not {value!r}.",
                hint=f"The workflow's own value is {json.dumps(own[name])}.",
            )
    return found


def _set(text: str, own: Mapping[str, Json]) -> tuple[str, Json]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise UserMistake(f"--set {text!r} sets nothing.", hint="Write --set name=value.")
    _require(name, own)
    if isinstance(own[name], str):
        return name, value
    try:
        return name, json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return name, value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _require(name: str, own: Mapping[str, Json]) -> None:
    if name not in own:
        raise UserMistake(f"There is no variable {name!r}.", hint=did_you_mean(name, own))


def _kind(value: Json) -> str:
    match value:
        case None:
            return "anything"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
