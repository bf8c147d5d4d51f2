"""OfflineModel: what answers where no model is configured. It is no LLM, and every reply says so.

It plays a workflow's own offline part, the file `NAME/offline.json` beside the workflow: which words
an agent says in a state, as templates over facts that tools measured, and which tools it calls. So a
workflow can be tried, tested and shown without a key, and the figures it shows are still real.

    {"AGENT or default": {"STATE or default": [
        {"visit": 1, "request": 1, "text": "Looking.", "calls": [{"name": "get_time"}]},
        {"text": "You asked for ${input}. It is ${last_tool_result?unknown}."}]}}

The first scene whose `visit` (entries into the state) and `request` (requests of the turn) fit is
played; a scene without them fits always.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from midstream.core.conversation import CHARS_PER_TOKEN, Message
from midstream.core.events import Usage
from midstream.core.inputs import RequestedCall
from midstream.core.pictures import about
from midstream.core.run_data import as_text
from midstream.core.summaries import SUMMARY_STATE
from midstream.language.errors import AuthorMistake
from midstream.language.names import Json
from midstream.language.offline_replies import DEFAULT, Book, Scene
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener

LABEL: Final = "[offline]"
"""What the words of every reply begin with."""

MODEL: Final = "offline"
PIECES_PER_S = 36.0
"""About 30 words a second, which a person can read, and interrupt."""
MAX_VALUE = 4_000
"""Characters of one value put into a template before the rest is named instead of shown."""

CHAT: Final = "role:"

HELP = """\
I am the offline model: no LLM, only a stand-in. No model is configured, so I cannot answer:

> ${last_user_message}
${pictures?}
To talk to a real model, set one of these and start midstream again:

- `OPENAI_API_KEY=...` for OpenAI
- `OPENAI_BASE_URL=http://localhost:8000/v1` for vLLM; LM Studio, OpenRouter and others work the same way

Then choose a model with `--model` or `/model`. Ollama on this machine needs nothing set: \
`/model ollama:NAME`. Without any of it you can try a workflow that comes \
with its own offline part:

    /workflow code_architecture_review

It asks you a question while it measures the code here, and writes a report. Type while it runs.
"""

NO_PART = """\
I am the offline model: no LLM. The agent ${agent} is in the state ${state} of ${workflow}, which has \
no offline part for it. It was told: ${last_user_message?nothing}
${pictures?}"""

Parts = Callable[[str], Json]
"""Returns the offline part of the workflow of that name, as decoded JSON; None if it has none."""


class OfflineModel:
    """A `Model` without a model.

    Args:
        parts: finds a workflow's offline part.
        pieces_per_s: how fast the words stream; None: at once, as tests and headless runs want it.
        sleep: waits for so many seconds.
    """

    __slots__ = ("_parts", "_pause_s", "_sleep")

    def __init__(
        self,
        parts: Parts,
        *,
        pieces_per_s: float | None = PIECES_PER_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._parts = parts
        self._pause_s = 0.0 if pieces_per_s is None else 1.0 / pieces_per_s
        self._sleep = sleep

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the scripted reply, its words told to `listener` piece by piece.

        Raises:
            AuthorMistake: the workflow's offline part is not of the shape described above.
        """
        if request.state == SUMMARY_STATE:
            text = _summary(request)
            return ModelReply(text=text, usage=_usage(request.messages, text))
        scene = find_scene(self._parts(request.workflow), request)
        facts = _facts(request)
        calls = tuple(
            RequestedCall(name=call.name, arguments=_filled_in(call.arguments, facts))
            for call in scene.calls
        )
        if request.must_call and not {c.name for c in calls} & {t.name for t in request.tools}:
            tool = request.tools[-1]
            made = RequestedCall(name=tool.name, arguments=smallest(tool.parameters) or {})
            calls = (*calls, made)
        words = filled(scene.text, facts) or f"({', '.join(c.name for c in calls) or 'nothing'})"
        text = f"{LABEL} {words.strip()}"
        said: list[str] = []
        listener.metered(lambda: _usage(request.messages, "".join(said)))
        for piece in pieces(text):
            await self._sleep(self._pause_s)
            said.append(piece)
            listener.text(piece)
        for call in calls:
            listener.calling(call.name)
        return ModelReply(text=text, calls=calls, usage=_usage(request.messages, text))


_SUMMARY_LINES = 12
_SUMMARY_WIDTH = 100


def _summary(request: ModelRequest) -> str:
    """Return a stand-in for a summary: the first words of what the user said."""
    text = request.messages[-1].text if request.messages else ""
    said = [line for line in text.splitlines() if line.startswith("User: ")]
    lines = [f"- {line.removeprefix('User: ')[:_SUMMARY_WIDTH]}" for line in said[-_SUMMARY_LINES:]]
    return "\n".join([f"{LABEL} No model wrote this. The user said:", *lines])


