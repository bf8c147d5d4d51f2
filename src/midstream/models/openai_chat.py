"""OpenAI's chat completions, as OpenAI and most other providers speak them."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from midstream.core.conversation import GO_ON, Message
from midstream.core.pictures import Picture
from midstream.language.names import Json
from midstream.models.encoded_messages import (
    NO_CONTENTS,
    Contents,
    Piece,
    Pieces,
    callable_name,
    results_of,
    schema_of,
    shown_of,
    words_of,
)
from midstream.models.endpoints import ENDPOINTS
from midstream.models.http_stream import ALWAYS, Listening, converse, decoded
from midstream.models.provider_errors import Failed, Refused
from midstream.models.reply_stream import Answer, Ended, Heard, Tokens, Watch
from midstream.runtime.ports import ModelRequest
from midstream.safety.decoding import clean

if TYPE_CHECKING:
    import httpx2

_encoded: Final = msgspec.json.encode


class OpenAIModel:
    """A model of a provider that speaks this dialect.

    Args:
        http: sends requests.
        base: the address, without the path.
        key: the provider's key.
        name: the model's name as configured, such as `groq:llama3`.
    """

    def __init__(self, http: "httpx2.AsyncClient", base: str, key: str, name: str) -> None:
        provider, _, model = name.partition(":")
        endpoint = ENDPOINTS[provider]
        self._http = http
        self._url = base + endpoint.path
        self._headers = ALWAYS | {"authorization": f"Bearer {key}"}
        self._model = model
        self._pieces = Pieces()
        # What thinks there cannot be made to call a tool, and wants its thoughts back.
        thinks = provider == "deepseek" and model != "deepseek-chat"
        self._must_call = "auto" if thinks else endpoint.must_call
        self._asks_usage = not endpoint.tells_usage
        self._takes_effort = endpoint.takes_effort
        self._piece_of = partial(piece_of, has_short_ids=endpoint.has_short_ids, thinks=thinks)

    async def ask(self, request: ModelRequest, heard: Heard, watch: Watch) -> Answer:
        """Return the answer to a request, its words heard as they come; see `Speaker`."""
        try:
            return await self._asked(request, heard, watch)
        except Refused as error:
            if not (self._asks_usage and error.status and "stream_options" in error.words):
                raise
            self._asks_usage = False
            return await self._asked(request, heard, watch)

    async def _asked(self, request: ModelRequest, heard: Heard, watch: Watch) -> Answer:
        return await converse(
            self._http,
            self._url,
            headers=self._headers,
            body=lambda: body_of(
                request,
                self._pieces.of(
                    request.messages,
                    partial(self._piece_of, contents=request.pictures),
                    request.pictures,
                ),
                model=self._model,
                must_call=self._must_call,
                asks_usage=self._asks_usage,
                takes_effort=self._takes_effort,
            ),
            watch=watch,
            listening=Chunks(heard),
        )


# --- what is sent -----------------------------------------------------------------------------------


def piece_of(
    message: Message,
    *,
    has_short_ids: bool = False,
    thinks: bool = False,
    contents: Contents = NO_CONTENTS,
) -> Piece:
    """Return what a message becomes. `thinks`: the thoughts before calls are asked back, if empty.

    `contents` are the bytes of its pictures, by their keys.
    """
    text = words_of(message)
    if message.role != "assistant":
        shown = _shown(message.pictures, contents) if message.role == "user" else []
        said = {"role": message.role, "content": [*shown, _text(text)] if shown else text}
        return Piece(message.role, _encoded(said) if text else b"")
    if not text and not message.calls:
        return Piece("assistant")
    reply: dict[str, Json] = {"role": "assistant", "content": text or None}
    if message.calls:
        reply["tool_calls"] = [
            {
                "id": _id(call.id, is_short=has_short_ids),
                "type": "function",
                "function": {
                    "name": callable_name(call.name),
                    "arguments": _encoded(call.arguments).decode(),
                },
            }
            for call in message.calls
        ]
        if thinks:
            reply["reasoning_content"] = ""
    results = [
        _encoded({"role": "tool", "tool_call_id": _id(id, is_short=has_short_ids), "content": told})
        for id, _, told in results_of(message)
    ]
    # The result of a tool is text here: what is to be seen follows behind the last of them.
    if seen := _shown([each for result in message.results for each in result.pictures], contents):
        results.append(_encoded({"role": "user", "content": seen}))
    return Piece("assistant", _encoded(reply), b",".join(results))


def _shown(pictures: Iterable[Picture], contents: Contents) -> list[Json]:
    parts: list[Json] = []
    for words, media, data in shown_of(pictures, contents):
        parts.append(_text(words))
        if data is not None:
            url = f"data:{media};base64,{b64encode(data).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _id(id: str, *, is_short: bool) -> str:
    return hashlib.sha256(id.encode()).hexdigest()[:9] if is_short else id


def body_of(
    request: ModelRequest,
    pieces: Iterable[Piece],
    *,
    model: str,
    must_call: str = "required",
    asks_usage: bool = True,
    takes_effort: bool = True,
) -> list[bytes]:
    """Return the parts of the body of a request, of which each is of one message at most."""
    head: dict[str, Json] = {"model": model, "stream": True}
    if asks_usage:
        head["stream_options"] = {"include_usage": True}
    if request.effort is not None and takes_effort:
        head["reasoning_effort"] = request.effort
    if request.tools:
        head["tool_choice"] = must_call if request.must_call else "auto"
        head["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": clean(tool.description),
                    "parameters": schema_of(tool),
                },
            }
            for tool in request.tools
        ]
    body = [_encoded(head)[:-1], b',"messages":[']
    for number, message in enumerate(_messages(request, pieces)):
        body += [b",", message] if number else [message]
    return [*body, b"]}"]


def _messages(request: ModelRequest, pieces: Iterable[Piece]) -> list[bytes]:
    messages: list[bytes] = []
    beginning = 0
    is_asked = False
    for piece in pieces:
        if not piece.said:
            continue
        if piece.side == "assistant":
            messages += [piece.said] if is_asked else [_GO_ON, piece.said]
            if piece.results:
                messages.append(piece.results)
            is_asked = bool(piece.results)
            continue
        messages.append(piece.said)
        if piece.side == "user":
            is_asked = True
        elif beginning == len(messages) - 1:
            beginning += 1
    if not is_asked:
        messages.append(_GO_ON)
    system = clean(request.system)
    if system.strip():
        messages.insert(beginning, _encoded({"role": "system", "content": system}))
    return messages


_GO_ON: Final = _encoded({"role": "user", "content": GO_ON})

# --- what comes back --------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | msgspec.UnsetType | None = msgspec.UNSET
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: Any = None
    object: Any = None
    model: Any = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Cached | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def cached(self) -> int:
        """Return what was cached: OpenAI's own place for it, then DeepSeek's, then Moonshot's."""
        theirs = (
            None if self.prompt_tokens_details is None else self.prompt_tokens_details.cached_tokens
        )
        return theirs or self.prompt_cache_hit_tokens or self.cached_tokens or 0


