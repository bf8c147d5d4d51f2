"""Rules of the house that hold for every file."""

import ast
import typing
from pathlib import Path

import pytest

from midstream.core import events, notices
from midstream.core.views.reference import events_reference

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ALL = SOURCES + sorted((ROOT / "tests").rglob("*.py"))
WITH_A_JOURNAL = [
    path
    for path in ALL
    + sorted((ROOT / "torture").glob("*.py"))
    + sorted((ROOT / "benchmarks").rglob("*.py"))
    if "src" in path.parts or "midstream" in path.read_text(encoding="utf-8")
]
"""The files that may run in one process with a store. Programs of other libraries never do."""

FORBIDDEN = {
    "asyncio.wait_for": "on Python 3.11 it can swallow a cancellation: asyncio.timeout",
    "eval": "no code from data",
    "exec": "no code from data",
    "builtins.eval": "no code from data",
    "builtins.exec": "no code from data",
    "__import__": "no code from data",
    "os.system": "a shell string",
    "os.popen": "a shell string",
    "subprocess.getoutput": "a shell string",
    "subprocess.getstatusoutput": "a shell string",
    "asyncio.create_subprocess_shell": "a shell string",
    "yaml.load": "no code from data",
    "tempfile.mktemp": "somebody else may make the file first",
}
CODE_IN_DATA = {"pickle", "cPickle", "marshal", "shelve", "dill", "jsonpickle", "yaml", "joblib"}
"""Modules whose data may hold code, or that read such data as soon as a word is forgotten."""

BLOCKING = {"time.sleep", "subprocess.run", "subprocess.check_output", "socket.create_connection"}


def call_names(tree: ast.AST) -> list[tuple[int, str]]:
    return [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


PROGRAMS = [
    *SOURCES,
    *sorted((ROOT / "torture").glob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
]


@pytest.mark.parametrize("path", PROGRAMS, ids=relative)
def test_no_forbidden_call(path: Path) -> None:
    assert forbidden(path.read_text(encoding="utf-8")) == []


def forbidden(text: str) -> list[str]:
    tree = ast.parse(text)
    found = [f"{line}: {name}" for line, name in call_names(tree) if name in FORBIDDEN]
    for node in ast.walk(tree):
        match node:
            # Whatever is not plainly False may be true.
            case ast.keyword(arg="shell", value=value) if ast.unparse(value) != "False":
                found.append(f"{value.lineno}: shell={ast.unparse(value)}")
            case ast.Import(names=names):
                modules = {alias.name.partition(".")[0] for alias in names}
                found += [f"{node.lineno}: {name}" for name in sorted(modules & CODE_IN_DATA)]
            case ast.ImportFrom(module=str(module), level=0):
                if module.partition(".")[0] in CODE_IN_DATA:
                    found.append(f"{node.lineno}: {module}")
                names_there = {f"{module}.{alias.name}" for alias in node.names}
                found += [f"{node.lineno}: {name}" for name in sorted(names_there & {*FORBIDDEN})]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import os, marshal as m",
        "from yaml import load",
        "from os import system",
        "from asyncio import wait_for",
        "eval('1')",
        "subprocess.run('x', shell=True)",
        "subprocess.run('x', shell=shell)",
        "subprocess.run('x', shell=1)",
    ],
)
def test_what_is_forbidden_is_found(text: str) -> None:
    assert forbidden(text)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_blocking_call_on_the_loop(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        f"{line}: {name} in async {function.name}"
        for function in ast.walk(tree)
        if isinstance(function, ast.AsyncFunctionDef)
        for line, name in call_names(function)
        if name in BLOCKING
    ]
    assert found == []


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_nothing_is_left_open(path: Path) -> None:
    if path == Path(__file__):
        return
    text = path.read_text(encoding="utf-8")
    words = (
        "TO" + "DO",
        "FIX" + "ME",
        "NotImplemented" + "Error",
        "pytest." + "skip",
        "x" + "fail",
    )
    assert [word for word in words if word in text] == []


@pytest.mark.parametrize("path", WITH_A_JOURNAL, ids=relative)
def test_no_second_sqlite_opens_a_journal(path: Path) -> None:
    """Closing a file through the standard library's SQLite drops the locks the store's own holds."""
    modules = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert "sqlite3" not in modules


def test_a_facts_class_mirrors_its_wire_name() -> None:
    for event in (*typing.get_args(events.AnyFact), *typing.get_args(notices.AnyNotice)):
        words = "".join(part.capitalize() for part in event.__struct_config__.tag.split("_"))
        assert event.__name__ == words


def test_the_emitter_speaks_the_names_users_know() -> None:
    spoken = {
        event.__struct_config__.tag
        for event in (*typing.get_args(events.AnyFact), *typing.get_args(notices.AnyNotice))
    }
    assert spoken >= {
        "state_transition",
        "agent_thinking",
        "workflow_output",
        "run_started",
        "agent_responded",
        "tool_called",
        "tool_returned",
        "question_asked",
        "question_answered",
        "input_received",
        "interrupted",
        "handler_ran",
        "run_finished",
        "run_failed",
        "run_stopped",
    }


def test_the_nine_parts_stand_where_their_path_says() -> None:
    from midstream.ai.api_client import AIAPIClient
    from midstream.ai_coder_console import AICoderConsole
    from midstream.command.handler import CommandHandler
    from midstream.config.manager import ConfigManager
    from midstream.console.interface import ConsoleInterface
    from midstream.tool.manager import ToolManager
    from midstream.workflow.agent import WorkflowAgent
    from midstream.workflow.context import WorkflowContext
    from midstream.workflow.state_machine import WorkflowStateMachine

    parts: list[type] = [
        AIAPIClient,
        AICoderConsole,
        CommandHandler,
        ConfigManager,
        ConsoleInterface,
        ToolManager,
        WorkflowAgent,
        WorkflowContext,
        WorkflowStateMachine,
    ]
    assert [part.__module__.split(".")[0] for part in parts] == ["midstream"] * 9
    assert len({part.__module__ for part in parts}) == 9


def test_the_page_of_events_is_what_the_types_say() -> None:
    written = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    assert written == events_reference(), "run `make docs`"
