"""Facts of older formats: brought up to today on reading; the bytes that were kept stay as they are."""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from midstream.core.codec import FORMAT, Undecodable, decode_fact
from midstream.core.events import AnyFact

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def _with_reviews(fact: dict[str, Any]) -> dict[str, Any]:
    """Return a fact of format 2, when a yes was one to a tool, with calls of our tools reviewed."""
    if "definition" in fact:
        _review(fact["definition"])
    return fact


def _review(definition: dict[str, Any]) -> None:
    tools = definition.get("tools", {})
    for name in _REVIEWED_SINCE_3 & tools.keys():
        tools[name].update(needs_approval=False, reviewed=True)
    for inner in definition.get("workflows", {}).values():
        _review(inner)


_REVIEWED_SINCE_3 = {"edit_file", "execute_terminal", "write_file"}

UPGRADES: dict[int, Upgrade] = {
    **dict.fromkeys((1, *range(3, 13)), lambda fact: fact),
    2: _with_reviews,
}
"""For each older format: how one of its facts, as a JSON object, reads in the next format."""


def fact_of(body: bytes, format: int) -> AnyFact:
    """Return the fact that was written in a format, as today's.

    Raises:
        Undecodable: it is not one, or its format is not known here.
    """
    if format == FORMAT:
        return decode_fact(body)
    if format > FORMAT:
        raise Undecodable(f"it has format {format}, and this version knows {FORMAT}")
    try:
        fact = msgspec.json.decode(body, type=dict[str, Any])
        for older in range(format, FORMAT):
            fact = UPGRADES[older](fact)
        return decode_fact(msgspec.json.encode(fact))
    except Undecodable:
        raise
    except KeyError as error:
        raise Undecodable(f"its format is unknown, {format}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise Undecodable(str(error)) from error
