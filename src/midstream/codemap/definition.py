"""What a file of code defines: its classes, functions and types, with the lines they begin at."""

from typing import Final, TypeAlias

import msgspec

MAX_DEFINITIONS: Final = 400
MAX_MEMBERS: Final = 60
_NAME_CHARS: Final = 80


class Definition(msgspec.Struct, frozen=True):
    """Something a file defines: `what` is it in a few words, `members` what it holds."""

    line: int
    name: str
    what: str
    members: tuple[str, ...] = ()


Definitions: TypeAlias = tuple[Definition, ...]


def clipped(text: str) -> str:
    """Return a name or signature, its end left out where it is long."""
    return text if len(text) <= _NAME_CHARS else f"{text[: _NAME_CHARS - 1]}…"


def public(found: Definitions) -> Definitions:
    """Return the definitions that are for others; where there is none, all."""
    return tuple(one for one in found if not one.name.startswith("_")) or found
