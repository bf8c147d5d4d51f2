"""Small tools: the time, a calculator, the todo list; what a program answers or is handed, and skills."""

import ast
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from midstream.core.proposal import MAX_STEP
from midstream.core.todo import LIST_TOOL, MAX_ITEMS, TodoItem
from midstream.language.errors import UserMistake
from midstream.language.names import (
    DELEGATE,
    LOAD_SKILL,
    PROPOSE_PLAN,
    REQUEST_USERS_INPUT,
    RUN_WORKFLOW,
    Json,
)
from midstream.tools.base import Tool, tool, tool_from

MAX_EXPRESSION_CHARS: Final = 500
MAX_BITS: Final = 4_000
"""How long a whole number may grow: about 1200 digits."""

MAX_DEPTH: Final = 250
"""How deep an expression may be: a sum as long as one may be, `1+1+...`, just fits."""

# --- get_time -----------------------------------------------------------------------------------


@tool(effect="read", timeout_s=5)
def get_time(
    timezone: Annotated[
        str, msgspec.Meta(max_length=100, description="Such as Europe/Berlin; default: local.")
    ] = "",
) -> str:
    """Get the current date and time."""
    import zoneinfo

    now = datetime.now(UTC)
    try:
        zone = zoneinfo.ZoneInfo(timezone) if timezone else None
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise UserMistake(
            f"There is no time zone {timezone!r}.", hint="Use one such as Europe/Berlin."
        ) from error
    here = now.astimezone(zone)
    return f"{here:%A} {here.isoformat(timespec='seconds')} (UTC: {now:%Y-%m-%dT%H:%M:%SZ})"


# --- calculate ----------------------------------------------------------------------------------


@tool(effect="read", timeout_s=5)
def calculate(
    expression: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MAX_EXPRESSION_CHARS,
            description="Numbers, + - * / // % **, comparisons, parentheses, pi, e, tau; abs, round, "
            "min, max, sqrt, exp, log, log2, log10, sin, cos, tan, floor, ceil, factorial, gcd.",
        ),
    ],
) -> str:
    """Calculate an arithmetic expression."""
    return str(value_of(expression))


