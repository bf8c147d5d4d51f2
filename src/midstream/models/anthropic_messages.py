"""Anthropic's Messages API."""

import re
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
from midstream.models.provider_errors import Refused
from midstream.models.reply_stream import Answer, Ended, Heard, Tokens, Watch
from midstream.runtime.ports import ModelRequest
from midstream.safety.decoding import clean

if TYPE_CHECKING:
    import httpx2

_encoded: Final = msgspec.json.encode

VERSION: Final = "2026-10-21"

_MOST: Final = (
    # The oldest refuse a request whose input and `max_tokens` together are more than they take.
    (re.compile(r"claude-(3|4-)|claude-(opus|sonnet)-4($|[-@][012])"), 4_096),
    (re.compile(r"claude-(opus|sonnet|haiku)-4-5"), 64_000),
    (re.compile(r"claude-[a-z]+-(4-[6-9]|[5-9])"), 128_000),
)
"""The most tokens a reply may have, which the API wants to be told."""
_MOST_OF_OTHERS: Final = 16_384

_THINKS: Final = re.compile(r"claude-[a-z]+-[5-9]")
"""Models that think unless they are told not to; then none can be made to call a tool."""


class AnthropicModel:
    """A model of Anthropic's; see `OpenAIModel`."""

    def __init__(self, http: "httpx2.AsyncClient", base: str, key: str, name: str) -> None:
        self._http = http
        self._url = base + ENDPOINTS["anthropic"].path
        self._headers = ALWAYS | {"authorization": f"Bearer {key}", "anthropic-version": VERSION}
        self._model = name.partition(":")[2]
        self._pieces = Pieces()

    async def ask(self, request: ModelRequest, heard: Heard, watch: Watch) -> Answer:
        """Return the answer to a request, its words heard as they come; see `Speaker`."""
        return await converse(
            self._http,
            self._url,
            headers=self._headers,
            body=lambda: body_of(
                request,
                self._pieces.of(
                    request.messages, partial(piece_of, contents=request.pictures), request.pictures
                ),
                model=self._model,
            ),
            watch=watch,
            listening=Events(heard),
        )


# --- what is sent -----------------------------------------------------------------------------------


def piece_of(message: Message, *, contents: Contents = NO_CONTENTS) -> Piece:
    """Return what a message becomes: blocks, between commas. `contents` are the bytes of its pictures."""
    text = words_of(message)
    blocks = [_text(text)] if text else []
    if message.role != "assistant":
        if text and message.role == "user":
            blocks = [*map(_encoded, _shown(message.pictures, contents)), *blocks]
        return Piece(message.role, b",".join(blocks))
    blocks += [
        _encoded(
            {
                "type": "tool_use",
                "id": call.id,
                "name": callable_name(call.name),
                "input": call.arguments,
            }
        )
        for call in message.calls
    ]
    seen = {result.call_id: result.pictures for result in message.results if result.pictures}
    results = [
        _encoded(
            {
                "type": "tool_result",
                "tool_use_id": id,
                "content": [_block(told), *_shown(seen.get(id, ()), contents)],
            }
        )
        for id, _, told in results_of(message)
    ]
    return Piece("assistant", b",".join(blocks), b",".join(results))


def body_of(request: ModelRequest, pieces: Iterable[Piece], *, model: str) -> list[bytes]:
    """Return the parts of the body of a request, of which each is of one message at most."""
    head: dict[str, Json] = {
        "model": model,
        "stream": True,
        "max_tokens": next((most for of, most in _MOST if of.match(model)), _MOST_OF_OTHERS),
    }
    if request.effort is not None:
        # The older way, a budget for thinking, wants the thoughts before each call back; they are not kept.
        head["output_config"] = {"effort": request.effort}
    if request.tools:
        is_forced = request.must_call and not _THINKS.match(model)
        head["tool_choice"] = {"type": "any" if is_forced else "auto"}
        head["tools"] = [
            {
                "name": tool.name,
                "description": clean(tool.description),
                "input_schema": schema_of(tool),
            }
            for tool in request.tools
        ]
    system, turns = _turns(pieces)
    own = clean(request.system)
    if own.strip():
        system.append(_text(own))
    body = [_encoded(head)[:-1]]
    if system:
        system[-1] = _marked(system[-1])
        body += [b',"system":[', b",".join(system), b"]"]
    if request.tools or len(turns) > 1:
        # What is asked just once, such as for a summary, would pay for being kept.
        for _, blocks in [turn for turn in turns if turn[0] == b"user"][-_KEPT_ENDS:]:
            blocks[-1] = _marked(blocks[-1])
    body.append(b',"messages":[')
    for number, (side, blocks) in enumerate(turns):
        body.append(b'%s{"role":"%s","content":[' % (b"," if number else b"", side))
        for at, block in enumerate(blocks):
            body += [b",", block] if at else [block]
        body.append(b"]}")
    return [*body, b"]}"]


