"""Providers that speak a protocol of their own, such as Google, through the library `pydantic-ai`.

It is an extra, imported for such a model alone, off the loop. Its client follows no redirects (a key
goes to the host it is meant for), retries nothing, and lets a watch see every byte of an answer: the
SDKs buffer a line without limit, so a cap further up would come too late.
"""

from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from midstream.core.conversation import GO_ON, length
from midstream.core.pictures import Picture
from midstream.models.encoded_messages import (
    Contents,
    callable_name,
    results_of,
    schema_of,
    shown_of,
    words_of,
)
from midstream.models.endpoints import ENDPOINTS, address_and_key
from midstream.models.http_stream import watched
from midstream.models.prices import is_misspelt, load_soon, no_such_provider
from midstream.models.provider_errors import WITHOUT_END, Failed, Kind, plain_words
from midstream.models.reply_stream import Answer, Ended, Heard, SentCall, Tokens, Watch
from midstream.runtime.ports import ModelRequest
from midstream.safety.decoding import clean

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai import messages as theirs
    from pydantic_ai.models import Model as TheirModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings

_WATCH: ContextVar[Watch | None] = ContextVar("midstream_reply_watch", default=None)
"""The watch over the answer to the request being made in this task."""
_OPEN: ContextVar["list[httpx2.Response] | None"] = ContextVar("midstream_responses", default=None)
"""The answers to that request: some SDKs leave theirs open when they are cancelled."""

_ENDS: Final[dict[str, Ended]] = {
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}


def library_model(
    name: str, environ: Mapping[str, str], http: "httpx2.AsyncClient"
) -> "LibraryModel":
    """Return the model of that name. Blocks (imports): call it off the loop.

    Args:
        name: the model's name as configured.
        environ: where keys and endpoints stand.
        http: sends requests; from now on the answers it gets can be watched.

    Raises:
        UserMistake: the key or the endpoint is missing or malformed, or there is no such provider.
        ImportError: the library is not installed, or one that it needs.
        Exception: what the provider's library raises for a name it does not know.
    """
    provider = name.partition(":")[0]
    try:
        import pydantic_ai.direct  # noqa: F401
        from pydantic_ai.models import infer_model
    except ImportError:
        if provider not in ENDPOINTS and is_misspelt(provider):
            raise no_such_provider(provider) from None
        raise
    http.event_hooks = {"response": [_let_be_watched]}
    try:
        return LibraryModel(infer_model(name, provider_factory=partial(_provider, environ, http)))
    except Exception as error:
        raise _ours(error) from error.__cause__


def _provider(
    environ: Mapping[str, str], http: "httpx2.AsyncClient", provider: str
) -> "Provider[Any]":
    from pydantic_ai.providers import infer_provider, infer_provider_class

    if provider == "openai-responses":
        from pydantic_ai.providers.openai import OpenAIProvider

        address, key = address_and_key(provider, environ)
        return OpenAIProvider(base_url=address, api_key=key, http_client=http)
    if provider == "google":
        from pydantic_ai.providers.google import GoogleProvider

        address, key = address_and_key(provider, environ)
        return GoogleProvider(base_url=address, api_key=key, http_client=http)
    try:
        infer_provider_class(provider)
    except ValueError:
        raise no_such_provider(provider) from None
    return infer_provider(provider)


class LibraryModel:
    """A model of the library, as one that can be asked."""

    def __init__(self, model: "TheirModel") -> None:
        self._model = model
        self._refused = _NOT_FOR_GOOGLE if model.system.startswith("google") else ()

    async def ask(self, request: ModelRequest, heard: Heard, watch: Watch) -> Answer:
        """Return the answer to a request, its words heard as they come.

        Raises:
            Exception: whatever the library makes of a failure; a `Failed` where it can be told.
        """
        from pydantic_ai.direct import model_request_stream

        token = _WATCH.set(watch)
        opened: list[httpx2.Response] = []
        opened_token = _OPEN.set(opened)
        heard.sent_chars = len(request.system) + sum(map(length, request.messages))
        load_soon()
        try:
            async with model_request_stream(
                self._model,
                _conversation(request, self._refused),
                model_settings=_settings(request),
                model_request_parameters=_parameters(request),
            ) as stream:
                async for event in stream:
                    _hear(event, heard)
            return _answer(stream.get())
        except Exception as error:
            raise _ours(error) from error.__cause__
        finally:
            _WATCH.reset(token)
            _OPEN.reset(opened_token)
            for response in opened:
                await response.aclose()

    async def aclose(self) -> None:
        """Close what the library has opened itself."""
        # Entering and leaving is the public way to close a client the provider made itself.
        async with self._model:
            pass