_ENDS: Final[dict[str, Ended]] = {
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}


class _Call:
    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class Chunks(Listening):
    """Makes an answer of the chunks of a stream."""

    def __init__(self, heard: Heard) -> None:
        super().__init__(heard)
        self._words = _Words(heard)
        self._calls: list[_Call] = []
        self._tokens: Tokens | None = None

    def take(self, event: "httpx2.ServerSentEvent") -> bool:
        """Take the next chunk; see `Listening`."""
        data = event.data.strip()
        if data == "[DONE]":
            self._ended = self._ended or "stop"
            return True
        if event.event == "error":
            raise Refused(0, _json(data))
        chunk = decoded(data, _Chunk)
        if chunk.error is not None or chunk.object == "error":
            raise Refused(0, _json(data))
        self._heard.tokens = self._tokens = _tokens(chunk.usage) or self._tokens
        if chunk.choices is msgspec.UNSET and self._tokens is None:
            raise Failed("unreadable", "an event that does not belong to a reply")
        self._is_empty = False
        if isinstance(chunk.model, str) and chunk.model:
            self._model = chunk.model
        if isinstance(chunk.choices, list) and chunk.choices:
            self._choice(chunk.choices[0])
        return False

    def _sent(self) -> tuple[Iterable[tuple[str, list[str]]], Tokens | None]:
        self._words.end()
        return ((call.name, call.arguments) for call in self._calls), self._tokens

    def _choice(self, choice: _Choice) -> None:
        delta = choice.delta
        if delta is not None:
            for thought in (delta.reasoning, delta.reasoning_content):
                if isinstance(thought, str) and thought:
                    self._heard.think(thought)
                    break
            self._content(delta.content)
            if delta.refusal:
                self._is_refusal = True
                self._heard.say(delta.refusal)
            for call in delta.tool_calls or ():
                self._call(call)
        if choice.finish_reason:
            self._ended = _ENDS.get(choice.finish_reason, "stop")

    def _content(self, content: str | list[Any] | None) -> None:
        if isinstance(content, str):
            self._words.take(content)
            return
        for part in content or ():
            # Some send parts: texts, and thoughts that are made of texts.
            if not isinstance(part, dict):
                continue
            if isinstance(text := part.get("text"), str):
                self._words.take(text)
            for thought in part.get("thinking") or ():
                if isinstance(thought, dict) and isinstance(text := thought.get("text"), str):
                    self._heard.think(text)

    def _call(self, delta: _CallDelta) -> None:
        function = delta.function or _Function()
        call = self._known(delta, function)
        if call is None:
            self._heard.call(function.name or "")
            call = _Call(delta.index)
            self._calls.append(call)
        elif function.name and not call.name:
            self._heard.named(function.name)
        call.id = call.id or delta.id or ""
        call.name = call.name or function.name or ""
        sent = function.arguments
        if sent is not None:
            call.arguments.append(sent if isinstance(sent, str) else _encoded(sent).decode())
            self._heard.argue(call.arguments[-1])

    def _known(self, delta: _CallDelta, function: _Function) -> _Call | None:
        """Return the call that is gone on with, None where another one begins.

        Some give all calls of a reply one index and each its id, some give neither.
        """
        same = (c for c in reversed(self._calls) if delta.index is None or c.index == delta.index)
        last = next(same, None)
        if last is None or (delta.id and last.id and delta.id != last.id):
            return None
        return None if delta.index is None and not delta.id and function.name else last


