"""What changed within a large value of `common_data`, so that what is kept follows the change.

A handler that appends one message to a list of fifty makes one message true, not fifty. Edits are made
one after the other; each is about the value at its path as those before it left it. A small value that
changed is said whole instead (`HandlerRan.changed`): that is shorter, and easier to read.
"""

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Final, TypeAlias

import msgspec

from midstream.language.names import Json

Path: TypeAlias = tuple[str | int, ...]
"""Keys of objects and numbers of items (from 0) that lead to a value, beginning with a key of the data."""

LARGE: Final = 512
"""Characters from which on a value counts as large. A thing that is no text counts as some."""

_LEAST: Final = 8
_FAR: Final = 64
"""How many items dropped at one place are looked for before the rest counts as written anew."""


class Splice(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="do", tag="splice"):
    """Of a list's items, or a text's characters, `drop` are gone from `at` on, and `put` is there."""

    path: Path
    at: int
    drop: int
    put: list[Json] | str


class Assign(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="do", tag="assign"):
    """The value at a path, new or another one."""

    path: Path
    value: Json


class Remove(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="do", tag="remove"):
    """A key of an object is gone."""

    path: Path


Edit: TypeAlias = Splice | Assign | Remove


# --- making edits true --------------------------------------------------------------------------


def edited(data: dict[str, Json], edits: Iterable[Edit]) -> dict[str, Json]:
    """Return the data with the edits made; what they do not touch is shared with `data`."""
    for edit in edits:
        data = _edited(data, edit.path, edit)
    return data


def _edited(value: Json, path: Path, edit: Edit) -> Json:
    step, rest = path[0], path[1:]
    made = value.copy()
    if rest:
        made[step] = _edited(value[step], rest, edit)
    elif isinstance(edit, Splice):
        made[step] = _spliced(value[step], edit)
    elif isinstance(edit, Assign):
        made[step] = edit.value
    else:
        made.pop(step, None)
    return made


def _spliced(value: Json, edit: Splice) -> Json:
    behind = edit.at + edit.drop
    if isinstance(value, str):
        return f"{value[: edit.at]}{edit.put}{value[behind:]}"
    made = value.copy()
    made[edit.at : behind] = edit.put
    return made


# --- finding them -------------------------------------------------------------------------------


def is_large(value: Json) -> bool:
    """Return whether a value is so large that what changed in it is said rather than the whole."""
    return _weighed(value, LARGE) <= 0


def _weighed(value: Json, room: int) -> int:
    """Return what is left of the room once the value has its own; looks no further than that."""
    if isinstance(value, str):
        return room - _LEAST - len(value)
    room -= _LEAST
    if isinstance(value, dict):
        for key, item in value.items():
            if (room := _weighed(item, room - len(key))) <= 0:
                return room
    elif isinstance(value, list):
        for item in value:
            room = room - _LEAST - len(item) if type(item) is str else _weighed(item, room)
            if room <= 0:
                return room
    return room


def edits_between(path: Path, before: Json, after: Json) -> list[Edit] | None:
    """Return the edits that lead from one value to another, none if they are the same JSON.

    None where most of it is new, or another kind of thing: then the whole is shorter.
    """
    edits = _between(path, before, after)
    # The whole written anew is the only edit there is then.
    is_whole = bool(edits) and isinstance(edits[0], Assign) and edits[0].path == path
    return None if is_whole else edits


def _between(path: Path, before: Json, after: Json) -> list[Edit]:
    if before is after:
        return []
    kind = type(before)
    if kind is not type(after):
        return [Assign(path=path, value=after)]
    if kind is dict:
        return _in_object(path, before, after)
    if kind is list:
        return _in_list(path, before, after)
    if before == after:
        return []
    if kind is str and len(before) >= _LEAST and after.startswith(before):
        return [Splice(path=path, at=len(before), drop=0, put=after[len(before) :])]
    return [Assign(path=path, value=after)]


def _in_object(path: Path, before: dict[str, Json], after: dict[str, Json]) -> list[Edit]:
    edits: list[Edit] = []
    for key, value in after.items():
        if key in before:
            edits += _between((*path, key), before[key], value)
        else:
            edits.append(Assign(path=(*path, key), value=value))
    edits += (Remove(path=(*path, key)) for key in before if key not in after)
    if len(edits) > 1 + len(after) // 2 or not all(isinstance(key, str) for key in after):
        return [Assign(path=path, value=after)]
    return edits


def _in_list(path: Path, before: list[Json], after: list[Json]) -> list[Edit]:
    first = _alike(before, after)
    old, new = before[first:], after[first:]
    if not old:
        return [Splice(path=path, at=first, drop=0, put=new)] if new else []
    dropped = _dropped(old, new)
    if dropped:
        gone = Splice(path=path, at=first, drop=dropped, put=[])
        put = new[len(old) - dropped :]
        at = len(before) - dropped
        return [gone, Splice(path=path, at=at, drop=0, put=put)] if put else [gone]
    last = _alike(old[::-1], new[::-1])
    old, new = old[: len(old) - last], new[: len(new) - last]
    if len(old) == len(new) == 1 and first + last:
        return _between((*path, first), old[0], new[0])
    if len(new) > 1 + (first + last):
        return [Assign(path=path, value=after)]
    return [Splice(path=path, at=first, drop=len(old), put=new)]


def _dropped(old: Sequence[Json], new: Sequence[Json]) -> int:
    """Return how many items went at the beginning, if all that follow are still there; else 0."""
    for count in range(1, min(len(old), _FAR + 1)):
        rest = len(old) - count
        if rest <= len(new) and _are_same(old[count:], new[:rest]):
            return count
    return 0 if new else len(old)


def _are_same(one: Sequence[Json], other: Sequence[Json]) -> bool:
    """Return whether two lists of one length hold the same."""
    # Texts and numbers that were left alone are the very same objects, which is asked in no time.
    return all(map(is_, one, other)) or all(map(is_same, one, other))


def _alike(one: Sequence[Json], other: Sequence[Json]) -> int:
    """Return how many items two lists have in common at their beginning."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a is not b and not is_same(a, b):
            break
        count += 1
    return count


def is_same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are the same; unlike `==`, 1, 1.0 and True are three."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and _are_same(one, other)
    return bool(one == other)
