"""JSON with places: a reader for the files people write.

Every value and key knows its line, column and JSON path, so that a problem found much later can
still say where. Beside plain JSON it takes what people write: `//` and `/* */` comments and a comma
before a closing bracket. It is stricter than JSON where a file could mean two things: no duplicate
keys, no NaN or Infinity, no numbers that would not survive as 64 bits, no half surrogate pairs.

A missing comma is reported and read over; any other syntax error ends the reading, since what
follows it would be guesses.
"""

import json
import math
import re
from bisect import bisect_right
from typing import Final, Literal, NoReturn, TypeAlias

import msgspec

from midstream.language.names import Json

MAX_CHARS: Final = 2_000_000
MAX_DEPTH: Final = 64

Kind: TypeAlias = Literal["object", "array", "string", "number", "boolean", "null"]


class Node(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A value and its place. `value` is the plain Python value of the whole subtree.

    `start` and `end` are offsets into the text the value was read from; `line` and `column` count
    from 1. `members` (of an object, by key) and `items` (of an array) are in the file's order.
    """

    kind: Kind
    value: Json
    path: str
    line: int
    column: int
    start: int
    end: int
    members: "dict[str, Member]" = {}
    items: "tuple[Node, ...]" = ()

    def get(self, *keys: str) -> "Node | None":
        """Return the value under a key, or below it under further ones; None when there is none."""
        node = self
        for key in keys:
            member = node.members.get(key)
            if member is None:
                return None
            node = member.node
        return node

    def text(self, *keys: str) -> "Node | None":
        """Return the value there if it is text."""
        return self._of_kind("string", keys)

    def number(self, *keys: str) -> "Node | None":
        """Return the value there if it is a number."""
        return self._of_kind("number", keys)

    def object(self, *keys: str) -> "Node | None":
        """Return the value there if it is an object."""
        return self._of_kind("object", keys)

    def _of_kind(self, kind: Kind, keys: tuple[str, ...]) -> "Node | None":
        node = self.get(*keys)
        return node if node is not None and node.kind == kind else None

    def texts(self, *keys: str) -> "tuple[Node, ...]":
        """Return the texts of the list there; what else is in it is left out."""
        return self._items("string", keys)

    def objects(self, *keys: str) -> "tuple[Node, ...]":
        """Return the objects of the list there; what else is in it is left out."""
        return self._items("object", keys)

    def _items(self, kind: Kind, keys: tuple[str, ...]) -> "tuple[Node, ...]":
        node = self.get(*keys)
        return () if node is None else tuple(item for item in node.items if item.kind == kind)

    def given(self, key: str) -> "Member | None":
        """Return the member under a key that says something: not null, false or empty."""
        member = self.members.get(key)
        value = None if member is None else member.node.value
        return None if value is None or value is False or value in ([], {}) else member


class Member(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A key of an object, with its own place, and the value under it."""

    key: str
    line: int
    column: int
    start: int
    node: Node

    @property
    def path(self) -> str:
        """Return the JSON path of the value."""
        return self.node.path


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Why a text is not JSON, and where."""

    line: int
    column: int
    path: str
    message: str
    hint: str = ""


class Parsed(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A text as read. `root` is None when reading had to be given up."""

    root: Node | None
    flaws: tuple[Flaw, ...] = ()


def parse(text: str, *, max_chars: int = MAX_CHARS) -> Parsed:
    """Return the text's values with their places, and everything wrong with it. Never raises."""
    if len(text) > max_chars:
        big = f"the file has {len(text):,} characters, more than the {max_chars:,} allowed."
        return Parsed(root=None, flaws=(Flaw(line=1, column=1, path="$", message=big),))
    reader = _Reader(text)
    try:
        root = reader.document()
    except _GivenUp:
        root = None
    return Parsed(root=root, flaws=tuple(reader.flaws))


def key_path(path: str, key: str) -> str:
    """Return the JSON path of a key of the object at `path`."""
    return (
        f"{path}.{key}"
        if len(key) <= 60 and _PLAIN_KEY.fullmatch(key)
        else f"{path}[{_quoted(key)}]"
    )


class _GivenUp(Exception):
    """Reading cannot go on; the flaw is recorded."""


_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$-]*")
# What repeats is possessive: a file that is made to be slow has nowhere to go back to.
_SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_INSIDE = re.compile(
    r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt]|\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(\.\d++)?([eE][+-]?\d++)?", re.ASCII)
