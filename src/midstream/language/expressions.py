"""Conditions of transitions: small Python-syntax expressions over JSON data.

    common_data.score >= 7 and not common_data.open_questions
    "LGTM" in last.text or visits.review > 3
    matches(lower(input), 'fix|repair') and len(common_data.files) < 20

What is read: the names in `ROOTS` and their parts, with dots (`common_data.user.name`) or brackets
(`common_data["user-name"]`, `common_data.files[0]`). What may be done: `and or not`, comparisons (in
chains, too), `in`, `+ - * / // %`, lists, and the functions in `FUNCTIONS`. Nothing else: no other
call, no attribute of a value but the keys it has as JSON.

A part that is not there is null (None), as in the expressions of GitHub Actions and with `?.` in other
languages: a condition is mostly asked before everything it names has been written, and `not
common_data.approved` has to be answerable in the first round. Only what needs a value (`<`, `+`,
`len`, ...) fails on null, and then says what was missing and what its name may have meant. A wrong
name is found before a run by `validate`, which knows what is written. `visits` of a state never
entered are 0.

The pattern of `matches` is found anywhere in the text, as with `re.search`; it is written in the
expression, so that it is checked before anything runs, and a backslash in it needs no second one.
In every other text `\\n`, `\\t` and `\\\\` mean what they mean in Python.
"""

import ast
import keyword
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NoReturn

from midstream.language.errors import BadText, clip, did_you_mean, nearest
from midstream.language.evaluation import MAX_INT, ExpressionFailed, evaluate
from midstream.language.names import Json
from midstream.language.patterns import BadPattern, Pattern
from midstream.language.patterns import compiled as compiled_pattern

__all__ = ["FUNCTIONS", "ROOTS", "BadExpression", "Expression", "ExpressionFailed", "compiled"]

ROOTS: Final = ("common_data", "input", "last", "resume_input", "variables", "visits")
"""What a path may begin with. `last` is the last reply: its `text`, `arguments` and `value`."""

FUNCTIONS: Final[Mapping[str, tuple[int, int]]] = {
    "len": (1, 1),
    "min": (1, 64),
    "max": (1, 64),
    "any": (1, 1),
    "all": (1, 1),
    "lower": (1, 1),
    "matches": (2, 2),
}
"""What may be called, with how few and how many values."""

MAX_CHARS: Final = 500
MAX_DEPTH: Final = 16
MAX_NODES: Final = 64


class BadExpression(BadText):
    """A text is no expression, or does what none may."""


class Expression:
    """An expression that was checked. It never changes.

    `names` are the paths it reads, such as "common_data.files.0"; where a part is only known when it
    runs, the path up to there.
    """

    __slots__ = ("_patterns", "_tree", "names", "text")

    def __init__(
        self, text: str, tree: ast.expr, names: frozenset[str], patterns: Mapping[str, Pattern]
    ) -> None:
        self.text = text
        self.names = names
        self._tree = tree
        self._patterns = patterns

    @property
    def counts_visits(self) -> bool:
        """Return whether it asks how often a state was entered: that may bound a circle."""
        return any(name.split(".")[0] == "visits" for name in self.names)

    def evaluate(self, values: Mapping[str, Json]) -> Json:
        """Return its value over those of the roots; a root that is not given is null.

        Raises:
            ExpressionFailed: an operation does not fit its values, or they are too large to look at.
        """
        return evaluate(self._tree, values, self._patterns)

    def holds(self, values: Mapping[str, Json]) -> bool:
        """Return whether its value counts as true, as in Python: not null, 0, "" or empty.

        Raises:
            ExpressionFailed: as for `evaluate`.
        """
        return bool(self.evaluate(values))


