"""JSON values in a handler's hands: copied out, compared and checked on the way back."""

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from midstream.core.data_edits import Assign, Edit, Splice, edits_between, is_large, is_same
from midstream.core.events import Usage
from midstream.core.inputs import RequestedCall
from midstream.language.errors import AuthorMistake
from midstream.language.names import Json
from midstream.runtime.user_words import readable


def copied(value: Json) -> Json:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        if _NEVER_CHANGED.issuperset(map(type, value.values())):
            return value.copy()
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        if _NEVER_CHANGED.issuperset(map(type, value)):
            return value.copy()
        return [copied(item) for item in value]
    return value


def changed_keys(name: str, before: Mapping[str, Json], after: Json) -> dict[str, Json]:
    """Return the keys of `after` that are new or hold something else, copied.

    The copy is made by way of JSON text: it is what a replay of the journal would read.
    """
    changed = {key: value for key, value in _items(name, after) if not _is_in(before, key, value)}
    return dict(plain(name, changed)) if changed else {}


def changes_between(
    name: str, before: Mapping[str, Json], after: Json
) -> tuple[dict[str, Json], tuple[Edit, ...]]:
    """Return the keys that are new or hold something else, and what changed within large values."""
    changed: dict[str, Json] = {}
    edits: list[Edit] = []
    for key, value in _items(name, after):
        if key in before and is_large(before[key]):
            found = edits_between((key,), before[key], value)
            edits += found or ()
            is_said = found is not None
        else:
            is_said = _is_in(before, key, value)
        if not is_said:
            changed[key] = value
    kept = dict(plain(name, changed)) if changed else {}
    return kept, tuple(_plain_edits(name, edits)) if edits else ()


def _items(name: str, after: Json) -> Iterable[tuple[str, Json]]:
    if not isinstance(after, dict):
        raise AuthorMistake(
            f"{name} is {_shown(after)}, no longer a dict.",
            hint=f"Change its keys instead: run.{name}['key'] = value.",
        )
    return after.items()


def _is_in(before: Mapping[str, Json], key: str, value: Json) -> bool:
    return key in before and is_same(before[key], value)


