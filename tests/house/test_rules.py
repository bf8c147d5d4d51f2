"""Rules of the house that hold for every file."""

import ast
import re
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

from house_kit import BESIDE, HOUSE, ROOT, SOURCES, TESTS, calls_of, check, nodes_of, text_of
from support.events_page import events_reference

from midstream.core import events, notices

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


def test_no_forbidden_call() -> None:
    def rule(path: Path) -> list[str]:
        return forbidden(nodes_of(path), calls_of(path))

    check(rule, SOURCES + BESIDE)


def forbidden(nodes: Iterable[ast.AST], calls: Iterable[tuple[str, ast.Call]]) -> list[str]:
    found = [f"{call.lineno}: {name}" for name, call in calls if name in FORBIDDEN]
    for node in nodes:
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


def test_what_is_forbidden_is_found(tmp_path: Path) -> None:
    lines = (
        "import pickle",
        "import os, marshal as m",
        "from yaml import load",
        "from os import system",
        "from asyncio import wait_for",
        "eval('1')",
        "subprocess.run('x', shell=True)",
        "subprocess.run('x', shell=shell)",
        "subprocess.run('x', shell=1)",
    )
    page = tmp_path / "page.py"
    page.write_text("\n".join(lines), encoding="utf-8")

    found = forbidden(nodes_of(page), calls_of(page))
    assert {int(each.partition(":")[0]) for each in found} == {*range(1, len(lines) + 1)}


def test_no_blocking_call_on_the_loop() -> None:
    def rule(path: Path) -> Iterator[str]:
        calls = {id(call): name for name, call in calls_of(path)}
        for function in nodes_of(path):
            if isinstance(function, ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and calls[id(node)] in BLOCKING:
                        yield f"{node.lineno}: {calls[id(node)]} in async {function.name}"

    check(rule, SOURCES)


def test_children_are_started_in_one_place() -> None:
    starts = ("subprocess.", "asyncio.create_subprocess", "os.posix_spawn", "os.spawn", "os.fork")
    # The sandbox's first process forks what runs in it; the attacks stand for other programs.
    beside = (
        "system/supervisor.py",
        "system/guard.py",
        "tools/sandbox/inside_probes.py",
        "testing/attacks.py",
    )

    def rule(path: Path) -> list[str]:
        if path.as_posix().endswith(beside):
            return []
        return [
            f"{call.lineno}: {name}" for name, call in calls_of(path) if name.startswith(starts)
        ]

    check(rule, SOURCES)


def test_each_client_of_http_says_how_long_it_waits() -> None:
    """Its own limit is five seconds a read: a machine that stands still takes as long."""

    def rule(path: Path) -> list[str]:
        return [
            f"{call.lineno}: {name}"
            for name, call in calls_of(path)
            if re.fullmatch(r"httpx2?\.(Async)?Client", name)
            and "timeout" not in [each.arg for each in call.keywords]
        ]

    check(rule, SOURCES + TESTS + BESIDE)


def test_nothing_is_left_open() -> None:
    words = (
        "TO" + "DO",
        "FIX" + "ME",
        "NotImplemented" + "Error",
        "pytest." + "skip",
        "x" + "fail",
    )
    check(lambda path: [w for w in words if w in text_of(path)], SOURCES + TESTS)


def test_no_second_sqlite_opens_a_journal() -> None:
    """Closing a file through the standard library's SQLite drops the locks the store's own holds."""
    # Programs of other libraries never run in one process with a store.
    beside = [path for path in TESTS + BESIDE if "midstream" in text_of(path)]
    paths = [path for path in SOURCES + beside if "sqlite3" in text_of(path)]

    check(lambda path: [m for m in modules_of(path) if m == "sqlite3"], paths)


def modules_of(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module


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
    from midstream.app.ai_coder_console import AICoderConsole
    from midstream.app.commands.handler import CommandHandler
    from midstream.config.manager import ConfigManager
    from midstream.models.api_client import AIAPIClient
    from midstream.runtime.agent import WorkflowAgent
    from midstream.runtime.context import WorkflowContext
    from midstream.runtime.state_machine import WorkflowStateMachine
    from midstream.tools.manager import ToolManager
    from midstream.tui.interface import ConsoleInterface

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


ONE_MACHINE = re.compile(r"\b(paths?|sockets?|sqlite|apsw|disks?|files?|locks?)\b", re.IGNORECASE)


def test_the_port_of_the_store_fits_many_machines() -> None:
    text = text_of(HOUSE / "runtime" / "storage.py")

    assert [match[0] for match in ONE_MACHINE.finditer(text)] == []
