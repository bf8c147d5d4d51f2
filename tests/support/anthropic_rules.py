"""What the real Anthropic Messages API refuses, in its own words.

Turns of one role that follow each other are one turn to the API, so they are joined before the
rules are applied; the positions in the wordings are those of the first of them. What would be
taken but is no answer to anybody (words of the assistant at the end, which a model completes) is
refused where the API refuses it: from the models of 4.6 on.
"""

import itertools
import re
from collections.abc import Iterator, Mapping

import msgspec

from midstream.language.names import Json
from support.image_rules import image_problem

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TAKES_PREFILL = re.compile(r"claude-(\d|instant|(opus|sonnet|haiku)-4(-[0-5]\b|-\d{8}|$))")
_TAKES_SYSTEM_TURNS = re.compile(r"claude-(fable|mythos|opus-4-[89]|(opus|sonnet|haiku)-5)")
_TAKES_EFFORT = re.compile(
    r"claude-(fable-5|mythos-5|opus-4-[5-8]|opus-5|sonnet-4-6|sonnet-5|haiku-5-5)"
)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_ARGUMENTS = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "system",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "metadata",
        "thinking",
        "tools",
        "tool_choice",
        "service_tier",
        "container",
        "context_management",
        "mcp_servers",
        "output_config",
        "cache_control",
        "inference_geo",
    }
)
_NO_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user "
    "message."
)


class _Turn(msgspec.Struct):
    """The blocks of one role in a row; `position` is that of the first message."""

    role: str
    position: int
    blocks: list[dict[str, Json]]


_MOST_IMAGE = 5 * 1024 * 1024
"""Characters of a picture's base64."""


def problems(body: Json) -> list[str]:
    """Return everything wrong with a request's body, first what the API would say; [] when nothing is."""
    if not isinstance(body, dict):
        return ["The request body is not valid JSON"]
    return list(_problems(body))


def _problems(body: Mapping[str, Json]) -> Iterator[str]:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield f"{name}: Field required"
    for name in sorted(set(body) - _ARGUMENTS):
        yield f"{name}: Extra inputs are not permitted"
    most = body.get("max_tokens", 1)
    if not isinstance(most, int) or most < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    yield from _of_effort(body)
    marks = sum(1 for block in _all_blocks(body) if "cache_control" in block)
    if marks > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    yield from _of_tools(body)
    yield from _of_system(body.get("system"))
    messages = body.get("messages")
    if messages == []:
        yield "messages: at least one message is required"
    if isinstance(messages, list) and messages:
        yield from _of_messages(messages, str(body.get("model", "")))


