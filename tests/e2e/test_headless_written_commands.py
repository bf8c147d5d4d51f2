"""`midstream chat "/NAME"`, `midstream run WORKFLOW "/NAME"`: as in the console, with nobody to ask."""

from pathlib import Path

from console_kit import write_workflow
from pipes_kit import OFFLINE, run, workspace_of
from test_console_written_commands import command

ECHO = {
    "states": [{"name": "start", "pre_handler": "h"}, {"name": "stop", "input": "common_data.x"}]
}
SCRIPT = "def h(run):\n    run.common_data['x'] = f'heard {run.input}'\n"


def test_a_chat_says_what_the_command_sends(tmp_path: Path) -> None:
    command(tmp_path / "config", "look", "Look at $1:\n!`ls app.py`")
    ended = run(tmp_path, "chat", "/Look 'it now'", *OFFLINE)

    assert (ended.code, "> Look at it now:\napp.py" in ended.out) == (0, True)
    assert "execute_terminal(ls app.py) · exit 0" in ended.err


def test_what_would_be_asked_about_is_not_run_and_nothing_is_sent(tmp_path: Path) -> None:
    head = "---\nallowed-tools: Bash(*)\n---\n"
    command(tmp_path / "config", "look", f"{head}!`touch ran`")
    refused = run(tmp_path, "chat", "/look", *OFFLINE)
    was_run = (workspace_of(tmp_path) / "ran").exists()
    allowed = run(tmp_path, "chat", "/look", *OFFLINE, "--allow", "execute_terminal")

    assert (refused.code, refused.out, was_run) == (1, "", False)
    assert "/look sent nothing: touch ran was not run." in refused.told
    assert "--allow 'exec: touch ran'" in refused.told
    assert (allowed.code, (workspace_of(tmp_path) / "ran").exists()) == (0, True)


def test_those_of_an_untrusted_workspace_are_not_there(tmp_path: Path) -> None:
    command(workspace_of(tmp_path) / ".claude", "look", "!`touch ran`")
    ended = run(tmp_path, "chat", "/look", *OFFLINE, "--permission-mode", "auto")

    assert (ended.code, "There is no command /look" in ended.told) == (2, True)
    assert not (workspace_of(tmp_path) / "ran").exists()


def test_what_is_piped_in_runs_no_command(tmp_path: Path) -> None:
    command(tmp_path / "config", "look", "!`ls`")
    ended = run(tmp_path, "chat", "-", *OFFLINE, lines="/look")

    assert "> /look" in ended.out
    assert "execute_terminal" not in ended.err


def test_a_workflow_is_started_with_what_the_command_sends_and_else_with_the_words(
    tmp_path: Path,
) -> None:
    write_workflow(tmp_path / "config", "echo", {"workflow_name": "echo", **ECHO}, SCRIPT)
    command(tmp_path / "config", "look", "Look at $1.")

    assert run(tmp_path, "run", "echo", "/look it", *OFFLINE).out == "heard Look at it.\n"
    assert run(tmp_path, "run", "echo", "/srv/look it", *OFFLINE).out == "heard /srv/look it\n"
