"""Files a rule keeps back, looked for through every tool that reads."""

import subprocess
from pathlib import Path

import pytest
from tables import table
from toolbench import Bench

from midstream.language.names import Json
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager

RULES: dict[str, Policy] = {
    "a deny rule": Policy(mode="full", deny=("read: kept/**",)),
    "a deny rule of the workspace": Policy(mode="full", narrowing_deny=("read: kept/**",)),
    "an ask rule": Policy(mode="full", ask=("read: kept/**",)),
    "a deny rule, in another case": Policy(mode="full", deny=("read: KEPT/**",)),
}
CALLS: dict[str, tuple[str, dict[str, Json]]] = {
    "by its name": ("read_files", {"paths": ["kept/canary.py"]}),
    "by its name, with lines": ("read_files", {"paths": ["kept/canary.py:1-2"]}),
    "through a link": ("read_files", {"paths": ["way/canary.py"]}),
    "by a search": ("exact_search", {"text": "canary"}),
    "by a search of what is ignored": ("exact_search", {"text": "canary", "include_ignored": True}),
    "by an expression": ("exact_search", {"text": "can[a]ry", "regex": True}),
    "by a pattern of its name": ("find_files", {"glob": "can*"}),
    "by a listing": ("list_directory", {"depth": 8}),
    "by the figures": ("measure_code", {}),
    "by the figures of its history": ("measure_code", {"commits": 2000, "top": 50}),
    "by an edit that does not fit": (
        "edit_file",
        {"path": "kept/canary.py", "edits": [{"old_text": "x", "new_text": "y"}]},
    ),
    "by a command that only looks": ("execute_terminal", {"command": "cat kept/canary.py"}),
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    branches = "".join(f"    if canary == {n}:\n        return {n}\n" for n in range(12))
    (tmp_path / "kept/canary.py").write_text(f"def canary_function(canary):\n{branches}")
    (tmp_path / "plain.py").write_text("import kept.canary\n")
    (tmp_path / "way").symlink_to("kept")
    git = (
        "git",
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.org",
        "-c",
        "commit.gpgsign=false",
    )
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@table("rule", RULES)
@table("attack", CALLS)
async def test_it_is_not_shown(workspace: Path, rule: str, attack: str) -> None:
    bench = Bench(workspace, ToolManager(policy=lambda: RULES[rule]))
    name, arguments = CALLS[attack]

    ended = await bench.call(name, **arguments)

    assert "canary_function" not in ended.text
    assert "canary ==" not in ended.text
    if name in ("measure_code", "list_directory"):
        assert ended.outcome == "completed"
        assert "canary.py" not in ended.text
        assert "plain.py" in ended.text


async def test_a_rule_on_everything_leaves_no_figures(workspace: Path) -> None:
    bench = Bench(workspace, ToolManager(policy=lambda: Policy(mode="full", deny=("read: **",))))

    assert "Refused" in await bench.failure("measure_code")
