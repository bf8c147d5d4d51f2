"""The one strict decoder for what models and MCP servers send: hostile until it has passed here.

Whatever is wrong becomes words for whoever asked, never a crash and never a value another part of
midstream would choke on (NaN, a NUL, half a surrogate pair, a number no journal can hold). Time and
memory are linear in the size of the text, which is capped.
"""

import json
import math
from collections import Counter
from typing import Final, NoReturn

from midstream.language.names import Json

MAX_CHARS: Final = 1_000_000
MAX_DEPTH: Final = 64
REPLACEMENT: Final = "\ufffd"

_AS_ESCAPED = "surrogatepass"


class BadValue(ValueError):
    """Why a foreign text cannot be used: words that say "they" of what it holds."""


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
        BadValue: they are no JSON object, or hold what must not come in.
    """
    return decode_object(text) if text.strip() else {}


def decode_object(text: str, *, max_chars: int = MAX_CHARS) -> dict[str, Json]:
    """Return the JSON object a text is.

    Half surrogate pairs become U+FFFD. Whole numbers fit 64 bits, others are finite, no key stands
    twice in one object, nothing is nested deeper than `MAX_DEPTH` and no string holds a NUL.

    Raises:
        BadValue: it is not such an object, or longer than `max_chars`.
    """
    if len(text) > max_chars:
        raise BadValue(f"they have {len(text):,} characters; at most {max_chars:,} are taken")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise BadValue(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise BadValue(f"they are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadValue(f"they are a JSON {_KINDS[type(value)]}, not an object")
    found: dict[str, Json] = checked(value)
    return found


def checked(value: Json, depth: int = 1) -> Json:
    """Return a value somebody else has decoded, as `decode_object` would have let it in.

    Keys that stood twice cannot be seen any more.

    Raises:
        BadValue: it holds what must not come in.
    """
    if depth > MAX_DEPTH:
        raise BadValue(_TOO_DEEP)
    if isinstance(value, str):
        if "\x00" in value:
            raise BadValue("a string in them holds the character NUL")
        return clean(value)
    if isinstance(value, dict):
        return {checked(key, depth): checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [checked(item, depth + 1) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        raise BadValue("a number in them does not fit 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadValue("a number in them is not finite")
    return value


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
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise BadValue(f"the key {twice[:60]!r:.60} stands twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise BadValue(f"{word} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadValue(f"the number {digits:.30} is too large")
    return number


def _whole(digits: str) -> int:
    if len(digits) <= _INT_DIGITS and _LEAST <= (number := int(digits)) <= _MOST:
        return number
    raise BadValue(f"the number {digits:.30} does not fit 64 bits")


_INT_DIGITS, _LEAST, _MOST = 20, -(2**63), 2**64 - 1
