"""Problems of a file a person wrote: where each is, what was expected, what to write instead."""

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

import msgspec

from midstream.language.errors import clip, nearest
from midstream.language.json_text import Flaw, Member, Node

Severity: TypeAlias = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem. `line` and `column` count from 1; both are 0 when the whole file is meant.

    `path` is a JSON path such as `$.states[2].agent`, "" in a file that is not JSON. An `error`
    keeps the file from being used, a `warning` does not.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        path = f" {self.path}" if self.path else ""
        mark = "warning: " if self.severity == "warning" else ""
        return f"{where}{path}: {mark}{self.message} {self.hint}".rstrip()


def has_errors(problems: Iterable[Problem]) -> bool:
    """Return whether one of the problems keeps its file from being used."""
    return any(problem.severity == "error" for problem in problems)


def strictly(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems with every warning taken for an error."""
    return tuple(msgspec.structs.replace(problem, severity="error") for problem in problems)


def as_text(problems: Iterable[Problem]) -> str:
    """Return the problems as text, one a line."""
    return "\n".join(map(str, problems))


_MAX_HINTS = 100
_MAX_NAMES = 500
_MAX_LISTED = 12


class Report:
    """The problems of one file, gathered as they are found.

    `error_count` is how many of the recorded ones are errors, those of the reading left out.
    """

    __slots__ = ("_file", "_problems", "error_count")

    def __init__(self, file: str, flaws: Iterable[Flaw] = ()) -> None:
        self._file = file
        self.error_count = 0
        self._problems: list[Problem] = []
        for flaw in flaws:
            self._add(flaw, flaw.message, flaw.hint, "error")

    def error(self, where: Node | Member, message: str, hint: str = "") -> None:
        """Record what keeps the file from being used: of a value, or of a key itself."""
        self.error_count += 1
        self._add(where, message, hint, "error")

    def warning(self, where: Node | Member, message: str, hint: str = "") -> None:
        """Record what looks like a slip but does no harm."""
        self._add(where, message, hint, "warning")

    def nearest(self, name: str, known: Collection[str]) -> str | None:
        """Return the known name most like `name`, None when none is much like it.

        Looking for it is slow, so a file with very many problems or names gets no such help.
        """
        if len(self._problems) > _MAX_HINTS or len(known) > _MAX_NAMES:
            return None
        return nearest(name[:_MAX_NAMES], known)

    def near(self, name: str, known: Collection[str]) -> str:
        """Return a hint: the nearest of the known names, else those there are, else nothing."""
        best = self.nearest(name, known)
        if best is not None:
            return f'Did you mean "{clip(best)}"?'
        if not known or len(known) > _MAX_NAMES:
            return ""
        listed = ", ".join(clip(name) for name in sorted(known)[:_MAX_LISTED])
        more = len(known) - _MAX_LISTED
        return f"There are: {listed}{f' and {more} more' if more > 0 else ''}."

    def _add(
        self, where: Node | Member | Flaw, message: str, hint: str, severity: Severity
    ) -> None:
        self._problems.append(
            Problem(
                file=self._file,
                line=where.line,
                column=where.column,
                path=where.path,
                message=message,
                hint=hint,
                severity=severity,
            )
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what was found, in the order a person meets it: by line, then column."""
        return tuple(sorted(self._problems, key=lambda problem: (problem.line, problem.column)))
