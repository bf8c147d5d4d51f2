"""A form filled in one field at a time: where it stands, what it holds, what does not fit. No IO.

    kind › bug          each line is one field's value, checked when it is entered
    severity ›          Up goes back, with what stood there; Esc leaves, everything kept
    send it? ›          the last step shows the whole

What is checked here is what can be said of one field in plain words. The whole is checked once more
where every answer is, against the whole schema; why it does not fit comes back as `problem`.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias

import msgspec

from midstream.core.question import Question
from midstream.core.run_data import as_text
from midstream.language.errors import BadText
from midstream.language.forms import MAX_FIELDS, Field, example, fields, read_form
from midstream.language.names import Json
from midstream.tui.choice_list import Choosing, choices_in

_Spec: TypeAlias = dict[str, Json]

_MAX_VALUE: Final = 100_000
"""Characters of a line that is read as a value other than a text."""

_MAX_COST: Final = 20_000
_MAX_DEPTH: Final = 8

EMPTY_TEXT: Final = '""'
"""What stands for a text without characters: an empty line leaves a field out."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form under the keys. `at` is the field being filled in, their number at the last look.

    `question` and `number` say which question it answers. `values` are those that fit, by name; `drafts`
    lines that were left before they were entered. `problem` says why the last line did not fit, "" if it
    did. Never changed in place.
    """

    question: str
    number: int
    asked: tuple[Field, ...]
    specs: dict[str, _Spec]
    at: int = 0
    values: dict[str, Json] = {}
    drafts: dict[str, str] = {}
    problem: str = ""

    @property
    def field(self) -> Field | None:
        """Return the field being filled in, None at the last look."""
        return self.asked[self.at] if self.at < len(self.asked) else None

    @property
    def spec(self) -> _Spec:
        """Return the part of the schema the field is checked against."""
        return {} if self.field is None else self.specs[self.field.name]

    @property
    def default(self) -> str:
        """Return what an empty line stands for, as a person would write it, and briefly."""
        return _short(_shown(self.spec.get("default"), self.spec))

    @property
    def choices(self) -> Choosing | None:
        """Return the list the field is chosen from, with what it holds marked; None for no list."""
        found = choices_in(self.spec)
        if found is None or self.field is None or self.field.name not in self.values:
            return found
        held = self.values[self.field.name]
        if not found.many:
            at = next((n for n, o in enumerate(found.options) if same(o.value, held)), None)
            return msgspec.structs.replace(found, at=at)
        wanted = held if isinstance(held, list) else []
        picked = frozenset(
            n for n, o in enumerate(found.options) if any(same(o.value, w) for w in wanted)
        )
        return msgspec.structs.replace(found, picked=picked)

    @property
    def line(self) -> str:
        """Return what stands in the editor when the field is come to: its draft, else its value."""
        field = self.field
        if field is None:
            return ""
        if field.name in self.drafts:
            return self.drafts[field.name]
        if field.name not in self.values or choices_in(self.spec) is not None:
            return ""
        return _written(self.values[field.name], self.spec)

    def held(self, field: Field) -> str:
        """Return what a field holds, as a person would write it."""
        return _shown(self.values[field.name], self.specs[field.name])

    @property
    def is_touched(self) -> bool:
        """Return whether something was filled in that would be missed."""
        return bool(self.values or any(map(str.strip, self.drafts.values())))

    def entered(self, line: str) -> "Form":
        """Return the form after a line was entered: at the next field, or with why it does not fit.

        An empty line takes what the field holds, else its default, else leaves it out.
        """
        field = self.field
        if field is None:
            return self
        if not line.strip():
            return self._passed(field)
        value, problem = read_value(line, self.spec)
        return self._with(field, value) if not problem else self._refused(problem, line)

    def chose(self, value: Json) -> "Form":
        """Return the form after a choice was taken for the field."""
        if self.field is None:
            return self
        problem = misfit(value, self.spec)
        return self._refused(problem, "") if problem else self._with(self.field, value)

    def back(self, line: str) -> "Form":
        """Return the form at the field before, with the line kept as this one's draft."""
        return msgspec.structs.replace(self.left(line), at=max(0, self.at - 1), problem="")

    def forth(self, line: str) -> "Form":
        """Return the form at the next field if this one may be left as it is, with the line entered."""
        return self if self.field is None else self.entered(line)

    def left(self, line: str) -> "Form":
        """Return the form with the line kept as the field's draft, to be gone on with later."""
        field = self.field
        if field is None or line == self.line:
            return self
        drafts = {name: text for name, text in self.drafts.items() if name != field.name}
        if line.strip():
            drafts[field.name] = line
        return msgspec.structs.replace(self, drafts=drafts)

    def refused(self, reason: str) -> "Form":
        """Return the form with why the whole does not fit, at the first field that is named there."""
        named = next(
            (n for n, field in enumerate(self.asked) if f"$.{field.name}:" in f"{reason}:"), self.at
        )
        return msgspec.structs.replace(self, problem=reason, at=named)

    def one_line(self) -> str:
        """Return what was filled in as a line that says it, such as `kind=bug severity=low`."""
        held = {f.name: self.held(f) for f in self.asked if f.name in self.values}
        held |= {name: text for name, text in self.drafts.items() if name not in held}
        order = [field.name for field in self.asked if field.name in held]
        return " ".join(f"{name}={held[name]}" for name in order)

    def _passed(self, field: Field) -> "Form":
        if field.name in self.values:
            return self._on()
        if "default" in self.spec:
            return self.chose(self.spec["default"])
        if field.is_required:
            way = f" ({EMPTY_TEXT} is an empty text)" if _types(self.spec) == ("string",) else ""
            return self._refused(f"{field.name} has to be filled in{way}", "")
        return self._on()

    def _with(self, field: Field, value: Json) -> "Form":
        values = {**self.values, field.name: value}
        return msgspec.structs.replace(self, values=values)._on()

    def _on(self) -> "Form":
        name = self.asked[self.at].name
        drafts = {key: text for key, text in self.drafts.items() if key != name}
        return msgspec.structs.replace(self, at=self.at + 1, drafts=drafts, problem="")

    def _refused(self, problem: str, line: str) -> "Form":
        return msgspec.structs.replace(self.left(line) if line else self, problem=problem)


