"""A problem of a file a person wrote: where it is, what was expected, what to write instead."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

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


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems in the order a person meets them: by line, then column."""
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def as_text(problems: Iterable[Problem]) -> str:
    """Return the problems as text, one a line."""
    return "\n".join(map(str, problems))
