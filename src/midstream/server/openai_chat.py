"""OpenAI's chat completions over runs: a model is `role:NAME` or `workflow:NAME`, a conversation is a run.

Which run a request means is `conversations`' to say; what its reply is made of, `words`'. Here stands
the wire: what of a request is understood and what is refused, and how a turn is told, whole or streamed.

    conversation   the headers X-Midstream-Run, X-Conversation-Id, X-OpenWebUI-Chat-Id; in the body
                   metadata.run, metadata.conversation_id; an assistant's message of ours that comes back as
                   it is (`midstream.run`); else the messages so far
    once           the header Idempotency-Key: a retry has the same reply, and nothing is said twice
    the client     closes the connection: the turn is halted, and what was shown of it is kept

What a model samples with (temperature, max_tokens, stop, seed ...) is the role's, and left aside. So are
a client's own tools: many clients send some with every request, and a model may call none. What insists
on one is refused.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from midstream.api.engine import Engine
from midstream.core import events as e
from midstream.core.events import Usage
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble, did_you_mean
from midstream.language.names import Json
from midstream.server.answering import EventStream, body_of, picture_of, while_there
from midstream.server.conversations import Asked, Conversations, Message, Spoken, talkable
from midstream.server.words import Piece, Words

SOURCE: Final = "openai"
_PICTURE: Final = "data:image/"
_ROLES: Final = {
    "developer": "system",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

_ENDED: Final = ("finished", "failed", "stopped")

_NO_RETRY: Final = {"x-should-retry": "false"}
"""What OpenAI's clients are told of an error that would be the same again: they retry by themselves."""


class BadRequest(UserMistake):
    """A request that cannot be done as it is. `status` is HTTP's, `code` and `param` are OpenAI's."""

    def __init__(
        self, what: str, *, hint: str, param: str = "", code: str = "", status: int = 400
    ) -> None:
        super().__init__(what, hint=hint)
        self.param, self.code, self.status = param, code, status


