"""One shape for every tool: what it is, and the function that does it.

A tool is a plain function, midstream's own and a person's alike: its parameters are written once, and the
JSON Schema the model sees comes from their type hints.
"""

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from midstream.language.errors import AuthorMistake, UserMistake
from midstream.language.names import TOOL_NAME, TOOL_NAME_RULE, Effect, Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.runtime.typed_values import TYPES, noted, schema_of, typed_value
from midstream.safety.capability import Capability

Result: TypeAlias = str | ToolOutcome

ToolFunction: TypeAlias = Callable[[dict[str, Json], ToolContext], Result | Awaitable[Result]]
"""Does one call. A plain function runs in a daemon thread of its own, an async one on the loop.

Text means `completed`; an exception means `failed` and its message goes to the model. A function
that changes things looks at `context.stop` right before it does: once that is set, nobody waits for
the call any more.
"""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


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
    one it is judged by its name: a spec that `needs_approval` is asked about. A call that never `hears`
    that it is to end goes on in its thread, though nobody waits for it any more.
    """

    spec: ToolSpec
    function: ToolFunction
    plan: ToolPlan | None = None
    hears: bool = True


def parameters_of(arguments: type[msgspec.Struct]) -> dict[str, Json]:
    """Return the JSON Schema of a struct of arguments, as a `ToolSpec` wants it."""
    schema = schema_of(arguments)
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def typed(arguments: dict[str, Json], wanted: type[T]) -> T:
    """Return the arguments as a value of the type `wanted`.

    Raises:
        UserMistake: they do not fit.
    """
    try:
        return typed_value(arguments, wanted)
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


# --- from a function to a tool ------------------------------------------------------------------

_MARK: Final = "__midstream_tool__"

_Fill: TypeAlias = Callable[[dict[str, Json], ToolContext], dict[str, Any]]
"""Makes what a function is called with of the arguments of a call."""


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What `@tool` was given."""

    name: str
    effect: Effect
    timeout_s: float
    needs_approval: bool | None


def tool(
    *,
    effect: Effect = "once",
    timeout_s: float = 60.0,
    needs_approval: bool | None = None,
    name: str = "",
) -> Callable[[F], F]:
    """Return a decorator that marks a function as a tool; the function itself stays as it is.

    `effect` says what calling it again would do: nothing (`read`), the same (`idempotent`) or harm
    (`once`, the default). Unless `needs_approval` says otherwise, all but `read` tools ask first.
    """

    def mark(function: F) -> F:
        marked = Marked(
            name=name or getattr(function, "__name__", ""),
            effect=effect,
            timeout_s=timeout_s,
            needs_approval=needs_approval,
        )
        setattr(function, _MARK, marked)
        return function

    return mark


def is_marked(function: object) -> bool:
    """Return whether a function was marked with `tool`."""
    return callable(function) and isinstance(getattr(function, _MARK, None), Marked)


def tool_from(
    function: Callable[..., Any],
    *,
    description: str = "",
    plan: Callable[..., Planned] | None = None,
) -> Tool:
    """Return the tool a marked function is; its docstring describes it unless that is given.

    `plan` has the parameters of the function: what it would do, see `ToolPlan`.

    Raises:
        AuthorMistake: its name, parameters or type hints cannot be shown to a model.
    """
    marked: Marked = getattr(function, _MARK)
    if not TOOL_NAME.fullmatch(marked.name):
        raise AuthorMistake(
            f"{marked.name!r} is no name for a tool.",
            hint=f"Use {TOOL_NAME_RULE}.",
        )
    if marked.effect not in ("read", "idempotent", "once") or not marked.timeout_s > 0:
        raise AuthorMistake(
            f"The tool {marked.name} has a wrong effect or timeout.",
            hint="effect is read, idempotent or once; timeout_s is above zero.",
        )
    text, notes = _docstring(function)
    arguments, context_name = _arguments_of(function, marked.name, notes)

    def fill(given: dict[str, Json], context: ToolContext) -> dict[str, Any]:
        values = msgspec.structs.asdict(typed(given, arguments))
        return {**values, context_name: context} if context_name else values

    changes = marked.effect != "read"
    needs_approval = changes and plan is None
    return Tool(
        spec=ToolSpec(
            name=marked.name,
            description=description or text or marked.name,
            parameters=parameters_of(arguments),
            effect=marked.effect,
            timeout_s=float(marked.timeout_s),
            needs_approval=needs_approval
            if marked.needs_approval is None
            else marked.needs_approval,
            reviewed=changes and plan is not None,
        ),
        function=_called(function, fill),
        plan=None if plan is None else lambda given, context: plan(**fill(given, context)),
        hears=bool(context_name) or inspect.iscoroutinefunction(function),
    )


