"""Whose keys the line is edited with, as application.json says it."""

from typing import Final, Literal, TypeAlias

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.problem import Report
from midstream.language.shape import fit

EDITING: Final = "editing"

Editing: TypeAlias = Literal["emacs", "vi"]
"""The keys of Emacs, as those of most shells, or those of vi."""

EDITINGS: Final[tuple[Editing, ...]] = ("emacs", "vi")


def read_editing(node: Node, report: Report) -> dict[str, str]:
    """Return the setting, nothing if it has a problem."""
    if not fit(node, str, report):
        return {}
    if node.value in EDITINGS:
        return {EDITING: node.value}
    hint = report.near(node.value, EDITINGS)
    report.error(node, f'expected emacs or vi, found "{clip(node.value)}".', hint)
    return {}
