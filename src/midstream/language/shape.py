"""Does a value read from a file have the shape of a type? Every misfit, each where it stands.

The types of `midstream.language.spec` are the file format, so they are what a file is checked against:
a key added to a type is a key the file may have, and the two cannot drift apart.
"""

from collections.abc import Iterable
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, replace

from midstream.language.errors import clip
from midstream.language.json_text import Kind, Node, parse
from midstream.language.names import Json
from midstream.language.problem import Report

_MAX_KEYS = 9


def read_file(text: str, file: str) -> tuple[Node | None, Report]:
    """Return the root of a file's text, `$schema` left out, and a report of what is wrong with it.

    None: reading had to be given up. With a flaw that was read over there are both.
    """
    parsed = parse(text)
    root = None if parsed.root is None else without_schema(parsed.root)
    return root, Report(file, parsed.flaws)


def without_schema(root: Node) -> Node:
    """Return a file's root without `$schema`, which tells editors something and us nothing."""
    if "$schema" not in root.members:
        return root
    members = {key: member for key, member in root.members.items() if key != "$schema"}
    value = {key: value for key, value in root.value.items() if key != "$schema"}
    return replace(root, members=members, value=value)


def fit(node: Node, wanted: Any, report: Report) -> bool:
    """Report every way a value is not of the type `wanted`; return whether it is.

    Knows what file types are made of: str, int, float, bool, None, Any, Literal, tuple[X, ...],
    dict[str, X], structs, and unions of these that the kind of the value tells apart.
    """
    if wanted is Any:
        return True
    if get_origin(wanted) in (Union, UnionType):
        return _fit_union(node, wanted, report)
    if get_origin(wanted) is Literal:
        return _fit_choice(node, wanted, wanted, report)
    if get_origin(wanted) is tuple and node.kind == "array":
        return _all_fit(node.items, get_args(wanted)[0], report)
    if get_origin(wanted) is dict and node.kind == "object":
        values = (member.node for member in node.members.values())
        return _all_fit(values, get_args(wanted)[1], report)
    if _is_struct(wanted) and node.kind == "object":
        return _fit_struct(node, wanted, report)
    return _is_plain(node, wanted) or _misfit(node, wanted, report)


def _all_fit(nodes: Iterable[Node], wanted: Any, report: Report) -> bool:
    fits = True
    for node in nodes:
        fits &= fit(node, wanted, report)
    return fits


def _is_plain(node: Node, wanted: Any) -> bool:
    if wanted is int:
        return node.kind == "number" and isinstance(node.value, int)
    kinds = {str: "string", float: "number", bool: "boolean", NoneType: "null"}
    return kinds.get(wanted) == node.kind


def _fit_union(node: Node, wanted: Any, report: Report) -> bool:
    """Report what a value lacks to be of the one part of a union that its kind points at."""
    parts = get_args(wanted)
    if node.kind == "null" and NoneType in parts:
        return True
    meant = [part for part in parts if _kind_of(part) == node.kind]
    if not meant:
        return _misfit(node, wanted, report)
    if get_origin(meant[0]) is Literal:
        return _fit_choice(node, meant[0], wanted, report)
    return fit(node, meant[0], report)


def _kind_of(wanted: Any) -> Kind | None:
    """Return the kind of JSON value a type without a union is written as."""
    origin = get_origin(wanted)
    if origin is Literal or wanted is str:
        return "string"
    if origin is tuple:
        return "array"
    if wanted in (int, float):
        return "number"
    return "boolean" if wanted is bool else None if wanted is NoneType else "object"


_SAID_FOR = {
    "if": ("when",),
    "condition": ("when",),
    "goto": ("to",),
    "target": ("to",),
    "state": ("to",),
    "next": ("to",),
    "prompt": ("question",),
    "text": ("question",),
    "options": ("choices",),
    "output": ("save_as", "input"),
    "dollars": ("usd",),
    "cost": ("usd",),
    "attempts": ("max_attempts",),
    "retries": ("retry",),
    "errors": ("on",),
    "kind": ("on",),
    "body": ("states",),
    "steps": ("states",),
    "in": ("items",),
    "list": ("items",),
}
"""What other languages call a key, and what it may be here."""


def _misfit(node: Node, wanted: Any, report: Report) -> bool:
    report.error(node, f"expected {in_words(wanted)}, found {shown(node)}.", _way_out(node, wanted))
    return False


def _way_out(node: Node, wanted: Any) -> str:
    """Return how to write what was meant: in a list, or with the keys an object may have."""
    parts = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    for part in parts:
        if get_origin(part) is tuple:
            inner = get_args(part)[0]
            if node.kind == "string" and _kind_of(inner) == "string":
                return f"Write [{shown(node)}]."
            if node.kind == "object" and _is_struct(inner) and node.members.keys() & _fields(inner):
                return "Put it into a list: [{...}]."
        elif _is_struct(part) and node.kind != "null" and len(_fields(part)) <= _MAX_KEYS:
            return f"Its keys: {', '.join(_fields(part))}."
    return ""


def _is_struct(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)


def _fit_choice(node: Node, choice: Any, wanted: Any, report: Report) -> bool:
    """Report text that is none of the choices of a Literal, which may be part of what is wanted."""
    choices = get_args(choice)
    if node.kind == "string" and node.value in choices:
        return True
    hint = report.near(node.value, choices) if node.kind == "string" else ""
    is_listed = hint.startswith("There are")
    message = f"expected {in_words(wanted)}, found {shown(node)}."
    report.error(node, message, "" if is_listed else hint)
    return False


def _fit_struct(node: Node, wanted: type[msgspec.Struct], report: Report) -> bool:
    fields = _fields(wanted)
    fits = True
    for key, member in node.members.items():
        if key in fields:
            fits &= fit(member.node, fields[key].type, report)
        else:
            unused = [name for name in fields if name not in node.members]
            meant = [name for name in _SAID_FOR.get(key, ()) if name in unused]
            said = " or ".join(f'"{name}"' for name in meant)
            hint = f"Did you mean {said}?" if meant else report.near(key, unused)
            report.error(member, f'unknown key "{clip(key)}".', hint)
            fits = False
    for key, field in fields.items():
        if field.required and key not in node.members:
            report.error(node, f'the key "{key}" is missing: expected {in_words(field.type)}.')
            fits = False
    return fits


@lru_cache(maxsize=128)
def _fields(wanted: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(wanted)}


def in_words(wanted: Any) -> str:
    """Return what a type is called in a message to a person, such as `a list of objects`."""
    plain = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if wanted in plain:
        return plain[wanted]
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        parts = [part for part in get_args(wanted) if part is not NoneType]
        return " or ".join(dict.fromkeys(map(in_words, parts)))
    if origin is Literal:
        return _one_of(get_args(wanted))
    if origin is tuple:
        return f"a list of {_many(get_args(wanted)[0])}"
    return "an object {...}"


def _many(wanted: Any) -> str:
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_many, get_args(wanted))))
    return "texts" if _kind_of(wanted) == "string" else "objects"


def _one_of(choices: tuple[Json, ...]) -> str:
    quoted = [f'"{choice}"' for choice in choices]
    return " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"


def shown(node: Node) -> str:
    """Return a value as a message shows it: short values as they are, the rest by their kind."""
    match node.kind:
        case "object":
            return "an object {...}"
        case "array":
            return "a list [...]"
        case "string":
            return f'"{clip(node.value)}"'
        case "boolean" | "null" | "number":
            return msgspec.json.encode(node.value).decode()
