"""The test servers that speak Anthropic's and Google's protocols; see `model_server`.

    with AnthropicServer([Reply(text="hi")]) as server:
        environ["ANTHROPIC_BASE_URL"] = server.base_url

    with GoogleServer([Reply(text="hi")]) as server:
        environ["GOOGLE_GEMINI_BASE_URL"] = server.base_url

A `Reply.finish_reason` is written in OpenAI's words (`length`, `content_filter`) and sent in the
provider's own.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

import msgspec

from midstream.language.names import Json
from support import anthropic_rules, google_rules
from support.model_server import (
    Asked,
    Body,
    Call,
    Event,
    ModelServer,
    Refused,
    Reply,
    arguments_text,
    cut,
)

# --- Anthropic --------------------------------------------------------------------------------

_ANTHROPIC_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_ANTHROPIC_ENDS: Final = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class AnthropicSpeech:
    """Anthropic's Messages API; see the protocol `Speech`."""

    path = ""
    broken = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {\n\n'

    def asked(self, target: str, headers: dict[str, str], body: Body) -> Asked | None:
        """Return what a request asks for; None when the API has no such URL."""
        if target.partition("?")[0] != "POST /v1/messages":
            return None
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return Asked(
            model=str(body.get("model", "")),
            body=body,
            key=headers.get("x-api-key") or bearer,
            is_streamed=bool(body.get("stream")),
        )

    def refused(self, asked: Asked) -> Refused | None:
        """Return the API's refusal of a request, None when it would take it."""
        found = anthropic_rules.problems(asked.body)
        return Refused(body=self.error(400, found[0])) if found else None

    def error(self, status: int, message: str, *, code: str | None = None, kind: str = "") -> Json:
        """Return the body of an error answer."""
        kind = _ANTHROPIC_KINDS.get(status, "api_error")
        return {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_scripted",
        }

    def error_event(self, message: str, *, code: str | None = None, kind: str = "") -> bytes:
        """Return an error that comes in the middle of a stream."""
        return _named(self.error(500, message, code=code, kind=kind))

    def wrong_key(self, key: str) -> str:
        """Return the words for a key that is not taken."""
        return "invalid x-api-key"

    def unknown_model(self, model: str) -> str:
        """Return the words for a model there is not."""
        return f"model: {model}"

    def stream(self, reply: Reply, asked: Asked) -> Iterator[Event]:
        """Return the events of a streamed reply, in order."""
        message = _message(reply, asked) | {"content": [], "stop_reason": None}
        yield Event(content=_named({"type": "message_start", "message": message}))
        index = count()
        words = cut(reply.refusal) + reply.pieces
        if reply.thinking:
            thought = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": part} for part in cut(reply.thinking)]
            signed = {"type": "signature_delta", "signature": "c2lnbmVk"}
            for content in _block(next(index), thought, [*deltas, signed]):
                yield Event(content=content)
        if words:
            deltas = [{"type": "text_delta", "text": piece} for piece in words]
            opened, *told, closed = _block(next(index), {"type": "text", "text": ""}, deltas)
            yield Event(content=opened)
            for content in told:
                yield Event(content=content, place="text")
            yield Event(content=closed, place="after")
        for number, call in enumerate(reply.calls, 1):
            head = _tool_use(call, number) | {"input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in cut(arguments_text(call))
            ]
            for number, content in enumerate(_block(next(index), head, deltas)):
                yield Event(content=content, place="arguments" if number > 1 else "after")
        end = {"stop_reason": _anthropic_end(reply), "stop_sequence": None}
        used = {"output_tokens": (reply.usage or (0, 0))[1]}
        closing = _named({"type": "message_delta", "delta": end, "usage": used})
        yield Event(content=closing + _named({"type": "message_stop"}), place="after")

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """Return a reply that is not streamed."""
        return _message(reply, asked)


class AnthropicServer(ModelServer):
    """The server, speaking Anthropic's Messages API."""

    speech = AnthropicSpeech()


def _message(reply: Reply, asked: Asked) -> dict[str, Json]:
    text = reply.refusal + "".join(reply.pieces)
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    content += [_tool_use(call, number) for number, call in enumerate(reply.calls, 1)]
    sent, made = reply.usage or (0, 0)
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": _anthropic_end(reply),
        "stop_sequence": None,
        "usage": {
            "input_tokens": sent - reply.cached,
            "cache_read_input_tokens": reply.cached,
            "output_tokens": made,
        },
    }


def _tool_use(call: Call, number: int) -> dict[str, Json]:
    return {
        "type": "tool_use",
        "id": call.id or f"toolu_scripted_{number}",
        "name": call.name,
        "input": _object(call),
    }


