"""What a server offers, made fit to be shown, pinned and told to a model.

Every word of it is a stranger's: names, descriptions, and each text inside a schema. A person sees all
of it before a model sees any, with everything invisible spelled out.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from midstream.language.names import Json
from midstream.safety.decoding import BadValue, checked, clean

MAX_TOOLS: Final = 128
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 4_000
MAX_SCHEMA: Final = 30_000
"""Characters of a tool's schema as JSON."""
MAX_OFFERED: Final = 400_000
"""Characters of everything one server may offer."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class BadOffer(ValueError):
    """Why what a server offers is not taken."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it. `hints` are its annotations: the word of a stranger."""

    name: str
    description: str = ""
    parameters: dict[str, Json] = {}
    hints: dict[str, bool] = {}

    @property
    def sha256(self) -> str:
        """Return what the offer is pinned to, in hex."""
        return hashlib.sha256(canonical(msgspec.to_builtins(self)).encode()).hexdigest()


def canonical(value: Json) -> str:
    """Return a JSON value as the one text that it is hashed by: ASCII, keys sorted, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def call_name(server: str, tool: str) -> str:
    """Return what models call a tool by: `mcp__SERVER__TOOL`, as every provider takes it.

    What was cut or replaced is told apart by a piece of the hash of the whole name.
    """
    plain = _NOT_IN_NAMES.sub("_", tool)
    name = f"mcp__{server}__{plain}"
    if plain == tool and len(name) <= MAX_NAME:
        return name
    mark = hashlib.sha256(tool.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{mark}"


def offers(tools: Iterable[Mapping[str, Any]]) -> tuple[Offer, ...]:
    """Return what a server's `tools/list` offers, sorted by name.

    Raises:
        BadOffer: there are too many, two have one name, or one is not what a tool can be.
    """
    found: dict[str, Offer] = {}
    size = 0
    for tool in tools:
        if len(found) == MAX_TOOLS:
            raise BadOffer(f"it offers more than {MAX_TOOLS} tools")
        offer = _offer(tool)
        if offer.name in found:
            raise BadOffer(f"it offers two tools of the name {visible(offer.name)!r:.80}")
        found[offer.name] = offer
        size += len(canonical(msgspec.to_builtins(offer)))
        if size > MAX_OFFERED:
            raise BadOffer(f"its tools are described in more than {MAX_OFFERED:,} characters")
    return tuple(found[name] for name in sorted(found))


def _offer(tool: Mapping[str, Any]) -> Offer:
    name, description = tool.get("name"), tool.get("description") or ""
    schema, hints = tool.get("inputSchema"), tool.get("annotations") or {}
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        raise BadOffer("one of its tools has no usable name")
    named = f"its tool {name!r:.80}"
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        raise BadOffer(f"{named} has a description of more than {MAX_DESCRIPTION:,} characters")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise BadOffer(f"{named} has parameters that are no object")
    try:
        schema = checked(schema)
        length = len(canonical(schema))
    except (BadValue, ValueError, RecursionError) as error:
        raise BadOffer(f"{named} has parameters that cannot be used: {error}") from None
    if length > MAX_SCHEMA:
        raise BadOffer(f"{named} has parameters of more than {MAX_SCHEMA:,} characters")
    known = {key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)}
    return Offer(name=name, description=clean(description), parameters=schema, hints=known)


def plain_words(text: str) -> str:
    """Return a stranger's words as a model gets them: without what a person could not see."""
    return "".join(sign for sign in clean(text) if sign.isprintable() or sign in "\n\t")


def plain_schema(value: Json) -> Json:
    """Return a schema with every text in it as `plain_words` has it."""
    if isinstance(value, str):
        return plain_words(value)
    if isinstance(value, dict):
        return {plain_words(key): plain_schema(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_schema(item) for item in value]
    return value


def visible(text: str) -> str:
    """Return foreign words with everything that is not printed spelled out, line breaks kept."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else _spelled(sign) for sign in clean(text)
    )


def _spelled(sign: str) -> str:
    number = ord(sign)
    return f"\\u{{{number:x}}}" if number > 0xFFFF else f"\\u{number:04x}"


def shown(offer: Offer) -> str:
    """Return all of an offer as a person reads it before saying yes: nothing is left out."""
    words = "".join(f"\n  | {line}" for line in visible(offer.description).split("\n"))
    said = ", ".join(f"{key}: {value}".lower() for key, value in offer.hints.items())
    schema = json.dumps(offer.parameters, indent=2, sort_keys=True).replace("\n", "\n  | ")
    return f"{visible(offer.name)}  (it says of itself: {said or 'nothing'}){words}\n  | {schema}"


def difference(before: Iterable[Offer], now: Iterable[Offer]) -> str:
    """Return what is offered otherwise than before, as lines with + and -; "" for nothing."""
    old, new = _by_name(before), _by_name(now)
    lines: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            was, is_now = _lines(old.get(name)), _lines(new.get(name))
            lines += list(difflib.unified_diff(was, is_now, lineterm="", n=2))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _lines(offer: Offer | None) -> list[str]:
    return shown(offer).split("\n") if offer else []


def _by_name(found: Iterable[Offer]) -> dict[str, Offer]:
    return {offer.name: offer for offer in found}
