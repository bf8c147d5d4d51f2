"""Working an expression out, over JSON data, in bounded steps.

`simpleeval` walks the tree and knows what `and`, a chain of comparisons or a call means; every value,
operator and function it works with is one of those here. They see JSON only, so that a key named
`format` or `__class__` is a key and nothing else, and each says how much work it is before doing it:
a step is a quarter of a
microsecond or so, and at `MAX_WORK` steps the evaluation ends. That is counted and
not timed, so it ends at the same place on every machine and in every replay.

A list, an object and what is missing are handed to `simpleeval` in a `Held`, because of its own
accord it searches every value in full for functions that were smuggled in, again at each step.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from midstream.language.errors import AuthorMistake
from midstream.language.missing_parts import hint_for
from midstream.language.names import Json
from midstream.language.patterns import Pattern
from midstream.language.shape import clip

MAX_WORK: Final = 50_000
"""Steps of one evaluation: 10 to 15 ms on a plain machine. About 200,000 characters for `matches`."""

MAX_TEXT: Final = 200_000
"""Characters of a text an expression makes."""

MAX_ITEMS: Final = 10_000
"""Items of a list an expression makes."""

MAX_INT: Final = 2**63


class ExpressionFailed(AuthorMistake):
    """An expression has no value over what the run has.

    Args:
        message, hint: as `what` and `hint` of every error.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)


class Held:
    """A list, an object or null, out of `simpleeval`'s sight.

    `path` is where it was read from, "" for what was made. `missing` says what is the matter, "" for
    a value that is there; it is told as soon as something needs more than null.
    """

    __slots__ = ("missing", "path", "value")

    def __init__(self, value: Json, path: str = "", missing: str = "") -> None:
        self.value = value
        self.path = path
        self.missing = missing

    def __bool__(self) -> bool:
        return bool(self.value)


def evaluated(tree: ast.expr, values: Mapping[str, Json], patterns: Mapping[str, Pattern]) -> Json:
    """Return the value of a checked tree over the values of its names.

    Raises:
        ExpressionFailed: an operation does not fit its values, or there is too much to look at.
    """
    # 2 ms at the start of every process, for what few processes need.
    import simpleeval  # type: ignore[import-untyped]

    work = _Work(values, patterns)
    try:
        evaluator, its_own = _IDLE.pop()
    except IndexError:
        evaluator = simpleeval.SimpleEval(operators={}, functions={}, names={})
        its_own = {kind: evaluator.nodes[kind] for kind in _AS_THEY_ARE}
    each = partial(evaluator.eval, "")
    evaluator.operators = work.operators()
    evaluator.functions = work.functions()
    evaluator.nodes = {
        **its_own,
        ast.Constant: lambda node: _held(node.value),
        ast.Name: lambda node: work.root(node.id),
        ast.Attribute: lambda node: work.part(each(node.value), node.attr, node),
        ast.Subscript: lambda node: work.part(each(node.value), each(node.slice), node),
        ast.List: lambda node: work.listed(map(each, node.elts)),
        ast.Tuple: lambda node: work.listed(map(each, node.elts)),
    }
    try:
        return _bare(each(tree))
    except simpleeval.InvalidExpression as error:
        raise ExpressionFailed(f"It cannot be worked out: {error}.") from error
    finally:
        # Nothing of the run stays behind.
        evaluator.operators = evaluator.functions = evaluator.nodes = {}
        _IDLE.append((evaluator, its_own))


_IDLE: list[tuple[Any, dict[type[ast.AST], Callable[[Any], Any]]]] = []
"""Evaluators to use again. To make one takes longer than most evaluations, and turns the filters of
warnings off and on, which two threads had better not do at once."""

_AS_THEY_ARE: tuple[type[ast.AST], ...] = (
    ast.BoolOp,
    ast.Compare,
    ast.UnaryOp,
    ast.BinOp,
    ast.Call,
)


def _held(value: Json, path: str = "", missing: str = "") -> Any:
    return Held(value, path, missing) if value is None or isinstance(value, list | dict) else value


def _bare(value: Any) -> Json:
    return value.value if isinstance(value, Held) else value


