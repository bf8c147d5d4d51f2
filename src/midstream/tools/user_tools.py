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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from midstream.language.errors import AuthorMistake, MidstreamError, UserMistake, in_words
from midstream.language.problem import Problem
from midstream.language.spec import ToolSpec
from midstream.runtime.trusted_scripts import failed_at, module_from
from midstream.tools.base import Tool, is_marked, tool_from
from midstream.tools.base import tool as tool

if TYPE_CHECKING:
    from midstream.tools.manager import ToolManager


def load_user_tools(
    files: Iterable[Path], *, read: Callable[[Path], bytes] = Path.read_bytes
) -> tuple[tuple[Tool, ...], tuple[Problem, ...]]:
    """Return the tools of Python files, and what is wrong with the rest.

    This runs the files, at once and in this thread: call it for trusted files only, with a `read`
    that gives the trusted bytes. A file that cannot be imported is a problem, and so is the name of a
    built-in tool: the one that has it keeps it. Files that begin with an underscore are left alone.
    """
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
        return _problem(file, failed_at(error, file), f"cannot be imported: {in_words(error)}.")


def _line_of(function: Callable[..., Any]) -> int:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code is not None else 0


def _problem(file: Path, line: int, message: str, hint: str = "") -> Problem:
    return Problem(file=str(file), line=line, column=1, path="", message=message, hint=hint)


# --- tools that workflows in Python bring ---------------------------------------------------------


class WorkflowTools:
    """Lets agents use the functions that workflows written in Python bring as tools.

    Args:
        manager: where they are called.
        known: every tool's spec by name; those taken in are added to it.
    """

    def __init__(self, manager: "ToolManager", known: dict[str, ToolSpec]) -> None:
        self._manager = manager
        self._known = known
        self._files: dict[str, str] = {}

    def take_in(self, functions: Sequence[Callable[..., Any] | Tool], file: str = "") -> None:
        """Let agents use these from now on; the same again changes nothing.

        Those of a `file` take the place of those it had when it was read before.

        Raises:
            UserMistake: another tool has the name.
        """
        tools = [as_tool(each) for each in functions]
        specs = {each.spec.name: each.spec for each in tools}
        before = {name for name in specs if file and self._files.get(name) == file}
        require_free(
            name
            for name, spec in specs.items()
            if name not in before and self._known.get(name, spec) != spec
        )
        self._files |= {name: file for name in specs if file and name not in self._known}
        self._manager.put(tools, instead_of=before)
        self._known.update(specs)


def as_tool(given: Tool | Callable[..., Any]) -> Tool:
    """Return a tool as it is, and make one of a function; unmarked it counts as `once`.

    Raises:
        AuthorMistake: it is neither.
    """
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise AuthorMistake(
            f"A tool is a function, not a value of the type {type(given).__name__}.",
            hint="Pass functions: midstream.open(tools=[look_up]).",
        )
    return tool_from(given if is_marked(given) else tool()(given))


def require_free(taken: Iterable[str]) -> None:
    """Raise over the first of these names, which other tools have.

    Raises:
        UserMistake: there is one.
    """
    for name in taken:
        raise UserMistake(
            f"The name of the tool {name} is taken.",
            hint="Give it another: @midstream.tool(name=...).",
        )
