"""Tools a user writes: plain functions in `tools/*.py`, marked with `@tool`.

    from midstream.tools.user_tools import tool

    @tool(effect="read", timeout_s=10)
    def word_count(path: str, minimum: int = 1) -> str:
        '''Count the words of a file.

        Args:
            path: the file, from the workspace's root.
        '''

The JSON Schema comes from the type hints and the docstring. A parameter annotated with
`ToolContext` gets the call's context and is not the model's to fill in.
"""

import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, TypeVar

import msgspec

from midstream.language.errors import AuthorMistake, MidstreamError
from midstream.language.names import TOOL_NAME, TOOL_NAME_RULE, Effect, Json
from midstream.language.problem import Problem
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.runtime.trusted_scripts import failed_at, module_from
from midstream.tools.base import Result, Tool, ToolFunction, parameters_of, typed

_MARK: Final = "__midstream_tool__"

F = TypeVar("F", bound=Callable[..., Any])


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


# --- from a function to a tool ------------------------------------------------------------------


def tool_from(function: Callable[..., Any]) -> Tool:
    """Return the tool a marked function is.

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
    needs_approval = marked.needs_approval
    return Tool(
        spec=ToolSpec(
            name=marked.name,
            description=text or marked.name,
            parameters=parameters_of(arguments),
            effect=marked.effect,
            timeout_s=marked.timeout_s,
            needs_approval=marked.effect != "read" if needs_approval is None else needs_approval,
        ),
        function=_called(function, arguments, context_name),
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
            if parameter.name in notes:
                hint = Annotated[hint, msgspec.Meta(description=notes[parameter.name])]
            if parameter.default is parameter.empty:
                fields.append((parameter.name, hint))
            else:
                fields.append((parameter.name, hint, parameter.default))
        arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        parameters_of(arguments)
    except AuthorMistake:
        raise
    except Exception as error:
        raise AuthorMistake(
            f"The parameters of the tool {name} cannot be shown to a model: {error}.",
            hint="Use str, int, float, bool, list, dict, Literal and the like.",
        ) from error
    return arguments, context_name


def _called(
    function: Callable[..., Any], arguments_type: type[msgspec.Struct], context_name: str
) -> ToolFunction:
    def filled(arguments: dict[str, Json], context: ToolContext) -> dict[str, Any]:
        values = msgspec.structs.asdict(typed(arguments, arguments_type))
        return {**values, context_name: context} if context_name else values

    if inspect.iscoroutinefunction(function):

        async def call_async(arguments: dict[str, Json], context: ToolContext) -> Result:
            return _as_result(await function(**filled(arguments, context)))

        return call_async

    def call(arguments: dict[str, Json], context: ToolContext) -> Result:
        return _as_result(function(**filled(arguments, context)))

    return call


def _as_result(value: Any) -> Result:
    if isinstance(value, str | ToolOutcome):
        return value
    if value is None:
        return "Done."
    return msgspec.json.encode(value, enc_hook=str).decode()


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


# --- from a folder to tools ---------------------------------------------------------------------


def load_user_tools(
    files: Iterable[Path],
    *,
    read: Callable[[Path], bytes] = Path.read_bytes,
    taken: Collection[str] | None = None,
) -> tuple[tuple[Tool, ...], tuple[Problem, ...]]:
    """Return the tools of Python files, and what is wrong with the rest.

    This runs the files, at once and in this thread: call it for trusted files only, with a `read`
    that gives the trusted bytes. A file that cannot be imported is a problem, and so is a name in
    `taken` (by default the built-in tools'): the one that has it keeps it. Files that begin with an
    underscore are left alone.
    """
    if taken is None:
        from midstream.tools.manager import built_in_tools

        taken = {tool.spec.name for tool in built_in_tools()}
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for file in files:
        if file.name.startswith("_"):
            continue
        module = _imported(file, read)
        if isinstance(module, Problem):
            problems.append(module)
            continue
        for function in _marked_in(module):
            try:
                made = tool_from(function)
            except AuthorMistake as error:
                problems.append(_problem(file, _line_of(function), error.what, error.hint))
                continue
            if made.spec.name in taken or made.spec.name in tools:
                owner = "another file of yours" if made.spec.name in tools else "midstream"
                problems.append(
                    _problem(
                        file,
                        _line_of(function),
                        f"the name {made.spec.name!r} is taken by {owner}, which keeps it.",
                        "Give it another: @tool(name=...).",
                    )
                )
                continue
            tools[made.spec.name] = made
    return tuple(tools.values()), tuple(problems)


def _marked_in(module: ModuleType) -> list[Callable[..., Any]]:
    """Return the module's marked functions, in the file's order; imported ones are not its own."""
    return [
        value
        for value in vars(module).values()
        if is_marked(value) and getattr(value, "__module__", "") == module.__name__
    ]


def _imported(file: Path, read: Callable[[Path], bytes]) -> ModuleType | Problem:
    try:
        return module_from(file, read(file))
    except KeyboardInterrupt:
        raise
    except (MidstreamError, OSError) as error:
        return _problem(file, 0, f"cannot be read: {error}")
    except BaseException as error:
        words = f"{type(error).__name__}: {error}".removesuffix(": ")
        return _problem(file, failed_at(error, file), f"cannot be imported: {words}.")


def _line_of(function: Callable[..., Any]) -> int:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code is not None else 0


def _problem(file: Path, line: int, message: str, hint: str = "") -> Problem:
    return Problem(file=str(file), line=line, column=1, path="", message=message, hint=hint)
