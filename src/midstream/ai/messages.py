"""Our conversation and tools as pydantic-ai's, which maps them to each provider's own.

Providers answer 400, for ever, to a history that is not as they want it. One made here is taken by
all of them, because it keeps the strictest of their rules:

* each call has exactly one result, in call order, directly after it;
* each reply answers something: words of the user, or results. Where nothing was said, `GO_ON` was:
  an agent that speaks twice, or first, or whose cue was trimmed away, was asked to with these words;
* so does the reply asked for now: a history never ends with the assistant's words, which some
  models complete and others refuse;
* no text is empty or blank; what a tool did not say is told as such.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from midstream.core.conversation import GO_ON, Message
from midstream.core.names import Json
from midstream.core.safety.decoding import clean
from midstream.core.spec import ToolSpec
from midstream.ports import ModelRequest

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.models import ModelRequestParameters

INTERRUPTED_MARK: Final = " [interrupted]"
"""What a model sees after words of its own that were cut: they were shown, and not finished."""

MAX_NAME: Final = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

NO_RESULT: Final = "No result was recorded for this call."
NO_OUTPUT: Final = "(no output)"


def conversation(request: ModelRequest) -> "list[theirs.ModelMessage]":
    """Return the request's messages with its system message as their instructions."""
    from pydantic_ai import messages as theirs

    history: list[theirs.ModelMessage] = []
    said: list[theirs.ModelRequestPart] = []
    for message in request.messages:
        if message.role != "assistant":
            said.extend(_said(message))
            continue
        reply = _replied(message)
        if not reply:
            continue
        history.append(theirs.ModelRequest(parts=_answerable(said)))
        history.append(theirs.ModelResponse(parts=reply))
        said = [*_results(message)]
    # The instructions of the last request are those that count.
    system = clean(request.system)
    history.append(
        theirs.ModelRequest(
            parts=_answerable(said), instructions=system if system.strip() else None
        )
    )
    return history


def _answerable(said: "list[theirs.ModelRequestPart]") -> "list[theirs.ModelRequestPart]":
    """Return what was said since the last reply, with something to answer in it."""
    from pydantic_ai import messages as theirs

    if any(not isinstance(part, theirs.SystemPromptPart) for part in said):
        return said
    return [*said, theirs.UserPromptPart(content=GO_ON)]


def _said(message: Message) -> "Iterable[theirs.ModelRequestPart]":
    from pydantic_ai import messages as theirs

    text = _words(message)
    if not text:
        return
    if message.role == "system":
        yield theirs.SystemPromptPart(content=text)
    else:
        yield theirs.UserPromptPart(content=text)


def _replied(message: Message) -> "Sequence[theirs.ModelResponsePart]":
    from pydantic_ai import messages as theirs

    text = _words(message)
    parts: list[theirs.ModelResponsePart] = [theirs.TextPart(content=text)] if text else []
    for call in message.calls:
        parts.append(
            theirs.ToolCallPart(
                tool_name=_callable(call.name), args=call.arguments, tool_call_id=call.id
            )
        )
    return parts


def _results(message: Message) -> "Iterable[theirs.ToolReturnPart]":
    from pydantic_ai import messages as theirs

    told = {result.call_id: result.text for result in message.results}
    for call in message.calls:
        text = clean(told.get(call.id, NO_RESULT))
        yield theirs.ToolReturnPart(
            tool_name=_callable(call.name),
            content=text if text.strip() else NO_OUTPUT,
            tool_call_id=call.id,
        )


def _callable(name: str) -> str:
    """Return the name of a called tool as providers take it back.

    A model may call what no tool is called, such as `functions.add`; its own words, sent back, would
    then be refused for ever.
    """
    name = _NOT_IN_NAMES.sub("_", name)
    return (name if name[:1].isalpha() or name[:1] == "_" else f"_{name}")[:MAX_NAME]


def _words(message: Message) -> str:
    text = clean(message.text)
    if not text.strip():
        return ""
    return text.rstrip() + INTERRUPTED_MARK if message.interrupted else text


def parameters(request: ModelRequest) -> "ModelRequestParameters":
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
            parameters_json_schema=_schema(tool),
        )
        for tool in request.tools
    ]
    return ModelRequestParameters(
        function_tools=tools, allow_text_output=not (request.must_call and tools)
    )


def _schema(tool: ToolSpec) -> dict[str, Json]:
    """Return the tool's schema as providers insist on it: an object with properties."""
    return {"type": "object", "properties": {}} | tool.parameters