_WORD = re.compile(r"[^\s,:{}\[\]\"/]{1,40}")
_STRING_START = re.compile(r'"[^"\\\x00-\x1f\x7f-\x9f]{0,40}("?)')
_HEX_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}")
_CONSTANTS: dict[str, tuple[Kind, Json]] = {
    "true": ("boolean", True),
    "false": ("boolean", False),
    "null": ("null", None),
}
_CURLY_QUOTES = frozenset("\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb`")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_VALUE_STARTS = frozenset('"{[-0123456789')


def _quoted(text: str) -> str:
    shown = json.dumps(text, ensure_ascii=False)
    return shown if len(shown) <= 60 else f'{shown[:57]}..."'


def _spelled(word: str) -> str:
    """Return how to write in JSON what people write out of habit; "" for other words."""
    if word in _PYTHON_WORDS:
        return f"JSON spells it {_PYTHON_WORDS[word]}."
    if word.startswith("'"):
        return "Strings stand in double quotes."
    if re.fullmatch(r"[+-]?\.\d+", word):
        return "Write a digit before the point."
    is_infinite = word.lstrip("+").casefold() in ("nan", "infinity", "inf")
    return "Numbers must be finite." if is_infinite else _typed(word)


def _typed(word: str) -> str:
    """Return what to type instead of what word processors and other languages write."""
    if word.startswith("#"):
        return "A comment begins with //."
    if word and word[0] in _CURLY_QUOTES:
        return 'This is no plain quote: write ".'
    if word[:1].isspace():
        return f"This is the character U+{ord(word[0]):04X}: write a plain blank."
    return ""


