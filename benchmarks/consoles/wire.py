"""The model behind every console that is measured: one server for four APIs, and what a request holds.

The speech of OpenAI's chat completions, Anthropic and Gemini is that of the tests; that of OpenAI's
responses, which Codex speaks, is here. Nothing is refused: what is measured is not whether a rival's
request follows the rules.
"""

import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final

import msgspec
from support.dialect_server import AnthropicSpeech, GoogleSpeech
from support.model_server import (
    Asked,
    Body,
    Event,
    Exchange,
    ModelServer,
    Refused,
    Reply,
    arguments_text,
    cut,
)
from support.openai_server import OpenAISpeech

from midstream.language.names import Json

CUT_CALL: Final = 1_000_000
"""As `Reply.gate_after`: the gate stands in the middle of a call's arguments."""

_BEGINNING: Final = 60
"""Characters of the system prompt by which a request of the conversation is known."""

_BEGUN: Final = 4
"""Events of a call that are sent before such a gate."""


class ResponsesSpeech(OpenAISpeech):
    """OpenAI's responses; see the protocol `Speech`."""

    def stream(self, reply: Reply, asked: Asked) -> Iterator[Event]:
        """Return the events of a streamed reply, in order."""
        yield _told("response.created", response={"id": "resp_1", "status": "in_progress"})
        output: list[Json] = []
        if reply.pieces:
            item: dict[str, Json] = {"type": "message", "id": "msg_1", "role": "assistant"}
            yield _told("response.output_item.added", output_index=0, item={**item, "content": []})
            part: dict[str, Json] = {"type": "output_text", "annotations": []}
            at: dict[str, Json] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            yield _told("response.content_part.added", **at, part={**part, "text": ""})
            for piece in reply.pieces:
                told = _told("response.output_text.delta", **at, delta=piece)
                yield Event(content=told.content, place="text")
            text = "".join(reply.pieces)
            done = {**item, "status": "completed", "content": [{**part, "text": text}]}
            yield _after("response.output_text.done", **at, text=text)
            yield _after("response.output_item.done", output_index=0, item=done)
            output.append(done)
        for index, call in enumerate(reply.calls, len(output)):
            item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}"}
            item |= {"name": call.name, "arguments": ""}
            yield _after("response.output_item.added", output_index=index, item=item)
            for piece in cut(arguments_text(call)):
                where = {"item_id": f"fc_{index}", "output_index": index}
                yield _after("response.function_call_arguments.delta", **where, delta=piece)
            done = {**item, "arguments": arguments_text(call), "status": "completed"}
            yield _after("response.output_item.done", output_index=index, item=done)
            output.append(done)
        usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
        ended = {"id": "resp_1", "status": "completed", "output": output, "usage": usage}
        yield _after("response.completed", response=ended)

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """Return a reply that is not streamed."""
        *_, last = self.stream(reply, asked)
        whole: dict[str, Json] = msgspec.json.decode(last.content.partition(b"data: ")[2])
        return whole["response"]


