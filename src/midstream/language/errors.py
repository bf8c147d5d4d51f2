"""Errors, sorted by whose move it is, and the words of one: what happened, what may have been meant.

Each carries a hint a tired person can act on.
"""

import re
from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

Fault: TypeAlias = Literal["author", "user", "world", "bug"]
"""Whose move an error is."""

REPORT_BUG = "This is a bug in midstream: please report it."


# --- words --------------------------------------------------------------------------------------

_ENDS = (".", "!", "?", ":", ";", "…")


def with_hint(what: str, hint: str) -> str:
    """Return what happened and what to do next as sentences: foreign words may lack their full stop."""
    what, hint = what.strip(), hint.strip()
    if what and hint and not what.rstrip("\"'”’»`").endswith(_ENDS):
        what += "."
    return f"{what} {hint}".strip()


def in_words(error: BaseException) -> str:
    """Return an exception that is none of ours by its kind and what it says, which may raise, too."""
    kind = type(error).__name__
    try:
        return f"{kind}: {str(error) or 'no message'}"
    except Exception as another:
        return f"{kind}: its message cannot be read ({type(another).__name__})"


_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def clip(text: str, max_chars: int = 60) -> str:
    """Return foreign text fit for a one-line message: no control characters, not too long."""
    line = _UNSHOWN.sub("\ufffd", text)
    return line if len(line) <= max_chars else f"{line[: max_chars - 3]}..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, None when none is much like it.

    The only one that has it for a part is like it, as `workflow_name` is like `name`.
    """
    from difflib import get_close_matches  # what goes well never needs it

    by_fold = {word.casefold(): word for word in known}
    found = get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    if not found:
        found = [word for word in by_fold if name.casefold() in word.split("_")]
    return by_fold[found[0]] if len(found) == 1 else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint: the nearest name, else the list of those there are."""
    known = list(known)
    best = nearest(name, known)
    if best is not None:
        return f"Did you mean {best!r}?"
    return f"There are: {', '.join(sorted(known))}." if known else "There are none."


# --- errors -------------------------------------------------------------------------------------


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


class TextFailed(AuthorMistake):
    """A text that can be read has no value over what the run has.

    Args:
        message, hint: as `what` and `hint` of every error.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)


class UserMistake(MidstreamError):
    """This line cannot be done; nothing changed."""

    fault: ClassVar[Fault] = "user"


class WorldTrouble(MidstreamError):
    """A model, disk or network failed; it may not, later."""

    fault: ClassVar[Fault] = "world"


class ContentsMissing(WorldTrouble):
    """Contents that a run names are gone from the blob store, or are not what was put there."""


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