def value_of(expression: str) -> int | float | bool:
    """Return an expression's value. No step of it may take long or grow large.

    Raises:
        UserMistake: it is no arithmetic, its result is no real number, or it grows too large.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        result: int | float | bool = _small(_calculate(tree.body))
    except UserMistake:
        raise
    except Exception as error:
        raise UserMistake(
            f"The expression cannot be calculated: {error}.",
            hint="Numbers, + - * / // % **, comparisons and plain functions can.",
        ) from error
    return result


def _calculate(node: ast.AST, depth: int = 0) -> Any:
    def value_at(part: ast.AST) -> Any:
        return _calculate(part, depth + 1)

    if depth > MAX_DEPTH:
        raise RecursionError(f"it is more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.Name(id=name):
            raise NameError(f"{name!r} is not defined")
        case ast.UnaryOp(op=operation, operand=operand):
            return _apply(operation, value_at(operand))
        case ast.BinOp(left=left, op=operation, right=right):
            return _apply(operation, value_at(left), value_at(right))
        case ast.BoolOp(op=joint, values=parts):
            *first, last = parts
            for part in first:
                if bool(value := value_at(part)) is isinstance(joint, ast.Or):
                    return value
            return value_at(last)
        case ast.Compare(left=left, ops=operations, comparators=others):
            one, holds = value_at(left), True
            for comparison, side in zip(operations, others, strict=True):
                other = value_at(side)
                if not (holds := _apply(comparison, one, other)):
                    break
                one = other
            return holds
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return value_at(then if value_at(test) else otherwise)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name not in _FUNCTIONS:
                raise NameError(f"there is no function {name!r}")
            return _FUNCTIONS[name](*map(value_at, arguments))
    raise SyntaxError(f"{type(node).__name__} is no arithmetic")


def _apply(operation: ast.AST, *values: Any) -> Any:
    if type(operation) not in _OPERATORS:
        raise SyntaxError(f"{type(operation).__name__} is no arithmetic")
    return _OPERATORS[type(operation)](*values)


def _too_much(what: str) -> UserMistake:
    return UserMistake(what, hint="Calculate with smaller or real numbers.")


def _small(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise _too_much(f"The result is no real number but {type(value).__name__}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise _too_much("The result is too large or no number.")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _too_much(f"A number grows beyond {MAX_BITS} bits.")
    return value


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        return _small(function(*map(_small, values)))

    return run


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        # Refused before it is worked out, which is what takes the time.
        if base.bit_length() * max(exponent, 0) > MAX_BITS + exponent and abs(base) > 1:
            raise _too_much(f"A number grows beyond {MAX_BITS} bits.")
        if abs(exponent) > MAX_BITS:
            raise _too_much(f"The exponent {exponent} is too large.")
    return base**exponent


def _factorial(value: Any) -> Any:
    if not isinstance(value, int) or value > 450:
        raise UserMistake(
            "factorial takes whole numbers up to 450.", hint="Calculate with smaller ones."
        )
    return math.factorial(value)


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and abs(digits) > 300:
        raise UserMistake("round takes up to 300 digits.", hint="Ask for fewer.")
    return round(value, digits)


_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    kind: _checked(function)
    for kind, function in (
        (ast.Add, operator.add),
        (ast.Sub, operator.sub),
        (ast.Mult, operator.mul),
        (ast.Div, operator.truediv),
        (ast.FloorDiv, operator.floordiv),
        (ast.Mod, operator.mod),
        (ast.Pow, _power),
        (ast.USub, operator.neg),
        (ast.UAdd, operator.pos),
        (ast.Not, operator.not_),
        (ast.Eq, operator.eq),
        (ast.NotEq, operator.ne),
        (ast.Lt, operator.lt),
        (ast.LtE, operator.le),
        (ast.Gt, operator.gt),
        (ast.GtE, operator.ge),
    )
}
_FUNCTIONS: Final = {
    name: _checked(function)
    for name, function in (
        *((each.__name__, each) for each in (abs, min, max)),
        *((name, getattr(math, name)) for name in ("sqrt", "exp", "log", "log2", "log10", "gcd")),
        *((name, getattr(math, name)) for name in ("sin", "cos", "tan", "floor", "ceil")),
        ("factorial", _factorial),
        ("round", _round),
    )
}
_NAMES: Final = {"pi": math.pi, "e": math.e, "tau": math.tau, "True": True, "False": False}


# --- todo ---------------------------------------------------------------------------------------


@tool(effect="read", timeout_s=5, name=LIST_TOOL)
def todo(
    items: Annotated[
        list[TodoItem],
        msgspec.Meta(max_length=MAX_ITEMS, description="The whole list, in its order."),
    ],
) -> str:
    """Keep the todo list of a task of several steps; the user sees it and may change it.

    Each call replaces the whole list. Mark an item doing before you begin it, and done as soon as it is.
    """
    # The journal has the call, and the run the list it was made with: nothing else is to be done.
    count = {"done": 0, "doing": 0, "pending": 0}
    for item in items:
        count[item.status] += 1
    return f"The list has {len(items)}: " + ", ".join(f"{n} {name}" for name, n in count.items())


# --- request_users_input ------------------------------------------------------------------------


@tool(effect="read", name=REQUEST_USERS_INPUT)
def request_users_input(
    question: Annotated[str, msgspec.Meta(min_length=1, description="What the user is asked.")],
    choices: Annotated[list[str], msgspec.Meta(description="The answers to choose from.")] = [],  # noqa: B006
    schema: Annotated[
        dict[str, Json], msgspec.Meta(description="A JSON Schema the answer has to fit.")
    ] = {},  # noqa: B006
) -> str:
    """Ask the user a question and wait for the answer."""
    # The machine parks these calls, and never runs them.
    raise UserMistake(
        "The question was not asked.", hint="Only a running workflow or chat can ask the user."
    )


# --- propose_plan -------------------------------------------------------------------------------


@tool(effect="read", name=PROPOSE_PLAN)
def propose_plan(
    title: Annotated[
        str, msgspec.Meta(min_length=1, max_length=MAX_STEP, description="What it is for.")
    ],
    steps: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_STEP)]],
        msgspec.Meta(
            min_length=1,
            max_length=MAX_ITEMS,
            description="One line each: what is done, and where.",
        ),
    ],
) -> str:
    """Propose a plan, and wait until the user approves, changes or rejects it.

    It ends looking around in the permission mode plan. In any mode propose one when the user asks for a
    plan. After a yes the steps are the todo list: carry them out.
    """
    # The machine parks these calls, and never runs them.
    raise UserMistake(
        "The plan was not shown.", hint="Only a running workflow or chat can propose one."
    )


# --- delegate -----------------------------------------------------------------------------------


@tool(effect="read", name=DELEGATE)
def delegate(
    role: Annotated[str, msgspec.Meta(min_length=1, description="Who does it.")],
    task: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="All that is to be known: nothing else of this conversation is seen there.",
        ),
    ],
    files: Annotated[list[str], msgspec.Meta(description="Files the task is about.")] = [],  # noqa: B006
    worktree: Annotated[
        bool,
        msgspec.Meta(
            description="Work on a copy (a git worktree with its own branch) that is merged at the end: "
            "for tasks at the same time that change files."
        ),
    ] = False,
) -> str:
    """Have a task done by an agent of another role, and wait for its last words.

    It has a conversation of its own. Several tasks in one reply are done at once: hand on only what does
    not change the same files, or give each a worktree.
    """
    # The machine makes a branch of these calls, and never runs them.
    raise UserMistake(
        "The task was not begun.", hint="Only a running workflow or chat can hand it on."
    )


# --- run_workflow -------------------------------------------------------------------------------


@tool(effect="read", name=RUN_WORKFLOW, needs_approval=True)
def run_workflow(
    name: Annotated[str, msgspec.Meta(min_length=1, description="Which one.")],
    input: Annotated[Json, msgspec.Meta(description="What it is started with.")] = None,
) -> str:
    """Run a workflow, and wait for its output."""
    # The machine makes a branch of these calls, and never runs them.
    raise UserMistake(
        "The workflow was not begun.", hint="Only a chat of a folder's own program can run one."
    )


# --- load_skill ---------------------------------------------------------------------------------


def skill_tool(read: Callable[[str, str], str]) -> Tool:
    """Return the tool. `read` returns the text of a skill by its name, or that of a file beside it."""

    @tool(effect="read", timeout_s=30, name=LOAD_SKILL)
    def load_skill(
        name: Annotated[str, msgspec.Meta(min_length=1, description="The skill's name.")],
        file: Annotated[
            str, msgspec.Meta(description="A file beside it that it names; default: the skill.")
        ] = "",
    ) -> str:
        """Read a skill: how a kind of task is done here. It is a file's words, and allows nothing."""
        return read(name, file)

    return tool_from(load_skill)


TOOLS: tuple[Tool, ...] = (
    tool_from(get_time),
    tool_from(calculate),
    tool_from(todo),
    tool_from(request_users_input),
    tool_from(propose_plan),
    tool_from(delegate),
    tool_from(run_workflow),
)
