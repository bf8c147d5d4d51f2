"""Functions that are states of a workflow in Python: their text, where they lead, what a run is pinned to.

A run is pinned to what its functions do. Of that this is told: the text of each and of the whole module
it stands in, so helpers and constants there too, and what it holds besides: its defaults, and what it
takes from around it (a function made by another one has the text of all its siblings). Of what is held,
constants count by their value and functions by the same rule; all else, such as a client or a list that
fills, by its type alone: it has no value that is the same in every process. Other modules do not count.
"""

import ast
import contextlib
import hashlib
import inspect
import os
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from enum import Enum
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeAlias

import msgspec

from midstream.language.names import INTERRUPTED, Json
from midstream.views.graph import returns_of

Function: TypeAlias = Callable[..., Any]


class Stop(msgspec.Struct, frozen=True):
    """The end of a workflow, with its output. Made by `stop`."""

    output: Any = None


def stop(output: Any = None) -> Stop:
    """Return what a state's function returns to end the workflow, or its branch, with this output.

    Any JSON value, dataclass, or msgspec or pydantic model. A function that ends it without one leaves
    what its state's work came to.
    """
    return Stop(output)


class State:
    """A state of a workflow: its name, and the function that says where to go. Made by `Workflow`."""

    def __init__(self, name: str, function: Function, spec: dict[str, Json]) -> None:
        self.name = name
        self.function = function
        self.spec = spec
        # Now, as the module is loaded: its file may be another one by the time somebody asks.
        self._module = _module_text(function)
        self._text = _text(function, self._module)

    def __repr__(self) -> str:
        return f"<State {self.name}>"

    def __call__(self, *arguments: Any) -> Any:
        """Call the function itself, as its own test does."""
        return self.function(*arguments)

    @property
    def place(self) -> tuple[str, int]:
        """Return the file and the line where the function begins; ("", 0) where it has neither."""
        code = _code_of(inspect.unwrap(self.function))
        return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)

    @property
    def takes_words(self) -> bool:
        """Return whether the function takes the words that led to it, besides the run."""
        return len(inspect.signature(self.function).parameters) > 1

    @property
    def pin(self) -> str:
        """Return a hash of what the function does, the same in every process; see the module."""
        held = _held(self.function, set(), has_module=bool(self._module))
        whole = "\0".join((self.name, self._module, self._text, *held))
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def targets(self) -> list[str | None]:
        """Return the names of the states it may return; None is an end that nothing can be told of."""
        known = _names_in(inspect.unwrap(self.function))
        found: list[str | None] = []
        for value in _returned(self._text):
            match value:
                case ast.Constant(value=str(name)):
                    found.append(name)
                case ast.Call(func=ast.Name(id=name)) if known.get(name) is stop:
                    found.append("stop")
                case ast.Call(func=ast.Attribute(attr="stop")):
                    found.append("stop")
                case ast.Attribute(attr="interrupted"):
                    found.append(INTERRUPTED)
                case ast.Name(id=name) if isinstance(known.get(name), State):
                    found.append(known[name].name)
                case ast.Name(id=name) if callable(known.get(name)):
                    found.append(name)
                case _:
                    found.append(None)
        return found

    def outline(self) -> str:
        """Return the text of a function that leads where its own does, and does nothing."""
        lines = [
            "    if run: return " + ("run" if to is None else repr(to)) for to in self.targets()
        ]
        return "\n".join([f"def {self.name}(run):", *lines, "    return None"])


# --- texts ----------------------------------------------------------------------------------------


def _module_text(function: Function) -> str:
    """Return the text of the module a function stands in, "" where it has none, such as at a prompt."""
    function = inspect.unwrap(function)
    module: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    code, file = _code_of(function), getattr(module, "__file__", None)
    if code is None or file is None or os.path.abspath(code.co_filename) != os.path.abspath(file):
        return ""
    # What was loaded, where the loader has that: a run's own copy of a file, which may have changed.
    loader: Any = getattr(module, "__loader__", None)
    try:
        if not hasattr(loader, "get_source"):
            return inspect.getsource(module)
        return str(loader.get_source(getattr(loader, "name", module.__name__)) or "")
    except (ImportError, OSError, TypeError, SyntaxError, UnicodeError):
        return ""


