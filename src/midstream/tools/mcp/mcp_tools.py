"""What a server offers: made fit to be shown, pinned and told to a model, and an approved offer as a tool.

Every word of it is a stranger's: names, descriptions, and each text inside a schema. A person sees all
of it before a model sees any, with everything invisible spelled out. What a tool says of itself it may
do is a stranger's word, too. So every call may do anything, anywhere, and is made once; only where the
person's settings say `trustAnnotations` do the hints count, and even then they never let a call through
unasked: that is for rules.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from midstream.config.mcp_servers import McpServer
from midstream.language.names import Effect, Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import Capability
from midstream.safety.decoding import BadValue, checked, clean
from midstream.system.offloop import unless_stopped
from midstream.system.own_process import beginning
from midstream.tools.base import Planned, Tool
from midstream.tools.tool_text import MAX_CHARS, capped

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


def read_offers(tools: Iterable[Mapping[str, Any]]) -> tuple[Offer, ...]:
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


def describe_offer(offer: Offer) -> str:
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
    return describe_offer(offer).split("\n") if offer else []


def _by_name(found: Iterable[Offer]) -> dict[str, Offer]:
    return {offer.name: offer for offer in found}


# --- the answer to a call -----------------------------------------------------------------------

MAX_PARTS: Final = 200


def outcome_of(result: dict[str, Any]) -> ToolOutcome:
    """Return the outcome of a `tools/call` result; see MCP's `CallToolResult`.

    Pictures, sounds and files are named, not given. Structured content is told where there is no
    text that says the same.
    """
    content = result.get("content") or []
    texts = [_text(part) for part in content[:MAX_PARTS]]
    if len(content) > MAX_PARTS:
        texts.append(f"[{len(content) - MAX_PARTS:,} more parts left out]")
    structured = result.get("structuredContent")
    if structured is not None and not any(part.get("type") == "text" for part in content):
        texts.append(_json(structured))
    text = capped(clean("\n\n".join(text for text in texts if text)), MAX_CHARS)
    if result.get("isError"):
        return ToolOutcome(outcome="failed", text=text or "The server says it failed, not how.")
    return ToolOutcome(outcome="completed", text=text or "(no output)")


def _text(part: dict[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return capped(str(part.get("text", "")), MAX_CHARS)
        case "image" | "audio" as kind:
            size = len(str(part.get("data", ""))) * 3 // 4
            return f"[{kind} {str(part.get('mimeType', ''))[:100]}, {size:,} bytes, not shown]"
        case "resource_link":
            return f"[link {beginning(str(part.get('uri', '')), 1_000)}]"
        case "resource":
            inner = part.get("resource") or {}
            words = capped(str(inner.get("text", "")), MAX_CHARS)
            return f"[resource {beginning(str(inner.get('uri', '')), 1_000)}]\n{words}".rstrip()
        case _:
            return "[a part of an unknown kind, left out]"


def _json(value: Any) -> str:
    try:
        return capped(json.dumps(checked(value), ensure_ascii=False), MAX_CHARS)
    except (BadValue, TypeError, ValueError, RecursionError) as error:
        return f"[structured content that cannot be used: {error}]"


# --- an approved offer as a tool ----------------------------------------------------------------

Caller: TypeAlias = Callable[
    [McpServer, Offer, dict[str, Json], Callable[[str], None]], Coroutine[Any, Any, ToolOutcome]
]


MAY_HAVE_DONE: Final = "It may have done it: verify before repeating it."
"""What the model is told where a server had a call and gave no answer."""


def tool_of(server: McpServer, offer: Offer, call: Caller) -> Tool:
    """Return an approved offer as a tool; `call` does its calls."""
    schema = plain_schema(offer.parameters)
    assert isinstance(schema, dict)
    spec = ToolSpec(
        name=call_name(server.name, offer.name),
        description=f"[MCP server {server.name}] {plain_words(offer.description)}".strip(),
        parameters={"type": "object", "properties": {}} | schema,
        effect=_effect(server, offer),
        timeout_s=server.timeout_s + server.start_timeout_s,
        reviewed=True,
    )

    def plan(arguments: dict[str, Json], context: ToolContext) -> Planned:
        head = f"MCP server {server.name}, tool {visible(offer.name)}, with"
        words = json.dumps(arguments, indent=2, sort_keys=True)
        return Planned(requests=_requests(server, offer), shows=f"{head}\n{words}")

    async def function(arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
        # Once told to stop it is cancelled, which its server hears.
        called = call(server, offer, arguments, context.progress)
        return await unless_stopped(called, context.stop) or ToolOutcome(
            outcome="unknown",
            text=f"Stopped: the server was told so. {MAY_HAVE_DONE}",
        )

    return Tool(spec=spec, function=function, plan=plan)


def _effect(server: McpServer, offer: Offer) -> Effect:
    if server.trusts_annotations and offer.hints.get("readOnlyHint"):
        return "read"
    if server.trusts_annotations and offer.hints.get("idempotentHint"):
        return "idempotent"
    return "once"


def _requests(server: McpServer, offer: Offer) -> tuple[Capability, ...]:
    """Return what a call asks for: the tool, and the net unless a trusted hint says it stays home.

    The net is named by the server, not `*`: granting it must not open the net to anything else.
    """
    tool = Capability(kind="tool", target=call_name(server.name, offer.name))
    if server.trusts_annotations and offer.hints.get("openWorldHint") is False:
        return (tool,)
    host = urlsplit(server.url).hostname or "" if server.url else f"mcp__{server.name}"
    return (tool, Capability(kind="net", target=host))
