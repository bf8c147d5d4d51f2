"""The examples run as their page says: programs as they are, workflows with the offline model."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from examples_kit import EXAMPLES, environment

PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")


def run(home: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", *argv],
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def said(home: Path, *argv: str) -> str:
    done = run(home, *argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a copy of the examples' workspace: trust is of a folder, and runs write beside it."""
    return Path(shutil.copytree(EXAMPLES / "workspace", tmp_path / "workspace"))


def test_a_program_answers_the_question_of_its_run(tmp_path: Path) -> None:
    shown = said(tmp_path, str(EXAMPLES / "answer_a_question.py"))
    assert shown.splitlines() == [
        "-> start",
        "What is your name? Ada",
        "-> stop",
        "Welcome, Ada.",
    ]


def test_a_program_interrupts_its_run_and_looks_at_resume(tmp_path: Path) -> None:
    shown = said(tmp_path, str(EXAMPLES / "interrupt_a_run.py")).splitlines()
    assert shown[:3] == [
        "words: no, only rename it",
        "cut in: start",
        "was saying: First rewrite the parser",
    ]
    assert shown[-1] == "output: Rename it."


def test_the_tests_of_a_workflow_pass_wherever_they_are_copied_to(tmp_path: Path) -> None:
    file = shutil.copy(EXAMPLES / "test_a_workflow.py", tmp_path)
    alone = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")
    shown = said(tmp_path, "-m", "pytest", "-q", *alone, str(file))
    assert "4 passed" in shown


OUTPUTS = {
    "review_notes": ("the new parser", "[offline] Read the new parser first, then its tests.\n"),
    "measured_report": ("poem.txt", "[offline] poem.txt has 13 words. (13 words)\n"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_workflow_runs_as_the_page_says(name: str, workspace: Path) -> None:
    given, output = OUTPUTS[name]
    quoted = f'"{given}"' if " " in given else given
    assert f"midstream run {name} {quoted} --trust-workspace --model offline" in PAGE
    shown = said(
        *(workspace, "-m", "midstream", "run", name, given),
        *("--trust-workspace", "--model", "offline"),
    )
    assert shown == output


def test_a_workflow_without_a_script_is_valid(workspace: Path) -> None:
    file = ".midstream/workflows/review_notes.json"
    assert said(workspace, "-m", "midstream", "validate", "--strict", file) == "No problems.\n"


def test_the_tool_of_the_workspace_keeps_to_it(workspace: Path) -> None:
    done = run(
        *(workspace, "-m", "midstream", "run", "measured_report", "../elsewhere.txt"),
        *("--trust-workspace", "--model", "offline"),
    )
    assert done.returncode == 1
    assert "is not in the workspace" in done.stderr


def test_the_page_names_every_example() -> None:
    named = {EXAMPLES / target for target in re.findall(r"\]\((.*?)\)", PAGE)}
    made = [*EXAMPLES.glob("*.[pi]*"), *EXAMPLES.glob("workspace/.midstream/*/*.[jp]*")]
    assert named >= {*made}
