"""Text with places to fill: `${path}` and `${path?default}`.

Filling is one pass: what is put in is never read again, so words of a user, a model or a file cannot
ask for more. `$${` writes `${`. A default is plain text, without places of its own; it stands where
the path leads nowhere or to null, and may hold braces in pairs. A value that is text goes in as it
is, any other as compact JSON.

Paths begin with one of `ROOTS`; parts stand between dots, list items by number, from 0.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from midstream.language.data_paths import Missing, hint_for
from midstream.language.errors import BadText, TextFailed, clip, did_you_mean
from midstream.language.names import Json

ROOTS: Final = (
    "common_data",
    "input",
    "last",
    "last_response",
    "resume_input",
    "variables",
    "visits",
)
"""What a path may begin with."""

MAX_CHARS: Final = 200_000
"""Characters of one template."""

MAX_FILLED_CHARS: Final = 2_000_000
"""Characters a template may come to."""

MAX_DEPTH: Final = 64
"""How deep in a JSON value a template may stand."""

MAX_PARTS: Final = MAX_DEPTH + 1
"""Parts of a path, its root included: no value is nested deeper."""

LookUp: TypeAlias = Callable[[str], Json | Missing]
"""Returns the value at a path, `Missing()` where it leads nowhere."""


class BadTemplate(BadText):
    """A text is no template."""


class TemplateFailed(TextFailed):
    """A template cannot be filled with what the run has."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place to fill. `column` is where its `${` stands, from 1; without default it is None."""

    path: str
    default: str | None = None
    column: int = 1


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A text in parts: what stays as it is, and the places to fill."""

    parts: tuple[str | Place, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        """Return the places, in order."""
        return tuple(part for part in self.parts if isinstance(part, Place))

    @property
    def is_value(self) -> bool:
        """Return whether the text is one place and nothing else, so that `fill` keeps its type."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Place)

    def fill(self, look_up: LookUp) -> Json:
        """Return the text filled; of one lone place the value itself, whatever its type.

        Raises:
            TemplateFailed: a path without default leads nowhere, or the text grows too long.
        """
        if self.is_value:
            return _value(self.places[0], look_up)
        return self.text(look_up)

    def text(self, look_up: LookUp) -> str:
        """Return the text filled, as text even where it is one lone place: what a prompt needs.

        Raises:
            TemplateFailed: as for `fill`.
        """
        pieces: list[str] = []
        room = MAX_FILLED_CHARS
        for part in self.parts:
            piece = part if isinstance(part, str) else _as_text(part, _value(part, look_up))
            room -= len(piece)
            if room < 0:
                raise TemplateFailed(
                    f"The filled text is longer than {MAX_FILLED_CHARS:,} characters.",
                    "Put in less: a path to a part of the value.",
                )
            pieces.append(piece)
        return "".join(pieces)


@lru_cache(maxsize=2048)
def compiled(text: str) -> Template:
    """Return the text as a template; remembered, so that asking again is free.

    Raises:
        BadTemplate: a place is not closed, is empty, or begins with an unknown name.
    """
    if len(text) > MAX_CHARS:
        raise BadTemplate(f"A template may have {MAX_CHARS:,} characters, not {len(text):,}.")
    half = _HALF_PAIR.search(text)
    if half is not None:
        raise BadTemplate("Half a surrogate pair is no character.", column=half.start() + 1)
    parts: list[str | Place] = []
    plain: list[str] = []
    at = 0
    for mark in _MARK.finditer(text):
        plain.append(text[at : mark.start()])
        if mark.group() == "$${":
            plain.append("${")
            at = mark.end()
            continue
        end = _end_of(text, mark.end())
        if plain := [piece for piece in plain if piece]:
            parts.append("".join(plain))
        plain = []
        parts.append(_place(text[mark.end() : end], mark.start() + 1))
        at = end + 1
    plain.append(text[at:])
    if rest := "".join(plain):
        parts.append(rest)
    return Template(parts=tuple(parts))


