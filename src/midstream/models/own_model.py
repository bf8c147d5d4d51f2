"""A model object of a program, in place of every provider: its replies are checked as theirs are."""

import inspect
from functools import partial

import msgspec
from msgspec.structs import replace

from midstream.core.events import Usage
from midstream.core.inputs import RequestedCall
from midstream.language.errors import AuthorMistake, MidstreamError, UserMistake, in_words
from midstream.language.spec import ToolSpec
from midstream.runtime.json_values import kept_call
from midstream.runtime.ports import Model, ModelReply, ModelRequest, ReplyListener, Validator
from midstream.system.offloop import in_thread

_HINT = "Look at the port Model in midstream.runtime.ports."


class OwnModel:
    """The port `Model` around an object of which nobody knows whether it keeps the port's contract."""

    def __init__(self, model: Model, validator: Validator) -> None:
        """Raises UserMistake where it has no method `request`."""
        if not callable(getattr(model, "request", None)):
            raise UserMistake(
                f"A {type(model).__name__} is no model: it has no method request.", hint=_HINT
            )
        self._model = model
        self._validator = validator

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return its reply, each call checked against the schema of its tool.

        Raises:
            AuthorMistake: it raised what no model should, or returned something else than a reply,
                or one whose parts are of other types.
        """
        name = type(self._model).__name__
        try:
            asked = self._model.request(request, listener)
            reply = await asked if inspect.isawaitable(asked) else asked
        except MidstreamError:
            raise
        except (Exception, SystemExit) as error:
            raise AuthorMistake(
                f"The model {name} failed: {in_words(error)}",
                hint="What may work later it raises as midstream.WorldTrouble.",
            ) from error
        if not isinstance(reply, ModelReply):
            raise AuthorMistake(
                f"The model {name} returned {type(reply).__name__}, no ModelReply.", hint=_HINT
            )
        if misfit := _misfit(reply):
            raise AuthorMistake(
                f"The model {name} returned a ModelReply whose {misfit}.", hint=_HINT
            )
        tools = {tool.name: tool for tool in request.tools}
        calls = [
            await checked_call(kept_call(call), tools.get(call.name), self._validator)
            for call in reply.calls
        ]
        return replace(reply, calls=tuple(calls))


def _misfit(reply: ModelReply) -> str:
    """Return what of a reply is of another type than the port has it, "" for nothing.

    Arguments that are no JSON are the call's problem, and are told to the model.
    """
    if not isinstance(reply.text, str):
        return f"text is {_kind(reply.text)}, no str"
    if not isinstance(reply.calls, tuple | list):
        return f"calls are {_kind(reply.calls)}, no tuple of RequestedCall"
    for number, call in enumerate(reply.calls):
        if not isinstance(call, RequestedCall):
            return f"calls[{number}] is {_kind(call)}, no RequestedCall"
        if not isinstance(call.name, str):
            return f"calls[{number}].name is {_kind(call.name)}, no str"
        if not isinstance(call.arguments, dict):
            return f"calls[{number}].arguments are {_kind(call.arguments)}, no dict"
        if not isinstance(call.problem, str):
            return f"calls[{number}].problem is {_kind(call.problem)}, no str"
    if reply.usage is None:
        return ""
    if not isinstance(reply.usage, Usage):
        return f"usage is {_kind(reply.usage)}, no Usage"
    try:
        msgspec.convert(msgspec.to_builtins(reply.usage), Usage)
    except (msgspec.ValidationError, TypeError) as error:
        return f"usage does not fit: {error}"
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


async def checked_call(
    call: RequestedCall, tool: ToolSpec | None, validator: Validator
) -> RequestedCall:
    """Return a call with what is wrong with it as its `problem`: arguments that do not fit its tool."""
    if call.problem or tool is None:
        return call
    misfit = await in_thread(partial(validator, call.arguments, tool.parameters))
    if not misfit:
        return call
    return replace(call, problem=f"The arguments of {call.name} do not fit its schema: {misfit}")
