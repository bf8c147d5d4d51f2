"""AG-UI 1.0: a thread is a run, and what happens in it are AG-UI's events.

`POST /agui/role:NAME` and `POST /agui/workflow:NAME` take a `RunAgentInput` and answer with a stream of
events, from RUN_STARTED to RUN_FINISHED or RUN_ERROR: one turn of the run, by `conversations`. What AG-UI
calls a run (`runId`) is a request here: the same one again, with the same answers, says nothing twice.

    words          TEXT_MESSAGE_*, one message for each reply of an agent; of a branch with its name
    reasoning      REASONING_*
    tools          TOOL_CALL_START, _ARGS, _END and _RESULT: midstream's own, which the client only shows
    states         STEP_STARTED, STEP_FINISHED
    common_data    STATE_SNAPSHOT, then STATE_DELTA
    questions      a message with its words, and the outcome `interrupt` of RUN_FINISHED; `resume` answers
    approvals      a message that says where to decide, and a CUSTOM event `midstream.approval`; the stream
                   goes on once a person has decided
    left aside     a CUSTOM event `midstream.left_out`: the tools of a client, which no agent here calls

A chat that draws neither outcomes nor CUSTOM events has the messages.

Events are written by hand, and compared with AG-UI's own types in the tests.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from midstream.api.engine import Engine
from midstream.api.run_handle import RunHandle
from midstream.core import events as e
from midstream.core.notices import Envelope, TextDelta, ThinkingDelta
from midstream.core.question import Question, is_for_people
from midstream.core.run import question_of
from midstream.language.errors import MidstreamError, UserMistake, did_you_mean
from midstream.language.names import Json
from midstream.server.answering import Answer, body_of, picture_of
from midstream.server.conversations import Asked, Conversations, Message, Spoken, talkable
from midstream.server.words import DECIDED_ELSEWHERE, in_words, waits_for_a_yes
from midstream.views.calls_in_words import question_summary

SOURCE: Final = "agui"
VERSION: Final = "1.0"

Event = dict[str, Any]


def agui_routes(engine: Engine) -> list[Route]:
    """Return the routes below `/agui`. Whoever comes to them has been let in."""
    threads = Conversations(engine, SOURCE)

    async def agents(_: Request) -> Response:
        return JSONResponse({"agents": await talkable(engine)})

    async def run_agent(request: Request) -> ASGIApp:
        try:
            given = await _input(engine, request)
        except MidstreamError as error:
            return _failure(error)
        speaking = threads.speak(given.asked, answers=given.answers, through_approvals=True)
        return Answer(speaking, partial(_events, given), _failure)

    return [
        Route("/agui", agents, methods=["GET"]),
        Route("/agui/{agent:path}", run_agent, methods=["POST"]),
    ]


class _Input(msgspec.Struct, frozen=True):
    """What of a `RunAgentInput` is understood; `answers` by the id of the question."""

    thread: str
    run: str
    asked: Asked
    answers: tuple[tuple[str, Json], ...]


async def _events(given: _Input, spoken: Spoken) -> AsyncGenerator[bytes]:
    told = Telling(spoken.run, given.thread, given.run)
    for event in told.begun(given.asked.left_out):
        yield _event(event)
    receipt = spoken.receipt
    if receipt is not None and receipt.handling == "reject":
        yield _event(told.error(receipt.reason or "The run does not listen now.", "rejected"))
        return
    try:
        async for envelope in spoken.events():
            for event in told.of(envelope):
                yield _event(event)
    except MidstreamError as error:
        told.failed = str(error)
    for event in told.ended(is_overtaken=spoken.is_overtaken):
        yield _event(event)


class Telling:
    """Turns what happens in a run into AG-UI's events, for one request. `failed`: why it went wrong."""

    def __init__(self, run: RunHandle, thread: str, id: str) -> None:
        self.failed = ""
        self._run = run
        self._ids: Event = {"threadId": thread, "runId": id}
        self._seq = run.run.seq
        self._messages = 0
        self._open: dict[str, str] = {}
        self._reasoning: dict[str, str] = {}
        self._called: set[str] = set()
        self._step = ""
        self._data: dict[str, Json] = {}
        self._last = ""
        self._usages: dict[str, Event] = {}

    def begun(self, left_out: Sequence[str] = ()) -> Iterator[Event]:
        """Yield what a request begins with; `left_out` is what of it is left aside."""
        yield {"type": "RUN_STARTED", **self._ids, "protocolVersion": VERSION}
        if left_out:
            yield {"type": "CUSTOM", "name": "midstream.left_out", "value": [*left_out]}
        self._data = self._run.data
        yield {"type": "STATE_SNAPSHOT", "snapshot": self._data}

    def of(self, envelope: Envelope) -> Iterator[Event]:
        """Yield the events that tell what happened, in order."""
        event = envelope.event
        self._seq = envelope.seq or self._seq
        match event:
            case TextDelta(branch=branch, text=text, agent=agent) if text:
                yield from self._thought(branch)
                if branch not in self._open:
                    self._open[branch] = self._new_id()
                    name = f"{branch}/{agent}" if branch else agent
                    yield self._text("START", branch, role="assistant", name=name)
                    self._last = "" if not branch else self._last
                self._last += text if not branch else ""
                yield self._text("CONTENT", branch, delta=text)
            case ThinkingDelta(branch=branch, text=text) if text:
                if branch not in self._reasoning:
                    id = self._reasoning[branch] = self._new_id()
                    yield {"type": "REASONING_START", "messageId": id}
                    yield {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
                id = self._reasoning[branch]
                yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": text}
            case e.AgentResponded() | e.ReplyCut() | e.Interrupted() | e.AgentFailed():
                yield from self._closed(event.branch)
                self._use(event.usage)
                if isinstance(event, e.AgentResponded):
                    self.failed = "" if not event.branch else self.failed
                elif isinstance(event, e.AgentFailed) and not event.branch:
                    self.failed = str(UserMistake(event.error, hint=event.hint))
            case e.ToolCalled():
                yield from self._call(event.call_id, event.name, event.arguments)
            case e.ToolReturned():
                if event.outcome == "not_run" and event.call_id not in self._called:
                    yield from self._call(event.call_id, event.name, {})
                yield {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": f"{self._run.id}-{event.call_id}-{self._seq}",
                    "toolCallId": event.call_id,
                    "content": event.result,
                    "role": "tool",
                }
            case e.StateTransition(branch="", target=target):
                yield from self._stepped(target)
            case e.WorkflowOutput(kind="log", text=text):
                yield from self._said(text)
            case e.QuestionAsked():
                question = question_of(self._run.run.inbox, event.question_id)
                if question is not None and is_for_people(question):
                    yield from self._said(waits_for_a_yes(event, self._run.id))
                    yield self._approval(event)
                elif event.text:
                    yield from self._said(in_words(event))
            case e.RunFailed(error=error, hint=hint):
                self.failed = str(UserMistake(error, hint=hint))
            case e.RunStopped(reason=reason):
                self.failed = f"The run was stopped: {reason}."
        if envelope.seq is not None:
            yield from self._changed()

    def ended(self, *, is_overtaken: bool) -> Iterator[Event]:
        """Yield what a request ends with: nothing stays open, and then how the run stands."""
        for branch in (*self._open, *self._reasoning):
            yield from self._closed(branch)
        output = self._run.output
        if isinstance(output, str) and output.strip() != self._last.strip():
            yield from self._said(output)
        yield from self._changed()
        yield from self._stepped("")
        if self.failed:
            yield self.error(self.failed, self._run.status)
            return
        finished: Event = {"type": "RUN_FINISHED", **self._ids}
        # A chat that only waits for words asks nothing.
        asked = [each for each in self._run.questions if not is_for_people(each)]
        questions = [each for each in asked if each.kind == "question" or each.text]
        if is_overtaken or self._run.run.visit.phase == "held":
            finished["outcome"] = {"type": "cancelled"}
        elif questions:
            interrupts = [_interrupt(each) for each in questions]
            finished["outcome"] = {"type": "interrupt", "interrupts": interrupts}
        else:
            finished["outcome"] = {"type": "success"}
            if output is not None:
                finished["result"] = output
        if self._usages:
            finished["usage"] = [*self._usages.values()]
        yield finished

    def error(self, message: str, code: str) -> Event:
        """Return the event that ends a request which went wrong."""
        found: Event = {"type": "RUN_ERROR", "message": message, "code": code}
        return {**found, "usage": [*self._usages.values()]} if self._usages else found

    # --- the parts ------------------------------------------------------------------------------

    def _new_id(self) -> str:
        self._messages += 1
        return f"{self._run.id}-{self._seq}-{self._messages}"

    def _text(self, kind: str, branch: str, **more: Json) -> Event:
        return {"type": f"TEXT_MESSAGE_{kind}", "messageId": self._open[branch], **more}

    def _said(self, text: str) -> Iterator[Event]:
        """Yield a message that is there at once."""
        id = self._new_id()
        yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}
        yield {"type": "TEXT_MESSAGE_END", "messageId": id}

    def _closed(self, branch: str) -> Iterator[Event]:
        yield from self._thought(branch)
        if branch in self._open:
            yield self._text("END", branch)
            del self._open[branch]

    def _thought(self, branch: str) -> Iterator[Event]:
        if (id := self._reasoning.pop(branch, None)) is not None:
            yield {"type": "REASONING_MESSAGE_END", "messageId": id}
            yield {"type": "REASONING_END", "messageId": id}

    def _call(self, id: str, name: str, arguments: dict[str, Json]) -> Iterator[Event]:
        self._called.add(id)
        yield {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name}
        delta = msgspec.json.encode(arguments).decode()
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta}
        yield {"type": "TOOL_CALL_END", "toolCallId": id}

    def _approval(self, asked: e.QuestionAsked) -> Event:
        value = {
            "run": self._run.id,
            "question": asked.question_id,
            "text": question_summary(asked),
            "where": DECIDED_ELSEWHERE.format(run=self._run.id),
        }
        return {"type": "CUSTOM", "name": "midstream.approval", "value": value}

    def _stepped(self, state: str) -> Iterator[Event]:
        if self._step:
            yield {"type": "STEP_FINISHED", "stepName": self._step}
        self._step = state
        if state:
            yield {"type": "STEP_STARTED", "stepName": state}

    def _changed(self) -> Iterator[Event]:
        """Yield how the run's data differs from what was told of it, by its keys."""
        old, new = self._data, self._run.data
        if new is old:
            return
        edits: list[Event] = [
            {"op": "remove", "path": _pointer(key)} for key in old if key not in new
        ]
        edits += [
            {"op": "replace" if key in old else "add", "path": _pointer(key), "value": value}
            for key, value in new.items()
            if key not in old or (old[key] is not value and old[key] != value)
        ]
        self._data = new
        if edits:
            yield {"type": "STATE_DELTA", "delta": edits}

    def _use(self, usage: e.Usage | None) -> None:
        if usage is None:
            return
        none = {"model": usage.model, "inputTokens": 0, "outputTokens": 0, "cachedInputTokens": 0}
        entry = self._usages.setdefault(usage.model, none)
        entry["inputTokens"] += usage.input_tokens
        entry["outputTokens"] += usage.output_tokens
        entry["cachedInputTokens"] += usage.cached_tokens


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _interrupt(question: Question) -> Event:
    found: Event = {"id": question.id, "reason": "input_required", "message": question.text}
    if question.schema is not None:
        found["responseSchema"] = question.schema
    elif question.choices:
        found["responseSchema"] = {"type": "string", "enum": [*question.choices]}
    return found


