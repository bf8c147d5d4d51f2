"""The first difference between two values of the same shape, such as two folded runs, in words.

Structs are walked field by field, dicts key by key, tuples and lists item by item. A run's plan is
left out: it is worked out from the definition, which is compared itself.
"""

from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from midstream.core.append_only import Book, Log
from midstream.language.names import is_same

MAX_SHOWN = 120
"""Characters of a value that are shown."""

_DERIVED = "plan"
_NOTHING = "nothing"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two values part: `field` is a path such as `contexts.talk[3].text`; both values, short."""

    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.field or 'the whole'}: {self.expected} -> {self.found}"


def first_difference(expected: object, found: object) -> Difference | None:
    """Return the first place where `found` is not what was expected, None if there is none."""
    waiting: list[Iterator[tuple[str, object, object]]] = [iter((("", expected, found),))]
    # A stack of its own: values nest as deep as JSON may, and Python's stack does not.
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
            continue
        path, left, right = step
        if left is right:
            continue
        parts = _parts(path, left, right)
        if parts is not None:
            waiting.append(parts)
        elif not is_same(left, right):
            return Difference(
                field=path.removeprefix("."), expected=_shown(left), found=_shown(right)
            )
    return None


class _Nothing:
    """What stands where one side has no such key or item."""


_MISSING = _Nothing()


def _parts(path: str, left: object, right: object) -> Iterator[tuple[str, object, object]] | None:
    """Return the parts of two values of one shape side by side, None if they are not."""
    match left, right:
        case msgspec.Struct(), msgspec.Struct() if type(left) is type(right):
            names = (name for name in left.__struct_fields__ if name != _DERIVED)
            return ((f"{path}.{name}", getattr(left, name), getattr(right, name)) for name in names)
        case ((dict() | Book()), (dict() | Book())):
            keys = dict.fromkeys((*left, *right))
            return (
                (f"{path}.{key}", left.get(key, _MISSING), right.get(key, _MISSING)) for key in keys
            )
        case ((tuple() | list() | Log()), (tuple() | list() | Log())):
            pairs = zip_longest(left, right, fillvalue=_MISSING)
            return ((f"{path}[{index}]", one, other) for index, (one, other) in enumerate(pairs))
        case _:
            return None


def _shown(value: object) -> str:
    if isinstance(value, _Nothing):
        return _NOTHING
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    left = len(text) - MAX_SHOWN
    return text if left <= 0 else f"{text[:MAX_SHOWN]} [+{left} characters]"
