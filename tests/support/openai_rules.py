"""What the real chat-completions API refuses, in its own words.

A conversation that breaks one of these rules is answered 400 for ever, whatever is added to it
later. So the test server checks them all: a history this module lets through is one a provider
takes. The wordings are the provider's own, so that the error a person would see is the one tested.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from midstream.language.names import Json
from support.image_rules import image_problem

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ARGUMENTS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "temperature",
        "top_p",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "response_format",
        "reasoning_effort",
        "user",
        "verbosity",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "store",
        "metadata",
        "modalities",
        "prediction",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "web_search_options",
    }
)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error answer, as the API words it."""

    status: int = 400
    message: str
    param: str | None = None
    code: str | None = None
    type: str = "invalid_request_error"

    def body(self) -> dict[str, Json]:
        """Return the JSON object the API sends."""
        error = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}


def refusal(body: Json) -> Refusal | None:
    """Return the first thing wrong with a request's body, None when the API would take it."""
    if not isinstance(body, dict):
        return Refusal(message="We could not parse the JSON body of your request.")
    return next(_refusals(body), None)


def _refusals(body: Mapping[str, Json]) -> Iterator[Refusal]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Refusal(message="you must provide a model parameter")
    for name in sorted(set(body) - _ARGUMENTS):
        yield Refusal(message=f"Unrecognized request argument supplied: {name}")
    if body.get("stream_options") is not None and not body.get("stream"):
        yield Refusal(
            message="The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    yield from _tools_refused(body)
    yield from _messages_refused(body.get("messages"))


def _tools_refused(body: Mapping[str, Json]) -> Iterator[Refusal]:
    tools = body.get("tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if tools is None and body.get(name) is not None:
            yield Refusal(
                message=f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are "
                "specified.",
                param=name,
            )
    if tools is None:
        return
    if not isinstance(tools, list) or not tools:
        yield Refusal(message=_too_short("tools"), param="tools", code="empty_array")
        return
    for position, tool in enumerate(tools):
        function = tool.get("function", {})
        name, schema = function.get("name", ""), function.get("parameters")
        if not _TOOL_NAME.fullmatch(name):
            yield _bad_name(f"tools[{position}].function.name")
        if schema is not None and schema.get("type") != "object":
            yield Refusal(
                message=f"Invalid schema for function '{name}': schema must be a JSON Schema of "
                f"'type: \"object\"', got 'type: \"{schema.get('type')}\"'.",
                param=f"tools[{position}].function.parameters",
                code="invalid_function_parameters",
            )


def _messages_refused(messages: Json) -> Iterator[Refusal]:
    if not isinstance(messages, list):
        yield Refusal(message="Missing required parameter: 'messages'.", param="messages")
        return
    if not messages:
        yield Refusal(message=_too_short("messages"), param="messages", code="empty_array")
    owed: list[str] = []
    for position, message in enumerate(messages):
        role = message.get("role")
        if role not in _ROLES:
            known = ", ".join(f"'{name}'" for name in _ROLES)
            yield Refusal(
                message=f"Invalid value: '{role}'. Supported values are: {known}.",
                param=f"messages[{position}].role",
                code="invalid_value",
            )
        if role == "tool":
            yield from _result_refused(message, position, owed, messages)
            continue
        if owed:
            yield _unanswered(owed, position)
            owed = []
        yield from _content_refused(message, position)
        owed = [call.get("id", "") for call in message.get("tool_calls") or ()]
        yield from _calls_refused(message, position)
    if owed:
        yield _unanswered(owed, len(messages))


def _result_refused(
    message: Mapping[str, Json], position: int, owed: list[str], messages: list[Json]
) -> Iterator[Refusal]:
    before = messages[position - 1] if position else {}
    call_id = message.get("tool_call_id")
    if before.get("role") != "tool" and not before.get("tool_calls"):
        yield Refusal(
            message="Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            param=f"messages.[{position}].role",
        )
    elif call_id not in owed:
        yield Refusal(
            message=f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of "
            "previous message.",
            param=f"messages.[{position}].tool_call_id",
        )
    else:
        owed.remove(call_id)
    yield from _content_refused(message, position)


def _unanswered(owed: list[str], position: int) -> Refusal:
    return Refusal(
        message="An assistant message with 'tool_calls' must be followed by tool messages responding "
        "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(owed),
        param=f"messages.[{position}].role",
    )


def _content_refused(message: Mapping[str, Json], position: int) -> Iterator[Refusal]:
    content = message.get("content")
    if isinstance(content, list) and content:
        yield from _parts_refused(content, str(message.get("role")), position)
        return
    if isinstance(content, str):
        return
    if content is None and message.get("role") == "assistant" and message.get("tool_calls"):
        return
    got = "null" if content is None else type(content).__name__
    yield Refusal(
        message=f"Invalid value for 'content': expected a string, got {got}.",
        param=f"messages.[{position}].content",
    )


def _parts_refused(parts: list[Json], role: str, position: int) -> Iterator[Refusal]:
    where = f"messages[{position}].content"
    for number, part in enumerate(parts):
        kind = part.get("type")
        if kind == "text":
            if not isinstance(part.get("text"), str) or not part["text"]:
                yield Refusal(
                    message=f"Invalid value for '{where}[{number}].text': expected a non-empty string.",
                    param=f"{where}[{number}].text",
                )
        elif kind != "image_url":
            yield Refusal(
                message=f"Invalid value: '{kind}'. Supported values are: 'text' and 'image_url'.",
                param=f"{where}[{number}].type",
                code="invalid_value",
            )
        elif role != "user":
            yield Refusal(
                message=f"Invalid 'messages[{position}]'. Image URLs are only allowed for messages with "
                f"role 'user', but this message with role '{role}' contains an image URL.",
                param=f"messages[{position}]",
                code="invalid_value",
            )
        else:
            yield from _image_refused(part.get("image_url"), f"{where}[{number}].image_url")


def _image_refused(image: Json, where: str) -> Iterator[Refusal]:
    url = image.get("url") if isinstance(image, dict) else None
    head, _, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    media = head.removeprefix("data:").removesuffix(";base64")
    if media == head or head.endswith(media):
        yield Refusal(message=f"Invalid image data URL at {where}.", param=where)
        return
    if problem := image_problem(media, data, max_bytes=20_000_000):
        yield Refusal(
            message="You uploaded an unsupported image. Please make sure your image has of one the "
            f"following formats: ['png', 'jpeg', 'gif', 'webp']. ({problem})",
            code="invalid_image_format",
        )


def _calls_refused(message: Mapping[str, Json], position: int) -> Iterator[Refusal]:
    calls = message.get("tool_calls")
    if calls is None:
        return
    where = f"messages[{position}].tool_calls"
    if not calls:
        yield Refusal(message=_too_short(where), param=where, code="empty_array")
    for number, call in enumerate(calls):
        if call.get("type") != "function":
            yield Refusal(
                message=f"Missing required parameter: '{where}[{number}].type'.",
                param=f"{where}[{number}].type",
                code="missing_required_parameter",
            )
        function = call.get("function", {})
        if not _TOOL_NAME.fullmatch(function.get("name", "")):
            yield _bad_name(f"{where}[{number}].function.name")
        if not isinstance(function.get("arguments"), str):
            yield Refusal(
                message=f"Invalid type for '{where}[{number}].function.arguments': expected a "
                "string, but got an object instead.",
                param=f"{where}[{number}].function.arguments",
                code="invalid_type",
            )
    ids = [call.get("id") for call in calls]
    if len(set(ids)) != len(ids):
        yield Refusal(message=f"Duplicate value for 'tool_call_id' in {where}.", param=where)


def _bad_name(where: str) -> Refusal:
    return Refusal(
        message=f"Invalid '{where}': string does not match pattern. Expected a string that matches "
        "the pattern '^[a-zA-Z0-9_-]+$'.",
        param=where,
        code="invalid_value",
    )


def _too_short(name: str) -> str:
    return (
        f"Invalid '{name}': empty array. Expected an array with minimum length 1, but got an empty "
        "array instead."
    )
