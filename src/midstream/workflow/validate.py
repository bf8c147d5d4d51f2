"""`midstream validate FILE...`: every problem of workflow, role and settings files, whoever wrote them.

A file is known by where it stands, else by what it holds. Nothing of it is kept or run, so that a
file can be checked before its workspace is trusted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from midstream.config.files import read_capped, shown_path
from midstream.config.places import SETTINGS, WORKSPACE_FOLDER
from midstream.config.settings import read_settings
from midstream.core.errors import MidstreamError
from midstream.core.jsontext import Node, parse
from midstream.core.lint import lint_roles
from midstream.core.problem import Problem
from midstream.core.shape import Report
from midstream.core.spec import Role, ToolSpec
from midstream.workflow.loader import SCRIPT_NAME, check_workflow, decoded, unreadable
from midstream.workflow.script import Script

Kind: TypeAlias = Literal["workflow", "roles", "settings", "script", "offline", "unknown"]

_ROLE_KEYS = (
    "level",
    "systemMessage",
    "includedTools",
    "excludedTools",
    "parsingTools",
    "reminder",
)


def validate_files(
    paths: Iterable[Path],
    *,
    roles: Mapping[str, Role],
    tools: Mapping[str, ToolSpec] | None = None,
) -> tuple[Problem, ...]:
    """Return every problem of the files, file by file; a folder stands for the files it holds.

    Args:
        paths: workflow files, role files, application.json, scripts, or folders laid out like
            `.midstream`.
        roles: the roles a workflow may use beside those of the role files among `paths`, and of the
            `roles` folder that belongs to its own `workflows` folder.
        tools: every tool there is; None leaves the roles' tool lists unchecked.
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
    for file in files:
        match kinds[file]:
            case "roles":
                pass
            case "workflow":
                found[file] = check_workflow(file, roles=known, tools=tools)
            case "script":
                found[file] = _check_script(file, known, tools)
            case "settings":
                found[file] = _check_settings(file)
            case "offline" | "unknown" as kind:
                found[file] = _check_json(file, is_known=kind == "offline")
    return tuple(problem for file in files for problem in found[file])


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    named = (
        path / SETTINGS,
        *sorted(path.glob("roles/*.json")),
        *sorted(path.glob("workflows/*.json")),
    )
    inside = [file for file in named if file.is_file()]
    yield from inside or sorted(path.glob("*.json"))


def _roles_beside(files: Iterable[Path]) -> list[Path]:
    """Return the role files that lie where the roles of these workflows are looked for."""
    folders = {folder for file in files for folder in file.absolute().parents[:2]}
    homes = sorted(folder.parent for folder in folders if folder.name == "workflows")
    return [file for home in homes for file in sorted(home.glob("roles/*.json"))]


def _kind_of(path: Path) -> Kind:
    if path.name == SETTINGS:
        return "settings"
    if path.name == SCRIPT_NAME:
        return "script"
    if path.parent.name == "workflows":
        return "workflow"
    if path.parent.name == "roles":
        return "roles"
    if path.name == "offline.json":
        return "offline"
    try:
        root = parse(read_capped(path).decode("utf-8", "replace")).root
    except MidstreamError:
        return "unknown"
    return "unknown" if root is None else _kind_by_content(root)


def _kind_by_content(root: Node) -> Kind:
    if "states" in root.members or "workflow_name" in root.members:
        return "workflow"
    values = [member.node for member in root.members.values()]
    if any(key in value.members for value in values for key in _ROLE_KEYS):
        return "roles"
    return "unknown"


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


def _check_script(
    path: Path, roles: Mapping[str, Role], tools: Mapping[str, ToolSpec] | None
) -> tuple[Problem, ...]:
    workflow = path.absolute().parent.with_suffix(".json")
    if workflow.is_file():
        return check_workflow(path.parent.with_suffix(".json"), roles=roles, tools=tools)
    try:
        return Script.read(read_capped(path), shown_path(path)).problems
    except MidstreamError as error:
        return (unreadable(path, error),)


def _check_json(path: Path, *, is_known: bool) -> tuple[Problem, ...]:
    def check(text: str, file: str) -> tuple[Problem, ...]:
        parsed = parse(text)
        report = Report(file, parsed.flaws)
        if not is_known and parsed.root is not None:
            report.error(
                parsed.root,
                f"this is no workflow, no role file and no {SETTINGS}.",
                'A workflow has "states", a role file is {"NAME": {"systemMessage": ...}}.',
            )
        return report.problems

    return _with_text(path, check)


def _with_text(path: Path, check: Callable[[str, str], tuple[Problem, ...]]) -> tuple[Problem, ...]:
    try:
        text, problems = decoded(read_capped(path), shown_path(path))
    except MidstreamError as error:
        return (unreadable(path, error),)
    return problems or check(text, shown_path(path))
