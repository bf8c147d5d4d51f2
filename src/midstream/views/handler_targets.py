"""Where a transition handler may lead, read off its syntax tree. Nothing of a script is run."""

import ast
from collections.abc import Iterator
from functools import lru_cache

import msgspec


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler returns. `is_certain`: these names are all it can return.

    `may_decline`: it can end without a name, so that `transitions` or `next` decide.
    """

    names: tuple[str, ...] = ()
    is_certain: bool = False
    may_decline: bool = True


_UNKNOWN = Targets()


@lru_cache(maxsize=64)
def targets_of(script: str | None, handler: str) -> Targets:
    """Return where the function `handler` of a script's text may lead."""
    function = _function(script or "", handler)
    if function is None:
        return _UNKNOWN
    names: dict[str, None] = {}
    is_certain, may_decline = True, not _always_leaves(function.body)
    for statement in _returns(function.body):
        for value in _values(statement.value, function.body):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                names[value.value] = None
            elif value is None or (isinstance(value, ast.Constant) and value.value is None):
                may_decline = True
            else:
                is_certain, may_decline = False, True
    return Targets(names=tuple(names), is_certain=is_certain, may_decline=may_decline)


def _function(script: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            found = node
    return None if found is None or found.decorator_list else found


def _returns(body: list[ast.stmt]) -> Iterator[ast.Return]:
    """Yield the function's own returns, those of functions within it left out."""
    todo: list[ast.AST] = [*body]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            todo = [*ast.iter_child_nodes(node), *todo]


def _values(value: ast.expr | None, body: list[ast.stmt]) -> Iterator[ast.expr | None]:
    """Yield what an expression may come to: both sides of `a if b else c`, what a variable is set to."""
    if isinstance(value, ast.IfExp):
        yield from _values(value.body, body)
        yield from _values(value.orelse, body)
    elif isinstance(value, ast.Name):
        yield from _set_to(value, body)
    else:
        yield value


def _set_to(name: ast.Name, body: list[ast.stmt]) -> list[ast.expr]:
    """Return the plain values a function sets a variable to; the variable itself if others are."""
    found: list[ast.expr] = []
    plain = 0
    for node in ast.walk(ast.Module(body=body, type_ignores=[])):
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Store):
            plain -= 1
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and any(isinstance(to, ast.Name) and to.id == name.id for to in node.targets)
        ):
            found.append(node.value)
            plain += 1
    return found if found and plain == 0 else [name]


def _always_leaves(body: list[ast.stmt]) -> bool:
    """Return whether no way through the statements goes past their end, as far as can be seen."""
    last = body[-1] if body else None
    if isinstance(last, ast.Return | ast.Raise):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and _always_leaves(last.body) and _always_leaves(last.orelse)
    if isinstance(last, ast.With | ast.AsyncWith):
        return _always_leaves(last.body)
    return False