def _block(index: int, block: Json, deltas: Iterable[Json]) -> Iterator[bytes]:
    yield _named({"type": "content_block_start", "index": index, "content_block": block})
    for delta in deltas:
        yield _named({"type": "content_block_delta", "index": index, "delta": delta})
    yield _named({"type": "content_block_stop", "index": index})


def _anthropic_end(reply: Reply) -> str:
    reason = reply.finish_reason or ("tool_calls" if reply.calls else "stop")
    return _ANTHROPIC_ENDS.get(reason, reason)


def _named(event: dict[str, Json]) -> bytes:
    name: str = event["type"]
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


# --- Google -----------------------------------------------------------------------------------

_METHOD: Final = re.compile(
    r"POST /v1(?:beta)?/models/(?P<model>[^/:?]+):(?P<verb>generateContent|streamGenerateContent)"
    r"(?:\?.*)?"
)
_GOOGLE_KINDS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_GOOGLE_ENDS: Final = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}


class GoogleSpeech:
    """The Gemini API; see the protocol `Speech`."""

    path = ""
    broken = b'data: {"candidates": [{"content": {\r\n\r\n'

    def asked(self, target: str, headers: dict[str, str], body: Body) -> Asked | None:
        """Return what a request asks for; None when the API has no such URL."""
        found = _METHOD.fullmatch(target)
        if found is None:
            return None
        return Asked(
            model=found["model"],
            body=body,
            key=headers.get("x-goog-api-key", ""),
            is_streamed=found["verb"] == "streamGenerateContent",
        )

    def refused(self, asked: Asked) -> Refused | None:
        """Return the API's refusal of a request, None when it would take it."""
        found = google_rules.problems(asked.body, model=asked.model)
        return Refused(body=self.error(400, found[0])) if found else None

    def error(self, status: int, message: str, *, code: str | None = None, kind: str = "") -> Json:
        """Return the body of an error answer."""
        kind = _GOOGLE_KINDS.get(status, "UNKNOWN")
        return {"error": {"code": status, "message": message, "status": kind}}

    def error_event(self, message: str, *, code: str | None = None, kind: str = "") -> bytes:
        """Return an error that comes in the middle of a stream."""
        return _data(self.error(500, message, code=code, kind=kind))

    def wrong_key(self, key: str) -> str:
        """Return the words for a key that is not taken."""
        return "API key not valid. Please pass a valid API key."

    def unknown_model(self, model: str) -> str:
        """Return the words for a model there is not."""
        return f"models/{model} is not found for API version v1beta."

    def stream(self, reply: Reply, asked: Asked) -> Iterator[Event]:
        """Return the events of a streamed reply, in order."""
        for piece in cut(reply.thinking):
            yield Event(content=_chunk([{"text": piece, "thought": True}], asked))
        for piece in cut(reply.refusal) + reply.pieces:
            yield Event(content=_chunk([{"text": piece}], asked), place="text")
        for call in reply.calls:
            yield Event(content=_chunk([_function_call(call)], asked), place="after")
        yield Event(content=_data(_generated([], reply, asked)), place="after")

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """Return a reply that is not streamed."""
        text = reply.refusal + "".join(reply.pieces)
        parts: list[Json] = [{"text": text}] if text else []
        return _generated([*parts, *map(_function_call, reply.calls)], reply, asked)


class GoogleServer(ModelServer):
    """The server, speaking the Gemini API."""

    speech = GoogleSpeech()


def _chunk(parts: list[Json], asked: Asked) -> bytes:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
    return _data({"candidates": [candidate], "modelVersion": asked.model})


def _generated(parts: list[Json], reply: Reply, asked: Asked) -> dict[str, Json]:
    reason = reply.finish_reason or "stop"
    candidate: dict[str, Json] = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": _GOOGLE_ENDS.get(reason, reason),
        "index": 0,
    }
    whole: dict[str, Json] = {"candidates": [candidate], "modelVersion": asked.model}
    if reply.usage is not None:
        sent, made = reply.usage
        whole["usageMetadata"] = {
            "promptTokenCount": sent,
            "candidatesTokenCount": made,
            "totalTokenCount": sent + made,
            "cachedContentTokenCount": reply.cached,
        }
    return whole


def _function_call(call: Call) -> dict[str, Json]:
    return {"functionCall": {"name": call.name, "args": _object(call)}}


def _object(call: Call) -> dict[str, Json]:
    """Return the arguments as an object, which is all these APIs can say; none for what is no JSON."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        value = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _data(content: Json) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\r\n\r\n"
