"""OpenAI's chat completions and responses over runs: a model is `role:NAME` or `workflow:NAME`, a
conversation is a run.

Which run a request means is `conversations`' to say; what its reply is made of, `words`'. What of a
request is understood stands in `openai_asked`, how a turn is answered in `openai_turn`. Here are the
routes, and the wire of chat completions; that of responses is `openai_responses`. A client that closes
the connection halts the turn, and what was shown of it is kept.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from midstream.api.engine import Engine
from midstream.language.errors import MidstreamError
from midstream.language.names import Json
from midstream.server.answering import body_of
from midstream.server.conversations import Conversations, talkable
from midstream.server.openai_asked import BadRequest, asked_of, error_of, require_model, told
from midstream.server.openai_responses import ResponseForm, asked_by_items
from midstream.server.openai_turn import Told, answer
from midstream.server.words import Piece

SOURCE: Final = "openai"


def openai_routes(engine: Engine) -> list[Route]:
    """Return the routes below `/v1`. Whoever comes to them has been let in."""
    chats = Conversations(engine, SOURCE)

    async def models(_: Request) -> Response:
        names = await talkable(engine)
        return JSONResponse({"object": "list", "data": [_model(name) for name in names]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        await require_model(engine, name)
        return JSONResponse(_model(name))

    async def completions(request: Request) -> ASGIApp:
        body = await body_of(request)
        asked = await asked_of(engine, request, body, body.get("messages"))
        options = body.get("stream_options")
        has_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        form = partial(_ChatForm, has_usage=has_usage)
        return answer(chats, asked, form, is_stream=bool(body.get("stream")))

    async def responses(request: Request) -> ASGIApp:
        body = await body_of(request)
        asked = await asked_by_items(engine, request, body)
        return answer(chats, asked, ResponseForm, is_stream=bool(body.get("stream")))

    async def unknown(request: Request) -> Response:
        raise BadRequest(
            f"There is no {request.url.path} here.",
            hint="There are /v1/models, /v1/chat/completions and /v1/responses.",
            code="not_found",
            status=404,
        )

    return [
        Route("/v1/models", told(models), methods=["GET"]),
        Route("/v1/models/{name:path}", told(model), methods=["GET"]),
        Route("/v1/chat/completions", told(completions), methods=["POST"]),
        Route("/v1/responses", told(responses), methods=["POST"]),
        Route("/v1/{rest:path}", told(unknown), methods=["GET", "POST", "DELETE"]),
    ]


def _model(name: str) -> dict[str, Json]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "midstream"}


class _ChatForm:
    """A turn as a chat completion; `has_usage`: a stream ends with the usage."""

    def __init__(self, told: Told, *, has_usage: bool) -> None:
        self._told = told
        self._has_usage = has_usage
        self._texts: dict[str, list[str]] = {"content": [], "reasoning": []}

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""}, more=self._told.stands())

    def piece(self, piece: Piece) -> Iterator[bytes]:
        self._texts[piece.kind].append(piece.text)
        key = "content" if piece.kind == "content" else "reasoning_content"
        yield self._chunk({key: piece.text})

    def end(self) -> Iterator[bytes]:
        yield self._chunk({}, finish="stop", more=self._told.stands())
        if self._has_usage:
            head = self._head("chat.completion.chunk")
            yield _event({**head, "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

    def fail(self, error: MidstreamError) -> Iterator[bytes]:
        yield _event({"error": error_of(error)})

    def whole(self) -> dict[str, Any]:
        content, reasoning = ("".join(self._texts[key]) for key in ("content", "reasoning"))
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
        message["midstream"] = self._told.stands()
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    def _chunk(
        self, delta: dict[str, Any], *, finish: str | None = None, more: Json = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        body = {**self._head("chat.completion.chunk"), "choices": [choice]}
        if more is not None:
            body["midstream"] = more
        if self._has_usage:
            body["usage"] = None
        return _event(body)

    def _head(self, object: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._told.spoken.id}",
            "object": object,
            "created": self._told.created,
            "model": self._told.asked.model,
        }

    def _usage(self) -> dict[str, Any]:
        given, made, cached = self._told.usage
        return {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
