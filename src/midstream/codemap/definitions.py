"""What a file of code defines: its classes, functions and types, with the lines they begin at.

Python is read by its own syntax tree, other languages by universal-ctags where it is installed, which is
fed from here and opens nothing; else by a pattern for each.
Patterns may miss what is written in an unusual way. Each looks at one line, and what it repeats is
bounded: a line that was made to be slow is not.
"""

import ast
import json
import re
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from midstream.system.supervisor import DROPPED, PIPED, Child
from midstream.views.cells import shortened

MAX_DEFINITIONS: Final = 400
MAX_MEMBERS: Final = 60
NAME_CHARS: Final = 80
"""Characters of a name or a signature."""


class Definition(msgspec.Struct, frozen=True):
    """Something a file defines: `what` is it in a few words, `members` what it holds."""

    line: int
    name: str
    what: str
    members: tuple[str, ...] = ()


Definitions: TypeAlias = tuple[Definition, ...]


def public(found: Definitions) -> Definitions:
    """Return the definitions that are for others; where there is none, all."""
    return tuple(one for one in found if not one.name.startswith("_")) or found


# --- Python ---------------------------------------------------------------------------------------


def read_python(source: str) -> tuple[str, Definitions] | None:
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
                heirs = ", ".join(shortened(ast.unparse(base), NAME_CHARS) for base in bases[:4])
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


# --- other languages ------------------------------------------------------------------------------

_C_LIKE: Final = (
    r"^(?:typedef\s+)?(?P<kind>struct|class|enum|union|namespace)\s+(?P<name>\w+)\s*(?::[^;{\n]*)?(?:\{.*)?$",
    r"^(?!\s|typedef|return|else|using)[\w:<>,*& ~\[\]]{1,120}?[ *&](?P<name>[\w:~]{1,80})\([^;{}]{0,400}\)"
    r"(?: const| noexcept| override){0,3}\s{0,3}(?:\{.*)?$",
)
_JAVA_LIKE: Final = (
    r"^\s*(?:(?:public|private|protected|internal|abstract|final|sealed|static|data|open|partial"
    r"|inner|case|export|default|declare|async) ){0,6}(?P<kind>class|interface|enum|record|object"
    r"|trait|struct)\s+(?P<name>\w+)",
)
_PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    "JavaScript": (
        *_JAVA_LIKE,
        r"^(?:export )?(?:default )?(?:async )?(?P<kind>function)\*? ?(?P<name>[\w$]+)",
        r"^(?:export )?(?:const|let|var) (?P<name>[\w$]+)\b[^=\n]{0,200}= ?(?:async ?)?"
        r"(?:function|\([^)\n]{0,200}\)[^=\n]{0,80}=>|\w+ ?=>)",
    ),
    "Go": (
        r"^(?P<kind>func)(?: \([^)\n]{0,100}\))? (?P<name>\w+)",
        r"^(?P<kind>type) (?P<name>\w+)",
    ),
    "Rust": (
        r"^(?:pub(?:\([\w: ]{1,40}\))? )?(?:default )?(?:async |const |unsafe |extern \"\w+\" ){0,4}"
        r"(?P<kind>fn|struct|enum|trait|union|type|macro_rules!|mod) ?(?P<name>\w+)",
        r"^(?P<kind>impl)(?:<[^>\n]{0,80}>)? (?P<name>[\w:]+(?:<[^>\n]{0,80}>)?(?: for [\w:]+)?)",
    ),
    "Kotlin": (*_JAVA_LIKE, r"^(?:\w+ ){0,4}(?P<kind>fun) (?:<[^>\n]{0,80}> )?(?P<name>[\w.]+)"),
    "Scala": (*_JAVA_LIKE, r"^\s{0,2}(?P<kind>def) (?P<name>\w+)"),
    "Swift": (
        *_JAVA_LIKE,
        r"^(?:\w+ ){0,3}(?P<kind>protocol|extension|func|actor) (?P<name>\w+)",
    ),
    "Ruby": (r"^\s{0,4}(?P<kind>class|module|def) (?P<name>[\w:.?!=]+)",),
    "PHP": (*_JAVA_LIKE, r"^(?P<kind>function) &?(?P<name>\w+)"),
    "Perl": (r"^(?P<kind>sub|package) (?P<name>[\w:]+)",),
    "Lua": (r"^(?:local )?(?P<kind>function) (?P<name>[\w.:]+)",),
    "Shell": (r"^(?:function )?(?P<name>[\w-]+) ?\(\)",),
    "SQL": (
        r"(?i)^\s*(?P<kind>create (?:or replace )?(?:table|view|function|procedure|trigger))"
        r" (?:if not exists )?(?P<name>[\w.\"]+)",
    ),
    "Zig": (r"^(?:pub )?(?P<kind>fn|const) (?P<name>\w+)",),
    "Python": (r"^(?P<kind>class|def|async def) (?P<name>\w+)",),
}
_PATTERNS["TypeScript"] = (
    *_PATTERNS["JavaScript"],
    r"^(?:export )?(?:declare )?(?P<kind>type|namespace) (?P<name>\w+)",
)
_PATTERNS["Vue"] = _PATTERNS["TypeScript"]
_PATTERNS.update(dict.fromkeys(("C", "C++", "Objective-C"), _C_LIKE))
_PATTERNS.update(dict.fromkeys(("Java", "C#", "GDScript"), _JAVA_LIKE))
_COMPILED: Final = {
    language: tuple(re.compile(pattern) for pattern in patterns)
    for language, patterns in _PATTERNS.items()
}
_MAX_PATTERN_LINE: Final = 300


