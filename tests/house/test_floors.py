"""The floors: a package imports only from floors below it, and from its own in the order written."""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from house_kit import HOUSE, SOURCES, check, nodes_of, text_of

FLOORS = (
    ("language", "safety", "core", "views"),
    ("config", "system", "codemap", "runtime"),
    ("models", "tools", "store", "agents", "telemetry"),
    ("app",),
    ("rehearsal", "testing", "tui", "api", "acp", "mcp_server", "web", "server", "worker", "cli"),
)
"""The packages of each floor, the lowest first, in the order in which they may use each other."""

DOORS = ("__main__", "__init__")
ORDER = ("_version", *(package for floor in FLOORS for package in floor), *DOORS)

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
    "pydantic_core",
    "re2",
    "wcwidth",
}
"""What the heart may import besides itself: no clock, chance, files, threads or network.

`re2` finds where secrets may begin: an automaton, given bytes. `pydantic_core` has another, for patterns.
`wcwidth` is a table of how many cells a character takes.
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


PURE_PACKAGES = ("language", "safety", "core", "views")
MODULES = [path for path in SOURCES if "defaults" not in path.parts]
HEART = [path for path in MODULES if room_of(path) in PURE_PACKAGES]


def test_a_package_imports_only_from_those_before_it() -> None:
    def rule(path: Path) -> Iterator[str]:
        room = room_of(path)
        for line, module in imports_of(path):
            parts = module.split(".")
            is_elsewhere = parts[0] == "midstream" and len(parts) > 1 and parts[1] != room
            if is_elsewhere and ORDER.index(parts[1]) >= ORDER.index(room):
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


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Those inside functions and for the type checker count: a circle is read as one file."""
    names = {
        ".".join(path.relative_to(HOUSE.parent).with_suffix("").parts): path for path in MODULES
    }
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    # The front door names what stands behind it for type checkers alone, and nothing imports it.
    below = {name: path for name, path in names.items() if name != "midstream"}
    left = {
        name: {_module(module, below) for _, module in imports_of(path)} & below.keys() - {name}
        for name, path in below.items()
    }
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"in a circle, or above one: {sorted(left)}"


def _module(imported: str, modules: Collection[str]) -> str:
    """Return the module an import leads to: the name itself, or what it is taken from."""
    return imported if imported in modules else imported.rpartition(".")[0]


def test_every_package_has_a_place() -> None:
    assert {room_of(path) for path in MODULES} <= set(ORDER)


def test_the_page_of_the_design_draws_the_same_floors() -> None:
    page = (HOUSE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^(\d) .*$", page, re.MULTILINE)
    lines = [line for line in page.splitlines() if re.match(r"\d ", line)]

    assert drawn == [str(number) for number in range(len(FLOORS), 0, -1)]
    for line, packages in zip(lines, reversed(FLOORS), strict=True):
        assert tuple(re.findall(r"(\w+)/", line)) == packages