@lru_cache(maxsize=1024)
def compiled(text: str) -> Expression:
    """Return the text as an expression; remembered, so that asking again is free.

    Raises:
        BadExpression: it is none, does what none may, or is larger than allowed.
    """
    if len(text) > MAX_CHARS:
        raise BadExpression(f"An expression may have {MAX_CHARS} characters, not {len(text):,}.")
    source = _without_backslashes(text)
    skipped = len(source) - len(source.lstrip())
    source = source.strip()
    if not source:
        raise BadExpression(
            "The expression is empty.", "Without when, a transition is always taken."
        )
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise BadExpression(*_not_python(error, text, skipped)) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise BadExpression("This is not an expression.", f"Python says: {error}.") from None
    check = _Check(source, skipped)
    if isinstance(tree, ast.List | ast.Tuple):
        check.refuse(
            tree, "A list is not a condition: it is always true.", 'Join with "and" or "or".'
        )
    check.node(tree, 1)
    return Expression(text, tree, frozenset(check.names), check.patterns)


# --- reading ------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<text>'[^'\n]*+'|"[^"\n]*+")"""
    r"|(?P<number>\.?[0-9](?:[\w.]|(?<=[eE])[+-](?=[0-9]))*+)"
    r"|(?P<name>[^\W\d]\w*+)|(?P<space>\s)|(?P<sign>.)",
    re.S,
)
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BACKSLASH = "\ue000"
"""Stands for a backslash while Python reads: it would warn of `\\d`, and make `\\b` a backspace."""

_PYTHON_WORDS = frozenset(keyword.kwlist)
_SIGNS = {
    "&": 'Write "and".',
    "|": 'Write "or".',
    "!": 'Write "not", or "!=" for unequal.',
    "$": "Write names without ${ } here.",
    "{": "Write names without ${ } here.",
    "}": "Write names without ${ } here.",
    "?": "A missing value is null here: it needs no default.",
    "\\": "A backslash is allowed in texts only.",
    "#": "There are no comments in an expression.",
    "'": "A text ends with the quote it began with. Inside it use the other one.",
    '"': "A text ends with the quote it began with. Inside it use the other one.",
}
_NAMES_MEANT = {
    "true": "True",
    "false": "False",
    "null": "None",
    "undefined": "None",
    "last_response": "last.text",
    "output": "last.text",
    "context": "common_data",
    "data": "common_data",
}


def _without_backslashes(text: str) -> str:
    """Return the text on one line and with the stand-in for backslashes, each at its old place.

    Refuses what Python would read after all, with a warning or another meaning than it seems to have.
    """
    pieces: list[str] = []
    before = ""
    for token in _TOKEN.finditer(text):
        kind, piece, column = token.lastgroup, token.group(), token.start() + 1
        if _BACKSLASH in piece:
            raise BadExpression("This character is kept for private use.", column=column)
        if kind == "space":
            pieces.append(" ")
            continue
        if kind == "text":
            _check_text_place(text, token.start(), before, column)
            piece = piece.replace("\\", _BACKSLASH)
        elif kind == "number":
            _check_number(piece, before, column)
        elif kind == "name" and piece in _PYTHON_WORDS and before == ".":
            hint = f'Write ["{piece}"] without the dot.'
            raise BadExpression(f'"{piece}" is a word of Python\'s own.', hint, column)
        elif piece in _SIGNS and not (piece == "!" and text[token.end() : token.end() + 1] == "="):
            what = "A text is not closed." if piece in "'\"" else f'"{piece}" has no place here.'
            raise BadExpression(what, _SIGNS[piece], column)
        pieces.append(piece)
        before = "text" if kind == "text" else piece
    return "".join(pieces)


def _check_text_place(text: str, start: int, before: str, column: int) -> None:
    if before == "text":
        hint = "Join them with +, or write a quote of the other kind inside."
        raise BadExpression("Two texts stand side by side.", hint, column)
    if (
        start
        and (text[start - 1].isalnum() or text[start - 1] == "_")
        and before not in _PYTHON_WORDS
    ):
        hint = "A backslash in a pattern needs no second one." if before in ("r", "R") else ""
        raise BadExpression(f'Texts have no mark like "{clip(before)}" before them.', hint, column)


def _check_number(number: str, before: str, column: int) -> None:
    if number.startswith(".") and (before in ("]", ")") or before[-1:].isalnum() or before == "_"):
        hint = f"Write [{number[1:]}] for an item of a list."
        raise BadExpression("A part after a dot is a name.", hint, column)
    if not _NUMBER.fullmatch(number):
        raise BadExpression(f'"{clip(number)}" is no number.', column=column)