def _text(function: Function, module: str) -> str:
    """Return the text of a function, or what there is of one that has none."""
    code = _code_of(inspect.unwrap(function))
    if code is None:
        return repr(type(function))
    with contextlib.suppress(OSError, TypeError, SyntaxError, tokenize.TokenError):
        if not module:
            return textwrap.dedent(inspect.getsource(function))
        lines = [f"{line}\n" for line in module.split("\n")[code.co_firstlineno - 1 :]]
        return textwrap.dedent("".join(inspect.getblock(lines)))
    return _compiled(code)


def _code_of(function: Function) -> CodeType | None:
    return getattr(function, "__code__", None)


def _compiled(code: CodeType) -> str:
    """Return what code does, in a text that is the same in every process."""
    constants = [
        _compiled(each) if isinstance(each, CodeType) else _constant(each)
        for each in code.co_consts
    ]
    return repr((code.co_code.hex(), code.co_names, constants))


def _constant(value: Any) -> str | None:
    """Return a constant in a text that is the same in every process, None for what is none."""
    match value:
        case Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case None | bool() | float() | complex() | str() | bytes():
            return repr(value)
        case int():
            return hex(value)  # Python refuses to write out very long ones in tens
        case tuple():
            inside = [_constant(each) for each in value]
            return None if None in inside else repr(inside)
        case frozenset():
            inside = [_constant(each) for each in value]
            return None if None in inside else repr(sorted(map(str, inside)))
    return None


# --- what a function holds --------------------------------------------------------------------------


def _held(function: Function, seen: set[int], *, has_module: bool) -> Iterator[str]:
    """Yield what a function holds besides its text, and takes from around it, each by its name."""
    if isinstance(function, MethodType):
        yield f"self {_told(function.__self__, seen)}"
        function = function.__func__
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    defaults: dict[Any, Any] = dict(enumerate(function.__defaults__ or ()))
    defaults |= function.__kwdefaults__ or {}
    # What is set at the top of a module is in its text; of a prompt there is none.
    names = _names_in(function) if not has_module else _cells_of(function)
    for name, value in sorted((defaults | names).items(), key=lambda held: str(held[0])):
        yield f"{name} {_told(value, seen)}"


def _told(value: Any, seen: set[int]) -> str:
    constant = _constant(value)
    if constant is not None:
        return constant
    if isinstance(value, State):
        return repr(value)
    if isinstance(value, tuple):
        return repr([_told(each, seen) for each in value])
    if isinstance(value, FunctionType | MethodType):
        module = _module_text(value)
        return "\0".join((_text(value, module), *_held(value, seen, has_module=bool(module))))
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _names_in(function: Function) -> dict[str, Any]:
    """Return what the names mean that a function takes from around it, as far as they are set yet."""
    function = getattr(function, "__func__", function)
    code = _code_of(function)
    if code is None:
        return {}
    around = function.__globals__
    names = [name for each in _codes_in(code) for name in each.co_names if name in around]
    return {name: around[name] for name in names} | _cells_of(function)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes_in(each)


def _cells_of(function: Function) -> dict[str, Any]:
    """Return what a function has taken from the one that made it."""
    code, cells = _code_of(function), getattr(function, "__closure__", None) or ()
    found: dict[str, Any] = {}
    # `inspect.getclosurevars` would raise over a name that is set nowhere, or later.
    for name, cell in zip(() if code is None else code.co_freevars, cells, strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


# --- where it leads ---------------------------------------------------------------------------------


def _returned(text: str) -> list[ast.expr | None]:
    """Return what a function's own returns say, both sides of `a if b else c` taken apart."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return [ast.Name(id="?")]
    body = tree.body[0] if tree.body else None
    if not isinstance(body, ast.FunctionDef | ast.AsyncFunctionDef):
        return [ast.Name(id="?")]
    return [side for each in returns_of(body.body) for side in _sides(each.value)]


def _sides(value: ast.expr | None) -> list[ast.expr | None]:
    if isinstance(value, ast.IfExp):
        return [*_sides(value.body), *_sides(value.orelse)]
    return [ast.Constant(value=None) if value is None else value]
