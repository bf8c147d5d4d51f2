"""A list to choose from: which choice is marked, and which are picked. No IO, no clock.

Arrows move the mark, and what is typed moves it too: a number, or a choice's own words. So a digit
stays text that can go on (`2` is the second choice, `2 files` is words), and no key is ever taken
away from a line. Where several may be picked, Space picks the marked one, and `1 3` both.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from midstream.core.question import Question
from midstream.core.run_data import as_text
from midstream.language.names import Json

_MAX_OPTIONS: Final = 500

_ALSO: Final = {"True": ("y", "true"), "False": ("n", "false")}
"""What yes and no are called besides."""


class Option(msgspec.Struct, frozen=True):
    """A choice as it is shown, and what it stands for."""

    label: str
    value: Json


class Choosing(msgspec.Struct, frozen=True, kw_only=True):
    """A list under the keys. `at` is the marked choice from 0, None for none.

    `many`: any number may be picked; `picked` are those that are. Never changed in place.
    """

    options: tuple[Option, ...]
    many: bool = False
    at: int | None = None
    picked: frozenset[int] = frozenset()

    def moved(self, step: int) -> "Choosing":
        """Return the list with the mark one further (1) or back (-1).

        Down from the last is the first again; up from the first leaves the list, so that nothing is
        marked.
        """
        last = len(self.options) - 1
        if self.at is None:
            at: int | None = 0 if step > 0 else last
        elif step < 0:
            at = self.at - 1 if self.at else None
        else:
            at = self.at + 1 if self.at < last else 0
        return msgspec.structs.replace(self, at=at)

    def toggled(self) -> "Choosing":
        """Return the list with the marked choice picked, or not picked any more."""
        if not self.many or self.at is None:
            return self
        return msgspec.structs.replace(self, picked=self.picked ^ {self.at})

    def meant(self, text: str) -> "Choosing":
        """Return the list as a typed line means it, unmarked where the line names no choice.

        An empty line leaves it as it is.
        """
        if not text.strip():
            return self
        if not self.many:
            return msgspec.structs.replace(self, at=_one(self.options, text))
        found = _several(self.options, text)
        if found is None:
            return msgspec.structs.replace(self, at=None, picked=frozenset())
        return msgspec.structs.replace(
            self, at=found[-1] if found else None, picked=frozenset(found)
        )

    @property
    def is_made(self) -> bool:
        """Return whether Enter has something to take."""
        return bool(self.picked) or self.at is not None

    @property
    def value(self) -> Json:
        """Return what was chosen: a list where several may be.

        Of several none picked but one marked is that one: whoever walks to a choice and presses Enter
        means it.
        """
        if not self.many:
            return None if self.at is None else self.options[self.at].value
        picked = self.picked or (frozenset() if self.at is None else {self.at})
        return [self.options[number].value for number in sorted(picked)]

    @property
    def label(self) -> str:
        """Return what was chosen in words, "" for nothing."""
        if not self.many:
            return "" if self.at is None else self.options[self.at].label
        picked = self.picked or (frozenset() if self.at is None else {self.at})
        return ", ".join(self.options[number].label for number in sorted(picked))


def choices_of(question: Question) -> Choosing | None:
    """Return the list a question is answered from, None for one that is not."""
    if question.kind != "question":
        return None
    if question.choices:
        options = tuple(Option(choice, choice) for choice in question.choices)
        return Choosing(options=options)
    return None if question.schema is None else choices_in(question.schema)


def choices_in(spec: Json) -> Choosing | None:
    """Return the list a part of a JSON Schema is chosen from: an `enum`, yes or no, several of one."""
    if not isinstance(spec, dict):
        return None
    if (options := _options(spec.get("enum"))) is not None:
        return Choosing(options=options)
    if spec.get("type") == "boolean":
        return Choosing(options=(Option("yes", True), Option("no", False)))
    items = spec.get("items")
    if spec.get("type") == "array" and isinstance(items, dict):
        options = _options(items.get("enum"))
        return None if options is None else Choosing(options=options, many=True)
    return None


def _options(values: Json) -> tuple[Option, ...] | None:
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_OPTIONS:
        return None
    return tuple(Option(as_text(value), value) for value in values)


def _one(options: Sequence[Option], text: str) -> int | None:
    """Return the choice a line names: its words in any case count before its number."""
    wanted = text.strip().casefold()
    for number, option in enumerate(options):
        if option.label.casefold() == wanted or wanted in _ALSO.get(repr(option.value), ()):
            return number
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 6:
        number = int(wanted) - 1
        return number if 0 <= number < len(options) else None
    return None


def _several(options: Sequence[Option], text: str) -> list[int] | None:
    """Return the choices a line names, by commas or, where none is, by blanks; None: not only those."""
    whole = _one(options, text)
    if whole is not None:
        return [whole]
    parts = [part for part in re.split(r"[,;]" if "," in text else r"[\s;]", text) if part.strip()]
    found = [_one(options, part) for part in parts]
    named = [number for number in found if number is not None]
    return list(dict.fromkeys(named)) if len(named) == len(found) else None
