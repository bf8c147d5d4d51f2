"""The mode: whom a line without a slash speaks to. One value, written `type:name`."""

import re
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.language.errors import UserMistake
from midstream.language.nearest import nearest

ModeKind: TypeAlias = Literal["role", "workflow"]

_KINDS: tuple[ModeKind, ...] = ("role", "workflow")
_MAX_SHOWN = 80
_BAD_IN_NAME = re.compile(r"[\x00-\x1f\x7f/\\]")
_EXAMPLES = "Write role:NAME or workflow:NAME, such as role:dude."


CHAT: Final = "role:"
"""How the mode of every chat begins."""


def mode_words(mode: str, *, beside: str = "") -> str:
    """Return a mode as a person calls it; a chat's role is left out `beside` words that name it."""
    role = mode.removeprefix(CHAT)
    if role == mode:
        return mode
    return "chat" if role in beside.split() else f"chat with {role}"


class Mode(msgspec.Struct, frozen=True):
    """A chat with a role, or an active workflow. `str(mode)` gives the form `Mode.parse` reads."""

    kind: ModeKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Mode":
        """Return the mode a text such as `role:dude` names. Whether it exists is not looked at.

        Raises:
            UserMistake: the text is not of the form `type:name`.
        """
        kind_text, colon, name = text.strip().partition(":")
        shown = repr(text[:_MAX_SHOWN])
        if not colon:
            raise UserMistake(f"{shown} is not a mode.", hint=_hint_without_type(kind_text))
        kind = next((known for known in _KINDS if known == kind_text), None)
        if kind is None:
            best = nearest(kind_text, _KINDS)
            meant = f"Did you mean {f'{best}:{name}'!r}?" if best and name else _EXAMPLES
            raise UserMistake(
                f"{shown} is not a mode: no type {kind_text[:_MAX_SHOWN]!r}.", hint=meant
            )
        if not name or name != name.strip() or len(name) > _MAX_SHOWN or _BAD_IN_NAME.search(name):
            raise UserMistake(
                f"{shown} is not a mode: {name[:_MAX_SHOWN]!r} cannot be a name.", hint=_EXAMPLES
            )
        return cls(kind, name)


def _hint_without_type(name: str) -> str:
    if not name or len(name) > _MAX_SHOWN or _BAD_IN_NAME.search(name):
        return _EXAMPLES
    return f"Did you mean 'role:{name}' or 'workflow:{name}'?"
