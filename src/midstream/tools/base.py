"""One shape for every tool: what it is, and the function that does it.

A tool's parameters are written once, as a msgspec struct: the JSON Schema the model sees and the
typed value the function works with both come from it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import msgspec

from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import Capability

Result: TypeAlias = str | ToolOutcome

ToolFunction: TypeAlias = Callable[[dict[str, Json], ToolContext], Result | Awaitable[Result]]
"""Does one call. A plain function runs in a daemon thread of its own, an async one on the loop.

Text means `completed`; an exception means `failed` and its message goes to the model. A function
that changes things looks at `context.stop` right before it does: once that is set, nobody waits for
the call any more.
"""

T = TypeVar("T")


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would do: the capabilities it needs, and exactly that, shown to a person.

    `binds` is a digest of all that the plan was made of, also of what `shows` leaves out; "" where
    that says it all. The call gets it back as `ToolContext.binds`. `is_done`: all is as the call would
    have it, so that nothing would happen.
    """

    requests: tuple[Capability, ...]
    shows: str = ""
    binds: str = ""
    is_done: bool = False


ToolPlan: TypeAlias = Callable[[dict[str, Json], ToolContext], Planned]
"""Says what a call would do, changing nothing. Runs in a thread; an exception refuses the call with its
message, as when its arguments are wrong.
"""


class Tool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A tool: what the model sees, and what happens when it is called.

    One with a `plan` has a spec that is `reviewed`: each call is judged by what it would do. Without
    one it is judged by its name: a spec that `needs_approval` is asked about.
    """

    spec: ToolSpec
    function: ToolFunction
    plan: ToolPlan | None = None


def parameters_of(arguments: type[msgspec.Struct]) -> dict[str, Json]:
    """Return the JSON Schema of a struct of arguments, as a `ToolSpec` wants it."""
    (_,), parts = msgspec.json.schema_components((arguments,), ref_template="#/$defs/{name}")
    whole = parts.pop(arguments.__name__)
    schema = {key: value for key, value in whole.items() if key not in ("title", "description")}
    return schema | {"$defs": parts} if parts else schema


def typed(arguments: dict[str, Json], wanted: type[T]) -> T:
    """Return the arguments as a value of the type `wanted`.

    Raises:
        UserMistake: they do not fit.
    """
    try:
        return msgspec.convert(arguments, wanted)
    except msgspec.ValidationError as error:
        raise UserMistake(
            f"The arguments do not fit: {error}.", hint="The tool's schema says what they are."
        ) from error


class Stopped(Exception):
    """The call ended because it was told to, before it changed anything."""


def check_stop(context: ToolContext) -> None:
    """Raise `Stopped` when nobody waits for the call any more; called before anything is changed."""
    if context.stop.is_set():
        raise Stopped