def _not_python(error: SyntaxError, text: str, skipped: int) -> tuple[str, str, int]:
    column = min(max((error.offset or 1) + skipped, 1), len(text) + 1)
    rest = text[column - 1 :].strip()
    message = (
        f'Python cannot read it from "{clip(rest, 40)}" on.' if rest else "Its end is missing."
    )
    hint = ""
    if re.search(r"(?<![=<>!])=(?!=)", text):
        hint = 'Write "==" to compare.'
    elif "===" in text:
        hint = 'Write "==".'
    return message, hint, column


# --- checking -----------------------------------------------------------------------------------

_LEFT_OUT: Final[Mapping[type[ast.AST], str]] = {
    ast.Pow: '"**"',
    ast.LShift: '"<<"',
    ast.RShift: '">>"',
    ast.MatMult: '"@"',
    ast.BitXor: '"^"',
    ast.Invert: '"~"',
    ast.UAdd: 'a "+" before a value',
    ast.Lambda: '"lambda"',
    ast.IfExp: '"if ... else"',
    ast.NamedExpr: '":="',
    ast.ListComp: '"for"',
    ast.SetComp: '"for"',
    ast.GeneratorExp: '"for"',
    ast.Starred: '"*" before a value',
    ast.Slice: "a range of items",
    ast.Await: '"await"',
    ast.Yield: '"yield"',
    ast.YieldFrom: '"yield"',
}
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_ESCAPES = {"n": "\n", "t": "\t", _BACKSLASH: "\\"}
_ESCAPE = re.compile(f"{_BACKSLASH}(.?)", re.S)


