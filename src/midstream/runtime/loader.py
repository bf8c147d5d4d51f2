"""From files to a definition that can run: read, check everything, pin.

A script is looked at, never run: which handlers it has is read off its syntax tree. The bytes that
were checked are the bytes the digest is made of and the bytes handed on (`script_source`), so that
what runs is what was looked at, whatever happens to the files meanwhile.

Nothing here is async; it reads files and parses them, so call it in a thread.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

from midstream.config.private_files import FileMissing, read_capped, shown_path
from midstream.language.errors import AuthorMistake, MidstreamError
from midstream.language.lint import lint_workflow
from midstream.language.lint_scopes import Known
from midstream.language.plan import with_delegates
from midstream.language.problem import Problem, as_text, has_errors
from midstream.language.spec import Definition, Role, ToolSpec, Workflow
from midstream.runtime.script_outline import Script, every_state, script_problems, text_of

SCRIPT_NAME = "script.py"
OFFLINE_NAME = "offline.json"


class HasProblems(AuthorMistake):
    """A workflow that cannot run: `problems` are all that is wrong with it."""

    def __init__(self, what: str, *, problems: tuple[Problem, ...]) -> None:
        super().__init__(what)
        self.problems = problems


class LoadedWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow ready to run, and where it came from.

    `script` and `script_source` (its bytes, as checked) are None without a script. `warnings` are
    problems that keep nothing from running.
    """

    definition: Definition
    path: Path
    script: Path | None = None
    script_source: bytes | None = None
    warnings: tuple[Problem, ...] = ()


def script_beside(path: Path) -> Path:
    """Return where the script of the workflow file `NAME.json` stands: `NAME/script.py`."""
    return path.with_suffix("") / SCRIPT_NAME


def load_workflow(
    path: Path,
    *,
    roles: Mapping[str, Role],
    tools: Mapping[str, ToolSpec],
    read: Callable[[Path], bytes] = read_capped,
    workflows: Collection[str] | None = None,
    functions: Collection[str] | None = None,
    placed: Callable[[Problem], Problem] | None = None,
) -> LoadedWorkflow:
    """Return the workflow of a file, checked whole, with its script's handlers found by name.

    Args:
        path: the workflow file `NAME.json`; its script, if any, is `NAME/script.py` beside it.
        roles: every role there is; the definition keeps those of the workflow's agents, and where
            these may hand tasks on, the others as `delegates`.
        tools: every tool there is; the definition keeps those some agent or state may use.
        read: returns a file's bytes. `ConfigManager.read` refuses what is not trusted.
        workflows: the names of all workflows; None leaves names of sub-workflows unchecked.
        functions: the names of handlers that a program brings; no script is looked for then.
        placed: returns a problem as it is told, where the file was made from something else.

    Raises:
        AuthorMistake: the files have problems; the message lists all of them, one a line.
        UserMistake, WorldTrouble: as raised by `read`.
    """
    source = read(path)
    script = script_beside(path)
    script_source = None if functions is not None else _read_if_there(script, read)
    handlers = None if functions is None else dict.fromkeys(functions, 0)
    known = Known(roles=roles, handlers=handlers, script_file="", tools=tools, workflows=workflows)
    workflow, problems = _checked(path, source, script_source, known)
    if placed is not None:
        problems = tuple(map(placed, problems))
    if workflow is None:
        count = sum(problem.severity == "error" for problem in problems)
        said = "a problem" if count == 1 else f"{count} problems"
        raise HasProblems(f"{shown_path(path)} has {said}:\n{as_text(problems)}", problems=problems)
    return LoadedWorkflow(
        definition=_definition(workflow, source, script_source, roles, tools),
        path=path,
        script=None if script_source is None else script,
        script_source=script_source,
        warnings=problems,
    )


def digest(workflow: bytes, script: bytes | None) -> str:
    """Return the SHA-256 that pins a workflow, in hex; without a script it is the file's own.

    A NUL, which no workflow file can hold, keeps the two files apart.
    """
    whole = workflow if script is None else workflow + b"\0" + script
    return hashlib.sha256(whole).hexdigest()


def check_workflow(path: Path, known: Known) -> tuple[Problem, ...]:
    """Return every problem of a workflow file and its script; never raises for what they hold.

    `known` is what there is beside them.
    """
    try:
        source = read_capped(path)
        script_source = _read_if_there(script_beside(path), read_capped)
    except MidstreamError as error:
        return (unreadable(path, error),)
    return _checked(path, source, script_source, known)[1]


def unreadable(path: Path, error: MidstreamError) -> Problem:
    """Return the problem of a file that could not be read at all."""
    file = shown_path(path)
    what = error.what
    if what.startswith(f"{file} "):
        what = f"this file {what.removeprefix(f'{file} ')}"
    return Problem(file=file, line=0, column=0, path="", message=what, hint=error.hint)


def decoded(source: bytes, file: str) -> tuple[str, tuple[Problem, ...]]:
    """Return a file's text, or "" and the problem that it is not UTF-8."""
    try:
        return source.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        before = source[: error.start].decode("utf-8").removeprefix("\ufeff")
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        message = f"the byte 0x{source[error.start]:02x} is not UTF-8 text."
        problem = Problem(
            file=file,
            line=line,
            column=column,
            path="",
            message=message,
            hint="Save the file as UTF-8.",
        )
        return "", (problem,)


def _read_if_there(path: Path, read: Callable[[Path], bytes]) -> bytes | None:
    try:
        return read(path)
    except FileMissing:
        return None


def _checked(
    path: Path, source: bytes, script_source: bytes | None, known: Known
) -> tuple[Workflow | None, tuple[Problem, ...]]:
    file, script_file = shown_path(path), shown_path(script_beside(path))
    text, problems = decoded(source, file)
    if problems:
        return None, problems
    script = None if script_source is None else Script.read(script_source, script_file)
    is_broken = script is not None and bool(script.problems)
    known = msgspec.structs.replace(known, script_file=script_file, own_name=path.stem)
    if script is not None:
        known = msgspec.structs.replace(known, handlers=script.lines)
    workflow, problems = lint_workflow(text, known, file=file)
    if is_broken:
        # A script that cannot be read says nothing about its handlers: one problem, not twenty.
        problems = tuple(p for p in problems if not p.path.endswith("_handler"))
    if script is not None:
        problems = (*problems, *script_problems(script, workflow))
    return (None if has_errors(problems) else workflow), problems


def _definition(
    workflow: Workflow,
    source: bytes,
    script_source: bytes | None,
    roles: Mapping[str, Role],
    tools: Mapping[str, ToolSpec],
) -> Definition:
    used = {
        agent.agent_role: roles[agent.agent_role] if agent.agent_role else Role(includedTools=())
        for agent in workflow.agents
    }
    called = {state.tool for state in every_state(workflow.states)}
    definition = Definition(
        workflow=workflow,
        roles=used,
        tools=dict(tools),
        digest=digest(source, script_source),
        script=None if script_source is None else text_of(script_source),
    )
    definition = with_delegates(definition, roles)
    at_work = (*used.values(), *definition.delegates.values())
    usable = {
        name: spec
        for name, spec in tools.items()
        if name in called or any(role.may_use(name) for role in at_work)
    }
    return msgspec.structs.replace(definition, tools=usable)