def _all_blocks(body: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield all that may be marked for the cache."""
    yield from body.get("tools") or ()
    for content in (
        body.get("system"),
        *(each.get("content") for each in body.get("messages") or ()),
    ):
        if isinstance(content, list):
            yield from content


def _of_effort(body: Mapping[str, Json]) -> Iterator[str]:
    effort = (body.get("output_config") or {}).get("effort")
    if effort is None:
        return
    if not _TAKES_EFFORT.match(str(body.get("model", ""))):
        yield "This model does not support the effort parameter."
    elif effort not in _EFFORTS:
        yield f"output_config.effort: Input should be {', '.join(map(repr, _EFFORTS))}"


def _of_tools(body: Mapping[str, Json]) -> Iterator[str]:
    tools = body.get("tools") or []
    if body.get("tool_choice") is not None and not tools:
        yield "tool_choice: may only be specified while providing tools"
    names = [tool.get("name", "") for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    for position, tool in enumerate(tools):
        where = f"tools.{position}.custom"
        if not _NAME.fullmatch(tool.get("name", "")):
            yield f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            yield f"{where}.input_schema: Field required"
        elif schema.get("type") != "object":
            yield f"{where}.input_schema.type: Input should be 'object'"
        elif {"oneOf", "allOf", "anyOf"} & set(schema):
            yield (
                f"{where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the "
                "top level"
            )
        elif not all(map(_PROPERTY.fullmatch, schema.get("properties") or {})):
            yield (
                f"{where}.input_schema.properties: Property keys should match pattern "
                "'^[a-zA-Z0-9_.-]{1,64}$'"
            )


def _of_system(system: Json) -> Iterator[str]:
    if isinstance(system, list):
        yield from _of_texts("system", system)


def _of_messages(messages: list[Json], model: str) -> Iterator[str]:
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "system" and not _TAKES_SYSTEM_TURNS.match(model):
            yield (
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
        elif role not in ("user", "assistant", "system"):
            yield f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant"'
        if not message.get("content") and not (
            role == "assistant" and position == len(messages) - 1
        ):
            yield (
                f"messages.{position}: all messages must have non-empty content except for the "
                "optional final assistant message"
            )
    turns = _turns(messages)
    if turns[0].role != "user":
        yield 'messages: first message must use the "user" role'
    for turn in turns:
        yield from _of_texts("messages", turn.blocks)
        yield from _of_images(turn.blocks, f"messages.{turn.position}.content", turn.role)
    yield from _of_order(turns)
    yield from _of_calls(turns)
    yield from _of_end(turns, model)


def _turns(messages: list[Json]) -> list[_Turn]:
    turns: list[_Turn] = []
    for position, message in enumerate(messages):
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        role = message.get("role")
        if turns and turns[-1].role == role:
            turns[-1].blocks += blocks
        else:
            turns.append(_Turn(role, position, [*blocks]))
    return turns


def _of_texts(where: str, blocks: list[dict[str, Json]]) -> Iterator[str]:
    """Tell of texts that hold nothing, those inside tool results too."""
    for block in blocks:
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from _of_texts(where, block["content"])
        if block.get("type") != "text":
            continue
        text = block.get("text")
        if not text:
            yield f"{where}: text content blocks must be non-empty"
        elif not text.strip():
            yield f"{where}: text content blocks must contain non-whitespace text"


def _of_images(blocks: list[dict[str, Json]], where: str, role: str) -> Iterator[str]:
    """Tell of pictures that are none, or stand where none may, those inside tool results too."""
    for number, block in enumerate(blocks):
        here = f"{where}.{number}"
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from _of_images(block["content"], f"{here}.tool_result.content", role)
        if block.get("type") != "image":
            continue
        source = block.get("source") or {}
        if role != "user":
            yield f"{here}: `image` blocks can only be in `user` messages"
        elif set(source) != {"type", "media_type", "data"} or source.get("type") != "base64":
            yield f"{here}.image.source: Input does not match any of the expected forms"
        elif len(source["data"]) > _MOST_IMAGE:
            yield (
                f"{here}.image.source.base64: image exceeds 5 MB maximum: {len(source['data'])} bytes "
                f"> {_MOST_IMAGE} bytes"
            )
        elif problem := image_problem(source["media_type"], source["data"], max_bytes=_MOST_IMAGE):
            yield f"{here}.image.source.base64.data: {problem}"


def _of_order(turns: list[_Turn]) -> Iterator[str]:
    """Tell of system turns that stand behind no user's."""
    for before, turn in itertools.pairwise(turns):
        if turn.role == "system" and before.role != "user":
            yield (
                f"messages.{turn.position}: `system` messages must immediately follow a `user` message"
            )


def _of_calls(turns: list[_Turn]) -> Iterator[str]:
    seen: set[str] = set()
    owed: list[str] = []
    for turn in turns:
        if turn.role == "system":
            continue
        yield from _of_results(turn, owed)
        owed = []
        for number, block in enumerate(turn.blocks):
            if block.get("type") != "tool_use":
                continue
            where = f"messages.{turn.position}.content.{number}"
            yield from _of_call(block, where, turn.role)
            if block.get("id") in seen:
                yield f"{where}: `tool_use` ids must be unique"
            seen.add(block.get("id", ""))
            owed.append(block.get("id", ""))
        if owed and turn is turns[-1]:
            yield _unanswered(turn.position, owed)


def _of_call(block: Mapping[str, Json], where: str, role: str) -> Iterator[str]:
    if role != "assistant":
        yield f"{where}: `tool_use` blocks can only be in `assistant` messages"
    if not _ID.fullmatch(block.get("id", "")):
        yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _NAME.fullmatch(block.get("name", "")):
        yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.tool_use.input: Input should be a valid dictionary"


def _of_results(turn: _Turn, owed: list[str]) -> Iterator[str]:
    """Tell of calls this turn leaves unanswered at its start, and of results nobody asked for."""
    told = [block.get("type") == "tool_result" for block in turn.blocks]
    first = told.index(False) if False in told else len(told)
    ids = [block.get("tool_use_id", "") for block in turn.blocks[:first]]
    missing = [call for call in owed if call not in ids]
    if missing:
        yield _unanswered(turn.position - 1, missing)
    for number, block in enumerate(turn.blocks):
        if block.get("type") != "tool_result":
            continue
        where = f"messages.{turn.position}.content.{number}"
        call = block.get("tool_use_id", "")
        if turn.role != "user":
            yield f"{where}: `tool_result` blocks can only be in `user` messages"
        elif call not in owed:
            yield (
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        elif call in ids[:number]:
            yield (
                f"{where}: each tool_use must have a single result. Found multiple `tool_result` "
                f"blocks with id: {call}"
            )


def _unanswered(position: int, calls: list[str]) -> str:
    return (
        f"messages.{position}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )


def _of_end(turns: list[_Turn], model: str) -> Iterator[str]:
    last = [turn for turn in turns if turn.role != "system"][-1:]
    if not last or last[0].role != "assistant":
        return
    if not _TAKES_PREFILL.match(model):
        yield _NO_PREFILL
    texts = [block.get("text", "") for block in last[0].blocks[-1:]]
    if texts and texts[0] != texts[0].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"
