"""A model object of a program, in place of every provider: its replies are checked as theirs are."""

import inspect
from functools import partial

from msgspec.structs import replace

from midstream.core.inputs import RequestedCall
from midstream.language.errors import AuthorMistake, MidstreamError, UserMistake
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
            AuthorMistake: it raised what no model should, or returned something else than a reply.
        """
        name = type(self._model).__name__
        try:
            asked = self._model.request(request, listener)
            reply = await asked if inspect.isawaitable(asked) else asked
        except MidstreamError:
            raise
        except Exception as error:
            raise AuthorMistake(
                f"The model {name} failed: {type(error).__name__}: {error}",
                hint="What may work later it raises as midstream.WorldTrouble.",
            ) from error
        if not isinstance(reply, ModelReply):
            raise AuthorMistake(
                f"The model {name} returned {type(reply).__name__}, no ModelReply.", hint=_HINT
            )
        tools = {tool.name: tool for tool in request.tools}
        calls = [
            await checked_call(kept_call(call), tools.get(call.name), self._validator)
            for call in reply.calls
        ]
        return replace(reply, calls=tuple(calls))


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
