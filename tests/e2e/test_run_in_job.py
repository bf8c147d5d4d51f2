"""What `action.yml` runs in a job: within its budget, nobody approves, and the run is kept as a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".github" / "run-in-job"


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a job's step."""
    program = tmp_path / "temp" / "midstream" / "bin" / "midstream"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m midstream "$@"\n')
    program.chmod(0o755)
    (tmp_path / "repo" / ".midstream").mkdir(parents=True)
    (tmp_path / "repo" / ".midstream" / "application.json").write_text('{"currentMode": "role:x"}')
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        **dict.fromkeys(("WORKFLOW", "INPUT", "DIFF", "SET", "ALLOW"), ""),
        "TRUST": "false",
        "MODEL": "offline",
        "ROLE": "dude",
        "BUDGET": '{"usd": 1}',
    }


def ran(tmp_path: Path, job: dict[str, str], **given: str) -> tuple[int, dict[str, str]]:
    """Return the exit code of a job's run, and its outputs."""
    done = subprocess.run(
        ("bash", str(SCRIPT)), cwd=tmp_path / "repo", env=job | given, check=False
    )
    lines = (tmp_path / "outputs").read_text().splitlines()
    return done.returncode, dict(line.split("=", 1) for line in lines)


def test_a_workflow_runs_and_is_kept_to_be_gone_on_with(
    tmp_path: Path, job: dict[str, str]
) -> None:
    diff = "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+$(touch pwned) `touch pwned`\n"
    code, outputs = ran(tmp_path, job, WORKFLOW="review_changes", INPUT=diff, SET="format=sarif")

    assert (code, outputs["exit-code"]) == (0, "0")
    told = json.loads(Path(outputs["output"]).read_text())
    assert told["version"] == "2.1.0"
    assert (tmp_path / "summary.md").read_text() == Path(outputs["output"]).read_text()
    kept = Path(outputs["folder"]) / "kept" / "run.jsonl"
    assert json.loads(kept.read_text().splitlines()[0])["midstream_run"] == 1
    assert not list((tmp_path / "repo").glob("pwned")), "no text of a change is a command"


def test_a_prompt_is_answered_in_a_role(tmp_path: Path, job: dict[str, str]) -> None:
    code, outputs = ran(tmp_path, job, INPUT="--help me")

    assert code == 0
    assert "--help me" in Path(outputs["output"]).read_text()


def test_what_waits_for_a_person_is_kept_and_the_exit_code_says_so(
    tmp_path: Path, job: dict[str, str]
) -> None:
    code, outputs = ran(tmp_path, job, WORKFLOW="triage_issue", INPUT="It crashes.")

    assert (code, outputs["exit-code"]) == (4, "4")
    assert (Path(outputs["folder"]) / "kept" / "run.jsonl").stat().st_size > 0


def test_a_change_is_shown_by_git_and_the_repository_is_trusted_only_where_the_job_says_so(
    tmp_path: Path, job: dict[str, str]
) -> None:
    repo = tmp_path / "repo"
    who = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    (repo / "a.txt").write_text("one\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run((*who, *words), cwd=repo, check=True, capture_output=True)
    (repo / "a.txt").write_text("one\ntwo\n")
    code, outputs = ran(tmp_path, job, WORKFLOW="review_changes", DIFF="HEAD")
    assert code == 0
    assert "1 file changed" in Path(outputs["output"]).read_text()

    workflow = repo / ".midstream" / "workflows" / "own.json"
    workflow.parent.mkdir()
    states = [{"name": "start", "output": "input"}, {"name": "stop", "input": "input"}]
    workflow.write_text(json.dumps({"workflow_name": "own", "states": [states[1]]}))
    code, outputs = ran(tmp_path, job, WORKFLOW="own", INPUT="hello")
    assert code == 3, "nobody trusts it"
