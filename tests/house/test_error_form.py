"""Errors have one form: what happened, why, what to do. Every one that is raised says the last, too."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from house_kit import HOUSE, SOURCES, nodes_of, tree_of

from midstream.language.errors import REPORT_BUG, OurBug

ELSEWHERE: Final = {
    "language/evaluation.py": "an expression: its text and place stand before it",
    "language/expressions.py": "an expression: the linter says its place, the message how it is written",
    "language/patterns.py": "a pattern: as an expression",
    "language/templates.py": "a template: as an expression",
    "testing": "fakes: what they raise stands for the real thing's error",
    "rehearsal": "a rehearsal's own stage: it catches what it raises",
    "store/encoding.py": "a bug of ours, whose hint is to report it",
    "store/writer.py": "a bug of ours, whose hint is to report it",
    "store/postgres/link.py": "a bug of ours, whose hint is to report it",
}
"""Files, or rooms, that need no hints of their own, and why."""

WITHOUT: Final = {
    ("app/input.py", "say"): "the run's own reason, which says what to do",
    (
        "app/background_runs.py",
        "_answered",
    ): "routing's own reason, which says how to begin the line",
    ("app/background_runs.py", "_said"): "the run's own reason, which says what to do",
    ("acp/session.py", "_say"): "routing's own reason, which says how to begin the line",
    ("runtime/engine/remote.py", "compact"): "the reason says what there is to wait for",
    ("runtime/state_machine.py", "compact"): "the reason says what there is to wait for",
    ("runtime/engine/remote.py", "edit_todo"): "the reason says which items there are",
    ("runtime/state_machine.py", "edit_todo"): "the reason says which items there are",
    (
        "runtime/engine/run_files.py",
        "place_of",
    ): "becomes the reason why one file is left as it is",
    ("system/workspace_paths.py", "require_allowed"): "the rule that forbids it, named",
    ("system/workspace_paths.py", "_readable"): "secrets are not read, whatever is tried",
    ("tools/file_tools.py", "read_files"): "the errors of each file, which have their hints",
    ("runtime/effects.py", "record_change"): "a call that was stopped: whoever stopped it knows",
    (
        "runtime/workflow_library.py",
        "_read_offline",
    ): "a list of problems, each with its place and hint",
    ("runtime/loader.py", "load_workflow"): "a list of problems, each with its place and hint",
    ("config/manager.py", "trust"): "a bug of ours, whose hint is to report it",
    ("system/own_process.py", "_write_out"): "the words are OutputLost's own",
    ("cli/main.py", "exit_code"): "the words are OutputLost's own",
    ("cli/console.py", "_on_lines"): "the words are OutputLost's own",
    ("cli/run.py", "_worked"): "the words are OutputLost's own",
    ("cli/run.py", "_shown"): "the words are OutputLost's own",
}
"""Functions that raise one without a hint, and why."""

POSITIONAL: Final = {"BadText", "BadExpression", "BadTemplate", "BadPattern", "ExpressionFailed"}
"""Errors whose second argument is the hint."""


class Made(NamedTuple):
    """An error that is made: where, in which function, and whether it has a hint."""

    file: str
    function: str
    line: int
    error: str
    has_hint: bool


def family() -> set[str]:
    """Return the names of MidstreamError and everything that is one."""
    names = {"MidstreamError"}
    classes = [
        (node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases})
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    ]
    while more := {name for name, bases in classes if bases & names} - names:
        names |= more
    return names


def has_hint(call: ast.Call, error: str) -> bool:
    """Return whether an error is made with a hint that is not plainly empty."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
    if not given and error in POSITIONAL:
        given = call.args[1:2]
    return any(not (isinstance(each, ast.Constant) and not each.value) for each in given)


def errors_in(node: ast.AST, file: str, names: set[str], function: str = "") -> Iterator[Made]:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = child.name
        if isinstance(child, ast.Call):
            error = ast.unparse(child.func).rpartition(".")[2]
            if error in names:
                yield Made(file, inner, child.lineno, error, has_hint(child, error))
        yield from errors_in(child, file, names, inner)


@cache
def made() -> list[Made]:
    names = family()
    files = ((path.relative_to(HOUSE).as_posix(), tree_of(path)) for path in SOURCES)
    return [each for file, tree in files for each in errors_in(tree, file, names)]


def is_elsewhere(file: str) -> bool:
    return file in ELSEWHERE or file.partition("/")[0] in ELSEWHERE


def test_every_error_says_what_to_do_or_stands_on_the_list_with_the_reason() -> None:
    mute = [
        f"{each.file}:{each.line} {each.error} in {each.function}"
        for each in made()
        if not each.has_hint
        and not is_elsewhere(each.file)
        and (each.file, each.function) not in WITHOUT
    ]
    assert not mute, "\n".join(mute)


def test_the_lists_name_nothing_that_is_gone() -> None:
    mute = {(each.file, each.function) for each in made() if not each.has_hint}
    files = {file for file, _ in mute}

    assert set(WITHOUT) <= mute
    assert all(any(f == each or f.startswith(f"{each}/") for f in files) for each in ELSEWHERE)


def test_most_errors_are_seen_by_this_test() -> None:
    assert len(made()) > 300
    assert {"UserMistake", "WorldTrouble", "AuthorMistake", "OurBug"} <= {m.error for m in made()}


def test_a_bug_of_ours_asks_to_be_reported() -> None:
    assert str(OurBug("It broke.")) == f"It broke. {REPORT_BUG}"