# --- what a request asks for -------------------------------------------------------------------------


class _NoAgent(UserMistake):
    """There is no such agent."""


async def _input(engine: Engine, request: Request) -> _Input:
    agent = request.path_params["agent"]
    if agent not in (names := await talkable(engine)):
        raise _NoAgent(f"There is no agent {agent!r}.", hint=did_you_mean(agent, names))
    body = await body_of(request)
    thread, run, given = body.get("threadId"), body.get("runId"), body.get("messages")
    if not (thread and isinstance(thread, str) and run and isinstance(run, str)):
        raise UserMistake("`threadId` or `runId` is missing.", hint="Both are text.")
    if not isinstance(given, list):
        raise UserMistake("`messages` is missing.", hint="A list; the last is the user's.")
    answers = _answers(body.get("resume"))
    messages = [
        Message(str(each["role"]), await _text(engine, each.get("content"), number))
        for number, each in enumerate(given)
        if isinstance(each, dict) and each.get("role") in ("user", "assistant")
    ]
    messages = [each for each in messages if each.text]
    while answers and messages and messages[-1].role != "user":
        messages.pop()  # those after the last words are no words
    if not messages or messages[-1].role != "user":
        raise UserMistake(
            "Nothing is said: the last message has to be the user's.",
            hint="Add one, or answer what is asked with `resume`.",
        )
    # Some clients answer a question under the id of the request in which it was asked.
    once = f"{run}\0{msgspec.json.encode(answers).decode()}" if answers else run
    left_out = ("tools",) if body.get("tools") else ()
    asked = Asked(
        model=agent,
        messages=tuple(messages),
        key=thread,
        once=once,
        left_out=left_out,
        is_answer=bool(answers),
    )
    return _Input(thread, run, asked, answers)


