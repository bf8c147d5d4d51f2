"""Nothing is written to a terminal but where it is made harmless, and its secrets are redacted."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "midstream"
SOURCES = sorted(path for path in ROOT.rglob("*.py") if "defaults" not in path.parts)

WRITE_POINTS = {
    "process.py": "what is written outside a face: sanitized for terminals, redacted",
    "console/writing.py": "lines of the plain and the JSON face",
    "console/terminal.py": "frames of the terminal's face",
}
CHILDREN = {
    "tool/measurement.py": "a child process that answers to its parent's pipe",
    "tool/codemap/__main__.py": "a child process that answers to its parent's pipe",
    "tool/sandbox/inside.py": "a child process that answers to its parent's pipe",
    "testing/openai_server.py": "a program for tests",
    "core/views/reference.py": "makes a page of the docs",
}
WRITING = {
    "print",
    "click.echo",
    "click.secho",
    "click.echo_via_pager",
    "os.write",
    "sys.stdout.write",
    "sys.stderr.write",
    "sys.stdout.buffer.write",
    "sys.stderr.buffer.write",
    "sys.__stdout__.write",
    "sys.__stderr__.write",
    "traceback.print_exc",
    "traceback.print_exception",
    "traceback.print_stack",
    "rich.print",
    "print_formatted_text",
    "logging.basicConfig",
}
TERMINAL = ("/dev/tty", "\x1b", "\x9b")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _writes(path: Path) -> list[str]:
    """Return the calls that write to a standard stream; a write to a descriptor of its own is none."""
    return [
        f"{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in WRITING
        and not (
            ast.unparse(node.func) == "os.write"
            and ast.unparse(node.args[0]) not in ("1", "2", "STDOUT", "STDERR")
        )
    ]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_writes_to_a_terminal_beside_the_write_points(path: Path) -> None:
    if relative(path) in WRITE_POINTS | CHILDREN:
        return
    assert _writes(path) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_the_terminals_own_files_make_control_sequences(path: Path) -> None:
    if path.parent.name in ("console", "testing"):
        return
    found = [
        f"{node.lineno}: {node.value!r}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and any(sign in node.value and len(node.value) < 100 for sign in TERMINAL)
    ]
    assert found == []


def test_every_name_on_the_lists_is_a_file() -> None:
    known = {relative(path) for path in SOURCES}

    assert [name for name in WRITE_POINTS | CHILDREN if name not in known] == []