def _arguments_of(
    function: Callable[..., Any], name: str, notes: Mapping[str, str]
) -> tuple[type[msgspec.Struct], str]:
    """Return a struct with the function's parameters, and the name of the one for the context."""
    context_name = ""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        for parameter in inspect.signature(function).parameters.values():
            hint = hints.get(parameter.name, str)
            if hint is ToolContext:
                context_name = parameter.name
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise AuthorMistake(
                    f"The tool {name} has the parameter {parameter}.",
                    hint="A model needs each parameter by name: no *args, **kwargs or '/'.",
                )
            default = parameter.default
            if hasattr(default, "get_default"):  # what pydantic's Field returns
                hint = Annotated[hint, default]
                default = (
                    parameter.empty
                    if default.is_required()
                    else default.get_default(call_default_factory=True)
                )
            hint = noted(hint)
            if parameter.name in notes:
                hint = Annotated[hint, msgspec.Meta(description=notes[parameter.name])]
            if default is parameter.empty:
                fields.append((parameter.name, hint))
            else:
                fields.append((parameter.name, hint, _default(default)))
        arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        parameters_of(arguments)
    except AuthorMistake:
        raise
    except Exception as error:
        raise AuthorMistake(
            f"The parameters of the tool {name} cannot be shown to a model: {error}.", hint=TYPES
        ) from error
    return arguments, context_name


def _default(value: Any) -> Any:
    """Return a parameter's default for a field of a struct; one that is no JSON is not shown."""
    try:
        msgspec.defstruct("_", [("value", Any, value)])
        msgspec.to_builtins(value)
    except TypeError:
        return msgspec.field(default_factory=lambda: value)
    return value


def _called(function: Callable[..., Any], fill: _Fill) -> ToolFunction:
    if inspect.iscoroutinefunction(function):

        async def call_async(arguments: dict[str, Json], context: ToolContext) -> Result:
            return _as_result(await function(**fill(arguments, context)))

        return call_async

    def call(arguments: dict[str, Json], context: ToolContext) -> Result | Awaitable[Result]:
        returned = function(**fill(arguments, context))
        # One that is async behind a plain decorator shows that only once it is called.
        return _awaited(returned) if inspect.isawaitable(returned) else _as_result(returned)

    return call


async def _awaited(returned: Awaitable[Any]) -> Result:
    return _as_result(await returned)


def _as_result(value: Any) -> Result:
    if isinstance(value, str | ToolOutcome):
        return value
    if value is None:
        return "Done."
    try:
        return msgspec.json.encode(value, enc_hook=_told).decode()
    except (RecursionError, ValueError) as error:
        raise AuthorMistake(
            "It has run, but what it returned cannot be told: it holds itself, or too long a number.",
            hint=RETURNED,
        ) from error


RETURNED: Final = "Return text, JSON values, dataclasses, or msgspec or pydantic models."


def _told(value: Any) -> Json:
    """Return a value that is no JSON as what it says of itself.

    Raises:
        AuthorMistake: it says no more than where it stands in memory, or has not run at all.
    """
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise AuthorMistake(
            "What it returned is a generator, nothing of which has run.", hint=RETURNED
        )
    if hasattr(value, "model_dump") and not isinstance(value, type):
        dumped: Json = value.model_dump(mode="json")
        return dumped
    kind: Any = type(value)
    if (kind.__str__, kind.__repr__) == (object.__str__, object.__repr__):
        raise AuthorMistake(
            f"It has run, but what it returned holds a value of the type {type(value).__name__}, "
            "which is no JSON.",
            hint=RETURNED,
        )
    return str(value)


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the docstring up to its `Args:` section, and what that says of each parameter."""
    text, _, rest = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    notes: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        found = re.match(r"(?: {2,4}|\t)(\w+)(?: ?\([^)]*\))?: *(.*)", line)
        if found:
            name = found[1]
            notes[name] = found[2]
        elif name and line.strip():
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return text.strip(), notes
