"""Values against JSON Schemas, when both may be hostile.

A schema may come from a model, an MCP server or a stranger's file. Left to itself, a validator then
fetches what `$ref` names, follows a reference for ever, multiplies `allOf` by itself, or hangs in a
regular expression, holding the interpreter so that no timeout can help. Here references stay inside
the schema, every step is counted, and patterns run on pydantic-core's linear-time engine, which has
neither backtracking nor what needs it (look-around, back references).
"""

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from midstream.language.names import Json
from midstream.system.own_process import beginning, ending

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError, ValidationError

MAX_STEPS: Final = 50_000
"""Keywords looked at for one value: about half a second of work."""
MAX_DEPTH: Final = 64
MAX_SCHEMA_NODES: Final = 10_000
MAX_VALUE_NODES: Final = 100_000
MAX_UNIQUE_ITEMS: Final = 1_000
MAX_PATTERN_CHARS: Final = 1_000
MAX_PROBLEMS: Final = 100
SHOWN_PROBLEMS: Final = 3
SHOWN_CHARS: Final = 300

Keyword = Callable[..., Iterable[Any]]


class _Refused(Exception):
    """The check cannot be done safely; the message says why."""


def validate(value: Json, schema: dict[str, Json]) -> str:
    """Return why the value does not fit the schema, "" when it does. Never raises, never hangs.

    A schema that is no JSON Schema, points outside itself or cannot be checked safely fits nothing,
    and the message says so. The first call imports jsonschema: tens of milliseconds, so call it off
    the loop.
    """
    try:
        _steps_left.set([MAX_STEPS])
        validator = _validator(msgspec.json.encode(schema))
        if _is_too_big(value, MAX_VALUE_NODES):
            return "the value is too large or too deeply nested to be checked"
        problems = sorted(islice(validator(value), MAX_PROBLEMS), key=_place)
        return "; ".join(_words(problem) for problem in problems[:SHOWN_PROBLEMS])
    except _Refused as error:
        return str(error)
    except RecursionError:
        return "the schema refers to itself without end"
    except Exception as error:
        return f"the schema cannot be used: {_short(str(error))}"


def _place(problem: "ValidationError") -> list[str]:
    return [str(part) for part in problem.absolute_path]


def _words(problem: "ValidationError | SchemaError") -> str:
    path = problem.json_path
    message = _short(problem.message)
    if problem.validator in ("anyOf", "oneOf") and problem.context:
        reasons = {_short(part.message) for part in problem.context}
        message = f"{message} ({' / '.join(sorted(reasons)[:SHOWN_PROBLEMS])})"
    return message if path == "$" else f"at {path}: {message}"


def _short(message: str) -> str:
    if len(message) <= SHOWN_CHARS:
        return message
    half = SHOWN_CHARS // 2
    return f"{beginning(message, half)} ... {ending(message, half)}"


def _is_too_big(value: Json, max_nodes: int) -> bool:
    """Return whether a value nests or counts more than a recursive walk should be given."""
    waiting: list[tuple[Json, int]] = [(value, 1)]
    seen = 0
    while waiting:
        item, depth = waiting.pop()
        seen += 1
        if seen > max_nodes or depth > MAX_DEPTH:
            return True
        children = item.values() if isinstance(item, dict) else item
        if isinstance(item, (dict, list, tuple)):
            waiting.extend((child, depth + 1) for child in children)
    return False


@lru_cache(maxsize=128)
def _validator(encoded: bytes) -> Callable[[Json], Iterator["ValidationError"]]:
    from jsonschema.exceptions import SchemaError
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    schema = msgspec.json.decode(encoded)
    if not isinstance(schema, dict) or _is_too_big(schema, MAX_SCHEMA_NODES):
        raise _Refused("the schema is no object, too large or too deeply nested")
    kind = _kind()
    try:
        # Without the format checker: it would hand foreign patterns to `re`.
        kind.check_schema(schema, format_checker=None)
    except SchemaError as error:
        raise _Refused(f"the schema is no JSON Schema: {_words(error)}") from error

    checks: Callable[[Json], Iterator[ValidationError]]
    checks = kind(schema, registry=REGISTRY).iter_errors
    return checks


# The count belongs to one check, and checks run in threads: a context variable is each one's own.
_steps_left: ContextVar[list[int]] = ContextVar("steps_left")


def _counted(keyword: Keyword) -> Keyword:
    """Return a keyword that counts itself, so that a small schema cannot be made endless work."""

    def check(validator: Any, value: Json, instance: Json, schema: Json) -> Iterable[Any]:
        left = _steps_left.get()
        left[0] -= 1
        if left[0] < 0:
            raise _Refused("the schema asks for more work than a check may take")
        return keyword(validator, value, instance, schema) or ()

    return check


@lru_cache(maxsize=1)
def _kind() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    ours: dict[str, Keyword] = dict(Draft202012Validator.VALIDATORS)
    ours["pattern"] = _pattern
    ours["patternProperties"] = _pattern_properties
    ours["additionalProperties"] = _additional_properties
    ours["unevaluatedProperties"] = _unevaluated_properties
    ours["uniqueItems"] = _unique_items(ours["uniqueItems"])
    counted = {name: _counted(keyword) for name, keyword in ours.items()}
    return extend(Draft202012Validator, counted)  # type: ignore[no-untyped-call]


# --- keywords with regular expressions ----------------------------------------------------------


@lru_cache(maxsize=128)
def _searcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether text holds a match, in time linear in the text."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if len(pattern) > MAX_PATTERN_CHARS:
        raise _Refused(f"a pattern of the schema is longer than {MAX_PATTERN_CHARS} characters")
    try:
        engine = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        reason = str(error).rstrip().rsplit("\n", 1)[-1]
        raise _Refused(f"the pattern {pattern!r} cannot be checked: {reason}") from error
    return engine.isinstance_python


def _pattern(validator: Any, pattern: str, instance: Json, schema: Json) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and not _searcher(pattern)(instance):
        yield ValidationError(f"{_short(repr(instance))} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Json], instance: Json, schema: Json
) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if _searcher(pattern)(key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: Json, instance: Json, schema: dict[str, Json]
) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    extras = [
        key
        for key in instance
        if key not in known and not any(_searcher(pattern)(key) for pattern in patterns)
    ]
    if isinstance(allowed, dict):
        for key in extras:
            yield from validator.descend(instance[key], allowed, path=key)
    elif not allowed and extras:
        names = ", ".join(repr(key) for key in sorted(extras))
        there = f"; there are: {', '.join(known)}" if known else ""
        yield ValidationError(f"unknown property {names}{there}")


def _unevaluated_properties(
    validator: Any, allowed: Json, instance: Json, schema: Json
) -> Iterator[Any]:
    raise _Refused("unevaluatedProperties is not supported: use additionalProperties")


def _unique_items(keyword: Keyword) -> Keyword:
    def check(validator: Any, wanted: Json, instance: Json, schema: Json) -> Iterable[Any]:
        # Items that cannot be sorted are compared each with each.
        if wanted and isinstance(instance, list) and len(instance) > MAX_UNIQUE_ITEMS:
            raise _Refused(f"uniqueItems is checked for {MAX_UNIQUE_ITEMS} items at most")
        return keyword(validator, wanted, instance, schema) or ()

    return check
