"""Errors, sorted by whose move it is. Each carries a hint a tired person can act on."""

from typing import ClassVar

from midstream.core.names import Fault

REPORT_BUG = "This is a bug in midstream: please report it."


class MidstreamError(Exception):
    """Something the user should read: what happened, and what to do next.

    Args:
        what: one sentence on what happened and where.
        hint: one sentence on what to do next; empty where nothing can be done.
    """

    fault: ClassVar[Fault] = "bug"

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} {self.hint}".strip()


class AuthorMistake(MidstreamError):
    """The workflow, role, handler or tool is wrong; running it again changes nothing."""

    fault: ClassVar[Fault] = "author"


class UserMistake(MidstreamError):
    """This line cannot be done; nothing changed."""

    fault: ClassVar[Fault] = "user"


class WorldTrouble(MidstreamError):
    """A model, disk or network failed; it may not, later."""

    fault: ClassVar[Fault] = "world"


class OurBug(MidstreamError):
    """midstream broke its own rule; the run is as it was. Please report it."""

    fault: ClassVar[Fault] = "bug"


class JournalMoved(WorldTrouble):
    """Another writer appended to this run first; nothing of this append was kept."""


class NotTrusted(UserMistake):
    """A file of an untrusted workspace would have had to be read."""
