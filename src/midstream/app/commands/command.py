"""What a command is: a name, words for `/help`, and an async function of the session."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from midstream.app.session import Session
from midstream.system.own_process import columns

Action: TypeAlias = Callable[[Session, str], Awaitable[None]]
"""Does the command; the string is what followed its name, trimmed."""

Complete: TypeAlias = Callable[[Session], list[tuple[str, str]]]
"""Returns (word, description) pairs the first argument may be."""


def _nothing(_session: Session) -> list[tuple[str, str]]:
    return []


Then: TypeAlias = Callable[[Session, str], list[tuple[str, str]]]
"""Returns the same for the argument after those given, which are one string."""


def _nothing_then(_session: Session, _before: str) -> list[tuple[str, str]]:
    return []


Learn: TypeAlias = Callable[[Session], Awaitable[None]]
"""Finds out what the arguments may be besides; both are asked again after it."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `arguments` is for `/help`, such as `NAME [input]`."""

    name: str
    summary: str
    action: Action
    arguments: str = ""
    complete: Complete = _nothing
    then: Then = _nothing_then
    learn: Learn | None = None
    aliases: tuple[str, ...] = ()

    @property
    def wants_argument(self) -> bool:
        """Return whether it does nothing alone."""
        return bool(self.arguments) and not self.arguments.startswith("[")


def command(name: str, summary: str, **more: Any) -> Callable[[Action], Command]:
    """Make a command of the function that does it; `more` are further fields of `Command`."""
    return lambda action: Command(name=name, summary=summary, action=action, **more)


def room(most: int = 120) -> int:
    """Return how wide a table may be: two columns are the console's own, before each of its lines."""
    return max(20, min(columns(), most) - 2)