# --- what comes back --------------------------------------------------------------------------------


def _hear(event: "theirs.ModelResponseStreamEvent", heard: Heard) -> None:
    """Let the listener hear what an event of the stream brings, if anything."""
    from pydantic_ai import messages as theirs

    match event:
        case theirs.PartStartEvent(part=theirs.TextPart(content=text)):
            heard.say(text)
        case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
            heard.say(text)
        case theirs.PartStartEvent(part=theirs.ThinkingPart(content=text)):
            heard.think(text)
        case theirs.PartDeltaEvent(delta=theirs.ThinkingPartDelta(content_delta=str() as text)):
            heard.think(text)
        case theirs.PartStartEvent(part=theirs.ToolCallPart(tool_name=name)):
            heard.call(name)
        case theirs.PartDeltaEvent(delta=theirs.ToolCallPartDelta(args_delta=str() as text)):
            heard.argue(text)
        case _:
            pass


def _answer(response: "theirs.ModelResponse") -> Answer:
    """Return a response as an answer.

    Raises:
        Failed: the provider gave no reason why it ended. Then nobody can tell a complete reply from one
            that was cut off: some libraries take the end of a politely closed stream for that of the reply.
    """
    details = response.provider_details or {}
    reason = response.finish_reason
    if response.state != "complete" or not (reason or details.get("finish_reason")):
        raise Failed("cut", WITHOUT_END)
    used = response.usage
    refusal = details.get("refusal")
    return Answer(
        ended=_ENDS.get(reason or "", "stop"),
        calls=tuple(
            SentCall(
                part.tool_name, part.args if isinstance(part.args, str) else _text_of(part.args)
            )
            for part in response.tool_calls
        ),
        tokens=None
        if used.unmeasured_requests
        else Tokens(
            sent=used.input_tokens,
            made=used.output_tokens,
            read=used.cache_read_tokens,
            written=used.cache_write_tokens,
        ),
        model=response.model_name or "",
        refusal=refusal if isinstance(refusal, str) else "",
    )


def _text_of(arguments: object) -> str:
    if arguments is None:
        return ""
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError):
        return str(arguments)


def _ours(error: Exception) -> Exception:
    """Return what an error of the library is to us, itself where it is none of its own."""
    from pydantic_ai import exceptions as theirs

    response = getattr(error.__cause__, "response", None)
    if response is not None and 300 <= getattr(response, "status_code", 0) < 400:
        return Failed("redirect", str(response.headers.get("location") or "nowhere"))
    kinds: tuple[tuple[type[Exception], Kind], ...] = (
        (theirs.UserError, "setup"),
        (theirs.ModelAuthenticationError, "key"),
        (theirs.ModelNotFoundError, "model"),
        (theirs.ModelContextWindowExceededError, "length"),
        (theirs.ModelQuotaExceededError, "quota"),
        (theirs.ModelRateLimitError, "rate"),
        (theirs.ModelUnavailableError, "server"),
        (theirs.ModelServerError, "server"),
        (theirs.ModelConnectionError, "connection"),
        (theirs.ModelRequestRejectedError, "request"),
    )
    about: Kind | None = next((about for kind, about in kinds if isinstance(error, kind)), None)
    if about is None and isinstance(error, theirs.ModelAPIError):
        about = "stream" if error.in_stream else "unreadable"
    if about is None:
        return error
    retry_after_s = getattr(error, "retry_after", None)
    return Failed(about, _said_by(error) or plain_words(error), retry_after_s=retry_after_s)


