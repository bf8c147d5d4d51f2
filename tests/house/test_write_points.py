"""Nothing is written to a terminal but where it is made harmless, and its secrets are redacted."""

import ast
from pathlib import Path

from house_kit import HOUSE, SOURCES, calls_of, check, nodes_of

MODULES = [path for path in SOURCES if "defaults" not in path.parts]

WRITE_POINTS = {
    "system/own_process.py": "what is written outside a UI: sanitized for terminals, redacted",
    "tui/pipes.py": "lines of the plain and the JSON UI",
    "tui/terminal.py": "frames of the terminal's UI",
}
CHILDREN = {
    "codemap/__main__.py": "a child process that answers to its parent's pipe",
    "tools/sandbox/inside_probes.py": "a child process that answers to its parent's pipe",
    "system/watchdog.py": "a child process that answers to its parent's pipe",
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
AT_TERMINALS = {
    "system/own_process.py": "has the terminal say what is pasted under a question outside a UI",
    "tui/terminal_questions.py": "knows the sequences that come among the keys",
}
TERMINAL = ("/dev/tty", "\x1b", "\x9b")


def relative(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def _writes(path: Path) -> list[str]:
    """Return the calls that write to a standard stream; a write to a descriptor of its own is none."""
    return [
        f"{call.lineno}: {name}"
        for name, call in calls_of(path)
        if name in WRITING
        and not (
            name == "os.write" and ast.unparse(call.args[0]) not in ("1", "2", "STDOUT", "STDERR")
        )
    ]


def test_nothing_writes_to_a_terminal_beside_the_write_points() -> None:
    paths = [path for path in MODULES if relative(path) not in WRITE_POINTS | CHILDREN]

    check(_writes, paths)


def test_only_the_terminals_own_files_make_control_sequences() -> None:
    def rule(path: Path) -> list[str]:
        return [
            f"{node.lineno}: {node.value!r}"
            for node in nodes_of(path)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and any(sign in node.value and len(node.value) < 100 for sign in TERMINAL)
        ]

    paths = [
        path
        for path in MODULES
        if path.parent.name not in ("tui", "testing") and relative(path) not in AT_TERMINALS
    ]
    check(rule, paths)


def test_every_name_on_the_lists_is_a_file() -> None:
    known = {relative(path) for path in MODULES}

    assert [name for name in WRITE_POINTS | CHILDREN if name not in known] == []
