"""JSON Schemas in files people write: is one a schema, and does a value beside it fit?

Only what can be said with certainty is said. A value is held against the plain keywords of a schema;
what `anyOf` and its like ask for is left to the check at run time, which knows all of them.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.names import Json, is_number, is_same
from midstream.language.problem import Report
from midstream.language.shape import shown

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")

_ONE = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
]
_LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"]
_MAPS = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"]
_NUMBERS = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"]
_COUNTS = [
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
]
_FLAGS = ["deprecated", "readOnly", "uniqueItems", "writeOnly"]
_TEXTS = [
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "description",
    "format",
    "pattern",
    "title",
]
_OTHERS = ["const", "default", "dependentRequired", "enum", "examples", "required", "type"]
KEYWORDS: Final = frozenset(
    (*_ONE, *_LISTS, *_MAPS, *_NUMBERS, *_COUNTS, *_FLAGS, *_TEXTS, *_OTHERS)
)

_NO_SCHEMA = 'expected a JSON Schema such as {"type": "string"}, found'
_BACKTRACKING = re.compile(r"\(\?<?[=!]|\\[1-9]")
_MAX_PATTERN_CHARS = 1_000
_MAX_DEPTH = 32


# --- is it a schema? ----------------------------------------------------------------------------


def check_schema(schema: Node, report: Report) -> None:
    """Report everything that keeps an object from being a JSON Schema that can be checked safely."""
    _check(schema, schema, report)


def _check(node: Node, root: Node, report: Report) -> None:
    if node.kind == "boolean":
        return
    if node.kind != "object":
        report.error(node, f"{_NO_SCHEMA} {shown(node)}.")
        return
    known = [key for key in node.members if key in KEYWORDS or key.startswith("x-")]
    if node.members and not known:
        first = clip(next(iter(node.members)))
        hint = f'Did you mean {{"type": "object", "properties": {{"{first}": ...}}}}?'
        report.warning(node, "this has no keyword of JSON Schema: every value fits it.", hint)
        return
    for key, member in node.members.items():
        value = member.node
        if key in ("unevaluatedItems", "unevaluatedProperties"):
            hint = 'Use "additionalProperties".' if key.endswith("Properties") else ""
            report.error(member, f'"{key}" is not supported in a schema.', hint)
        elif key in _ONE:
            _check(value, root, report)
        elif key in _LISTS:
            if value.kind != "array" or not value.items:
                found = "an empty one" if value.kind == "array" else shown(value)
                report.error(value, f"expected a list of schemas, found {found}.")
            for item in value.items:
                _check(item, root, report)
        elif key in _MAPS:
            if value.kind != "object":
                report.error(value, f"expected an object of schemas, found {shown(value)}.")
            for inner in value.members.values():
                _check(inner.node, root, report)
            for inner in value.members.values() if key == "patternProperties" else ():
                _check_pattern(inner.key, inner.node, report)
        elif key in KEYWORDS:
            _check_keyword(key, value, root, report)
        elif not key.startswith("x-") and (best := report.nearest(key, KEYWORDS)) is not None:
            message = f'"{clip(key)}" is no keyword of JSON Schema: it checks nothing.'
            report.warning(value, message, f'Did you mean "{best}"?')
    _check_required(node, report)


def _check_keyword(key: str, value: Node, root: Node, report: Report) -> None:
    wanted = ""
    if key == "type":
        _check_types(value, report)
    elif key == "enum":
        wanted = "" if value.kind == "array" else "a list of values"
        if value.kind == "array" and not value.items:
            report.error(value, "expected a list of values, found an empty one: nothing fits it.")
    elif key == "examples":
        wanted = "" if value.kind == "array" else "a list of values"
    elif key == "required":
        is_texts = value.kind == "array" and all(item.kind == "string" for item in value.items)
        wanted = "" if is_texts else "a list of names"
        if is_texts and len(set(value.value)) < len(value.value):
            wanted = "a list of different names"
    elif key in _NUMBERS:
        wanted = "" if value.kind == "number" else "a number"
        if key == "multipleOf" and value.kind == "number" and value.value <= 0:
            wanted = "a number above 0"
    elif key in _COUNTS:
        is_count = value.kind == "number" and value.value >= 0 and value.value == int(value.value)
        wanted = "" if is_count else "a whole number from 0"
    elif key in _FLAGS:
        wanted = "" if value.kind == "boolean" else "true or false"
    elif key in _TEXTS:
        wanted = "" if value.kind == "string" else "text"
    if wanted:
        report.error(value, f"expected {wanted}, found {shown(value)}.")
    elif key == "pattern":
        _check_pattern(value.value, value, report)
    elif key == "$ref":
        _check_reference(value, root, report)


def _check_types(value: Node, report: Report) -> None:
    named = value.items if value.kind == "array" and value.items else (value,)
    for item in named:
        if item.kind != "string" or item.value not in TYPES:
            best = report.nearest(item.value, TYPES) if item.kind == "string" else None
            message = f"expected one of {', '.join(TYPES)}, found {shown(item)}."
            report.error(item, message, f'Did you mean "{best}"?' if best else "")


def _check_pattern(pattern: str, where: Node, report: Report) -> None:
    if len(pattern) > _MAX_PATTERN_CHARS:
        report.error(where, f"the pattern is longer than {_MAX_PATTERN_CHARS} characters.")
        return
    if _BACKTRACKING.search(pattern):
        message = f'the pattern "{clip(pattern)}" looks around or back, which is not supported.'
        report.error(where, message)
        return
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        report.error(where, f'"{clip(pattern)}" is no regular expression: {clip(str(error))}.')


def _check_reference(value: Node, root: Node, report: Report) -> None:
    reference: str = value.value
    if not reference.startswith("#"):
        message = f'"{clip(reference)}" leads out of the schema: expected "#/$defs/NAME".'
        report.error(value, message)
    elif _referred(reference, root.value) is None:
        known = [f"#/{key}/{name}" for key in ("$defs", "definitions") for name in _keys(root, key)]
        message = f'the schema has nothing at "{clip(reference)}".'
        report.error(value, message, report.near(reference, known))


def _keys(root: Node, key: str) -> Iterator[str]:
    found = root.get(key)
    yield from () if found is None else found.members


def _referred(reference: str, root: Json) -> Json | None:
    """Return the part of a schema that a reference within it names; None if there is none."""
    value: Json = root
    for part in reference.removeprefix("#").removeprefix("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if name == "" and value is root:
            continue
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 6:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def _check_required(node: Node, report: Report) -> None:
    """A name that is asked for and not allowed: nothing can fit."""
    required, properties, more = (
        node.get(key) for key in ("required", "properties", "additionalProperties")
    )
    if required is None or properties is None or more is None or more.value is not False:
        return
    for name in required.items:
        is_text = name.kind == "string" and "patternProperties" not in node.members
        if is_text and name.value not in properties.members:
            message = f'"{clip(name.value)}" is required but allowed by no property.'
            report.error(name, message, report.near(name.value, properties.members))


# --- does a value fit? --------------------------------------------------------------------------


def check_value(
    value: Node, schema: Json, report: Report, *, what: str, has_templates: bool
) -> None:
    """Report where a value does not fit a schema; what a template will hold is not judged.

    `what` names the value's owner in messages, such as `the tool "shell"`.
    """
    _Fitting(schema, report, what, has_templates).check(value, schema, 0)


class _Fitting:
    def __init__(self, root: Json, report: Report, what: str, has_templates: bool) -> None:
        self.root = root
        self.report = report
        self.what = what
        self.has_templates = has_templates

    def check(self, node: Node, schema: Json, depth: int) -> None:
        if schema is False:
            self.report.error(node, f"{self.what} allows no value here.")
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or not self.is_known(node, schema):
            return
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            self.check(node, _referred(reference, self.root), depth + 1)
        if self.misses_type(node, schema.get("type")) or self.misses_choice(node, schema):
            return
        if node.kind == "object":
            self.check_object(node, schema, depth)
        elif node.kind == "array":
            self.check_array(node, schema, depth)
        elif node.kind == "number":
            self.check_range(node, node.value, schema, ("minimum", "maximum"), "")
        elif node.kind == "string" and "${" not in node.value:
            limits = ("minLength", "maxLength")
            self.check_range(node, len(node.value), schema, limits, "character")

    def is_known(self, node: Node, schema: dict[str, Json]) -> bool:
        """Return whether a value is not a lone template, which becomes any value at all."""
        if not self.has_templates or node.kind != "string":
            return True
        text: str = node.value
        return not (text.startswith("${") and text.endswith("}"))

    def misses_type(self, node: Node, wanted: Json) -> bool:
        types = wanted if isinstance(wanted, list) else [wanted]
        if wanted is None or any(_is_of(node, each) for each in types):
            return False
        named = " or ".join(str(each) for each in types)
        self.report.error(node, f"{self.what} expects {clip(named)} here, found {shown(node)}.")
        return True

    def misses_choice(self, node: Node, schema: dict[str, Json]) -> bool:
        choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
        is_open = self.has_templates and node.kind == "string" and "${" in node.value
        if not isinstance(choices, list) or is_open:
            return False
        if any(is_same(node.value, choice) for choice in choices):
            return False
        texts = [choice for choice in choices if isinstance(choice, str)]
        hint = self.report.near(node.value, texts) if node.kind == "string" else ""
        message = f"{self.what} expects one of its {len(choices)} choices, found {shown(node)}."
        if len(choices) == 1:
            message = f"{self.what} expects one certain value here, found {shown(node)}."
        self.report.error(node, message, hint)
        return True

    def check_object(self, node: Node, schema: dict[str, Json], depth: int) -> None:
        properties = schema.get("properties")
        known: Mapping[str, Json] = properties if isinstance(properties, dict) else {}
        more = schema.get("additionalProperties", True)
        for key, member in node.members.items():
            if key in known:
                self.check(member.node, known[key], depth + 1)
            elif more is False and "patternProperties" not in schema:
                unused = [name for name in known if name not in node.members]
                hint = self.report.near(key, unused)
                self.report.error(member, f'{self.what} knows no "{clip(key)}".', hint)
            elif isinstance(more, dict) and "patternProperties" not in schema:
                self.check(member.node, more, depth + 1)
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in node.members:
                self.report.error(node, f'{self.what} needs "{clip(name)}".')

    def check_array(self, node: Node, schema: dict[str, Json], depth: int) -> None:
        items = schema.get("items")
        for item in node.items if "prefixItems" not in schema else ():
            self.check(item, items, depth + 1)
        self.check_range(node, len(node.items), schema, ("minItems", "maxItems"), "item")

    def check_range(
        self, node: Node, size: float, schema: dict[str, Json], keys: tuple[str, str], unit: str
    ) -> None:
        least, most = (_bound(schema.get(key)) for key in keys)
        if least is not None and size < least:
            wanted = f"at least {_counted(least, unit)}"
            self.report.error(node, f"{self.what} expects {wanted}, found {size}.")
        if most is not None and size > most:
            wanted = f"at most {_counted(most, unit)}"
            self.report.error(node, f"{self.what} expects {wanted}, found {size}.")


def _counted(number: float, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}" if unit else str(number)


def _bound(value: Json) -> float | None:
    return value if is_number(value) and math.isfinite(value) else None


def _is_of(node: Node, wanted: Json) -> bool:
    if wanted == "integer":
        return node.kind == "number" and node.value == int(node.value)
    return wanted not in TYPES or bool(node.kind == wanted)
