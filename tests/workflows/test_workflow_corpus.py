"""A file for each thing the validator says, with the exact words beside it, and files it likes.

`corpus/broken/NAME.json` has its problems in `NAME.expected`, one a line; `corpus/good` has none.
`NAME.script` is the script, where there is one; no tool that reads Python files stumbles over it.
"""

import ast
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from midstream.language.json_text import Node, parse
from midstream.language.lint_scopes import Known
from midstream.language.problem import Report, as_text
from midstream.language.shape import fit, without_schema
from midstream.language.spec import ParsingTool, Role, ToolSpec, Workflow
from midstream.runtime.loader import check_workflow, load_workflow
from midstream.views.file_schema import workflow_schema

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
SOURCE = HERE.parents[1] / "src" / "midstream"

ROLES = {
    "coder": Role(),
    "idler": Role(includedTools=("run_test",), excludedTools=("delete_everything",)),
    "judge": Role(
        parsingTools=(
            ParsingTool(
                name="verdict",
                parameters={"type": "object", "properties": {"approved": {"type": "boolean"}}},
            ),
        )
    ),
}
TOOLS = {
    spec.name: spec
    for spec in (
        ToolSpec(name="list_files", description="", parameters={"type": "object"}),
        ToolSpec(
            name="run_tests",
            description="",
            parameters={
                "type": "object",
                "properties": {
                    "command": {"type": "string", "minLength": 1},
                    "timeout_s": {"type": "number", "minimum": 1, "maximum": 1800},
                    "shell": {"enum": ["bash", "zsh"]},
                    "version": {"const": 1},
                },
                "required": ["command"],
                "additionalProperties": False,
            },
        ),
        ToolSpec(
            name="edit",
            description="",
            parameters={
                "type": "object",
                "properties": {
                    "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}, "minItems": 1},
                    "never": False,
                },
                "required": ["edits"],
                "additionalProperties": {"type": "integer"},
                "$defs": {
                    "Edit": {
                        "type": "object",
                        "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                        "required": ["old", "new"],
                        "additionalProperties": False,
                    }
                },
            },
        ),
    )
}
WORKFLOWS = {"review": ("summarise",), "summarise": ("circle_of_workflows",)}
"""The other workflows there are, with those each runs."""

GOOD = sorted((CORPUS / "good").glob("*.json"))
BROKEN = sorted((CORPUS / "broken").glob("*.json"))


def placed(path: Path) -> Path:
    """Return a file of the corpus put into this folder, its script where scripts stand."""
    own = Path(path.name)
    own.write_bytes(path.read_bytes())
    script = path.with_suffix(".script")
    if script.exists():
        own.with_suffix("").mkdir()
        (own.with_suffix("") / "script.py").write_bytes(script.read_bytes())
    return own


def problems_of(path: Path) -> str:
    known = Known(
        roles=ROLES,
        handlers=None,
        script_file="",
        tools=TOOLS,
        workflows=WORKFLOWS,
        runs=lambda name: WORKFLOWS.get(name, ()),
    )
    return as_text(check_workflow(path, known))


def expected_of(path: Path) -> str:
    return path.with_suffix(".expected").read_text(encoding="utf-8").rstrip("\n")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_file_has_no_problem_and_loads(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = placed(path)

    assert problems_of(own) == ""
    loaded = load_workflow(own, roles=ROLES, tools=TOOLS, workflows=WORKFLOWS)
    assert loaded.definition.workflow.workflow_name == path.stem


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_file_is_told_exactly_what_is_wrong(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert problems_of(placed(path)) == expected_of(path)


def test_there_are_many_of_them() -> None:
    assert len(GOOD) + len(BROKEN) >= 150
    assert [path.stem for path in BROKEN if not expected_of(path)] == []


# --- every message ------------------------------------------------------------------------------

JUDGES = (
    *sorted((SOURCE / "language").glob("lint*.py")),
    SOURCE / "language" / "shape.py",
    SOURCE / "language" / "json_text.py",
    SOURCE / "runtime" / "script_outline.py",
)
ELSEWHERE = {"lint_roles.py"}
"""What is said of role files: see `tests/language/test_lint_roles.py`."""


def patterns_of(path: Path) -> dict[str, str]:
    """Return a regular expression for each text in a module that has words in it, by its place."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(part)
        for node in ast.walk(tree)
        if is_silent(node) or isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if is_silent(node) or part is not node
    }
    found = {}
    for node in ast.walk(tree):
        pieces = [] if id(node) in skipped else pieces_of(node)
        words = re.escape(" ".join(piece for piece in pieces if piece is not None))
        if re.search(r"[a-z]{2,}(\\ )+\S*[a-z]{2,}", words):
            text = "".join(".*" if piece is None else re.escape(piece) for piece in pieces)
            found[f"{path.name}: {ast.unparse(node)}"] = text
    return found


def is_silent(node: ast.AST) -> bool:
    """Return whether nothing in a node is ever said: a docstring, an assertion, a type."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Call)
    return isinstance(node, ast.Assert | ast.Raise | ast.Subscript)


def pieces_of(node: ast.AST) -> list[str | None]:
    """Return a text's pieces, None for each value put in; nothing of what is no text."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if not isinstance(node, ast.JoinedStr):
        return []
    texts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
    return [text if isinstance(text, str) else None for text in texts]


@pytest.mark.parametrize("module", JUDGES, ids=lambda path: path.name)
def test_every_message_is_said_of_some_file(module: Path) -> None:
    if module.name in ELSEWHERE:
        return
    said = "\n".join(map(expected_of, BROKEN))
    unsaid = [where for where, text in patterns_of(module).items() if not re.search(text, said)]

    assert [where for where in unsaid if not any(word in where for word in UNSAID)] == []


UNSAID = (
    # A file of two million characters is written in `tests/language/test_json_text.py`.
    "characters, more than the",
)


# --- and in an editor ---------------------------------------------------------------------------


def test_the_published_schema_takes_every_good_file() -> None:
    schema = Draft202012Validator(workflow_schema())
    misfits = [path.stem for path in GOOD if not schema.is_valid(read(path).value)]

    assert misfits == []


def test_the_published_schema_refuses_every_file_broken_in_shape() -> None:
    schema = Draft202012Validator(workflow_schema())
    readable = [(path, root) for path in BROKEN if (root := parse(text_of(path)).root) is not None]
    shapeless = [path.stem for path, root in readable if not has_shape(root)]
    refused = [path.stem for path, root in readable if not schema.is_valid(root.value)]

    assert len(shapeless) >= 20
    # What a schema can ask for beside the shape: two states that every workflow has.
    assert set(refused) - set(shapeless) == {"start_missing", "stop_missing"}
    assert set(shapeless) <= set(refused)


def read(path: Path) -> Node:
    root = parse(text_of(path)).root
    assert root is not None
    return root


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def has_shape(root: Node) -> bool:
    return fit(without_schema(root), Workflow, Report("file.json"))
