"""What the real Gemini API (`generateContent`) refuses, in its own words.

The API knows no ids of calls it relies on: it counts. A turn of function calls stands directly
after a user's turn or one of function responses, and the very next turn holds as many responses,
in the same order, and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from midstream.language.names import Json
from support.image_rules import image_problem

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_WANTS_SIGNATURES = re.compile(r"gemini-[3-9]")
_ARGUMENTS = frozenset(
    {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "cachedContent",
        "serviceTier",
    }
)
_DATA = frozenset(
    {
        "text",
        "functionCall",
        "functionResponse",
        "inlineData",
        "fileData",
        "executableCode",
        "codeExecutionResult",
    }
)

BAD_NAME: Final = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, "
    "A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)
CALL_TURN: Final = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
RESPONSE_TURN: Final = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
COUNT: Final = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
LAST_TURN: Final = (
    "Please ensure that multiturn requests ends with a user role or a function response."
)
FIRST_TURN: Final = "First content should be with role 'user', got model"
EMPTY_TEXT: Final = (
    "Unable to submit request because it has an empty text parameter. Add a value to the parameter "
    "and try again."
)


def problems(body: Json, *, model: str = "") -> list[str]:
    """Return everything wrong with a request's body, first what the API would say; [] when nothing is.

    `model` is the one the URL names: some ask for more than others.
    """
    if not isinstance(body, dict):
        return ["Invalid JSON payload received."]
    return list(_problems(body, model))


def _problems(body: Mapping[str, Json], model: str) -> Iterator[str]:
    for name in sorted(set(body) - _ARGUMENTS):
        yield f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    contents = body.get("contents")
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
        contents = []
    system = body.get("systemInstruction")
    if system is not None:
        yield from _of_parts(system.get("parts"), "system_instruction")
    yield from _of_tools(body)
    for position, content in enumerate(contents):
        where = f"contents[{position}]"
        if content.get("role") not in ("user", "model"):
            yield "Please use a valid role: user, model."
        yield from _of_parts(content.get("parts"), where)
        yield from _of_calls(content, where, model)
    yield from _of_order(contents)


def _of_tools(body: Mapping[str, Json]) -> Iterator[str]:
    names: list[str] = []
    for position, tool in enumerate(body.get("tools") or []):
        for number, declared in enumerate(tool.get("functionDeclarations") or []):
            names.append(declared.get("name", ""))
            if not _NAME.fullmatch(names[-1]):
                yield (
                    f"* GenerateContentRequest.tools[{position}].function_declarations[{number}]"
                    f".name: {BAD_NAME}"
                )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"Duplicate function declaration found: {name}"
    config = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is not None and not names:
        yield "Function calling config is set without function_declarations."


def _of_parts(parts: Json, where: str) -> Iterator[str]:
    if not parts:
        yield f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty."
        return
    for number, part in enumerate(parts):
        if len(_DATA & set(part)) != 1:
            yield (
                f"* GenerateContentRequest.{where}.parts[{number}].data: required oneof field 'data' "
                "must have one initialized field"
            )
        if part.get("text") == "":
            yield EMPTY_TEXT
        if "inlineData" in part:
            blob = part["inlineData"]
            # Its base64 may be that for URLs.
            data = str(blob.get("data")).replace("-", "+").replace("_", "/")
            media = str(blob.get("mimeType") or blob.get("mime_type"))
            if media == "image/gif":
                yield "Unsupported MIME type: image/gif"
            elif image_problem(media, data, max_bytes=20_000_000):
                yield "Unable to process input image. Please retry or report."


def _of_calls(content: Mapping[str, Json], where: str, model: str) -> Iterator[str]:
    calls = [part for part in content.get("parts") or [] if "functionCall" in part]
    answers = [part for part in content.get("parts") or [] if "functionResponse" in part]
    if calls and content.get("role") != "model":
        yield "Function call should not be with role user"
    if answers and content.get("role") != "user":
        yield RESPONSE_TURN
    for part in (*calls, *answers):
        call = part.get("functionCall") or part["functionResponse"]
        if not _NAME.fullmatch(call.get("name", "")):
            yield f"* GenerateContentRequest.{where}.parts.function_call.name: {BAD_NAME}"
        value = call.get("response") if part in answers else call.get("args", {})
        if not isinstance(value, dict):
            yield (
                f"Invalid value at '{where}.parts' (type.googleapis.com/google.protobuf.Struct), "
                f'"{value}"'
            )
    if calls and _WANTS_SIGNATURES.match(model) and not calls[0].get("thoughtSignature"):
        name = calls[0]["functionCall"].get("name", "")
        yield f"Function call is missing a thought_signature in functionCall parts. ({name}, {where})"


def _of_order(contents: list[Json]) -> Iterator[str]:
    owed: list[str] = []
    before = ""
    for content in contents:
        calls, answers = _names(content, "functionCall"), _names(content, "functionResponse")
        if answers and not owed:
            yield RESPONSE_TURN
        elif owed and (answers != owed or len(content["parts"]) != len(answers)):
            yield COUNT
        if not before and content.get("role") == "model":
            yield FIRST_TURN
        if calls and before != "user":
            yield CALL_TURN
        owed, before = calls, content.get("role", "")
    if owed:
        yield COUNT
    elif before == "model":
        yield LAST_TURN


def _names(content: Mapping[str, Json], kind: str) -> list[str]:
    return [part[kind].get("name", "") for part in content.get("parts") or [] if kind in part]