class _Check:
    """Goes through a tree once: refuses what is left out, gathers names, makes texts of constants."""

    def __init__(self, source: str, skipped: int) -> None:
        self.source = source.encode()
        self.skipped = skipped
        self.names: set[str] = set()
        self.patterns: dict[str, Pattern] = {}
        self.count = 0

    def refuse(self, node: ast.expr, message: str, hint: str = "", *, further: int = 0) -> NoReturn:
        column = len(self.source[: node.col_offset].decode(errors="replace")) + self.skipped + 1
        raise BadExpression(message, hint, column + further)

    def left_out(self, node: ast.expr, what: ast.AST) -> NoReturn:
        shown = _LEFT_OUT.get(type(what), "this")
        self.refuse(node, f"{shown[0].upper()}{shown[1:]} cannot be used in an expression.", _MAY)

    def enter(self, node: ast.expr, depth: int) -> None:
        self.count += 1
        if self.count > MAX_NODES:
            self.refuse(node, f"The expression has more than {MAX_NODES} parts.", _HANDLER)
        if depth > MAX_DEPTH:
            self.refuse(node, f"The expression is more than {MAX_DEPTH} deep.", _HANDLER)

    def node(self, node: ast.expr, depth: int) -> None:
        """Check a node and those below it."""
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            path, _ = self.path(node, depth)
            if path:
                self.names.add(path)
            return
        self.enter(node, depth)
        below: list[ast.expr] = []
        match node:
            case ast.Constant():
                self.constant(node)
            case ast.BoolOp():
                below = node.values
            case ast.List() | ast.Tuple():
                below = node.elts
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                below = [node.operand]
            case ast.UnaryOp():
                self.left_out(node, node.op)
            case ast.BinOp():
                if not isinstance(node.op, _OPERATORS):
                    self.left_out(node, node.op)
                below = [node.left, node.right]
            case ast.Compare():
                self.comparison(node)
                below = [node.left, *node.comparators]
            case ast.Call():
                below = self.call(node)
            case _:
                self.left_out(node, node)
        for each in below:
            self.node(each, depth + 1)

    def path(self, node: ast.expr, depth: int) -> tuple[str, bool]:
        """Check what may have parts; return its path and whether a part of it would have one, too."""
        if isinstance(node, ast.BoolOp | ast.BinOp):
            self.node(node, depth)
            return "", False
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            self.refuse(node, "Only what has a name has parts.", "Such as common_data.files[0].")
        self.enter(node, depth)
        if isinstance(node, ast.Name):
            self.name(node)
            return node.id, True
        path, is_known = self.path(node.value, depth + 1)
        part: object = None
        if isinstance(node, ast.Attribute):
            part = node.attr
        else:
            if isinstance(node.slice, ast.Slice | ast.Tuple):
                self.left_out(node, ast.Slice())
            self.node(node.slice, depth + 1)
            part = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not is_known or isinstance(part, bool) or not isinstance(part, int | str):
            return path, False
        if isinstance(part, str) and (not part or "." in part):
            return path, False
        return f"{path}.{part}", True

    def name(self, node: ast.Name) -> None:
        if node.id in ROOTS:
            return
        if node.id in FUNCTIONS:
            hint = f"Write {node.id}(...)."
            self.refuse(node, f'"{node.id}" is a function, which has to be called.', hint)
        meant = _NAMES_MEANT.get(node.id)
        hint = f"Did you mean {meant}?" if meant else did_you_mean(node.id[:60], ROOTS)
        self.refuse(node, f'there is no name "{clip(node.id)}" in an expression.', hint)

    def constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, str):
            node.value = _ESCAPE.sub(lambda found: self.unescaped(node, found[1]), value)
        elif isinstance(value, int | float):
            is_long = isinstance(value, int) and value >= MAX_INT
            if is_long or not math.isfinite(value):
                self.refuse(node, "This number has more than 64 bits.")
        elif value is not None:
            self.refuse(node, f'"{clip(str(value))}" has no place in an expression.', _MAY)

    def unescaped(self, node: ast.Constant, sign: str) -> str:
        if sign not in _ESCAPES:
            self.refuse(
                node,
                f'"\\{sign}" means nothing in a text.',
                'There are \\n, \\t and \\\\; patterns belong into matches(text, "...").',
            )
        return _ESCAPES[sign]

    def comparison(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operation, left, right in zip(node.ops, sides, node.comparators, strict=False):
            if isinstance(operation, ast.Is | ast.IsNot) and not (
                _is_none(left) or _is_none(right)
            ):
                instead = "==" if isinstance(operation, ast.Is) else "!="
                self.refuse(right, '"is" asks for None only.', f'Write "{instead}".')

    def call(self, node: ast.Call) -> list[ast.expr]:
        """Check a call; return what of its arguments is left to check."""
        function = node.func
        if isinstance(function, ast.Attribute):
            what = f'".{clip(function.attr)}(...)" cannot be called.'
            hint = (
                f"Write {function.attr}(...) around the value."
                if function.attr in FUNCTIONS
                else _CALLS
            )
            self.refuse(node, what, hint)
        if not isinstance(function, ast.Name):
            self.refuse(node, "Only functions can be called.", _CALLS)
        name = function.id
        if name not in FUNCTIONS:
            best = nearest(name[:60], FUNCTIONS)
            hint = f"Did you mean {best}?" if best else _CALLS
            self.refuse(node, f'there is no function "{clip(name)}" in an expression.', hint)
        if node.keywords:
            self.refuse(node, f"{name} takes no named values.")
        least, most = FUNCTIONS[name]
        if not least <= len(node.args) <= most:
            wanted = {(1, 1): "one value", (2, 2): "a text and a pattern"}.get(
                (least, most), "values"
            )
            self.refuse(node, f"{name} takes {wanted}, not {len(node.args)}.")
        if name != "matches":
            return node.args
        self.pattern(node.args[1])
        return node.args[:1]

    def pattern(self, node: ast.expr) -> None:
        self.count += 1
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            hint = "A pattern from elsewhere could not be checked before the run."
            self.refuse(node, "The pattern of matches is a text written here.", hint)
        node.value = node.value.replace(_BACKSLASH, "\\")
        try:
            self.patterns[node.value] = compiled_pattern(node.value)
        except BadPattern as error:
            self.refuse(node, error.what, error.hint, further=error.column)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


_MAY = 'There are "and", "or", "not", comparisons, "in", + - * / // %, lists and functions.'
_CALLS = f"There are: {', '.join(FUNCTIONS)}."
_HANDLER = "Use several transitions, or let a transition_handler decide."