def _told(kind: str, **fields: Json) -> Event:
    data = msgspec.json.encode({"type": kind, **fields})
    return Event(content=b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")


def _after(kind: str, **fields: Json) -> Event:
    return Event(content=_told(kind, **fields).content, place="after")


class _Heard(Asked, frozen=True, kw_only=True):
    speech: Any


class EverySpeech(OpenAISpeech):
    """Each API at the URL it has; see the protocol `Speech`."""

    path = ""

    def __init__(self) -> None:
        self._chat, self._anthropic = OpenAISpeech(), AnthropicSpeech()
        self._google, self._responses = GoogleSpeech(), ResponsesSpeech()

    def asked(self, target: str, headers: dict[str, str], body: Body) -> Asked | None:
        """Return what a request asks for; None when no API has such a URL."""
        path = target.partition("?")[0]
        found: Asked | None
        speech: Any
        if path.endswith("/responses"):
            speech, found = (
                self._responses,
                Asked(model="", body=body, is_streamed=bool(body.get("stream"))),
            )
        elif path.endswith("/chat/completions"):
            speech = self._chat
            found = speech.asked("POST /v1/chat/completions", headers, body)
        elif path.endswith("/v1/messages"):
            speech = self._anthropic
            found = speech.asked("POST /v1/messages", headers, body)
        else:
            speech = self._google
            found = speech.asked(target, headers, body)
        if found is None:
            return None
        return _Heard(model=found.model, body=body, is_streamed=found.is_streamed, speech=speech)

    def refused(self, asked: Asked) -> Refused | None:
        """Refuse nothing."""
        return None

    def stream(self, reply: Reply, asked: Asked) -> Iterator[Event]:
        """Return the events of a streamed reply; a call that is to be cut begins before the gate."""
        assert isinstance(asked, _Heard)
        begun = _BEGUN if reply.gate_after == CUT_CALL else 0
        for event in asked.speech.stream(reply, asked):
            if event.place == "after" and begun:
                begun -= 1
                yield Event(content=event.content)
            else:
                yield event

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """Return a reply that is not streamed."""
        assert isinstance(asked, _Heard)
        whole: Json = asked.speech.whole(reply, asked)
        return whole


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a request holds, whichever API it is of.

    `said` are the texts of the conversation in order, each after its role: words, calls, results.
    """

    system: str
    tools: tuple[str, ...]
    tools_size: int
    said: tuple[tuple[str, str], ...]
    size: int

    @property
    def text(self) -> str:
        """Return all that was said."""
        return "\n".join(text for _, text in self.said)

    def after(self, words: str) -> tuple[tuple[str, str], ...]:
        """Return what was said after the last text that holds these words; nothing where none does."""
        places = [place for place, (_, text) in enumerate(self.said) if words in text]
        return self.said[places[-1] + 1 :] if places else ()


def read_request(body: Body) -> Request:
    """Return what the body of a request holds."""
    system = _texts(body.get("system")) + _texts(body.get("instructions"))
    system += _texts((body.get("systemInstruction") or {}).get("parts"))
    said: list[tuple[str, str]] = []
    for message in body.get("messages") or body.get("contents") or _items(body):
        role = str(message.get("role", message.get("type", "")))
        text = "\n".join(
            _texts(message.get(key))
            for key in ("content", "parts", "tool_calls", "output", "arguments", "summary")
            if message.get(key)
        )
        if role in ("system", "developer") and not any(each == "user" for each, _ in said):
            system += text
        else:
            said.append((role, text))
    tools = body.get("tools") or []
    return Request(
        system=system,
        tools=tuple(_tool_names(tools)),
        tools_size=len(msgspec.json.encode(tools)) if tools else 0,
        said=tuple(said),
        size=len(msgspec.json.encode(body)),
    )


def _items(body: Body) -> list[dict[str, Json]]:
    given = body.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _tool_names(tools: list[Json]) -> Iterator[str]:
    for tool in tools:
        inner = tool.get("functionDeclarations") or tool.get("function_declarations")
        if tool.get("type") == "namespace":
            inner = tool.get("tools")
        if inner:
            yield from _tool_names(inner)
        else:
            yield str(
                tool.get("function", tool).get("name") or tool.get("type") or next(iter(tool))
            )


def _texts(value: Json) -> str:
    """Return every text within a value, but names, kinds, ids and what is encrypted."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_texts, value)))
    if isinstance(value, dict):
        left_out = {"type", "id", "call_id", "tool_use_id", "signature", "cache_control", "role"}
        return "\n".join(filter(None, (_texts(v) for k, v in value.items() if k not in left_out)))
    return ""


class Asking(msgspec.Struct, frozen=True):
    """A request of the conversation that is measured, and when it came."""

    request: Request
    when: float
    exchange: Exchange


class Model(ModelServer):
    """The server. What it is to say next to a request of the conversation is put in with `answer`.

    A console also asks for titles, summaries or routes beside its conversation. Those requests do not hold
    the word `MARK`, offer no tool where the console does, or begin otherwise than the first one: they get a
    short answer that means nothing.
    """

    speech = EverySpeech()

    def __init__(self, *, has_tools: bool = True) -> None:
        super().__init__(default=self._step)
        self._turns: list[Reply] = []
        self._own = threading.Lock()
        self.askings: list[Asking] = []
        self.beside = 0
        self._has_tools = has_tools
        self._system = ""

    def answer(self, *turns: Reply) -> None:
        """Put in further replies; when there are none left, the answer is "Done."."""
        with self._own:
            self._turns += turns

    def _step(self, body: Body) -> Reply:
        when = perf_counter()
        request = read_request(body)
        with self._own:
            is_other = self._system and not request.system.startswith(self._system)
            if MARK not in request.text or (self._has_tools and not request.tools) or is_other:
                self.beside += 1
                return Reply(text="Stones")
            self._system = self._system or request.system[:_BEGINNING]
            exchange = next(each for each in reversed(self.exchanges) if each.body is body)
            self.askings.append(Asking(request, when, exchange))
            return self._turns.pop(0) if self._turns else Reply(text="Done.")


MARK: Final = "pebbles"
"""A word of what is typed in each conversation first."""
