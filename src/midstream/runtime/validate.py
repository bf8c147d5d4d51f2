"""`midstream validate FILE...`: every problem of workflow, role and settings files, whoever wrote them.

A file is known by where it stands, else by what it holds. Nothing of it is kept or run, so that a
file can be checked before its workspace is trusted.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from midstream.config.directories import SETTINGS, WORKSPACE_FOLDER
from midstream.config.private_files import read_capped, shown_path
from midstream.config.settings import read_settings
from midstream.language.errors import MidstreamError
from midstream.language.json_text import Node, parse
from midstream.language.lint_roles import lint_roles
from midstream.language.lint_scopes import Known, Runs, workflows_run
from midstream.language.offline_replies import lint_offline_part
from midstream.language.problem import Problem
from midstream.language.role_text import SUFFIXES
from midstream.language.shape import read_file
from midstream.language.spec import Role, ToolSpec
from midstream.runtime.loader import (
    OFFLINE_NAME,
    SCRIPT_NAME,
    check_workflow,
    decoded,
    unreadable,
)
from midstream.runtime.script_outline import Script

Kind: TypeAlias = Literal[
    "workflow", "roles", "settings", "script", "offline", "rehearsal", "schema", "folder", "unknown"
]

_ROLE_KEYS = (
    "level",
    "systemMessage",
    "includedTools",
    "excludedTools",
    "parsingTools",
    "reminder",
    "agentsFile",
)


def validate_files(
    paths: Iterable[Path],
    *,
    roles: Mapping[str, Role],
    tools: Mapping[str, ToolSpec] | None = None,
    workflows: Mapping[str, Path] | None = None,
) -> tuple[Problem, ...]:
    """Return every problem of the files, file by file; a folder stands for the files it holds.

    Args:
        paths: workflow files, role files, application.json, scripts, offline parts, or folders: laid
            out like `.midstream`, or with one in them.
        roles: the roles a workflow may use beside those of the role files among `paths`, and of the
            `roles` folder that belongs to its own `workflows` folder.
        tools: every tool there is; None leaves names of tools unchecked.
        workflows: the files of the sub-workflows there are beside those among `paths`, and those in
            their own `workflows` folders, by name; None leaves names of sub-workflows unchecked.
    """
    files = list(dict.fromkeys(file for path in paths for file in _files_of(path)))
    kinds = {file: _kind_of(file) for file in files}
    found: dict[Path, tuple[Problem, ...]] = {}
    known = dict(roles)
    for file in _roles_beside(files):
        known |= _check_roles(file, tools)[1]
    for file in (file for file in files if kinds[file] == "roles"):
        found[file], own = _check_roles(file, tools)
        known |= own
    others = {**(workflows or {}), **_workflows_beside(files, kinds)}
    beside = Known(
        roles=known,
        handlers=None,
        script_file="",
        tools=tools,
        workflows=None if workflows is None else others,
        runs=_runs(others),
    )
    for file in files:
        match kinds[file]:
            case "roles":
                pass
            case "workflow":
                found[file] = check_workflow(file, beside)
            case "script":
                found[file] = _check_script(file, beside)
            case "settings":
                found[file] = _check_settings(file)
            case "offline":
                found[file] = _check_offline_part(file)
            case "rehearsal" | "schema" | "folder" | "unknown" as kind:
                found[file] = _foreign(file, kind)
    return tuple(problem for file in files for problem in found[file])


def _files_of(path: Path) -> Iterator[Path]:
    if not os.path.isdir(path):
        yield path
        return
    yield from files_in(path) or [path]


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder, or of the `.midstream` in it, that are checked without being run."""
    inside = _listed(folder) or _listed(folder / WORKSPACE_FOLDER)
    return inside or sorted(folder.glob("*.json"))


def _listed(folder: Path) -> list[Path]:
    """Return the files of a folder laid out like `.midstream`."""
    named = (
        folder / SETTINGS,
        *_role_files(folder),
        *sorted(folder.glob("workflows/*.json")),
        *sorted(folder.glob(f"workflows/*/{OFFLINE_NAME}")),
    )
    return [file for file in named if os.path.isfile(file)]


def _roles_beside(files: Iterable[Path]) -> list[Path]:
    """Return the role files that lie where the roles of these workflows are looked for."""
    folders = {folder for file in files for folder in file.absolute().parents[:2]}
    homes = sorted(folder.parent for folder in folders if folder.name == "workflows")
    return [file for home in homes for file in _role_files(home)]


def _role_files(home: Path) -> list[Path]:
    return sorted(file for suffix in SUFFIXES for file in home.glob(f"roles/*{suffix}"))


