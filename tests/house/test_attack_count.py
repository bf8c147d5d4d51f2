"""The attacks are counted, and each says what it tries."""

import importlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import Row, rows_of

ATTACKS = Path(__file__).parents[1] / "attacks"
NO_ATTACKS = ("normal", "ordinary", "everyday", "is_let_through", "do_spring")
"""Words in the names of files and tests that show that everyday work still works."""
FAMILIES = {
    "approvals": 50,
    "commands": 200,
    "expressions": 100,
    "journals": 110,
    "mcp": 80,
    "models": 70,
    "paths": 120,
    "sandbox": 90,
    "secrets": 20,
    "terminal": 60,
    "web": 50,
    "whole": 20,
    "workspaces": 150,
}
"""The families, and how many inputs each has at least."""


def attacks() -> dict[str, set[str]]:
    """Return what each family tries, each input once however many tests it goes through."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(ATTACKS.rglob("test_*.py")):
        if not any(word in path.stem for word in NO_ATTACKS):
            for tries in _tries(_module(path)):
                found[path.parent.name].add(f"{path.stem}: {tries}")
    return found


def _module(path: Path) -> Any:
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)


def _tries(module: Any) -> Iterator[str]:
    for name, test in inspect.getmembers(module, inspect.isfunction):
        tables = [*getattr(test, "tables", []), *_parametrized(test)]
        is_own = name.startswith("test_") and test.__module__ == module.__name__
        if is_own and tables and not any(word in name for word in NO_ATTACKS):
            # Of several, such as of a mode beside the input, the one with the most cases.
            yield from (row.name for row in max(tables, key=len))


def _parametrized(test: Any) -> Iterator[list[Row]]:
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and mark.args[0] != "part":
            yield rows_of(mark.args[0], list(mark.args[1]), mark.kwargs.get("ids"))


def test_there_are_enough_attacks_and_each_says_what_it_tries() -> None:
    found = attacks()
    counted = {family: len(found[family]) for family in FAMILIES}

    assert {family: n for family, n in counted.items() if n < FAMILIES[family]} == {}
    assert sum(counted.values()) >= 250
    names = [name.partition(": ")[2] for family in found.values() for name in family]
    assert [name for name in names if not name] == []
    assert len([name for name in names if name.count(" ") >= 2]) >= 250, "told in a line each"
