"""What packages and pages say of files is true: they are there, under these names, with these parts."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from house_kit import HOUSE, ROOT, SOURCES, TESTS, check, text_of, tree_of

PACKAGES = [path for path in SOURCES if path.name == "__init__.py" and path.parent != HOUSE]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
FILES = [f"/{path.relative_to(ROOT).as_posix()}" for path in (*SOURCES, *TESTS)]


def files_named(name: str) -> list[Path]:
    return [ROOT / file[1:] for file in FILES if file.endswith(f"/{name}")]


def test_a_package_says_where_to_begin_and_names_its_own_files() -> None:
    def rule(path: Path) -> Iterator[str]:
        words = ast.get_docstring(tree_of(path)) or ""
        own = {part.stem for part in path.parent.rglob("*") if part.suffix in ("", ".py")}
        named = set(re.findall(r"`([a-z_]+)(?:\.py)?`", words))
        if not re.search(r"\b[Bb]egin (with|at)\b", words) and path.parent.name != "testing":
            yield " does not say where to begin"
        if not named & own:
            yield " names none of its files"
        inside = "\n".join(text_of(part) for part in path.parent.rglob("*.py") if part != path)
        for name in sorted(named - own):
            if not re.search(rf"\b{name}\b", inside):
                yield f" names {name}, which is not there"

    check(rule, PACKAGES)


NAMED = re.compile(r"`([\w/]*(?<!script)(?<!NAME)\.py|src/[\w/]+/)`|\b(tests/[\w/]+\.py)\b")


def test_a_page_names_files_that_are_there() -> None:
    def rule(page: Path) -> Iterator[str]:
        for name in sorted({one or other for one, other in NAMED.findall(text_of(page))}):
            if not (files_named(name) or (ROOT / name).exists()):
                yield f" names {name}"

    check(rule, PAGES)


def test_a_page_names_functions_where_they_are() -> None:
    """As in: `halt` and `finish_halt` in `core/decide/steering.py`."""

    def rule(page: Path) -> Iterator[str]:
        for names, place in re.findall(
            r"(`[\w.]+`(?:(?:,| and) `[\w.]+`)*) in `([\w/]+\.py)`", text_of(page)
        ):
            text = "\n".join(map(text_of, files_named(place)))
            for name in re.findall(r"[\w.]+", names.replace(" and ", " ")):
                if not re.search(rf"\b{name.rpartition('.')[2]}\b", text):
                    yield f" says that {name} is in {place}"

    check(rule, PAGES)
