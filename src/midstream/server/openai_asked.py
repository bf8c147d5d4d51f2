"""What a request to OpenAI's protocols asks for, as far as they have it in common, and how it is refused.

    conversation   the headers X-Midstream-Run, X-Conversation-Id, X-OpenWebUI-Chat-Id; in the body
                   metadata.run, metadata.conversation_id, conversation; a reply of ours that comes back and
                   names its run; else the messages so far
    once           the header Idempotency-Key: a retry has the same reply, and nothing is said twice

What a model samples with (temperature, max_tokens, stop, seed ...) is the role's, and left aside. So are
a client's own tools: many clients send some with every request, and a model may call none. What insists
on one is refused.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from midstream.api.engine import Engine
from midstream.language.errors import MidstreamError, UserMistake, did_you_mean
from midstream.language.names import Json
from midstream.server.answering import picture_of
from midstream.server.conversations import Asked, Message, talkable
from midstream.views.listing import ENDED

_PICTURE: Final = "data:image/"
_ROLES: Final = {
    "developer": "system",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The types of parts that are words, with where those stand."""

_PICTURES: Final = ("image_url", "input_image")

_NO_RETRY: Final = {"x-should-retry": "false"}
"""What OpenAI's clients are told of an error that would be the same again: they retry by themselves."""


class BadRequest(UserMistake):
    """A request that cannot be done as it is. `status` is HTTP's, `code` and `param` are OpenAI's."""

    def __init__(
        self, what: str, *, hint: str, param: str = "", code: str = "", status: int = 400
    ) -> None:
        super().__init__(what, hint=hint)
        self.param, self.code, self.status = param, code, status


async def asked_of(
    engine: Engine,
    request: Request,
    body: Mapping[str, Any],
    messages: Any,
    *,
    field: str = "messages",
    run: str = "",
) -> Asked:
    """Return what a request asks for.

    Args:
        engine: where its run lives.
        request: for its headers.
        body: what it has beside the messages.
        messages: in the form of chat completions; one of ours has `midstream`, with its run.
        field: what the client calls them.
        run: the run it names, "" for none.

    Raises:
        BadRequest: it cannot be done as it is.
    """
    _refuse_what_is_not_done(body)
    model = body.get("model")
    if not isinstance(model, str):
        raise BadRequest("`model` is missing.", hint="Such as role:dude.", param="model")
    await require_model(engine, model)
    found, carried = await _messages(engine, messages, field)
    if model.startswith("workflow:") and any(each.role == "system" for each in found):
        raise BadRequest(
            "A workflow takes no system message: its agents have their own.",
            hint="Leave it out, or talk to a role.",
            param=field,
        )
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    headers = request.headers
    web_ui = headers.get("x-openwebui-chat-id", "")
    named = body.get("conversation")
    named = named.get("id") if isinstance(named, dict) else named
    key = headers.get("x-conversation-id") or metadata.get("conversation_id") or named or web_ui
    return Asked(
        model=model,
        messages=found,
        run=str(headers.get("x-midstream-run") or metadata.get("run") or run or carried),
        key=str(key or ""),
        person=str(headers.get("x-openwebui-user-id") or body.get("user") or ""),
        is_whole=bool(web_ui),
        once=headers.get("idempotency-key", ""),
        left_out=tuple(name for name in ("tools", "functions") if body.get(name)),
    )


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
    told = body.get("text")
    for name, kind in (
        ("response_format", body.get("response_format")),
        ("text.format", told.get("format") if isinstance(told, dict) else None),
    ):
        if isinstance(kind, dict) and kind.get("type") != "text":
            raise BadRequest(
                f"`{name}`: what an agent answers with is the workflow's to say.",
                hint="Leave it out, or use a workflow whose state has an `output`.",
                param=name,
            )
    for name in ("background", "prompt"):
        if body.get(name):
            raise BadRequest(f"`{name}` is not done here.", hint="Leave it out.", param=name)
    if body.get("logprobs") or body.get("audio") or "audio" in (body.get("modalities") or ()):
        raise BadRequest("`logprobs` and `audio`: a run has words.", hint="Leave them out.")


async def _messages(engine: Engine, given: Any, field: str) -> tuple[tuple[Message, ...], str]:
    """Return the messages, pictures as their marks, and the run that the last one of ours is of."""
    if not isinstance(given, list) or not given:
        raise BadRequest(f"`{field}` is missing.", hint="The last is the user's.", param=field)
    found: list[Message] = []
    carried = ""
    for number, each in enumerate(given):
        where = f"{field}[{number}]"
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
    if info is None or info.status in ENDED:
        carried = ""
    if found[-1].role != "user" or not found[-1].text.strip():
        raise BadRequest(
            "The last message has to be the user's, and to say something.",
            hint="What an agent said cannot be gone on with in its place.",
            param=f"{field}[{len(found) - 1}]",
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
        if kind in _TEXTS:
            parts.append(str(part.get(_TEXTS[kind], "")))
        elif kind in _PICTURES:
            url = part.get("image_url")
            parts.append(
                await _picture(engine, url.get("url") if isinstance(url, dict) else url, where)
            )
        else:
            raise BadRequest(
                f"`{where}.content` has a part of the type {kind!r}.",
                hint=f"There are {', '.join((*_TEXTS, *_PICTURES))}.",
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


async def require_model(engine: Engine, name: str) -> None:
    """Return if a model is one of ours.

    Raises:
        BadRequest: it is none.
    """
    names = await talkable(engine)
    if name not in names:
        raise BadRequest(
            f"There is no model {name!r}.",
            hint=did_you_mean(name, names),
            param="model",
            code="model_not_found",
            status=404,
        )


# --- errors -----------------------------------------------------------------------------------------


def error_of(error: MidstreamError) -> dict[str, Json]:
    """Return an error in OpenAI's form."""
    is_theirs = isinstance(error, UserMistake)
    return {
        "message": str(error),
        "type": "invalid_request_error" if is_theirs else "midstream_error",
        "param": (error.param or None) if isinstance(error, BadRequest) else None,
        "code": (error.code or None) if isinstance(error, BadRequest) else None,
    }


def failure(error: MidstreamError, *, status: int = 0) -> JSONResponse:
    """Return the answer that is an error; `status` is HTTP's, where the error says none."""
    if isinstance(error, BadRequest):
        status = error.status
    elif not status:
        status = {"user": 400, "author": 422}.get(error.fault, 503)
    return JSONResponse({"error": error_of(error)}, status, headers=_NO_RETRY)


def told(
    endpoint: Callable[[Request], Awaitable[ASGIApp]],
) -> Callable[[Request], Awaitable[ASGIApp]]:
    """Return an endpoint whose errors are told in OpenAI's form."""

    async def answer(request: Request) -> ASGIApp:
        try:
            return await endpoint(request)
        except MidstreamError as error:
            return failure(error)

    return answer