class _Work:
    """One evaluation: the values of its names, and the work that is left to it."""

    def __init__(self, values: Mapping[str, Json], patterns: Mapping[str, Pattern]) -> None:
        self.values = values
        self.patterns = patterns
        self.left = MAX_WORK

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise ExpressionFailed(
                "The values are too large for an expression.",
                "Let a handler work it out and keep the outcome in common_data.",
            )

    def operators(self) -> dict[type[ast.AST], Callable[..., Any]]:
        return {
            ast.Eq: self.equal,
            ast.NotEq: lambda left, right: not self.equal(left, right),
            ast.Is: self.equal,
            ast.IsNot: lambda left, right: not self.equal(left, right),
            ast.In: self.contains,
            ast.NotIn: lambda left, right: not self.contains(left, right),
            ast.Lt: partial(self.ordered, operator.lt, "<"),
            ast.LtE: partial(self.ordered, operator.le, "<="),
            ast.Gt: partial(self.ordered, operator.gt, ">"),
            ast.GtE: partial(self.ordered, operator.ge, ">="),
            ast.Add: self.sum,
            ast.Sub: partial(_calculated, operator.sub, "-"),
            ast.Mult: partial(_calculated, operator.mul, "*"),
            ast.Div: partial(_calculated, operator.truediv, "/"),
            ast.FloorDiv: partial(_calculated, operator.floordiv, "//"),
            ast.Mod: partial(_calculated, operator.mod, "%"),
            ast.Not: operator.not_,
            ast.USub: lambda value: _calculated(operator.sub, "-", 0, value),
        }

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {
            "len": self.length,
            "min": partial(self.extreme, min),
            "max": partial(self.extreme, max),
            "any": partial(self.over, any),
            "all": partial(self.over, all),
            "lower": self.lower,
            "matches": self.matches,
        }

    # --- values ---------------------------------------------------------------------------------

    def root(self, name: str) -> Any:
        return _held(self.values.get(name), name)

    def part(self, whole: Any, key: Any, node: ast.Attribute | ast.Subscript) -> Any:
        """Return a part of a list or object; of what is not there null, which knows why."""
        value, path = _bare(whole), whole.path if isinstance(whole, Held) else ""
        key = _bare(key)
        if value is None:
            why = whole.missing or f"{path or 'The value'} is null."
            return Held(None, _step(path, key), why)
        if isinstance(value, dict) and isinstance(key, str):
            if key in value:
                return _held(value[key], _step(path, key))
            if path == "visits":
                return 0
            return Held(None, _step(path, key), hint_for(key, of=value, at=path or "the object"))
        if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
            if -len(value) <= key < len(value):
                return _held(value[key], _step(path, key))
            why = hint_for("", of=value, at=path or "the list")
            return Held(None, _step(path, key), why)
        shown = clip(ast.unparse(node.value))
        if isinstance(value, list):
            raise ExpressionFailed(f"{shown} is a list: its items have numbers.", f"{shown}[0]")
        if isinstance(value, dict):
            raise ExpressionFailed(f"{shown} is an object: its parts have names, not {_kind(key)}.")
        raise ExpressionFailed(f"{shown} is {_kind(whole)}: it has no parts.")

    def listed(self, items: Iterable[Any]) -> Held:
        return Held([_bare(item) for item in items])

    # --- comparing ------------------------------------------------------------------------------

    def equal(self, left: Any, right: Any) -> bool:
        """Compare as Python does, without its recursion."""
        todo = [(_bare(left), _bare(right))]
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

    def contains(self, item: Any, whole: Any) -> bool:
        value, wanted = _bare(whole), _bare(item)
        if isinstance(value, dict):
            return isinstance(wanted, str) and wanted in value
        if isinstance(value, list):
            if not isinstance(wanted, list | dict):
                length = len(wanted) if isinstance(wanted, str) else 0
                self.spend(len(value) * (1 + length // 400) // 8)
                return wanted in value
            self.spend(len(value))
            return any(self.equal(each, wanted) for each in value)
        if isinstance(value, str) and isinstance(wanted, str):
            self.spend((len(value) + len(wanted)) // 100)
            return wanted in value
        if isinstance(value, str):
            raise _misfit('"in" looks for text in text', item)
        raise _misfit('"in" looks into a list, an object or text', whole)

    def ordered(
        self, compare: Callable[[Any, Any], bool], sign: str, left: Any, right: Any
    ) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            self.read(left)
        elif not (_is_number(left) and _is_number(right)):
            raise _misfit(f'"{sign}" orders two numbers or two texts', left, right)
        return compare(left, right)

    # --- calculating ----------------------------------------------------------------------------

    def sum(self, left: Any, right: Any) -> Any:
        one, other = _bare(left), _bare(right)
        if isinstance(one, str) and isinstance(other, str):
            _short(len(one) + len(other), MAX_TEXT, "characters")
            self.read(one)
            self.read(other)
            return one + other
        if isinstance(one, list) and isinstance(other, list):
            _short(len(one) + len(other), MAX_ITEMS, "items")
            self.spend((len(one) + len(other)) // 10)
            return Held([*one, *other])
        return _calculated(operator.add, "+", left, right)

    def length(self, value: Any) -> int:
        bare = _bare(value)
        if isinstance(bare, str | list | dict):
            return len(bare)
        raise _misfit("len takes text, a list or an object", value)

    def extreme(self, choose: Callable[..., Any], first: Any, *others: Any) -> Any:
        name = choose.__name__
        values = [first, *others]
        if not others:
            values = _bare(first)
            if not isinstance(values, list):
                raise _misfit(f"{name} takes a list or several values", first)
        self.spend(len(values))
        if not values:
            raise ExpressionFailed(f"{name} of an empty list is nothing.")
        if all(isinstance(value, str) for value in values):
            for value in values:
                self.read(value)
        elif not all(map(_is_number, values)):
            wrong = next(value for value in values if not _is_number(value))
            raise _misfit(f"{name} takes numbers only or texts only", wrong)
        return choose(values)

    def over(self, test: Callable[[Iterable[object]], bool], value: Any) -> bool:
        bare = _bare(value)
        if not isinstance(bare, list):
            raise _misfit(f"{test.__name__} takes a list", value)
        self.spend(len(bare) // 4)
        return test(bare)

    def lower(self, value: Any) -> str:
        if not isinstance(value, str):
            raise _misfit("lower takes text", value)
        _short(len(value), MAX_TEXT, "characters")
        self.spend(len(value) // (200 if value.isascii() else 6))
        return value.lower()

    def matches(self, text: Any, pattern: Any) -> bool:
        if not isinstance(text, str):
            raise _misfit("matches takes text", text)
        return self.patterns[pattern].is_in(text, self.spend)

    def read(self, value: Json) -> None:
        """Spend what it takes to read a text once."""
        if isinstance(value, str):
            self.spend(1 + len(value) // 200)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _calculated(work_out: Callable[[Any, Any], Any], sign: str, left: Any, right: Any) -> Any:
    for value in (left, right):
        if not _is_number(value):
            raise _misfit(f'"{sign}" calculates with numbers', value)
        if not -2 * MAX_INT <= value <= 2 * MAX_INT and isinstance(value, int):
            raise ExpressionFailed("A whole number has more than 64 bits.")
    try:
        result = work_out(left, right)
    except ZeroDivisionError:
        raise ExpressionFailed(
            "It divides by zero.", "Check the divisor first: n != 0 and x / n > 1."
        ) from None
    except OverflowError:
        raise ExpressionFailed("A number grows too large.") from None
    if isinstance(result, float) and not -_HUGE < result < _HUGE:
        raise ExpressionFailed("A number grows too large or is not a number.")
    if isinstance(result, int) and not -MAX_INT <= result < MAX_INT:
        raise ExpressionFailed("A whole number grows beyond 64 bits.")
    return result


_HUGE = float("inf")


def _short(count: int, most: int, unit: str) -> None:
    if count > most:
        raise ExpressionFailed(
            f"{count:,} {unit} are more than the {most:,} an expression may make."
        )


def _misfit(needs: str, *values: Any) -> ExpressionFailed:
    """Return the error of an operation that does not fit its values, of which null is the first told."""
    for value in values:
        if not isinstance(value, Held) or value.value is not None:
            continue
        if not value.path:
            return ExpressionFailed(f"{needs}, not None.")
        state = "is not there" if value.missing else "is null"
        ask = f"If it may be missing, check first: {value.path} is not None and ..."
        return ExpressionFailed(
            f"{needs}, and {value.path} {state}.", f"{value.missing} {ask}".strip()
        )
    return ExpressionFailed(f"{needs}, not {' and '.join(map(_kind, values))}.")


def _kind(value: Any) -> str:
    """Return what a value is, in words, with the path it was read from where that is known."""
    bare = _bare(value)
    path = value.path if isinstance(value, Held) else ""
    match bare:
        case None:
            return path or "None"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return f"the list {path}" if path else "a list"
    return f"the object {path}" if path else "an object"


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
