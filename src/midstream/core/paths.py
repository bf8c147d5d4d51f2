"""Dotted paths into a run's data, such as `common_data.summary` or `last_response`."""

from collections.abc import Iterable

from midstream.core.names import Json
from midstream.core.run import Run


class Missing:
    """What `look_up` returns for a path that leads nowhere."""


def look_up(run: Run, path: str) -> Json | Missing:
    """Return the value at a path that begins with common_data, variables, input, resume_input or
    last_response (a reply's text), visits or last (`last.text`, `last.value`), or `Missing()`.

    List items are named by their index.
    """
    first, *rest = path.split(".")
    last = run.last_response
    roots: dict[str, Json] = {
        "common_data": run.common_data,
        "variables": run.variables,
        "input": run.input,
        "resume_input": run.resume_input,
        "last_response": None if last is None else last.text,
        "last": last_of(run),
        "visits": run.visits,
    }
    if first not in roots:
        return Missing()
    if first == "visits" and len(rest) == 1:
        return run.visits.get(rest[0], 0)
    return within(roots[first], rest)


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


def last_of(run: Run) -> dict[str, Json]:
    """Return the last reply or result as expressions see it: its `text`, `value` and `arguments`."""
    last = run.last_response
    if last is None:
        return {"text": "", "value": None, "arguments": {}}
    arguments = last.calls[0].arguments if last.calls else {}
    return {"text": last.text, "value": last.value, "arguments": arguments}


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
