"""A server's answer to a call, as text a model can use: capped, and never more than text."""

import json
from typing import Any, Final

from midstream.runtime.ports import ToolOutcome
from midstream.safety.decoding import BadValue, checked, clean
from midstream.tools.tool_text import MAX_CHARS, capped

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
            return f"[link {str(part.get('uri', ''))[:1_000]}]"
        case "resource":
            inner = part.get("resource") or {}
            words = capped(str(inner.get("text", "")), MAX_CHARS)
            return f"[resource {str(inner.get('uri', ''))[:1_000]}]\n{words}".rstrip()
        case _:
            return "[a part of an unknown kind, left out]"


def _json(value: Any) -> str:
    try:
        return capped(json.dumps(checked(value), ensure_ascii=False), MAX_CHARS)
    except (BadValue, TypeError, ValueError, RecursionError) as error:
        return f"[structured content that cannot be used: {error}]"
