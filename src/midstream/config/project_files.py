"""What the files at the top of a project say of it: what it is, its languages, its commands."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from midstream.language.names import Json
from midstream.views.cells import clipped, one_line

MAX_FILE: Final = 200_000
"""Bytes of a file that are looked at."""
_TARGET: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9_.-]*)\s*:(?![:=])", re.MULTILINE)
_LANGUAGE_OF: Final = {
    "pyproject.toml": "Python",
    "setup.py": "Python",
    "requirements.txt": "Python",
    "tsconfig.json": "TypeScript",
    "package.json": "JavaScript",
    "Cargo.toml": "Rust",
    "go.mod": "Go",
    "pom.xml": "Java",
    "build.gradle": "Java",
    "build.gradle.kts": "Kotlin",
    "CMakeLists.txt": "C or C++",
    "Gemfile": "Ruby",
    "composer.json": "PHP",
    "Package.swift": "Swift",
    "mix.exs": "Elixir",
}


def languages_of(folder: Path) -> tuple[str, ...]:
    """Return the languages whose project files lie at the top of a folder. Waits for the disk."""
    found = (language for name, language in _LANGUAGE_OF.items() if (folder / name).is_file())
    return tuple(dict.fromkeys(found))


def about(folder: Path) -> str:
    """Return what a project says it is, in one line, "" where it says nothing. Waits for the disk."""
    project = _table(_toml(folder / "pyproject.toml"), "project")
    for source in (project, _json(folder / "package.json")):
        if isinstance(words := source.get("description"), str) and words.strip():
            return clipped(one_line(words), 300)
    return ""


def commands_of(folder: Path) -> Iterator[str]:
    """Yield what builds, checks and tests a project, as its files name it. Waits for the disk."""
    targets = _TARGET.findall(_text(folder / "Makefile"))
    yield from (f"make {target}" for target in dict.fromkeys(targets))
    scripts = _table(_json(folder / "package.json"), "scripts")
    runner = "pnpm" if (folder / "pnpm-lock.yaml").exists() else "npm"
    yield from (f"{runner} run {name}" for name in scripts)
    tools = _table(_toml(folder / "pyproject.toml"), "tool")
    known = {"pytest": "pytest", "ruff": "ruff check", "mypy": "mypy", "tox": "tox"}
    yield from (command for tool, command in known.items() if tool in tools)
    for name, commands in (("Cargo.toml", "cargo test"), ("go.mod", "go test ./...")):
        if (folder / name).is_file():
            yield commands


def tables_of(folder: Path) -> dict[str, set[str]]:
    """Return the keys of each table of tools in a project's pyproject.toml. Waits for the disk."""
    tools = _table(_toml(folder / "pyproject.toml"), "tool")
    return {name: set(_table(tools, name)) for name in tools}


def _text(path: Path) -> str:
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(MAX_FILE).decode("utf-8", "replace")
    except OSError:
        return ""


def _json(path: Path) -> Mapping[str, Json]:
    try:
        found: Json = json.loads(_text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _toml(path: Path) -> Mapping[str, Json]:
    try:
        return tomllib.loads(_text(path))
    except (ValueError, RecursionError):
        return {}


def _table(source: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    found = source.get(key)
    return found if isinstance(found, dict) else {}
