"""The files the rules of the house are about, read and parsed once for all of them."""

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "midstream"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BESIDE = [*sorted((ROOT / "torture").glob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


@cache
def calls_of(path: Path) -> tuple[tuple[str, ast.Call], ...]:
    """Return the calls in a file, each with what is called as it is written there."""
    return tuple(
        (ast.unparse(node.func), node) for node in nodes_of(path) if isinstance(node, ast.Call)
    )


def check(rule: Callable[[Path], Iterable[str]], paths: Iterable[Path]) -> None:
    """Check a rule over some files, to the last of them.

    Raises:
        AssertionError: the breaches, each with its file; or there was no file to look at.
    """
    paths = list(paths)
    breaches = [f"{path.relative_to(ROOT)}:{breach}" for path in paths for breach in rule(path)]
    assert paths
    assert not breaches, "\n".join(breaches)
