"""What a workflow's script holds, read off its syntax tree: nothing is imported, nothing runs."""

import ast
import io
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from importlib.util import decode_source

import msgspec

from midstream.language.problem import Problem
from midstream.language.spec import Branch, ForEach, State, Workflow


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """The names a script's top level binds, with the line of each, and why it cannot be read.

    `unfit` are functions that cannot be called with one argument (the run), with what is wrong.
    """

    file: str
    lines: dict[str, int] = {}
    unfit: dict[str, str] = {}
    problems: tuple[Problem, ...] = ()

    @classmethod
    def read(cls, source: bytes, file: str) -> "Script":
        """Return what the source holds; one that is not Python has `problems` and no names."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as for the escape "\d": the author's affair
                tree = ast.parse(source, filename=file)
        except SyntaxError as error:
            line, column = error.lineno or 1, error.offset or 1
            return cls(file=file, problems=(_unreadable(file, line, column, error.msg),))
        except (ValueError, RecursionError, MemoryError) as error:
            return cls(file=file, problems=(_unreadable(file, 1, 1, str(error)),))
        lines: dict[str, int] = {}
        unfit: dict[str, str] = {}
        for name, node in _bound(tree.body):
            lines[name] = node.lineno
            unfit.pop(name, None)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                wrong = _unfit(node)
                unfit |= {name: wrong} if wrong else {}
            elif isinstance(node, ast.ClassDef):
                unfit[name] = "is a class"
        return cls(file=file, lines=lines, unfit=unfit)


def text_of(source: bytes) -> str:
    """Return a script's text, read in the encoding it declares; its lines end with a line feed."""
    return decode_source(source)


def source_of(text: str) -> bytes:
    """Return the bytes that are read as this text, in the encoding the text declares."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    return text.encode(encoding)


def script_problems(script: Script, workflow: Workflow | None) -> tuple[Problem, ...]:
    """Return the script's own problems; with a workflow also those of the handlers it names."""
    problems = list(script.problems)
    for name in sorted(_handler_names(workflow) & script.unfit.keys()):
        problems.append(
            Problem(
                file=script.file,
                line=script.lines[name],
                column=1,
                path="",
                message=f"the handler {name} {script.unfit[name]}: expected `def {name}(run):`.",
            )
        )
    return tuple(problems)


def every_state(states: Iterable[State]) -> Iterator[State]:
    """Yield the states and, after each, those its branches have of their own."""
    for state in states:
        yield state
        for branch in (*state.parallel, state.for_each):
            if isinstance(branch, Branch | ForEach):
                yield from every_state(branch.states)


def _handler_names(workflow: Workflow | None) -> set[str]:
    states = () if workflow is None else every_state(workflow.states)
    slots = ((s.pre_handler, s.post_handler, s.transition_handler) for s in states)
    return {name for state in slots for name in state if name is not None}


def _unreadable(file: str, line: int, column: int, why: str) -> Problem:
    message = f"this is not Python: {why}."
    return Problem(file=file, line=line, column=column, path="", message=message)


def _bound(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names statements bind, those within `if`, `try` and `with` included.

    What `from x import *` binds cannot be told without running it, so it binds nothing here.
    """
    for node in body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name, node
            case ast.Import(names=aliases):
                yield from ((a.asname or a.name.partition(".")[0], node) for a in aliases)
            case ast.ImportFrom(names=aliases):
                yield from ((a.asname or a.name, node) for a in aliases if a.name != "*")
            case ast.Assign(targets=targets):
                yield from ((name, node) for target in targets for name in _names(target))
            case ast.AnnAssign(target=target, value=ast.expr()):
                yield from ((name, node) for name in _names(target))
            case ast.If(body=inner, orelse=other):
                yield from _bound([*inner, *other])
            case ast.With(body=inner):
                yield from _bound(inner)
            case (
                ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=final)
                | ast.TryStar(body=inner, handlers=handlers, orelse=other, finalbody=final)
            ):
                caught = [statement for handler in handlers for statement in handler.body]
                yield from _bound([*inner, *caught, *other, *final])
            case _:
                pass


def _names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _names(part)
        case _:
            pass


def _unfit(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return why a function cannot be called with the run alone, "" when it can."""
    if node.decorator_list:
        return ""  # a decorator may change what the function takes
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if not positional and arguments.vararg is None:
        return "takes no argument"
    missing = [arg.arg for arg in positional[1 : len(positional) - len(arguments.defaults)]]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    missing += [arg.arg for arg, default in pairs if default is None]
    return f"asks for more than the run ({', '.join(missing)})" if missing else ""
