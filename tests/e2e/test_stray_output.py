"""What handlers and the programs they start print is told by the UI, in every UI."""

from pathlib import Path

from console_kit import console, json_lines, run, write_workflow
from screen import CTRL_D

WORKFLOW = {
    "workflow_name": "noisy",
    "states": [{"name": "start", "pre_handler": "shout"}, {"name": "stop"}],
}
SCRIPT = """
import os
import subprocess
import sys


def shout(run):
    print("from print")
    sys.stderr.write("from stderr\\n")
    os.write(1, b"from a descriptor\\n")
    subprocess.run(["sh", "-c", "printf 'from a child \\\\033[31m\\\\n'"])
"""
WORDS = ("from print", "from stderr", "from a descriptor", "from a child")


def test_json_lines_stay_json_lines(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "noisy", WORKFLOW, SCRIPT)
    done = run(tmp_path, "run", "noisy", "--json", "--model", "offline")

    assert done.returncode == 0
    told = [event["text"] for event in json_lines(done.stdout) if event["type"] == "console"]
    assert [word for word in WORDS if not any(word in text for text in told)] == []


def test_the_output_of_a_run_stands_alone_on_stdout(tmp_path: Path) -> None:
    workflow = WORKFLOW | {"variables": {"out": "The output."}}
    workflow["states"] = [
        {"name": "start", "pre_handler": "shout"},
        {"name": "stop", "input": "variables.out"},
    ]
    write_workflow(tmp_path / "config", "noisy", workflow, SCRIPT)
    done = run(tmp_path, "run", "noisy", "--model", "offline")

    assert done.stdout == "The output.\n"
    assert [word for word in WORDS if word not in done.stderr] == []


def test_the_prompt_is_not_drawn_over(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "noisy", WORKFLOW, SCRIPT)
    with console(tmp_path, "--model", "offline") as screen:
        screen.wait_for("chat with dude")
        screen.type("/workflow noisy\r")
        screen.wait_for("✓ finished")
        for words in WORDS:
            screen.wait_for(words)
        assert b"\x1b[31m\n" not in bytes(screen.raw)
        assert screen.lines()[screen.cursor()[1]].startswith("›")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_model_that_is_named_but_has_no_key_is_an_error_that_names_the_key(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, "chat", "hi", "--model", "anthropic:claude-sonnet-4-5")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL is not set" in done.stderr
