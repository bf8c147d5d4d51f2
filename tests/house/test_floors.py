"""The floors: a room imports only from floors below it, and no room from one on its own floor."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from house_kit import HOUSE, SOURCES, check, nodes_of, text_of

FLOORS: dict[str, int] = {
    "core": 1,
    "ports": 2,
    "offloop": 2,
    "process": 2,
    "scripts": 2,
    "config": 2,
    "asking": 3,
    "storage": 3,
    "workflow": 4,
    "ai": 4,
    "tool": 4,
    "store": 4,
    "command": 4,
    "console": 4,
    "headless": 4,
    "testing": 5,
    "desk": 5,
    "ai_coder_console": 6,
    "engine": 5,
    "rehearsal": 5,
    "assembly": 6,
    "cli_options": 7,
    "start_config": 7,
    "start_console": 7,
    "start_doctor": 7,
    "start_headless": 7,
    "start_language": 7,
    "start_mcp": 7,
    "start_rehearse": 7,
    "start_runs": 7,
    "start_travel": 7,
    "start_trust": 7,
    "cli_config": 8,
    "cli_language": 8,
    "cli_mcp": 8,
    "cli_rehearse": 8,
    "cli_runs": 8,
    "cli_travel": 8,
    "cli": 9,
    "__main__": 10,
    "__init__": 10,
}

PURE = {
    "abc",
    "ast",
    "base64",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "math",
    "operator",
    "re",
    "string",
    "textwrap",
    "types",
    "typing",
    "unicodedata",
    "msgspec",
    "re2",
    "simpleeval",
}
"""What the heart may import besides itself: no clock, chance, files, threads or network.

`simpleeval` works out conditions: a walk over a tree, given JSON and our own operators only.
`re2` finds where secrets may begin: an automaton, given bytes.
`datetime` reads times that are given; what it knows of the time now is not asked for.
"""


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[tuple[int, str]]:
    """Return (line, module) of every import in a file, at any depth."""
    found: list[tuple[int, str]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports say whole names"
            module = node.module or ""
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


MODULES = [path for path in SOURCES if "defaults" not in path.parts]
HEART = [path for path in MODULES if room_of(path) == "core"]


def test_a_room_imports_only_from_floors_below() -> None:
    def rule(path: Path) -> Iterator[str]:
        room = room_of(path)
        for line, module in imports_of(path):
            parts = module.split(".")
            is_elsewhere = parts[0] == "midstream" and len(parts) > 1 and parts[1] != room
            if is_elsewhere and parts[1] != "__version__" and FLOORS[parts[1]] >= FLOORS[room]:
                yield f"{line} imports {module}"

    check(rule, MODULES)


def test_the_heart_imports_only_what_is_pure() -> None:
    def rule(path: Path) -> Iterator[str]:
        for line, module in imports_of(path):
            if module.split(".")[0] not in PURE | {"midstream"}:
                yield f"{line} imports {module}"

    check(rule, HEART)


def test_the_heart_asks_nobody_for_the_time() -> None:
    asking = re.compile(r"\b(now|today|utcnow)\(")
    check(lambda path: asking.findall(text_of(path)), HEART)


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in MODULES} <= set(FLOORS)


def test_the_page_of_the_design_draws_the_same_floors() -> None:
    page = (HOUSE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^(\d+) +(.*)$", page.split("```")[3], re.MULTILINE)
    patterns = [
        (name, int(floor))
        for floor, line in drawn
        for name in re.findall(r"([\w*]+)(?:/|\.py\b)", line)
    ]

    for room, floor in FLOORS.items():
        assert {on for name, on in patterns if fnmatch(room, name)} == {floor}, room
    assert [name for name, _ in patterns if not any(fnmatch(room, name) for room in FLOORS)] == []