def _marked(block: bytes) -> bytes:
    """Return a block, or several between commas, with the mark that all up to here is to be kept."""
    return block[:-1] + _CACHE_MARK


def _turns(pieces: Iterable[Piece]) -> tuple[list[bytes], list[tuple[bytes, list[bytes]]]]:
    """Return the system's blocks, wherever they stood, and the turns of both sides, one after the other."""
    system: list[bytes] = []
    turns: list[tuple[bytes, list[bytes]]] = []
    said: list[bytes] = []
    for piece in pieces:
        if not piece.said:
            continue
        if piece.side == "assistant":
            turns += [(b"user", said or [_GO_ON]), (b"assistant", [piece.said])]
            said = [piece.results] if piece.results else []
        else:
            (system if piece.side == "system" else said).append(piece.said)
    return system, [*turns, (b"user", said or [_GO_ON])]


_CACHE_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_KEPT_ENDS: Final = 2
"""Turns of the user whose ends are marked: the last, and the one the request before this ended with.

With the system message, which stands behind the tools, that is three of the four marks a request may have.
A role's reminder ends a request and is gone from the next; the end before it is found again.
"""


def _shown(pictures: Iterable[Picture], contents: Contents) -> list[Json]:
    blocks: list[Json] = []
    for words, media, data in shown_of(pictures, contents):
        blocks.append(_block(words))
        if data is not None:
            source = {"type": "base64", "media_type": media, "data": b64encode(data).decode()}
            blocks.append({"type": "image", "source": source})
    return blocks


def _block(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


def _text(text: str) -> bytes:
    return _encoded(_block(text))


_GO_ON: Final = _text(GO_ON)

# --- what comes back --------------------------------------------------------------------------------


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    model: str = ""
    usage: _Usage | None = None


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    name: str = ""
    input: Any = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


_ENDS: Final[dict[str, Ended]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class Events(Listening):
    """Makes an answer of the events of a stream."""

    def __init__(self, heard: Heard) -> None:
        super().__init__(heard)
        self._calls: dict[int, tuple[str, list[str]]] = {}
        self._used = _Usage()

    def take(self, event: "httpx2.ServerSentEvent") -> bool:
        """Take the next event; see `Listening`."""
        told = decoded(event.data, _Event)
        if told.type == "error":
            raise Refused(0, decoded(event.data, dict))
        if told.type == "message_start" and told.message is not None:
            self._is_empty = False
            self._model = told.message.model
            self._count(told.message.usage)
            if self._heard.tokens is not None:  # what it says of the reply is of its beginning
                self._heard.tokens = msgspec.structs.replace(self._heard.tokens, made=0)
        elif told.type == "content_block_start" and told.content_block is not None:
            self._begin(told.index, told.content_block)
        elif told.type == "content_block_delta" and told.delta is not None:
            self._go_on(told.index, told.delta)
        elif told.type == "message_delta":
            self._count(told.usage)
            if told.delta is not None and told.delta.stop_reason:
                self._ended = _ENDS.get(told.delta.stop_reason, "stop")
        return told.type == "message_stop"

    def _begin(self, index: int, block: _Block) -> None:
        self._heard.say(block.text)
        self._heard.think(block.thinking)
        if block.type == "tool_use":
            self._heard.call(block.name)
            sent = [_encoded(block.input).decode()] if block.input else []
            self._calls[index] = (block.name, sent)

    def _go_on(self, index: int, delta: _Delta) -> None:
        self._heard.say(delta.text)
        self._heard.think(delta.thinking)
        if delta.partial_json and index in self._calls:
            self._calls[index][1].append(delta.partial_json)
            self._heard.argue(delta.partial_json)

    def _count(self, usage: _Usage | None) -> None:
        """Keep the newest numbers: those at the end stand for the whole, and need not tell all again."""
        told = {} if usage is None else msgspec.structs.asdict(usage)
        newer = {name: count for name, count in told.items() if count is not None and count >= 0}
        self._used = used = msgspec.structs.replace(self._used, **newer)
        if used.input_tokens is None or used.output_tokens is None:
            return
        written = used.cache_creation_input_tokens or 0
        read = used.cache_read_input_tokens or 0
        self._heard.tokens = Tokens(
            sent=used.input_tokens + written + read,
            made=used.output_tokens,
            read=read,
            written=written,
        )

    def _sent(self) -> tuple[Iterable[tuple[str, list[str]]], Tokens | None]:
        return self._calls.values(), self._heard.tokens