def match_patterns(source: str, language: str) -> Definitions:
    """Return what the lines of a source seem to define; nothing in a language without patterns."""
    patterns = _COMPILED.get(language, ())
    found: list[Definition] = []
    for number, line in enumerate(source.split("\n"), 1):
        if not patterns or len(line) > _MAX_PATTERN_LINE or not line.strip():
            continue
        for pattern in patterns:
            match = pattern.match(line)
            if match is not None:
                kind, name = match.groupdict().get("kind") or "", match["name"]
                found.append(Definition(number, name, f"{kind} {name}".strip()))
                break
        if len(found) == MAX_DEFINITIONS:
            break
    return tuple(found)


# --- by universal-ctags -----------------------------------------------------------------------------

_CTAGS_S: Final = 5.0
_MAX_ANSWER: Final = 4_000_000

_KINDS: Final = frozenset(
    {
        *("class", "interface", "struct", "enum", "trait", "module", "function", "func", "method"),
        *(
            "type",
            "typedef",
            "union",
            "object",
            "protocol",
            "implementation",
            "macro",
            "subroutine",
        ),
        *("namespace", "procedure", "singletonMethod", "generator", "constant", "table", "view"),
        *("record", "annotation", "extension"),
    }
)
_HIDDEN: Final = frozenset({"constant", "type", "typedef", "macro"})
"""Kinds that count only on the outside: in a class they are details."""


class Ctags:
    """universal-ctags as a child process that is told files' contents and opens none itself.

    `close` ends it. One that answers wrongly or too late is ended, and finds nothing any more.
    """

    def __init__(self, program: str) -> None:
        self._child: Child | None = None
        self._rest = b""
        with suppress(OSError):
            self._child = Child(
                [program, "--options=NONE", "--_interactive=sandbox", "--fields=+nKS"],
                folder=Path("/"),
                environment={"LC_ALL": "C.UTF-8"},
                stdin=PIPED,
                stderr=DROPPED,
            )
            self._child.listen()
        said = self._answer()
        if said.get("_type") != "program" or "Universal" not in str(said.get("name")):
            self.close()

    def definitions(self, name: str, data: bytes) -> Definitions:
        """Return what a file of that name and content defines, nothing where ctags cannot say."""
        if self._child is None or (stdin := self._child.process.stdin) is None:
            return ()
        asked = {"command": "generate-tags", "filename": name, "size": len(data)}
        try:
            # It reads all of it before it answers.
            stdin.write(json.dumps(asked).encode() + b"\n" + data)
            stdin.flush()
        except OSError:
            self.close()
            return ()
        tags = []
        while (said := self._answer()).get("_type") == "tag":
            tags.append(said)
        if said.get("_type") != "completed":
            self.close()
        return _grouped(tags)

    def _answer(self) -> dict[str, object]:
        """Return the next line of what it says, {} when there is none in time."""
        child, ends_at = self._child, time.monotonic() + _CTAGS_S
        if child is None:
            return {}
        while b"\n" not in self._rest:
            is_late = time.monotonic() > ends_at
            if child.is_silent or is_late or len(self._rest) > _MAX_ANSWER:
                return {}
            child.wait(ends_at - time.monotonic())
            self._rest += child.read()
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            said = json.loads(line)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    def close(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _grouped(tags: list[dict[str, object]]) -> Definitions:
    """Return tags as definitions: what has a scope that is one is its member."""
    found: dict[str, Definition] = {}
    members: dict[str, list[str]] = {}
    for tag in tags:
        name, kind, line = str(tag.get("name", "")), str(tag.get("kind", "")), tag.get("line")
        if kind not in _KINDS or not isinstance(line, int) or not name or "__anon" in name:
            continue
        scope = re.split(r"[.:]+", str(tag.get("scope", "")))[-1]
        is_inside = tag.get("scopeKind") not in (None, "package", "namespace", "module")
        if scope and is_inside:
            if kind not in _HIDDEN:
                members.setdefault(scope, []).append(name)
            continue
        signature = " ".join(str(tag.get("signature", "")).split())
        what = f"{kind} {name}{shortened(signature, NAME_CHARS)}"
        if len(found) < MAX_DEFINITIONS:
            found.setdefault(name, Definition(line, name, what))
    return tuple(
        msgspec.structs.replace(each, members=tuple(members.get(each.name, ())[:MAX_MEMBERS]))
        for each in sorted(found.values(), key=lambda each: each.line)
    )
