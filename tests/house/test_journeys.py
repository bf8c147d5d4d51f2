"""The functions by which the design tells how things go are there, under these names."""

import re
from pathlib import Path

from house_kit import HOUSE, ROOT

NAMED = re.compile(r"`([a-z_/]+\.py):([a-z_]+)`")
HOP = re.compile(r"`([a-z]+)\.([A-Za-z_]+)`")


def _defines(file: Path, name: str) -> bool:
    found = re.search(rf"^ *(async def|def|class) {name}\b", file.read_text(), re.MULTILINE)
    return found is not None


def test_the_journeys_of_the_design_name_functions_that_are_there() -> None:
    named = NAMED.findall((ROOT / "docs/design.md").read_text())

    assert len(named) > 20
    assert [f"{file}:{name}" for file, name in named if not _defines(HOUSE / file, name)] == []


def test_the_hops_of_a_decision_name_functions_that_are_there() -> None:
    package = HOUSE / "core/decide"
    named = HOP.findall((package / "__init__.py").read_text())
    hops = [(file, name) for file, name in named if (package / f"{file}.py").exists()]

    assert len(hops) > 15
    assert [
        f"{file}.{name}" for file, name in hops if not _defines(package / f"{file}.py", name)
    ] == []