def filled(value: Json, look_up: LookUp) -> Json:
    """Return a JSON value with each string in it filled; keys of objects stay as they are.

    Raises:
        BadTemplate: a string is no template.
        TemplateFailed: as for `Template.fill`.
    """
    return _filled(value, look_up, 0)


_MARK = re.compile(r"\$\$\{|\$\{")
_BRACE = re.compile(r"[{}]")
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
_NO_PART = re.compile(r"[\x00-\x1f\x7f{}\[\]$\"'`]")


def _filled(value: Json, look_up: LookUp, depth: int) -> Json:
    if isinstance(value, str):
        return compiled(value).fill(look_up)
    if not isinstance(value, dict | list):
        return value
    if depth >= MAX_DEPTH:
        raise TemplateFailed(f"A value is nested more than {MAX_DEPTH} deep.")
    if isinstance(value, list):
        return [_filled(item, look_up, depth + 1) for item in value]
    return {key: _filled(item, look_up, depth + 1) for key, item in value.items()}


def _end_of(text: str, start: int) -> int:
    """Return where the `}` stands that closes a place whose inside begins at `start`."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        if brace.group() == "{":
            depth += 1
        elif depth:
            depth -= 1
        else:
            return brace.start()
    raise BadTemplate(
        'A "${" is not closed.', 'Close it with "}", or write "$${" for the characters.', start - 1
    )


def _place(inside: str, column: int) -> Place:
    path, mark, default = inside.partition("?")
    path = path.strip()
    if not path:
        hint = (
            f'Name what to put in, such as ${{input}}, or write "$${{" for the characters. {_LIST}'
        )
        raise BadTemplate('A "${}" is empty.', hint, column)
    shown = clip(path)
    root, *rest = path.split(".")
    if root not in ROOTS:
        name = _NO_PART.split(root)[0].strip()[:100]
        hint = _LIST if name in ROOTS else did_you_mean(name, ROOTS)
        hint = f"Write .0 instead of [0]. {hint}" if "[" in root else hint
        raise BadTemplate(f"${{{shown}}} does not begin with a name that is known.", hint, column)
    if len(rest) >= MAX_PARTS:
        raise BadTemplate(f"${{{shown}}} has more than {MAX_PARTS} parts.", column=column)
    for part in rest:
        if not part.strip() or _NO_PART.search(part):
            hint = (
                "Separate parts with dots, and give list items by number: ${common_data.files.0}."
            )
            raise BadTemplate(f"${{{shown}}} is no path.", hint, column)
    if "${" in default:
        raise BadTemplate(
            f"The default of ${{{shown}}} contains a variable itself.",
            "A default is plain text.",
            column,
        )
    return Place(path=path, default=default if mark else None, column=column)


_LIST = f"There are: {', '.join(ROOTS)}."


def _value(place: Place, look_up: LookUp) -> Json:
    value = look_up(place.path)
    if place.default is not None and (value is None or isinstance(value, Missing)):
        return place.default
    if isinstance(value, Missing):
        raise TemplateFailed(
            f"There is no value at ${{{clip(place.path)}}}.", _nearest(place.path, look_up)
        )
    return value


def _nearest(path: str, look_up: LookUp) -> str:
    """Return a hint: what there is where the path stops leading anywhere."""
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        parent = ".".join(parts[:count])
        value = look_up(parent)
        if isinstance(value, Missing):
            continue
        there = hint_for(parts[count], of=value, at=clip(parent))
        there = f"{there} " if there else ""
        return f"{there}A default helps where it may be missing: ${{{clip(path)}?none}}."
    return f"A default helps where it may be missing: ${{{clip(path)}?none}}."


def _as_text(place: Place, value: Json) -> str:
    if isinstance(value, str):
        if not value.isascii() and _HALF_PAIR.search(value):
            raise TemplateFailed(
                f"${{{clip(place.path)}}} holds half a surrogate pair: no character."
            )
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TemplateFailed(f"${{{clip(place.path)}}} cannot be written as JSON.") from error