def _usage(heard: tuple[Message, ...], said: str) -> Usage:
    """Return a guess at the tokens a model would have used, so that budgets can be tried offline."""
    return Usage(
        model=MODEL,
        input_tokens=sum(len(message.text) for message in heard) // CHARS_PER_TOKEN,
        output_tokens=max(len(said) // CHARS_PER_TOKEN, 1),
        cost_usd="0",
    )


def find_scene(part: Json, request: ModelRequest) -> Scene:
    """Return the scene to play: of the agent and state, else of a `default`, else a plain notice.

    Raises:
        AuthorMistake: the offline part has another shape than it should.
    """
    if part is None:
        return Scene(text=HELP if request.workflow.startswith(CHAT) else NO_PART)
    try:
        book = msgspec.convert(part, Book, strict=True)
    except msgspec.ValidationError as error:
        raise AuthorMistake(
            f"The offline part of the workflow {request.workflow!r} is wrong: {error}.",
            hint='It maps agent and state to scenes: {"AGENT": {"STATE": [{"text": "..."}]}}.',
        ) from error
    for agent in (request.agent, DEFAULT):
        for state in (request.state, DEFAULT):
            for scene in book.get(agent, {}).get(state, ()):
                if _fits(scene, request):
                    return scene
    return Scene(text=NO_PART)


def _fits(scene: Scene, request: ModelRequest) -> bool:
    return scene.visit in (None, request.visit) and scene.request in (None, request.request)


# --- templates ----------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\$\{([^}?${]++)(?:\?([^}${]*+))?\}")


def filled(template: str, facts: dict[str, Json]) -> str:
    """Return the template with each `${path}` replaced by its value, in one pass.

    Values are never looked at again, so words of a user or a file cannot ask for more. A path that
    leads nowhere gives what stands after its `?`, else its name in brackets.
    """
    return _PLACEHOLDER.sub(lambda found: _in_short(_value(found, facts)), template)


def _filled_in(value: Json, facts: dict[str, Json]) -> Json:
    """Return JSON with the templates in it filled; a text that is one placeholder keeps its type."""
    if isinstance(value, dict):
        return {key: _filled_in(item, facts) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled_in(item, facts) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    return filled(value, facts) if whole is None else _value(whole, facts)


def _value(found: re.Match[str], facts: dict[str, Json]) -> Json:
    path, default = found.groups()
    value: Json = facts
    for part in path.strip().split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = None
            break
    if value is None or value == "":
        return f"(no {path.strip()})" if default is None else default
    return value


def _in_short(value: Json) -> str:
    text = as_text(value)
    if len(text) <= MAX_VALUE:
        return text
    return f"{text[:MAX_VALUE]} ... (+{len(text) - MAX_VALUE:,} characters)"


def _facts(request: ModelRequest) -> dict[str, Json]:
    return {
        "agent": request.agent,
        "state": request.state,
        "workflow": request.workflow,
        "visit": request.visit,
        "input": request.input,
        "common_data": request.common_data,
        "variables": request.variables,
        "last_tool_result": _last_tool_result(request.messages),
        "pictures": _pictures(request),
        "last_user_message": next(
            (message.text for message in reversed(request.messages) if message.role == "user"), None
        ),
    }


def _pictures(request: ModelRequest) -> str:
    """Return which pictures were given, "" for none."""
    given = {
        picture.key: picture for message in request.messages for picture in message.all_pictures
    }
    if not given:
        return ""
    lines = (
        f"- {about(picture)}{'' if key in (request.pictures or {}) else ', not kept any more'}"
        for key, picture in given.items()
    )
    return "\n".join(["", "I was given pictures, which I cannot see:", "", *lines, ""])


def _last_tool_result(messages: tuple[Message, ...]) -> Json:
    """Return the newest tool result, decoded where it is JSON."""
    results = [result for message in messages for result in message.results]
    if not results:
        return None
    try:
        return msgspec.json.decode(results[-1].text)
    except (msgspec.DecodeError, RecursionError):
        return results[-1].text


# --- words and calls ----------------------------------------------------------------------------


def pieces(text: str) -> list[str]:
    """Return the text in pieces of a few characters, as a model streams it."""
    return re.findall(r"\s*\S{1,8}|\s+", text)


MAX_ITEMS = 100
"""Items made for a list whose schema asks for more: the call is then refused, not the memory filled."""

_SMALLEST: dict[str, Json] = {
    "string": LABEL,
    "boolean": False,
    "integer": 0,
    "number": 0,
    "null": None,
}


def smallest(schema: dict[str, Json]) -> Json:
    """Return a small value that fits the common part of JSON Schema: types, required, enum, default.

    Booleans are False: a stand-in approves of nothing.
    """
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: smallest(properties.get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        count = min(schema.get("minItems", 0), MAX_ITEMS)
        return [smallest(schema.get("items", {})) for _ in range(count)]
    if kind in ("integer", "number"):
        return max(0, schema.get("minimum", 0))
    return _SMALLEST.get(kind, LABEL)
