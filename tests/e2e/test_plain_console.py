"""The console without a terminal: lines in as they arrive, plain or JSON lines out."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipes_kit import OFFLINE, events, finished, of_type, run, started


def until(stream: IO[bytes] | None, words: str) -> Iterator[str]:
    """Yield lines up to the first one with these words."""
    assert stream is not None
    for data in stream:
        line = data.decode()
        yield line
        if words in line:
            return
    raise AssertionError(f"{words!r} was never said")


def test_a_chat_that_is_answered_ends_with_no_wait_and_no_interruption(tmp_path: Path) -> None:
    ended = run(tmp_path, *OFFLINE, lines="hello\n/cost\n")

    assert ended.code == 0
    assert ended.err == ""
    assert ended.out.startswith("› hello\n")
    assert "\n[offline]" in ended.out
    assert "waiting for your words" not in ended.out
    assert "interrupted" not in ended.out


def test_lines_that_came_together_are_answered_one_after_the_other(tmp_path: Path) -> None:
    ended = run(tmp_path, *OFFLINE, lines="first\nsecond\n/cost\nthird\n")

    order = ["› first", "> first", "› second", "> second", "› /cost", "› third", "> third"]
    places = [ended.out.find(f"\n{line}\n") for line in order[1:]]
    assert ended.out.startswith(order[0])
    assert -1 not in places
    assert places == sorted(places)
    assert "interrupted" not in ended.out
    assert ended.code == 0


def test_a_question_is_answered_as_lines_arrive(tmp_path: Path) -> None:
    process = started(tmp_path, *OFFLINE, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"/workflow code_architecture_review\n")
    process.stdin.flush()
    shown = "".join(until(process.stdout, "4 size"))
    ended = finished(process, "purple\n/state\nsize\n")

    assert "? #1 focus ▌ the workflow asks" in shown
    assert "'purple' is not one of the choices" in ended.out
    assert "waiting for your answer to #1" in ended.out
    assert "What matters most: **size**" in ended.out
    assert "code_architecture_review: finished" in ended.out.splitlines()[-1]
    assert ended.code == 0


def test_a_run_that_waits_for_an_answer_counts_as_settled(tmp_path: Path) -> None:
    ended = run(tmp_path, "--mode", "workflow:code_architecture_review", *OFFLINE, lines="")

    assert ended.code == 0
    stands, kept = ended.out.splitlines()[-2:]
    assert "waiting for your answer to #1" in stands
    assert "TEXT` answers it, and /resume " in kept


def test_the_first_line_is_the_input_of_a_workflow_that_waits_for_one(tmp_path: Path) -> None:
    ended = run(tmp_path, "--mode", "workflow:coder_reviewer", *OFFLINE, lines="mend it\n")

    assert "The task: mend it." in ended.out
    assert ended.out.splitlines()[-1].endswith("coder_reviewer: finished")
    assert ended.code == 0


def test_leaving_leaves_later_lines_alone(tmp_path: Path) -> None:
    ended = run(tmp_path, *OFFLINE, lines="/exit\nnever said\n")

    assert ended.code == 0
    assert "never said" not in ended.out


def test_a_failed_workflow_is_exit_code_1(tmp_path: Path) -> None:
    workflows = tmp_path / "config" / "workflows"
    (workflows / "w").mkdir(parents=True)
    (workflows / "w.json").write_text(
        '{"workflow_name": "w", "states": [{"name": "start", "pre_handler": "h"}, {"name": "stop"}]}',
        encoding="utf-8",
    )
    (workflows / "w" / "script.py").write_text("def h(run): 1 / 0\n", encoding="utf-8")

    assert run(tmp_path, *OFFLINE, lines="/workflow w\n").code == 1


def test_json_lines_hold_what_happens_and_what_the_console_says(tmp_path: Path) -> None:
    ended = run(tmp_path, *OFFLINE, "--json", lines="hello\n/nosuch\n")

    found = events(ended.out)
    assert ended.err == ""
    assert of_type(found, "agent_responded")
    said = [event["text"] for event in of_type(found, "console")]
    assert any("There is no command /nosuch" in text for text in said)
    assert not any("waiting for your words" in text for text in said)


def test_a_tool_that_does_not_exist_cannot_be_allowed(tmp_path: Path) -> None:
    ended = run(tmp_path, *OFFLINE, "--allow", "write_fle", lines="hello\n")

    assert "! --allow write_fle: no such tool. Did you mean 'write_file'?" in ended.out
    assert ended.code == 0
