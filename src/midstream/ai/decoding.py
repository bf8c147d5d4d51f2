"""The strict decoder for what models send: hostile until it has passed here.

Whatever is wrong with a tool call's arguments becomes words for the model, never a crash and never
a value another part of midstream would choke on (NaN, a NUL, half a surrogate pair, a number no
journal can hold).
"""

import json
import math
from typing import Final, NoReturn

from midstream.core.names import Json

MAX_CHARS: Final = 1_000_000
MAX_DEPTH: Final = 64
REPLACEMENT: Final = "\ufffd"

_AS_ESCAPED = "surrogatepass"


class BadArguments(ValueError):
    """Why a tool call's arguments cannot be used, in words for the model."""


def clean(text: str) -> str:
    """Return the text with lone surrogates and NULs as U+FFFD; surrogate pairs become their sign."""
    if "\x00" in text:
        text = text.replace("\x00", REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", _AS_ESCAPED).decode("utf-16-le", "replace")
    return text


def decode_arguments(text: str) -> dict[str, Json]:
    """Return the arguments a model sent as JSON text. No text at all means no arguments.

    Raises:
        BadArguments: they are no JSON object, or hold what must not come in.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_CHARS:
        raise BadArguments(f"they have {len(text):,} characters; at most {MAX_CHARS:,} are taken")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise BadArguments(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise BadArguments(f"they are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadArguments(f"they are a JSON {_KINDS[type(value)]}, not an object")
    checked: dict[str, Json] = _checked(value, 1)
    return checked


_TOO_DEEP = f"they are nested deeper than {MAX_DEPTH} levels"
_KINDS = {
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise BadArguments(f"the key {twice!r:.60} stands twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise BadArguments(f"{word} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadArguments(f"the number {digits:.30} is too large")
    return number


def _whole(digits: str) -> int:
    if len(digits) <= 20 and -(2**63) <= (number := int(digits)) < 2**64:
        return number
    raise BadArguments(f"the number {digits:.30} does not fit 64 bits")


def _checked(value: Json, depth: int) -> Json:
    if depth > MAX_DEPTH:
        raise BadArguments(_TOO_DEEP)
    if isinstance(value, str):
        if "\x00" in value:
            raise BadArguments("a string in them holds the character NUL")
        return clean(value)
    if isinstance(value, dict):
        return {_checked(key, depth): _checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_checked(item, depth + 1) for item in value]
    return value