def _workflows_beside(files: Iterable[Path], kinds: Mapping[Path, Kind]) -> dict[str, Path]:
    """Return the workflows among the files, and those in a folder with one of them, by name."""
    own = [file for file in files if kinds[file] == "workflow"]
    folders = {folder for file in files for folder in file.absolute().parents[:2]}
    homes = sorted(folder for folder in folders if folder.name == "workflows")
    beside = (file for home in homes for file in sorted(home.glob("*.json")))
    return {file.stem: file for file in (*beside, *own)}


def _runs(workflows: Mapping[str, Path]) -> Runs:
    """Return what tells the names of the workflows that a workflow runs; none of one not there."""

    @cache
    def runs(name: str) -> tuple[str, ...]:
        root = _root_of(workflows[name]) if name in workflows else None
        return () if root is None else tuple(dict.fromkeys(workflows_run(root)))

    return runs


def _root_of(path: Path) -> Node | None:
    """Return what a file holds, None where that cannot be read."""
    try:
        return parse(read_capped(path).decode("utf-8", "replace")).root
    except MidstreamError:
        return None


def _kind_of(path: Path) -> Kind:
    if path.name == SETTINGS:
        return "settings"
    if path.name == SCRIPT_NAME:
        return "script"
    if path.parent.name == "workflows":
        return "workflow"
    if path.parent.name == "roles":
        return "roles"
    if path.name == OFFLINE_NAME:
        return "offline"
    if os.path.isdir(path):
        return "folder"
    root = _root_of(path)
    return "unknown" if root is None else _kind_by_content(root)


def _kind_by_content(root: Node) -> Kind:
    if "states" in root.members or "workflow_name" in root.members:
        return "workflow"
    values = [member.node for member in root.members.values()]
    if any(key in value.members for value in values for key in _ROLE_KEYS):
        return "roles"
    if "rehearsal" in root.members and "steps" in root.members:
        return "rehearsal"
    return "schema" if "$defs" in root.members else "unknown"


def _check_roles(
    path: Path, tools: Mapping[str, ToolSpec] | None
) -> tuple[tuple[Problem, ...], dict[str, Role]]:
    own: dict[str, Role] = {}

    def check(text: str, file: str) -> tuple[Problem, ...]:
        roles, problems = lint_roles(text, file=file, tools=tools)
        own.update(roles)
        return problems

    return _with_text(path, check), own


def _check_settings(path: Path) -> tuple[Problem, ...]:
    is_workspace = path.absolute().parent.name == WORKSPACE_FOLDER
    return _with_text(
        path, lambda text, file: read_settings(text, file=file, is_workspace=is_workspace)[1]
    )


def _check_script(path: Path, known: Known) -> tuple[Problem, ...]:
    if path.absolute().parent.with_suffix(".json").is_file():
        return check_workflow(path.parent.with_suffix(".json"), known)
    try:
        return Script.read(read_capped(path), shown_path(path)).problems
    except MidstreamError as error:
        return (unreadable(path, error),)


def _check_offline_part(path: Path) -> tuple[Problem, ...]:
    workflow = path.absolute().parent.with_suffix(".json")
    root = _root_of(workflow)
    return _with_text(path, lambda text, file: lint_offline_part(text, file=file, workflow=root))


_WHAT_IT_IS: Mapping[Kind, tuple[str, str]] = {
    "rehearsal": (
        "this is a rehearsal: it is played, not validated.",
        "`midstream rehearse {file}` plays it.",
    ),
    "schema": (
        "this is a JSON Schema, which files are checked by.",
        'A file names it with "$schema", for its editor; name such a file here.',
    ),
    "folder": (
        "there is no file to check in this folder.",
        "Name a file, or a folder laid out like .midstream.",
    ),
    "unknown": (
        f"this is no workflow, no role file and no {SETTINGS}.",
        'A workflow has "states", a role file is {{"NAME": {{"systemMessage": ...}}}}.',
    ),
}


def _foreign(path: Path, kind: Kind) -> tuple[Problem, ...]:
    """Return that a file, or folder, is nothing that is checked here, and what it is instead."""
    message, hint = _WHAT_IT_IS[kind]
    hint = hint.format(file=shown_path(path))
    if kind == "folder":
        file = shown_path(path)
        return (Problem(file=file, line=0, column=0, path="", message=message, hint=hint),)

    def check(text: str, file: str) -> tuple[Problem, ...]:
        root, report = read_file(text, file)
        if root is not None:
            report.error(root, message, hint)
        return report.problems

    return _with_text(path, check)


def _with_text(path: Path, check: Callable[[str, str], tuple[Problem, ...]]) -> tuple[Problem, ...]:
    try:
        text, problems = decoded(read_capped(path), shown_path(path))
    except MidstreamError as error:
        return (unreadable(path, error),)
    return problems or check(text, shown_path(path))