class _Reader:
    """Recursive descent over the text; `at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.flaws: list[Flaw] = []
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> Node:
        nul = self.text.find("\0")
        if nul >= 0:
            self.give_up("$", "the character NUL cannot be used.", at=nul)
        if self.text.startswith("\ufeff"):
            self.at = 1
        self.skip()
        node = self.value("$", 1)
        self.skip()
        if self.at < len(self.text):
            self.give_up("$", f"expected the end of the file, found {self.found()}.")
        return node

    # --- places and flaws ---

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.line_starts, offset)
        column = offset - self.line_starts[line - 1] + 1
        return line, column - (line == 1 and self.text.startswith("\ufeff"))

    def flaw(self, path: str, message: str, hint: str = "", *, at: int | None = None) -> None:
        line, column = self.place(self.at if at is None else at)
        self.flaws.append(Flaw(line=line, column=column, path=path, message=message, hint=hint))

    def give_up(
        self, path: str, message: str, hint: str = "", *, at: int | None = None
    ) -> NoReturn:
        self.flaw(path, message, hint, at=at)
        raise _GivenUp

    def found(self) -> str:
        if self.at >= len(self.text):
            return "the end of the file"
        quoted = _STRING_START.match(self.text, self.at)
        if quoted is not None:
            return f"{quoted.group()}{'' if quoted.group(1) else '...'}"
        word = _WORD.match(self.text, self.at)
        return _quoted(word.group() if word else self.text[self.at])

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self) -> None:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.text.startswith("/*", self.at):
            self.give_up("$", "this comment is never closed.", "Close it with */.")

    # --- values ---

    def value(self, path: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self.give_up(path, f"nested deeper than {MAX_DEPTH} levels.")
        first = self.peek()
        if first == "{":
            return self.object(path, depth)
        if first == "[":
            return self.array(path, depth)
        start = self.at
        if first == '"':
            return self.node("string", self.string(path), path, start)
        if first and first in "-0123456789":
            return self.node("number", self.number(path), path, start)
        return self.constant(path)

    def node(
        self,
        kind: Kind,
        value: Json,
        path: str,
        start: int,
        members: dict[str, Member] | None = None,
        items: tuple[Node, ...] = (),
    ) -> Node:
        line, column = self.place(start)
        return Node(
            kind=kind,
            value=value,
            path=path,
            line=line,
            column=column,
            start=start,
            end=self.at,
            members=members or {},
            items=items,
        )

    def constant(self, path: str) -> Node:
        start = self.at
        match = _WORD.match(self.text, start)
        word = match.group() if match else self.peek()
        if word not in _CONSTANTS:
            if path == "$" and not word:
                self.give_up(path, "the file is empty: expected an object {...}.")
            self.give_up(path, f"expected a value, found {self.found()}.", _spelled(word))
        self.at += len(word)
        kind, value = _CONSTANTS[word]
        return self.node(kind, value, path, start)

    def number(self, path: str) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        after = "" if match is None else self.text[match.end() : match.end() + 1]
        if match is None or after.isalnum() or after in (".", "_", "-", "+"):
            if after:
                self.give_up(path, f"{self.found()} is not a number.")
            word = _WORD.match(self.text, self.at + 1)
            hint = _spelled(word.group() if word else "")
            self.give_up(path, f"expected a number, found {self.found()}.", hint)
        digits = match.group()
        # Only so many digits are read as a whole number: reading takes the square of their count.
        is_whole = match.group(1) is None and match.group(2) is None
        if is_whole and len(digits) <= 20 and -(2**63) <= (whole := int(digits)) < 2**64:
            self.at = match.end()
            return whole
        number = math.inf if is_whole else float(digits)
        if not math.isfinite(number):
            self.give_up(path, "the number is too large.", "Write it as a string if it must stay.")
        self.at = match.end()
        return number

    def string(self, path: str) -> str:
        start = self.at
        inside = _INSIDE.match(self.text, start + 1)
        assert inside is not None
        self.at = inside.end()
        if self.peek() != '"':
            self.refuse_string(path, start)
        self.at += 1
        read: str = json.loads(self.text[start : self.at])
        return read

    def refuse_string(self, path: str, start: int) -> NoReturn:
        escape = self.text[self.at : self.at + 6]
        if escape[:1] in ("\n", "\r", ""):
            hint = 'Close it with " on its line; write \\n for a line break.'
            self.give_up(path, "this string is never closed.", hint, at=start)
        if escape[0] != "\\":
            code = f"U+{ord(escape[0]):04X}"
            self.give_up(path, f"the character {code} must be written as \\u escape.")
        if not _HEX_ESCAPE.fullmatch(escape):
            wrong = f"{_quoted(escape[:2])} is not an escape."
            self.give_up(path, wrong, "For a backslash write \\\\.")
        if escape.endswith("0000"):
            self.give_up(path, "the character NUL cannot be used.")
        self.give_up(path, "half of a surrogate pair stands alone.")

    # --- arrays and objects ---

    def array(self, path: str, depth: int) -> Node:
        start = self.at
        self.at += 1
        items: list[Node] = []
        self.skip()
        while self.peek() != "]":
            items.append(self.value(f"{path}[{len(items)}]", depth + 1))
            self.between(path, "]", start)
        self.at += 1
        values = [item.value for item in items]
        return self.node("array", values, path, start, items=tuple(items))

    def object(self, path: str, depth: int) -> Node:
        start = self.at
        self.at += 1
        members: dict[str, Member] = {}
        self.skip()
        while self.peek() != "}":
            member = self.member(path, depth)
            earlier = members.get(member.key)
            if earlier is not None:
                said = f"the key {_quoted(member.key)} stands here twice, first on line {earlier.line}."
                self.flaw(member.node.path, said, "Keep one of them.", at=member.start)
            members[member.key] = member
            self.between(path, "}", start)
        self.at += 1
        values = {key: member.node.value for key, member in members.items()}
        return self.node("object", values, path, start, members)

    def member(self, path: str, depth: int) -> Member:
        start = self.at
        if self.peek() != '"':
            hint = "Keys stand in double quotes." if self.peek() not in ("", ",", ":") else ""
            hint = _typed(self.peek()) or hint
            self.give_up(
                path, f'expected a key in double quotes or "}}", found {self.found()}.', hint
            )
        key = self.string(path)
        self.skip()
        own_path = key_path(path, key)
        if self.peek() != ":":
            self.give_up(own_path, f'expected ":" after the key, found {self.found()}.')
        self.at += 1
        self.skip()
        node = self.value(own_path, depth + 1)
        line, column = self.place(start)
        return Member(key=key, line=line, column=column, start=start, node=node)

    def between(self, path: str, close: str, start: int) -> None:
        """Step over the comma after a value. A missing one is reported where it belongs."""
        after_value = self.at
        self.skip()
        if self.peek() == ",":
            self.at += 1
            self.skip()
        elif self.peek() == "":
            line, column = self.place(start)
            opened = f'The "{self.text[start]}" is on line {line}, column {column}.'
            self.give_up(path, f'expected "," or "{close}", found the end of the file.', opened)
        elif self.peek() != close:
            if self.peek() not in _VALUE_STARTS or (close == "}" and self.peek() != '"'):
                self.give_up(path, f'expected "," or "{close}", found {self.found()}.')
            self.flaw(path, f'expected "," or "{close}", found {self.found()}.', at=after_value)
