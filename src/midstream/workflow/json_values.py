"""JSON values in a handler's hands: copied out, compared and checked on the way back."""

import reprlib
from collections.abc import Mapping

import msgspec

from midstream.core.errors import AuthorMistake
from midstream.core.names import Json


def copied(value: Json) -> Json:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def changed_keys(name: str, before: Mapping[str, Json], after: Json) -> dict[str, Json]:
    """Return the keys of `after` that are new or hold something else, copied.

    The copy is made by way of JSON text: it is what a replay of the journal would read.
    """
    if not isinstance(after, dict):
        raise AuthorMistake(
            f"{name} is {_shown(after)}, no longer a dict.",
            hint=f"Change its keys instead: run.{name}['key'] = value.",
        )
    nothing = object()
    changed = {
        key: value for key, value in after.items() if not _is_same(before.get(key, nothing), value)
    }
    _require_json(name, changed)
    try:
        kept: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(changed, enc_hook=_plain))
    except UnicodeEncodeError as error:
        raise AuthorMistake(
            f"{name} holds text that is no Unicode: {error}.",
            hint="Read such text with errors='replace'.",
        ) from error
    return kept


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are the same; unlike `==`, 1, 1.0 and True are three."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


_JSON_TYPES = (str, int, float, bool, type(None))

MAX_DEPTH = 200
"""How deep lists and dicts may stand in each other; what holds itself is deeper than any."""


def _require_json(path: str, value: Json, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise AuthorMistake(
            f"{path[:60]}... is nested more than {MAX_DEPTH} deep, or holds itself.",
            hint="Keep plain data in it: nothing that holds itself.",
        )
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise AuthorMistake(
                    f"{path} has the key {key!r}, which is no text.",
                    hint="Keys of JSON objects are strings.",
                )
            _require_json(f"{path}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _require_json(f"{path}[{number}]", item, depth + 1)
    elif not isinstance(value, _JSON_TYPES) or value != value or value in (_INF, -_INF):
        raise AuthorMistake(
            f"{path} is {_shown(value)}, which is no JSON value.",
            hint="Keep text, numbers, true/false, None, lists and dicts in it.",
        )


_INF = float("inf")


def _plain(value: object) -> Json:
    """Return a value of a type derived from a JSON type (such as numpy's floats) as the plain one."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"