def _answers(resume: Any) -> tuple[tuple[str, Json], ...]:
    entries = resume if isinstance(resume, list) else []
    found: list[tuple[str, Json]] = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("interruptId"), str):
            raise UserMistake("`resume` has an entry without `interruptId`.", hint="Add it.")
        if entry.get("status") != "resolved":
            raise UserMistake(
                "A question here is answered, or left open; it is not cancelled.",
                hint="Say something else in place of an answer: send a message without `resume`.",
            )
        found.append((entry["interruptId"], entry.get("payload")))
    return tuple(found)


async def _text(engine: Engine, content: Any, number: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts: list[str] = []
    for part in content if isinstance(content, list) else [None]:
        part = part if isinstance(part, dict) else {}
        kind, source = part.get("type"), part.get("source")
        if kind == "text":
            parts.append(str(part.get("text", "")))
        elif kind == "image" and isinstance(source, dict) and source.get("type") == "data":
            where = f"messages[{number}]"
            parts.append(await picture_of(engine, str(source.get("value")), where))
        else:
            raise UserMistake(
                f"messages[{number}] has a part of the type {kind!r} that is not taken here.",
                hint="There are text, and image with its data; nothing is fetched.",
            )
    return "\n".join(parts)


def _failure(error: MidstreamError) -> JSONResponse:
    status = 404 if isinstance(error, _NoAgent) else 400 if isinstance(error, UserMistake) else 503
    return JSONResponse({"error": error.what, "hint": error.hint}, status)


def _event(event: Event) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
