"""Working an expression out, over JSON data, in bounded steps.

A walk over the few kinds of nodes that `expressions` lets through. It sees JSON only, so that a key
named `format` or `__class__` is a key and nothing else, and every operation says how much work it is
before doing it: a step is a quarter of a microsecond or so, and at `MAX_WORK` steps the evaluation
ends. That is counted and not timed, so it ends at the same place on every machine and in every
replay.

What each part of the tree came to is remembered while the walk lasts: of an operation that does not
fit its values the error then says where they were read, and why one of them is missing.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from midstream.language.data_paths import hint_for
from midstream.language.errors import TextFailed, clip
from midstream.language.names import Json, is_number
from midstream.language.patterns import Pattern

MAX_WORK: Final = 50_000
"""Steps of one evaluation: 10 to 15 ms on a plain machine. About 200,000 characters for `matches`."""

MAX_TEXT: Final = 200_000
"""Characters of a text an expression makes."""

MAX_ITEMS: Final = 10_000
"""Items of a list an expression makes."""

MAX_INT: Final = 2**63


class ExpressionFailed(TextFailed):
    """An expression has no value over what the run has."""


def evaluate(tree: ast.expr, values: Mapping[str, Json], patterns: Mapping[str, Pattern]) -> Json:
    """Return the value of a checked tree over the values of its names.

    Raises:
        ExpressionFailed: an operation does not fit its values, or there is too much to look at.
    """
    return _Walk(values, patterns).value(tree)


class _Walk:
    """One evaluation: the values of its names, what its parts came to, the work that is left to it."""

    def __init__(self, values: Mapping[str, Json], patterns: Mapping[str, Pattern]) -> None:
        self.values = values
        self.patterns = patterns
        self.left = MAX_WORK
        self.known: dict[ast.expr, Any] = {}

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise ExpressionFailed(
                "The values are too large for an expression.",
                "Let a handler work it out and keep the outcome in common_data.",
            )

    def value(self, node: ast.expr) -> Any:
        """Return what a part of the tree comes to, which is worked out once."""
        if node not in self.known:
            self.known[node] = self.work_out(node)
        return self.known[node]

    def work_out(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.values.get(name)
            case ast.Attribute() | ast.Subscript():
                return self.part(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item) for item in items]
            case ast.BoolOp(op=joint, values=parts):
                return self.value(self.decisive(isinstance(joint, ast.Or), parts))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand)
            case ast.UnaryOp(operand=operand):
                return self.calculate(ast.Sub(), ast.Constant(0), operand)
            case ast.BinOp(left=left, op=operation, right=right):
                return self.calculate(operation, left, right)
            case ast.Compare(left=left, ops=operations, comparators=others):
                links = zip(operations, [left, *others], others, strict=False)
                return all(self.compare(*link) for link in links)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                for argument in arguments:
                    self.value(argument)
                return _FUNCTIONS[name](self, *arguments)
        raise TypeError(f"not checked before it is worked out: {type(node).__name__}")

    def decisive(self, is_or: bool, parts: list[ast.expr]) -> ast.expr:
        """Return the part whose value is that of an `and` or `or`; those after it are not looked at."""
        return next((part for part in parts if bool(self.value(part)) is is_or), parts[-1])

    # --- parts ----------------------------------------------------------------------------------

    def part(self, node: ast.Attribute | ast.Subscript) -> Any:
        """Return a part of a list or object; of what is not there null."""
        whole, key = self.value(node.value), self.key(node)
        if whole is None:
            return None
        if isinstance(whole, dict) and isinstance(key, str):
            if key not in whole and self.path(node.value) == "visits":
                return 0
            return whole.get(key)
        if isinstance(whole, list) and isinstance(key, int) and not isinstance(key, bool):
            return whole[key] if -len(whole) <= key < len(whole) else None
        shown = clip(ast.unparse(node.value))
        if isinstance(whole, list):
            raise ExpressionFailed(f"{shown} is a list: its items have numbers.", f"{shown}[0]")
        if isinstance(whole, dict):
            raise ExpressionFailed(f"{shown} is an object: its parts have names, not {_kind(key)}.")
        raise ExpressionFailed(f"{shown} is {_kind(whole)}: it has no parts.")

    def key(self, node: ast.Attribute | ast.Subscript) -> Any:
        return node.attr if isinstance(node, ast.Attribute) else self.value(node.slice)

    def read_from(self, node: ast.expr) -> ast.expr:
        """Return the node a value comes from: of an `and` or `or` the part that decided."""
        while isinstance(node, ast.BoolOp):
            node = self.decisive(isinstance(node.op, ast.Or), node.values)
        return node

    def path(self, node: ast.expr) -> str:
        """Return the path a value was read from, "" for what was made."""
        node = self.read_from(node)
        if isinstance(node, ast.Attribute | ast.Subscript):
            return _step(self.path(node.value), self.key(node))
        return node.id if isinstance(node, ast.Name) else ""

    def missing(self, node: ast.expr) -> str:
        """Return why a value that is null is not there, "" for one that is there and null."""
        node = self.read_from(node)
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return ""
        whole, key, path = self.value(node.value), self.key(node), self.path(node.value)
        if whole is None:
            return self.missing(node.value) or f"{path or 'The value'} is null."
        if isinstance(whole, list):
            is_there = -len(whole) <= key < len(whole)
            return "" if is_there else hint_for("", of=whole, at=path or "the list")
        return "" if key in whole else hint_for(key, of=whole, at=path or "the object")

    # --- what does not fit ----------------------------------------------------------------------

    def misfit(self, needs: str, *nodes: ast.expr) -> ExpressionFailed:
        """Return the error of an operation that does not fit its values; of nulls the first is told."""
        nulls = [node for node in nodes if self.value(node) is None][:1]
        path = self.path(nulls[0]) if nulls else ""
        if not path:
            return ExpressionFailed(f"{needs}, not {' and '.join(map(self.kind, nulls or nodes))}.")
        why = self.missing(nulls[0])
        ask = f"If it may be missing, check first: {path} is not None and ..."
        state = "is not there" if why else "is null"
        return ExpressionFailed(f"{needs}, and {path} {state}.", f"{why} {ask}".strip())

    def kind(self, node: ast.expr) -> str:
        """Return what a value is, in words, with the path it was read from where that is known."""
        value, path = self.value(node), self.path(node)
        kind = _kind(value)
        is_told = path and isinstance(value, list | dict)
        return f"the {kind.partition(' ')[2]} {path}" if is_told else kind

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, operation: ast.cmpop, left: ast.expr, right: ast.expr) -> bool:
        one, other = self.value(left), self.value(right)
        match operation:
            case ast.Eq() | ast.Is():
                return self.equal(one, other)
            case ast.NotEq() | ast.IsNot():
                return not self.equal(one, other)
            case ast.In():
                return self.contains(left, right)
            case ast.NotIn():
                return not self.contains(left, right)
        sign, order = _ORDERS[type(operation)]
        if isinstance(one, str) and isinstance(other, str):
            self.read(one)
        elif not (is_number(one) and is_number(other)):
            raise self.misfit(f'"{sign}" orders two numbers or two texts', left, right)
        return order(one, other)

    def equal(self, left: Json, right: Json) -> bool:
        """Compare as Python does, without its recursion."""
        todo = [(left, right)]
        while todo:
            one, other = todo.pop()
            self.spend(1)
            if isinstance(one, list) and isinstance(other, list):
                if len(one) != len(other):
                    return False
                self.spend(len(one))
                todo += zip(one, other, strict=True)
            elif isinstance(one, dict) and isinstance(other, dict):
                if len(one) != len(other):
                    return False
                self.spend(len(one))
                if any(key not in other for key in one):
                    return False
                todo += ((value, other[key]) for key, value in one.items())
            elif isinstance(one, list | dict) or isinstance(other, list | dict):
                return False
            else:
                self.read(one)
                if one != other:
                    return False
        return True

    def contains(self, item: ast.expr, whole: ast.expr) -> bool:
        value, wanted = self.value(whole), self.value(item)
        if isinstance(value, dict):
            return isinstance(wanted, str) and wanted in value
        if isinstance(value, list):
            if not isinstance(wanted, list | dict):
                length = len(wanted) if isinstance(wanted, str) else 0
                self.spend(len(value) * (1 + length // 400) // 8)
                return wanted in value
            self.spend(len(value))
            return any(self.equal(each, wanted) for each in value)
        if not isinstance(value, str):
            raise self.misfit('"in" looks into a list, an object or text', whole)
        if not isinstance(wanted, str):
            raise self.misfit('"in" looks for text in text', item)
        self.spend((len(value) + len(wanted)) // 100)
        return wanted in value

    # --- calculating ----------------------------------------------------------------------------

    def calculate(self, operation: ast.operator, left: ast.expr, right: ast.expr) -> Any:
        one, other = self.value(left), self.value(right)
        if isinstance(operation, ast.Add):
            if isinstance(one, str) and isinstance(other, str):
                _check_size(len(one) + len(other), MAX_TEXT, "characters")
                self.read(one)
                self.read(other)
                return one + other
            if isinstance(one, list) and isinstance(other, list):
                _check_size(len(one) + len(other), MAX_ITEMS, "items")
                self.spend((len(one) + len(other)) // 10)
                return [*one, *other]
        sign, work_out = _SUMS[type(operation)]
        for node in (left, right):
            number = self.value(node)
            if not is_number(number):
                raise self.misfit(f'"{sign}" calculates with numbers', node)
            if isinstance(number, int) and not -2 * MAX_INT <= number <= 2 * MAX_INT:
                raise ExpressionFailed("A whole number has more than 64 bits.")
        return _calculate(work_out, one, other)

    # --- functions ------------------------------------------------------------------------------

    def length(self, node: ast.expr) -> int:
        value = self.value(node)
        if isinstance(value, str | list | dict):
            return len(value)
        raise self.misfit("len takes text, a list or an object", node)

    def extreme(self, choose: Callable[..., Any], *nodes: ast.expr) -> Any:
        name = choose.__name__
        values = [self.value(node) for node in nodes]
        if len(nodes) == 1:
            values = values[0]
            if not isinstance(values, list):
                raise self.misfit(f"{name} takes a list or several values", nodes[0])
        self.spend(len(values))
        if not values:
            raise ExpressionFailed(f"{name} of an empty list is nothing.")
        if all(isinstance(value, str) for value in values):
            for value in values:
                self.read(value)
            return choose(values)
        for place, value in enumerate(values):
            if not is_number(value):
                # An item of a list is told by its kind alone: no node stands for it.
                node = nodes[place] if len(nodes) > 1 else ast.Constant(value)
                raise self.misfit(f"{name} takes numbers only or texts only", node)
        return choose(values)

    def over(self, test: Callable[[Iterable[object]], bool], node: ast.expr) -> bool:
        value = self.value(node)
        if not isinstance(value, list):
            raise self.misfit(f"{test.__name__} takes a list", node)
        self.spend(len(value) // 4)
        return test(value)

    def lower(self, node: ast.expr) -> str:
        value = self.value(node)
        if not isinstance(value, str):
            raise self.misfit("lower takes text", node)
        _check_size(len(value), MAX_TEXT, "characters")
        self.spend(len(value) // (200 if value.isascii() else 6))
        return value.lower()

    def matches(self, node: ast.expr, pattern: ast.expr) -> bool:
        text = self.value(node)
        if not isinstance(text, str):
            raise self.misfit("matches takes text", node)
        wanted = self.patterns[self.value(pattern)]
        self.spend(wanted.cost(text))
        return wanted.is_in(text)

    def read(self, value: Json) -> None:
        """Spend what it takes to read a text once."""
        if isinstance(value, str):
            self.spend(1 + len(value) // 200)


_ORDERS: Final[Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_SUMS: Final[Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "len": _Walk.length,
    "min": lambda walk, *nodes: walk.extreme(min, *nodes),
    "max": lambda walk, *nodes: walk.extreme(max, *nodes),
    "any": lambda walk, node: walk.over(any, node),
    "all": lambda walk, node: walk.over(all, node),
    "lower": _Walk.lower,
    "matches": _Walk.matches,
}


def _calculate(work_out: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    try:
        result = work_out(one, other)
    except ZeroDivisionError:
        raise ExpressionFailed(
            "It divides by zero.", "Check the divisor first: n != 0 and x / n > 1."
        ) from None
    except OverflowError:
        raise ExpressionFailed("A number grows too large.") from None
    if isinstance(result, float) and not math.isfinite(result):
        raise ExpressionFailed("A number grows too large or is not a number.")
    if isinstance(result, int) and not -MAX_INT <= result < MAX_INT:
        raise ExpressionFailed("A whole number grows beyond 64 bits.")
    return result


def _check_size(count: int, most: int, unit: str) -> None:
    if count > most:
        raise ExpressionFailed(
            f"{count:,} {unit} are more than the {most:,} an expression may make."
        )


def _kind(value: Any) -> str:
    match value:
        case None:
            return "None"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
    return "a list" if isinstance(value, list) else "an object"


def _step(path: str, key: Any) -> str:
    """Return the path of a part as an expression has it; "" where it is not one."""
    if not path or not isinstance(key, str | int):
        return ""
    if isinstance(key, int) and not -MAX_INT <= key < MAX_INT:
        return ""
    if isinstance(key, str) and key.isidentifier() and len(key) <= _MAX_SHOWN:
        return f"{path}.{key}"
    return f"{path}[{clip(repr(key))}]"


_MAX_SHOWN = 60