def _plain_edits(name: str, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Give the edits as a journal gives them back; see `plain`."""
    for edit in edits:
        if isinstance(edit, Splice) and _is_plain_text(edit.put):
            # Texts are never changed, and the list was made for the edit: nothing is to be copied.
            yield edit
            continue
        place = name + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in edit.path)
        if isinstance(edit, Splice) and edit.put:
            yield msgspec.structs.replace(edit, put=plain(place, edit.put, first=edit.at))
        elif isinstance(edit, Assign):
            yield msgspec.structs.replace(edit, value=plain(place, edit.value))
        else:
            yield edit


def _is_plain_text(value: list[Json] | str) -> bool:
    """Return whether a value is text, or a list of some, and so is read as it is written."""
    texts = (value,) if isinstance(value, str) else value
    room = MAX_BYTES // _MOST_OF_A_LETTER
    for text in texts:
        if type(text) is not str or not text.isascii() or (room := room - len(text) - 1) < 0:
            return False
    return True


def plain(name: str, value: Json, *, first: int = 0) -> Json:
    """Return a value as a journal gives it back, by way of JSON text.

    `first` is the number of the first item, where it is a part of a list.

    Raises:
        AuthorMistake: it is no JSON, or more of it than a run should carry.
    """
    _require_json(name, value, first=first)
    try:
        text = msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError as error:
        raise AuthorMistake(
            f"{name} holds text that is no Unicode: {readable(str(error))}.",
            hint="Read such text with errors='replace'.",
        ) from error
    if len(text) > MAX_BYTES:
        raise AuthorMistake(
            f"{name}: {len(text):,} bytes at once are more than the {MAX_BYTES:,} a run may keep.",
            hint="Write it to a file and keep the file's path.",
        )
    return msgspec.json.decode(text)


def json_text(name: str, value: Json) -> str:
    """Return a value as JSON text, a tuple as a list.

    Raises:
        AuthorMistake: it is no JSON.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        plain(name, value)  # says what in it is none
        raise AuthorMistake(f"{name} is no JSON: {error}.", hint=PLAIN_DATA) from error


def kept_call(call: RequestedCall) -> RequestedCall:
    """Return a model's call as a journal can keep it; what it cannot becomes a problem of the call."""
    name = readable(call.name[:MAX_NAME])
    try:
        if len(call.name) > MAX_NAME:
            raise AuthorMistake(
                f"The tool's name has {len(call.name):,} characters.",
                hint="Tools have short names.",
            )
        return RequestedCall(
            name=name,
            arguments=dict(plain("arguments", call.arguments)),
            problem=readable(call.problem),
        )
    except AuthorMistake as error:
        return RequestedCall(name=name, arguments={}, problem=readable(error.what))


def kept_object(arguments: dict[str, Json]) -> dict[str, Json]:
    """Return arguments a person wrote as a journal can keep them.

    Raises:
        AuthorMistake: they are no JSON.
    """
    return dict(plain("arguments", arguments))


def kept_usage(usage: Usage | None) -> Usage | None:
    """Return what a request used, None where the numbers are none."""
    try:
        return msgspec.convert(msgspec.to_builtins(usage), Usage | None)
    except (msgspec.ValidationError, TypeError):
        return None


def kept_choice(chosen: Json) -> Json:
    """Return what a transition handler returned, if it can be the name of a state or be shown."""
    if isinstance(chosen, str):
        return readable(chosen[:MAX_NAME])
    is_long = isinstance(chosen, int) and chosen.bit_length() > MAX_BITS
    if chosen is None or (isinstance(chosen, int | float) and not is_long):
        return chosen
    return [readable(_represented(chosen))]


PLAIN_DATA: Final = "Keep text, numbers, true/false, None, lists and dicts in it."

_JSON_TYPES = (str, int, float, bool, type(None))
_NEVER_CHANGED = frozenset(_JSON_TYPES)

MAX_DEPTH = 200
"""How deep lists and dicts may stand in each other; what holds itself is deeper than any."""


MAX_BITS = 4096
"""Bits of a whole number. Python refuses to write out numbers some times as long."""

MAX_BYTES = 16_000_000
"""Bytes of JSON one handler may add to a run, or one may be started with."""

_MOST_OF_A_LETTER = 6
"""Bytes that one letter of ASCII takes in JSON at most: a control is written as its number."""

MAX_NAME = 200
"""Characters of the name of a tool or a state that are looked at."""


def _require_json(path: str, value: Json, depth: int = 0, *, first: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise AuthorMistake(
            f"{path[:60]}... is nested more than {MAX_DEPTH} deep, or holds itself.",
            hint="Keep plain data in it: nothing that holds itself.",
        )
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise AuthorMistake(
                    f"{path} has the key {_represented(key)}, which is no text.",
                    hint="Keys of JSON objects are strings.",
                )
            _require_json(f"{path}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value, first):
            _require_json(f"{path}[{number}]", item, depth + 1)
    elif isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise AuthorMistake(
            f"{path} is a number of {value.bit_length():,} bits.", hint="Keep it as text."
        )
    elif not isinstance(value, _JSON_TYPES) or value != value or value in (_INF, -_INF):
        raise AuthorMistake(
            f"{path} is {_shown(value)}, which is no JSON value.",
            hint=PLAIN_DATA,
        )


_INF = float("inf")


def _plain(value: object) -> Json:
    """Return a value of a type derived from a JSON type (such as numpy's floats) as the plain one."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _shown(value: object) -> str:
    return f"{_represented(value)} ({type(value).__name__})"


def _represented(value: object) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to write out a number so long
        return "a very long number"