def _json(data: str) -> Json:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return data


def _tokens(raw: msgspec.Raw) -> Tokens | None:
    """Return the tokens a chunk tells, None where it tells none, or nonsense."""
    if raw == b"null":
        return None
    try:
        used = msgspec.json.decode(raw, type=_Usage)
    except msgspec.MsgspecError:
        return None
    if min(used.prompt_tokens, used.completion_tokens, used.cached) < 0:
        return None
    return Tokens(sent=used.prompt_tokens, made=used.completion_tokens, read=used.cached)


_OPENS, _CLOSES = "<think>", "</think>"


class _Words:
    """Takes the text of a reply apart: local models think between tags before they answer."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._held = ""
        self._place = "before"

    def take(self, text: str) -> None:
        """Let the words be heard as words and thoughts; what may be half a tag is held back."""
        if self._place == "after":
            self._heard.say(text)
            return
        self._held += text
        if self._place == "before":
            begun = self._held.lstrip()
            if begun.startswith(_OPENS):
                self._held, self._place = begun[len(_OPENS) :], "within"
            elif not _OPENS.startswith(begun):
                self._place = "after"
                self.end()
        if self._place == "within":
            thought, tag, rest = self._held.partition(_CLOSES)
            if not tag:
                kept = _half_a_tag(thought)
                thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
            self._heard.think(thought)
            if tag:
                self._held, self._place = "", "after"
                self._heard.say(rest.lstrip())

    def end(self) -> None:
        """Let be heard what was held back."""
        held, self._held = self._held, ""
        (self._heard.think if self._place == "within" else self._heard.say)(held)


def _half_a_tag(text: str) -> int:
    """Return how many characters at the end of a thought may begin the tag that ends it."""
    sizes = range(len(_CLOSES) - 1, 0, -1)
    return next((size for size in sizes if text.endswith(_CLOSES[:size])), 0)
