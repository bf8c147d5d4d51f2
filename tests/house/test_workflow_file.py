"""The workflow file of a public forge runs what the Makefile runs, on every system and Python there is."""

import os
import re

from house_kit import ROOT, text_of

LINES = text_of(ROOT / ".github" / "workflows" / "check.yml").splitlines()
MAKEFILE = text_of(ROOT / "Makefile")


def values_of(key: str) -> list[str]:
    """Return what stands behind a key, wherever that is; its file says each in one line."""
    lines = (re.match(rf"\s*(?:- )?{key}: (.*)", line) for line in LINES)
    return [line[1] for line in lines if line is not None]


COMMANDS = values_of("run")
TARGETS = re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE)
RECIPES = re.findall(r"^\t@?\$\(BIN\)/(?:python -m )?([^\n]*)", MAKEFILE, re.MULTILINE)
"""What the Makefile runs of its environment, each without where that is."""


def test_it_runs_on_each_system_and_on_each_python_that_is_supported() -> None:
    least = re.search(r'requires-python = ">=3\.(\d+)"', text_of(ROOT / "pyproject.toml"))
    assert least is not None
    pythons = ", ".join(f'"3.{minor}"' for minor in range(int(least[1]), 15))

    assert values_of("runs-on") == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert values_of("python") == [f"[{pythons}]"] * 3


def test_what_it_uses_is_pinned_and_no_secret_is_asked_for() -> None:
    used = values_of("uses")

    assert {use.partition("@")[0] for use in used} == {"actions/checkout", "actions/setup-python"}
    assert all(re.fullmatch(r"[\w/-]+@v\d+", use) for use in used), used
    assert not [line for line in LINES if "secrets" in line]
    assert values_of("contents") == ["read"]


def test_each_of_its_commands_is_one_of_ours() -> None:
    made = [command.split()[1] for command in COMMANDS if command.startswith("make ")]
    scripts = [ROOT / command for command in COMMANDS if command.startswith(".ci/")]

    assert made == ["check"]
    assert {*made} <= {*TARGETS}
    assert scripts == [ROOT / ".ci" / "run"]
    assert all(os.access(script, os.X_OK) for script in scripts)
    assert "make check" in text_of(scripts[0]).splitlines()


def test_where_make_does_not_run_it_says_the_same_as_the_makefile() -> None:
    ours = {recipe.replace("$*", "win32") for recipe in RECIPES}
    modules = [each.removeprefix("python -m ") for each in COMMANDS if each.startswith("python -m")]
    *same, starts, tests = modules

    assert {*same} <= ours, {*same} - ours
    assert {each.split()[0] for each in same} == {"pip", "ruff", "mypy"}
    assert starts == "midstream --version"
    assert all((ROOT / place).is_dir() for place in tests.split() if place.startswith("tests/"))
