"""Words: names are told harmless and without secrets, and what was said only where that is asked for."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from midstream.core import events as e
from midstream.core.conversation import Message
from midstream.core.run import Run
from midstream.core.summaries import is_summary_key
from midstream.language.names import Json
from midstream.safety.redaction import Redactor
from midstream.safety.sanitize import sanitized, scrubbed
from midstream.telemetry import names as n
from midstream.telemetry.figures import Attributes, Value
from midstream.telemetry.under_way import Thing, owner_at

MAX_NAME: Final = 200
MAX_PART: Final = 4_000
MAX_CONTENT: Final = 60_000
"""Characters of a name, of each text in content that is asked for, and of all of it: the most."""

MAX_MESSAGES: Final = 20
MAX_KNOWN: Final = 1_000

_CONTENT: Final = frozenset(
    (
        *(n.INPUT_MESSAGES, n.OUTPUT_MESSAGES, n.TOOL_ARGUMENTS, n.TOOL_RESULT),
        *(n.TEXT, n.ANSWER, n.RUN_INPUT, n.RUN_OUTPUT),
    )
)


class Words:
    """Makes what is told harmless."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._known: dict[str, str] = {}

    def attributes(self, attributes: Attributes) -> Attributes:
        """Return attributes that may be told."""
        return {name: self._value(name, value) for name, value in attributes.items()}

    def _value(self, name: str, value: Value) -> Value:
        if isinstance(value, str):
            return self.word(value, MAX_CONTENT if name in _CONTENT else MAX_NAME)
        if isinstance(value, tuple):
            return tuple(map(self.word, value))
        return value

    def word(self, text: str, limit: int = MAX_NAME) -> str:
        """Return a text without secrets and harmless, cut where it is too long."""
        if limit == MAX_NAME and (known := self._known.get(text)) is not None:
            return known  # names come again and again
        clean = sanitized(self._redactor.beginning(text, 2 * limit))
        if limit == MAX_NAME:
            clean = " ".join(clean.split())
        clean = clean if len(clean) <= limit else f"{clean[: limit - 1]}…"
        if limit == MAX_NAME and len(text) <= MAX_NAME:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[text] = clean
        return clean

    def content(self, content: Mapping[str, Json]) -> Attributes:
        """Return content as attributes: words as they are, all else as JSON that is whole."""
        told: Attributes = {}
        for name, value in content.items():
            value = self._clipped(value)
            if not isinstance(value, str):
                value = msgspec.json.encode(self._redactor.redacted_json(value)).decode()
                if len(value) > MAX_CONTENT:
                    value = f"[too long to be told: {len(value):,} characters]"
            told[name] = value
        return told

    def _clipped(self, value: Json) -> Json:
        """Return a JSON value with its long texts cut, so that it is whole JSON all the same."""
        if isinstance(value, str):
            value = scrubbed(value)
            if len(value) <= MAX_PART:
                return value
            return f"{self._redactor.beginning(value, MAX_PART)}…"
        if isinstance(value, dict):
            return {scrubbed(key): self._clipped(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._clipped(item) for item in value]
        return value


def content_before(run: Run, thing: Thing) -> dict[str, Json]:
    """Return the words something begins with: what was asked, heard or called with."""
    inner = owner_at(run, thing.key)
    match thing.kind:
        case "run":
            return {} if run.input is None else {n.RUN_INPUT: run.input}
        case "model" if not is_summary_key(thing.key[-3:]) and inner.visit.turn is not None:
            context = inner.plan.agents[inner.visit.turn.agent].context
            return {n.INPUT_MESSAGES: _said(inner.contexts.get(context, ()))}
        case "tool" if inner.visit.turn is not None:
            call = next(each for each in inner.visit.turn.calls if each.call.id == thing.key[-1])
            return {n.TOOL_ARGUMENTS: call.arguments}
        case "question":
            asked = next(q for q in run.inbox.open_questions if q.id == thing.key[-1])
            return {n.TEXT: asked.text}
    return {}


def content_after(kind: str, fact: e.AnyFact) -> dict[str, Json]:
    """Return the words something of a kind ends with, by the fact that ended it."""
    match kind, fact:
        case "model", e.AgentResponded():
            parts: list[Json] = [{"type": "text", "content": fact.text}] if fact.text else []
            parts += [_call(call.id, call.name, call.arguments) for call in fact.calls]
            reason = "tool_call" if fact.calls else "stop"
            return {
                n.OUTPUT_MESSAGES: [{"role": "assistant", "parts": parts, "finish_reason": reason}]
            }
        case "tool", e.ToolReturned():
            return {n.TOOL_RESULT: fact.result}
        case "question", e.QuestionAnswered():
            return {n.ANSWER: fact.answer}
        case "run", e.RunFinished() if fact.output is not None:
            return {n.RUN_OUTPUT: fact.output}
    return {}


def _said(messages: Sequence[Message]) -> list[Json]:
    """Return what a request has heard since the last reply, by the conventions' schema of messages."""
    new: list[Message] = []
    for message in reversed(messages[-MAX_MESSAGES:]):
        new.append(message)
        if message.calls or (message.role == "assistant" and message.author):
            break
    told: list[Json] = []
    for message in reversed(new):
        parts: list[Json] = [{"type": "text", "content": message.text}] if message.text else []
        parts += [_call(call.id, call.name, call.arguments) for call in message.calls]
        told.append({"role": message.role, "parts": parts})
        for result in message.results:
            response: Json = {
                "type": "tool_call_response",
                "id": result.call_id,
                "response": result.text,
            }
            told.append({"role": "tool", "parts": [response]})
    return told


def _call(id: str, name: str, arguments: dict[str, Json]) -> Json:
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
