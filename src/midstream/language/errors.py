"""Errors, sorted by whose move it is. Each carries a hint a tired person can act on."""

from typing import ClassVar

from midstream.language.names import Fault

REPORT_BUG = "This is a bug in midstream: please report it."


_ENDS = (".", "!", "?", ":", ";", "…")


def with_hint(what: str, hint: str) -> str:
    """Return what happened and what to do next as sentences: foreign words may lack their full stop."""
    what, hint = what.strip(), hint.strip()
    if what and hint and not what.rstrip("\"'”’»`").endswith(_ENDS):
        what += "."
    return f"{what} {hint}".strip()


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
        return with_hint(self.what, self.hint)


class AuthorMistake(MidstreamError):
    """The workflow, role, handler or tool is wrong; running it again changes nothing."""

    fault: ClassVar[Fault] = "author"


class BadText(AuthorMistake):
    """A text in a file of the author's cannot be read: an expression, a template, a pattern.

    Args:
        message, hint: as `what` and `hint` of every error.
        column: where in the text, in characters, from 1.
    """

    def __init__(self, message: str, hint: str = "", column: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.column = column


class UserMistake(MidstreamError):
    """This line cannot be done; nothing changed."""

    fault: ClassVar[Fault] = "user"


class WorldTrouble(MidstreamError):
    """A model, disk or network failed; it may not, later."""

    fault: ClassVar[Fault] = "world"


class OurBug(MidstreamError):
    """midstream broke its own rule; the run is as it was. Please report it."""

    fault: ClassVar[Fault] = "bug"

    def __init__(self, what: str, *, hint: str = REPORT_BUG) -> None:
        super().__init__(what, hint=hint)


class JournalMoved(WorldTrouble):
    """Another writer appended to this run first; nothing of this append was kept."""


class JournalFull(WorldTrouble):
    """There is no room to write, or no getting at it; nothing was kept. It may be tried again."""

    def again(self) -> "JournalFull":
        """Return the same error to be raised anew."""
        return type(self)(self.what, hint=self.hint)


class JournalLost(JournalFull):
    """The journal's files are not those that were opened, or not what was written to them.

    Nothing was kept. It may be tried again: somebody may put them back.
    """


class JournalDamaged(WorldTrouble):
    """A record is not what was written. Everything before `seq` of the run is whole.

    Args:
        what, hint: as for every error.
        run: whose record it is.
        seq: its place.
    """

    def __init__(self, what: str, *, run: str, seq: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.run = run
        self.seq = seq


class JournalTooNew(WorldTrouble):
    """A newer midstream wrote the journal; it was not touched."""


class RunOwned(UserMistake):
    """Another process runs this run.

    Args:
        what, hint: as for every error.
        owner: the name of the process.
    """

    def __init__(self, what: str, *, owner: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.owner = owner


class DefinitionDiffers(UserMistake):
    """The workflow is not what the run is pinned to: go on with the old copy, the new one, or stop.

    Args:
        what, hint: as for every error.
        run: the run's id.
        changes: what is different now, a line each.
    """

    def __init__(self, what: str, *, run: str, changes: tuple[str, ...], hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.run = run
        self.changes = changes


class NotTrusted(UserMistake):
    """A file of an untrusted workspace would have had to be read."""
