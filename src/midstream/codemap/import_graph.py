"""Which Python module of a folder imports which: from the syntax alone, nothing is imported.

Every import counts, also one inside a function or under `TYPE_CHECKING`: it hides a dependency, it
does not remove it. Only modules of the folder are nodes; the standard library and packages are not.
"""

import ast
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

Graph: TypeAlias = Mapping[str, Sequence[str]]
"""Each module's imports, both in sorted order."""


def name_modules(paths: Iterable[str]) -> dict[str, str]:
    """Return the module name of each `.py` path, by path.

    A package is the longest chain of folders with an `__init__.py`; a file outside any is named
    after itself. Of two files with one name the first in sorted order has it.
    """
    known = sorted(path for path in paths if path.endswith(".py"))
    packages = {str(PurePosixPath(path).parent) for path in known if path.endswith("/__init__.py")}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in known:
        name = _module_name(PurePosixPath(path), packages)
        if name and name not in taken:
            taken.add(name)
            names[path] = name
    return names


def _module_name(path: PurePosixPath, packages: Collection[str]) -> str:
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while str(folder) in packages:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def python_imports(
    source: str, *, module: str, is_package: bool, known: Collection[str]
) -> set[str]:
    """Return the known modules that a module's source imports, itself left out.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the source is not this Python's.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted: Iterator[str] = (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module, is_package)
            wanted = (f"{base}.{alias.name}" for alias in node.names)
        else:
            continue
        found.update(nearest for name in wanted if (nearest := _known_prefix(name, known)))
    return found - {module}


def _base(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """Return the package a `from ... import` starts at; leading dots climb from the module's own.

    Climbing above the top package leads nowhere: "".
    """
    if not node.level:
        return node.module or ""
    package = module.split(".") if is_package else module.split(".")[:-1]
    if node.level > len(package):
        return ""
    climbed = package[: len(package) - (node.level - 1)]
    return ".".join([*climbed, *([node.module] if node.module else [])])


def _known_prefix(name: str, known: Collection[str]) -> str:
    """Return the longest leading part of a dotted name that is a module, "" for none."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def find_cycles(graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Return the groups of modules that import each other, each sorted, the largest first.

    These are the strongly connected parts of the graph (Kosaraju's two walks, without recursion:
    a chain of imports may be longer than Python's stack).
    """
    reverse: dict[str, list[str]] = {module: [] for module in graph}
    for module, targets in graph.items():
        for target in targets:
            reverse.setdefault(target, []).append(module)
    seen: set[str] = set()
    finished = [node for start in graph for node in _walk(start, graph, seen)]
    seen = set()
    groups = [tuple(sorted(_walk(start, reverse, seen))) for start in reversed(finished)]
    return tuple(sorted((g for g in groups if len(g) > 1), key=lambda g: (-len(g), g)))


def _walk(start: str, graph: Mapping[str, Iterable[str]], seen: set[str]) -> list[str]:
    """Return the unseen nodes reachable from `start`, each after all that it leads to."""
    if start in seen:
        return []
    seen.add(start)
    finished: list[str] = []
    stack = [(start, iter(graph.get(start, ())))]
    while stack:
        node, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(graph.get(target, ()))))
                break
        else:
            stack.pop()
            finished.append(node)
    return finished
