"""Dotted paths into JSON data, such as `common_data.summary`: what they lead to, and why to nothing."""

from collections.abc import Iterable

from midstream.language.errors import nearest
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


_MAX_KEYS = 200
_MAX_LISTED = 8
_MAX_KEY_CHARS = 60


def hint_for(part: str, *, of: Json, at: str) -> str:
    """Return what the value `of`, which stands at the path `at`, has instead of `part`."""
    if isinstance(of, list):
        return f"{at} is a list of {len(of)}, numbered from 0."
    if not isinstance(of, dict):
        kind = "null" if of is None else "text" if isinstance(of, str) else "one value"
        return f"{at} is {kind}, without parts."
    known = [key for key, _ in zip(of, range(_MAX_KEYS), strict=False)]
    known = [key for key in known if isinstance(key, str) and len(key) <= _MAX_KEY_CHARS]
    known = [key for key in known if key.isprintable()]
    if not known:
        return f"{at} is empty." if not of else ""
    best = nearest(part[:_MAX_KEY_CHARS], known)
    if best is not None:
        return f"Did you mean {best!r}?"
    listed = ", ".join(sorted(known)[:_MAX_LISTED])
    more = len(of) - min(len(known), _MAX_LISTED)
    return f"{at} has: {listed}{f' and {more} more' if more > 0 else ''}."
