"""What branches changed of `common_data`, and how it is merged when they join.

Objects are merged key by key, at any depth: two branches that write `report.left` and `report.right`
both count. Of two that write the same value, the one that is listed later does.
"""

from collections.abc import Iterator

from msgspec.json import encode

from midstream.core.run import Change
from midstream.language.names import Json

_HALTS_OWN = ("resume_input", "interrupted_state", "interrupted_text")
"""Keys a halt sets: they are a branch's own."""


def changes_since(base: dict[str, Json], data: dict[str, Json]) -> tuple[Change, ...]:
    """Return what is different in `data`."""
    return tuple(change for change in _changes(base, data) if change.path[0] not in _HALTS_OWN)


def _changes(
    base: dict[str, Json], data: dict[str, Json], above: tuple[str, ...] = ()
) -> Iterator[Change]:
    for key, value in data.items():
        path = (*above, key)
        if key not in base:
            yield Change(path=path, value=value)
        elif base[key] is value:
            continue
        elif isinstance(value, dict) and isinstance(base[key], dict):
            yield from _changes(base[key], value, path)
        elif not _is_same(base[key], value):
            yield Change(path=path, value=value)
    for key in base:
        if key not in data:
            yield Change(path=(*above, key), is_gone=True)


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two values are the same JSON: 1, 1.0 and true are three."""
    return bool(one == other) and encode(one) == encode(other)


def merged(data: dict[str, Json], change: Change) -> dict[str, Json]:
    """Return the data with a change made in it."""
    return _made(data, change.path, change)


def _made(data: dict[str, Json], path: tuple[str, ...], change: Change) -> dict[str, Json]:
    key, *rest = path
    held = data.get(key)
    if rest:
        if change.is_gone and not isinstance(held, dict):
            return data
        inner = held if isinstance(held, dict) else {}
        return {**data, key: _made(inner, tuple(rest), change)}
    if change.is_gone:
        return {name: value for name, value in data.items() if name != key}
    return {**data, key: _joined(held, change.value)}


def _joined(held: Json, value: Json) -> Json:
    if not isinstance(held, dict) or not isinstance(value, dict):
        return value
    return {**held, **{key: _joined(held.get(key), inner) for key, inner in value.items()}}
