"""The example `check_in_ci.py`: its exit code says what came of a review, and what waits goes on later."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples_kit import EXAMPLES, environment, started
from support.openai_server import Call, Fault, Gate, OpenAIServer, Reply

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
LOOKING = Call(name="list_directory", arguments={"path": "."})


@pytest.fixture
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def verdict(approved: bool, comments: str) -> Reply:
    """Return the reply of a reviewer that has decided."""
    call = Call(name="verdict", arguments={"approved": approved, "comments": comments})
    return Reply(calls=(call,))


def checked(folder: Path, models: OpenAIServer) -> tuple[int, str, str]:
    """Return what a check came to: its exit code, what it wrote, and its errors."""
    process = started(
        folder, "-W", "error", str(EXAMPLES / "check_in_ci.py"), models=models, **PIPES
    )
    output, errors = process.communicate("-x = 1\n+x = 2\n")
    return process.returncode, output, errors


def midstream(folder: Path, models: OpenAIServer, *argv: str) -> Any:
    """Return a command of a person who looks at the journal of the check."""
    return subprocess.run(
        [sys.executable, "-m", "midstream", *argv],
        cwd=folder,
        env=environment(folder, models) | {"MIDSTREAM_JOURNAL": "review.db"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("approved", "code"), [(True, 0), (False, 1)])
def test_the_verdict_is_the_exit_code(
    approved: bool, code: int, tmp_path: Path, models: OpenAIServer
) -> None:
    models.add(verdict(approved, "x has no test."))
    assert checked(tmp_path, models) == (code, "x has no test.\n", "")
    assert "+x = 2" in str(models.requests)


def test_a_review_that_fails_says_why(tmp_path: Path, models: OpenAIServer) -> None:
    models.add(Fault(status=401, message="No such key."))
    code, output, errors = checked(tmp_path, models)
    assert (code, output) == (1, "")
    assert "No such key." in errors


def test_a_used_up_budget_waits_for_a_person_who_goes_on(
    tmp_path: Path, models: OpenAIServer
) -> None:
    models.add(Reply(calls=(LOOKING,), usage=(199_000, 1_000)), verdict(True, "It is right."))
    code, output, errors = checked(tmp_path, models)
    assert (code, output, len(models.requests)) == (4, "", 1)
    assert "used up its budget of 200,000 tokens" in errors
    run = errors.split()[1]

    done = midstream(tmp_path, models, "resume", run, "--answer", "no limit")

    assert (done.returncode, len(models.requests)) == (0, 2), done.stderr


def test_a_check_that_the_ci_ended_goes_on(tmp_path: Path, models: OpenAIServer) -> None:
    gate = Gate()
    models.add(Reply(text="Let me see.", gate=gate), verdict(True, "It is right."))
    process = started(tmp_path, str(EXAMPLES / "check_in_ci.py"), models=models, **PIPES)
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    gate.reached.wait()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    run = midstream(tmp_path, models, "runs").stdout.split()[0]

    done = midstream(tmp_path, models, "resume", run)

    assert (done.returncode, len(models.requests)) == (0, 2), done.stderr