def _said_by(error: Exception) -> str:
    """Return what the provider said, without the library's own frame around it; "" for nothing."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner = body.get("error")
        body = (inner if isinstance(inner, Mapping) else body).get("message", inner)
    if not isinstance(body, str) or not body:
        return ""
    status = getattr(error, "status_code", None)
    return f"{body} ({status})" if status else body


# --- what is sent -----------------------------------------------------------------------------------


def _conversation(request: ModelRequest, refused: Collection[str]) -> "list[theirs.ModelMessage]":
    """Return the request's messages with its system message as their instructions.

    `refused` are the media types that the provider does not take.
    """
    from pydantic_ai import messages as theirs

    history: list[theirs.ModelMessage] = []
    said: list[theirs.ModelRequestPart] = []

    def asked(instructions: str | None = None) -> theirs.ModelRequest:
        """Return what was said since the last reply, with something to answer in it."""
        is_answerable = any(not isinstance(part, theirs.SystemPromptPart) for part in said)
        go_on = () if is_answerable else (theirs.UserPromptPart(content=GO_ON),)
        return theirs.ModelRequest(parts=[*said, *go_on], instructions=instructions)

    for message in request.messages:
        text = words_of(message)
        if message.role != "assistant":
            if message.role == "system":
                said += [theirs.SystemPromptPart(content=text)] if text else []
            elif text:
                seen = _seen(message.pictures, request.pictures, refused)
                said.append(theirs.UserPromptPart(content=[*seen, text] if seen else text))
            continue
        reply: list[theirs.ModelResponsePart] = [theirs.TextPart(content=text)] if text else []
        reply += [
            theirs.ToolCallPart(
                tool_name=callable_name(call.name), args=call.arguments, tool_call_id=call.id
            )
            for call in message.calls
        ]
        if reply:
            history += [asked(), theirs.ModelResponse(parts=reply)]
            said = [
                theirs.ToolReturnPart(tool_name=name, content=told, tool_call_id=call_id)
                for call_id, name, told in results_of(message)
            ]
            results = [each for result in message.results for each in result.pictures]
            if seen := _seen(results, request.pictures, refused):
                said.append(theirs.UserPromptPart(content=seen))
    # The instructions of the last request are those that count.
    system = clean(request.system)
    return [*history, asked(system if system.strip() else None)]


_NOT_FOR_GOOGLE: Final = ("image/gif",)


def _seen(
    pictures: Iterable[Picture], contents: Contents, refused: Collection[str]
) -> "list[theirs.UserContent]":
    from pydantic_ai import messages as theirs

    parts: list[theirs.UserContent] = []
    for words, media, data in shown_of(pictures, contents, refused=refused):
        parts.append(words)
        if data is not None:
            parts.append(theirs.BinaryContent(data=data, media_type=media))
    return parts


def _settings(request: ModelRequest) -> "ModelSettings":
    """Return how a request is made. An effort the library says in each provider's words, if it has any."""
    from pydantic_ai.settings import ModelSettings

    settings = ModelSettings(max_retries=0)
    if request.effort is not None:
        settings["thinking"] = request.effort
    return settings


def _parameters(request: ModelRequest) -> "ModelRequestParameters":
    """Return the tools a request offers, and whether one of them has to be called.

    Forbidding plain text asks for a tool call where the model can be made to, and goes on without
    where it cannot; an explicit `tool_choice` would be an error there.
    """
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=tool.name,
            description=clean(tool.description),
            parameters_json_schema=schema_of(tool),
        )
        for tool in request.tools
    ]
    return ModelRequestParameters(
        function_tools=tools, allow_text_output=not (request.must_call and tools)
    )


# --- the watch --------------------------------------------------------------------------------------


async def _let_be_watched(response: "httpx2.Response") -> None:
    opened, watch = _OPEN.get(), _WATCH.get()
    if opened is not None:
        opened.append(response)
    if watch is not None:
        watched(response, watch)