def form_of(question: Question) -> Form | None:
    """Return the form a question is answered by, None where it asks for no named parts."""
    if question.kind != "question" or question.schema is None:
        return None
    asked = fields(question.schema)
    if not 0 < len(asked) <= MAX_FIELDS:
        return None
    properties = question.schema["properties"]
    specs = {
        field.name: spec if isinstance(spec := properties[field.name], dict) else {}
        for field in asked
    }
    return Form(question=question.id, number=question.number, asked=asked, specs=specs)


# --- one field ----------------------------------------------------------------------------------


def read_value(line: str, spec: _Spec) -> tuple[Json, str]:
    """Return the value a line stands for, and why it does not fit ("": it does)."""
    choices = choices_in(spec)
    if choices is not None:
        meant = choices.meant(line)
        if meant.is_made:
            return meant.value, misfit(meant.value, spec)
        return None, _no_choice(line, choices)
    kinds = _types(spec)
    if "string" in kinds or not kinds:
        text = "" if line.strip() == EMPTY_TEXT else line
        if kinds == ("string",):
            return text, misfit(text, spec)
    if "object" in kinds and (found := read_form(line, spec, is_part=True)) is not None:
        return found, misfit(found, spec)
    if len(line) <= _MAX_VALUE:
        try:
            value = msgspec.json.decode(line.strip().encode())
            if not (problem := misfit(value, spec)):
                return value, ""
        except (msgspec.DecodeError, ValueError, RecursionError, UnicodeEncodeError):
            problem = ""
        if "string" not in kinds and kinds:
            listed = _listed(line, spec)
            if listed is not None:
                return listed, misfit(listed, spec)
            way = f": write {example(parts)}" if (parts := fields(spec)) else ""
            return None, problem or f"{_short(line)} is not {_wanted(kinds)}{way}"
    return line, misfit(line, spec)


def misfit(value: Json, spec: _Spec, depth: int = 0) -> str:
    """Return why a value does not fit the plain keywords of a schema, "" if it does.

    What is `depth` levels further in than a person writes is left to the check of the whole.
    """
    if depth > _MAX_DEPTH:
        return ""
    kinds = _types(spec)
    if kinds and not any(_is_of(value, kind) for kind in kinds):
        return f"{_short(as_text(value))} is not {_wanted(kinds)}"
    if isinstance(spec.get("enum"), list) and not any(same(value, one) for one in spec["enum"]):
        return f"{_short(as_text(value))} is none of {_short(as_text(spec['enum']))}"
    if "const" in spec and not same(value, spec["const"]):
        return f"only {_short(as_text(spec['const']))} fits"
    for limit in _LIMITS:
        bound = _number(spec, limit.keyword)
        if bound is None or not _is_of(value, limit.kind):
            continue
        size: Any = value if limit.kind == "number" else len(value)
        if not limit.fits(size, bound):
            unit = limit.one if bound == 1 else limit.many
            counted = f"{bound:g} {unit}, not {size}" if unit else as_text(spec[limit.keyword])
            return f"{limit.words} {counted}"
    if isinstance(value, str):
        return _pattern_misfit(value, spec)
    if isinstance(value, list) and isinstance(items := spec.get("items"), dict):
        found = (misfit(item, items, depth + 1) for item in value)
        return next(filter(None, found), "")
    return _object_misfit(value, spec, depth) if isinstance(value, dict) else ""


class _Limit(msgspec.Struct, frozen=True):
    """A keyword with a number that a value of a kind, or its length in units, is held to."""

    keyword: str
    kind: str
    words: str
    fits: Callable[[Any, Any], bool]
    one: str = ""
    many: str = ""


