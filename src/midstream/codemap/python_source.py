"""What a Python file defines, read by its own syntax tree."""

import ast
import warnings
from collections.abc import Iterable, Iterator

from midstream.codemap.definition import MAX_DEFINITIONS, Definition, Definitions, clipped


def of_python(source: str) -> tuple[str, Definitions] | None:
    """Return the first line of a module's docstring and what it defines; None: it is not this Python's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        found = tuple(_in_body(tree.body))[:MAX_DEFINITIONS]
        about = (ast.get_docstring(tree) or "").strip().partition("\n")[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return about, found


def _in_body(body: Iterable[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        match node:
            case ast.ClassDef(name=name, bases=bases):
                heirs = ", ".join(clipped(ast.unparse(base)) for base in bases[:4])
                members = [
                    item.name
                    for item in node.body
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not item.name.startswith("_")
                ]
                what = f"class {name}({heirs})" if heirs else f"class {name}"
                yield Definition(node.lineno, name, what, tuple(dict.fromkeys(members)))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                lead = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
                yield Definition(node.lineno, name, f"{lead} {name}({_parameters(node.args)})")
            case ast.If() | ast.Try():
                yield from _in_body(node.body)


def _parameters(arguments: ast.arguments) -> str:
    """Return the names alone: a default may be a secret."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg is not None:
        names.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        names.append("*")
    names += [each.arg for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        names.append(f"**{arguments.kwarg.arg}")
    return ", ".join(names)