def openai_routes(engine: Engine) -> list[Route]:
    """Return the routes below `/v1`. Whoever comes to them has been let in."""
    chats = Conversations(engine, SOURCE)

    async def models(_: Request) -> Response:
        names = await talkable(engine)
        return JSONResponse({"object": "list", "data": [_model(name) for name in names]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        await _require_model(engine, name)
        return JSONResponse(_model(name))

    async def completions(request: Request) -> ASGIApp:
        asked, is_stream, has_usage = await _asked(engine, request)
        return _Completion(chats, request, asked, is_stream=is_stream, has_usage=has_usage)

    async def unknown(request: Request) -> Response:
        raise BadRequest(
            f"There is no {request.url.path} here.",
            hint="There are /v1/models and /v1/chat/completions.",
            code="not_found",
            status=404,
        )

    return [
        Route("/v1/models", _told(models), methods=["GET"]),
        Route("/v1/models/{name:path}", _told(model), methods=["GET"]),
        Route("/v1/chat/completions", _told(completions), methods=["POST"]),
        Route("/v1/{rest:path}", _told(unknown), methods=["GET", "POST"]),
    ]


def _told(
    endpoint: Callable[[Request], Awaitable[ASGIApp]],
) -> Callable[[Request], Awaitable[ASGIApp]]:
    """Return an endpoint whose errors are told in OpenAI's form."""

    async def answer(request: Request) -> ASGIApp:
        try:
            return await endpoint(request)
        except MidstreamError as error:
            return _failure(error)

    return answer


# --- one completion --------------------------------------------------------------------------------


class _Completion:
    """The answer to a request: whole, or as it streams."""

    def __init__(
        self,
        chats: Conversations,
        request: Request,
        asked: Asked,
        *,
        is_stream: bool,
        has_usage: bool,
    ) -> None:
        self._chats = chats
        self._request = request
        self._asked = asked
        self._is_stream = is_stream
        self._has_usage = has_usage
        self._spoken: Spoken | None = None
        self._error: MidstreamError | None = None
        self._usages: list[Usage] = []
        self._created = int(time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say the words, and answer; see ASGI."""
        # Only who streams can be told, while it waits, that a person is waited for.
        speaking = self._chats.speak(self._asked, through_approvals=self._is_stream)
        try:
            spoken = self._spoken = await speaking.__aenter__()
        except MidstreamError as error:
            await _failure(error)(scope, receive, send)
            return
        try:
            if self._is_stream:
                events = EventStream(self._request, self._chunks(), spoken.halt, self._headers)
                await events(scope, receive, send)
            else:
                await while_there(self._request, self._whole(scope, receive, send), spoken.halt)
        finally:
            await speaking.__aexit__(None, None, None)

    @property
    def _headers(self) -> dict[str, str]:
        assert self._spoken is not None
        return {"x-midstream-run": self._spoken.run.id}

    async def _pieces(self) -> AsyncGenerator[Piece]:
        """Yield what is told of the turn; what went wrong in it is kept for its end."""
        spoken = self._spoken
        assert spoken is not None
        receipt = spoken.receipt
        if receipt is not None and receipt.handling == "reject":
            yield Piece("content", f"Not taken: {receipt.reason or 'the run does not listen now'}")
            return
        words = Words(spoken.run)
        async for envelope in spoken.events():
            event = envelope.event
            match event:
                case e.AgentResponded(usage=usage) if usage is not None:
                    self._usages.append(usage)
                case e.AgentFailed(branch="", error=error, hint=hint):
                    self._error = WorldTrouble(error, hint=hint)
                case e.RunFailed(error=error, hint=hint):
                    self._error = WorldTrouble(f"Run {spoken.run.id} failed: {error}", hint=hint)
                case e.RunStopped(reason=reason):
                    self._error = WorldTrouble(
                        f"Run {spoken.run.id} was stopped: {reason}.", hint="Begin another one."
                    )
                case e.AgentResponded(branch=""):
                    self._error = None  # a retry of the state went well
                case e.AnswerRefused(input_id=id, reason=reason) if id == spoken.id:
                    yield Piece("content", f"This does not answer it: {reason}")
            for piece in words.of(event):
                yield piece

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        told: dict[str, str] = {"content": "", "reasoning": ""}
        try:
            async for piece in self._pieces():
                told[piece.kind] += piece.text
        except MidstreamError as error:
            self._error = error
        if self._error is not None:
            await _failure(self._error, status=502, headers=self._headers)(scope, receive, send)
            return
        message: dict[str, Any] = {"role": "assistant", "content": told["content"], "refusal": None}
        if told["reasoning"]:
            message["reasoning_content"] = told["reasoning"]
        message["midstream"] = self._stands()
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        body = {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}
        await JSONResponse(body, headers=self._headers)(scope, receive, send)

    async def _chunks(self) -> AsyncGenerator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""}, more=self._stands())
        try:
            async for piece in self._pieces():
                key = "content" if piece.kind == "content" else "reasoning_content"
                yield self._chunk({key: piece.text})
        except MidstreamError as error:
            self._error = error
        if self._error is not None:
            yield _event({"error": _error(self._error)})
            return
        yield self._chunk({}, finish="stop", more=self._stands())
        if self._has_usage:
            head = self._head("chat.completion.chunk")
            yield _event({**head, "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

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
        assert self._spoken is not None
        return {
            "id": f"chatcmpl-{self._spoken.id}",
            "object": object,
            "created": self._created,
            "model": self._asked.model,
        }

    def _stands(self) -> dict[str, Json]:
        """Return what only we can say: which run it is, how it stands, and what it came to."""
        assert self._spoken is not None
        run = self._spoken.run
        found: dict[str, Json] = {"run": run.id, "status": run.status}
        if run.output is not None:
            found["output"] = run.output
        if self._spoken.is_overtaken:
            found["overtaken"] = True
        if self._asked.left_out:
            found["left_out"] = [*self._asked.left_out]
        return found

    def _usage(self) -> dict[str, Any]:
        given, made = (
            sum(each.input_tokens for each in self._usages),
            sum(each.output_tokens for each in self._usages),
        )
        cached = sum(each.cached_tokens for each in self._usages)
        return {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


# --- what a request asks for -------------------------------------------------------------------------


async def _asked(engine: Engine, request: Request) -> tuple[Asked, bool, bool]:
    """Return what a request asks for, whether it wants a stream, and whether that ends with the usage."""
    body = await body_of(request)
    _refuse_what_is_not_done(body)
    model = body.get("model")
    if not isinstance(model, str):
        raise BadRequest("`model` is missing.", hint="Such as role:dude.", param="model")
    await _require_model(engine, model)
    messages, carried = await _messages(engine, body.get("messages"))
    if model.startswith("workflow:") and any(each.role == "system" for each in messages):
        raise BadRequest(
            "A workflow takes no system message: its agents have their own.",
            hint="Leave it out, or talk to a role.",
            param="messages",
        )
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    headers = request.headers
    web_ui = headers.get("x-openwebui-chat-id", "")
    key = headers.get("x-conversation-id") or metadata.get("conversation_id") or web_ui
    asked = Asked(
        model=model,
        messages=messages,
        run=str(headers.get("x-midstream-run") or metadata.get("run") or carried),
        key=str(key or ""),
        person=str(headers.get("x-openwebui-user-id") or body.get("user") or ""),
        is_whole=bool(web_ui),
        once=headers.get("idempotency-key", ""),
        left_out=tuple(name for name in ("tools", "functions") if body.get(name)),
    )
    options = body.get("stream_options")
    has_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    return asked, bool(body.get("stream")), has_usage


def _refuse_what_is_not_done(body: Mapping[str, Any]) -> None:
    for name in ("tool_choice", "function_call"):
        if body.get(name) not in (None, "auto", "none"):
            raise BadRequest(
                f"`{name}`: agents here call their own tools, not those of a client.",
                hint="Leave it out; give the role the tools, or an MCP server.",
                param=name,
            )
    if body.get("n") not in (None, 1):
        raise BadRequest("`n`: a run has one reply.", hint="Leave it out, or ask again.", param="n")
    kind = body.get("response_format")
    if isinstance(kind, dict) and kind.get("type") != "text":
        raise BadRequest(
            "`response_format`: what an agent answers with is the workflow's to say.",
            hint="Leave it out, or use a workflow whose state has an `output`.",
            param="response_format",
        )
    if body.get("logprobs") or body.get("audio") or "audio" in (body.get("modalities") or ()):
        raise BadRequest("`logprobs` and `audio`: a run has words.", hint="Leave them out.")


async def _messages(engine: Engine, given: Any) -> tuple[tuple[Message, ...], str]:
    """Return the messages, pictures as their marks, and the run that the last one of ours is of."""
    if not isinstance(given, list) or not given:
        raise BadRequest("`messages` is missing.", hint="The last is the user's.", param="messages")
    found: list[Message] = []
    carried = ""
    for number, each in enumerate(given):
        where = f"messages[{number}]"
        role = _ROLES.get(str(each.get("role"))) if isinstance(each, dict) else None
        if role is None:
            raise BadRequest(
                f"`{where}` is of no role that is known here.",
                hint=f"There are {', '.join(_ROLES)}.",
                param=where,
            )
        found.append(Message(role, await _text(engine, each.get("content"), where)))
        ours = each.get("midstream")
        if isinstance(ours, dict) and role == "assistant":
            carried = str(ours.get("run") or "")
    info = await engine.info(carried) if carried else None
    if info is None or info.status in _ENDED:
        carried = ""
    if found[-1].role != "user" or not found[-1].text.strip():
        raise BadRequest(
            "The last message has to be the user's, and to say something.",
            hint="What an agent said cannot be gone on with in its place.",
            param=f"messages[{len(found) - 1}]",
        )
    return tuple(found), carried


async def _text(engine: Engine, content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise BadRequest(f"`{where}.content` is no text.", hint="Text, or parts.", param=where)
    parts: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            parts.append(str(part.get("text", "")))
        elif kind == "image_url":
            url = part.get("image_url")
            parts.append(
                await _picture(engine, url.get("url") if isinstance(url, dict) else url, where)
            )
        else:
            raise BadRequest(
                f"`{where}.content` has a part of the type {kind!r}.",
                hint="There are text and image_url.",
                param=where,
            )
    return "\n".join(parts)


async def _picture(engine: Engine, url: Any, where: str) -> str:
    head, _, data = str(url).partition(",")
    if not head.startswith(_PICTURE) or not head.endswith(";base64"):
        raise BadRequest(
            f"`{where}`: a picture by its address is not fetched.",
            hint="Send it whole: data:image/png;base64,...",
            param=where,
        )
    return await picture_of(engine, data, where)


async def _require_model(engine: Engine, name: str) -> None:
    names = await talkable(engine)
    if name not in names:
        raise BadRequest(
            f"There is no model {name!r}.",
            hint=did_you_mean(name, names),
            param="model",
            code="model_not_found",
            status=404,
        )


def _model(name: str) -> dict[str, Json]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "midstream"}


# --- errors -----------------------------------------------------------------------------------------


def _error(error: MidstreamError) -> dict[str, Json]:
    is_theirs = isinstance(error, UserMistake)
    return {
        "message": str(error),
        "type": "invalid_request_error" if is_theirs else "midstream_error",
        "param": (error.param or None) if isinstance(error, BadRequest) else None,
        "code": (error.code or None) if isinstance(error, BadRequest) else None,
    }


def _failure(
    error: MidstreamError, *, status: int = 0, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    if isinstance(error, BadRequest):
        status = error.status
    elif not status:
        status = {"user": 400, "author": 422}.get(error.fault, 503)
    more = {**_NO_RETRY, **(headers or {})}
    return JSONResponse({"error": _error(error)}, status, headers=more)


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