def _is_multiple(value: float, step: float) -> bool:
    """Return whether a number fits a step; what is no whole number is left to the check of the whole."""
    is_whole = isinstance(value, int) and isinstance(step, int) and step > 0
    return not is_whole or value % step == 0


_LIMITS: Final = (
    _Limit("minLength", "string", "at least", operator.ge, "character", "characters"),
    _Limit("maxLength", "string", "at most", operator.le, "character", "characters"),
    _Limit("minItems", "array", "at least", operator.ge, "of them", "of them"),
    _Limit("maxItems", "array", "at most", operator.le, "of them", "of them"),
    _Limit("minimum", "number", "at least", operator.ge),
    _Limit("maximum", "number", "at most", operator.le),
    _Limit("exclusiveMinimum", "number", "more than", operator.gt),
    _Limit("exclusiveMaximum", "number", "less than", operator.lt),
    _Limit("multipleOf", "number", "a multiple of", _is_multiple),
)


def _pattern_misfit(text: str, spec: _Spec) -> str:
    pattern = spec.get("pattern")
    if not isinstance(pattern, str) or _may_match(pattern, text):
        return ""
    example = spec.get("description")
    hint = f": {_short(example)}" if isinstance(example, str) else ""
    return f"it has to match {_short(pattern)}{hint}"


def _object_misfit(value: Mapping[str, Json], spec: _Spec, depth: int) -> str:
    parts = fields(spec)
    for part in parts:
        if part.is_required and part.name not in value:
            return f"{part.name} is missing: {part.wants}"
    properties = spec["properties"] if parts else {}
    for name, held in value.items():
        own = properties.get(name)
        if isinstance(own, dict) and (problem := misfit(held, own, depth + 1)):
            return f"{name}: {problem}"
        if name not in properties and spec.get("additionalProperties") is False:
            return f"there is no {_short(name)}"
    return ""


def _may_match(pattern: str, text: str) -> bool:
    """Return whether a text matches, or cannot be looked at here; the whole is checked once more."""
    from midstream.language.patterns import compiled  # not before there is a form with a pattern

    try:
        wanted = compiled(pattern)
    except BadText:
        return True
    return wanted.cost(text) > _MAX_COST or wanted.is_in(text)


def _types(spec: _Spec) -> tuple[str, ...]:
    kind = spec.get("type")
    if isinstance(kind, str):
        return (kind,)
    return tuple(one for one in kind if isinstance(one, str)) if isinstance(kind, list) else ()


def _is_of(value: Json, kind: str) -> bool:
    if kind not in _KINDS:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    is_whole = isinstance(value, float) and value.is_integer()
    return isinstance(value, _KINDS[kind][1]) or (kind == "integer" and is_whole)


def same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are the same one: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


_KINDS: Final[Mapping[str, tuple[str, type | UnionType]]] = {
    "string": ("a text", str),
    "integer": ("a whole number", int),
    "number": ("a number", int | float),
    "boolean": ("yes or no", bool),
    "array": ("a list", list),
    "object": ("an object", dict),
    "null": ("null", NoneType),
}
"""What each type is called, and what a value of it is here."""


def _wanted(kinds: Sequence[str]) -> str:
    return " or ".join(_KINDS[kind][0] if kind in _KINDS else kind for kind in kinds)


def _no_choice(line: str, choices: Choosing) -> str:
    labels = [option.label for option in choices.options]
    listed = ", ".join(f"{number} {label}" for number, label in enumerate(labels[:8], 1))
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return f"{_short(line)} is not one of the choices: {listed}{more}"


def _listed(line: str, spec: _Spec) -> list[Json] | None:
    """Return the list a line of items with commas stands for, None where no list is wanted."""
    if "array" not in _types(spec) or line.lstrip()[:1] in ("[", "{"):
        return None
    items = spec.get("items")
    found = []
    for part in line.split(","):
        if part.strip():
            value, problem = read_value(part.strip(), items if isinstance(items, dict) else {})
            found.append(part.strip() if problem else value)
    return found


def _written(value: Json, spec: _Spec) -> str:
    if value == "":
        return EMPTY_TEXT
    if isinstance(value, list) and all(isinstance(item, str) and "," not in item for item in value):
        return ", ".join(value) if value else "[]"
    # Where text and other things fit, a text that looks like one of those keeps its quotes.
    is_plain = not isinstance(value, str) or read_value(value, spec)[0] == value
    return as_text(value) if is_plain else msgspec.json.encode(value).decode()


def _shown(value: Json, spec: _Spec) -> str:
    if isinstance(value, bool) and choices_in(spec) is not None and "enum" not in spec:
        return "yes" if value else "no"
    return _written(value, spec)


def _number(spec: _Spec, key: str) -> float | None:
    found = spec.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if math.isfinite(found) else None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:59]}…"
