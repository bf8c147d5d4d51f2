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
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from midstream.language.errors import AuthorMistake, MidstreamError
from midstream.language.problem import Problem
from midstream.runtime.trusted_scripts import failed_at, module_from
from midstream.tools.base import Tool, is_marked, tool_from
from midstream.tools.base import tool as tool


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
