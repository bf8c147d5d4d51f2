"""Dotted paths into JSON data, such as `common_data.summary`."""

from collections.abc import Iterable

from midstream.language.names import Json


class Missing:
    """What is returned for a path that leads nowhere."""


def within(value: Json, parts: Iterable[str]) -> Json | Missing:
    """Return what the parts of a path lead to in a value."""
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _is_place(part, value):
            value = value[int(part)]
        else:
            return Missing()
    return value


def _is_place(part: str, items: list[Json]) -> bool:
    """Return whether a part of a path is the number of an item, from 0, written plainly."""
    is_number = part.isascii() and part.isdecimal() and len(part) < 10
    return is_number and str(int(part)) == part and int(part) < len(items)


def stored(data: dict[str, Json], path: str, value: Json) -> dict[str, Json]:
    """Return `common_data` with a value at a path in it, such as `report` or `common_data.a.b`.

    What stands in the way and is no object is replaced.
    """
    first, *rest = path.removeprefix("common_data.").split(".")
    if not rest:
        return {**data, first: value}
    inner = data.get(first)
    held = inner if isinstance(inner, dict) else {}
    return {**data, first: stored(held, ".".join(rest), value)}
