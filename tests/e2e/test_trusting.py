"""The first start in a stranger's folder, at a real terminal, and `midstream trust`."""

from pathlib import Path

from console_kit import console, run, write_workflow

CTRL_D = "\x04"

WORKFLOW = {
    "workflow_name": "mine",
    "agents": [{"agent_role": "dude", "context": "c"}],
    "contexts": [{"name": "c"}],
    "states": [{"name": "start", "tool": "execute_terminal", "arguments": {"command": "ls"}}],
}


def hostile(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    write_workflow(workspace / ".midstream", "mine", WORKFLOW)
    script = workspace / ".midstream" / "workflows" / "mine" / "script.py"
    script.write_text("import os\n# nothing\u202e to see\n")
    return workspace


def test_a_stranger_s_folder_shows_what_it_would_do_before_anything_of_it_counts(
    tmp_path: Path,
) -> None:
    workspace = hostile(tmp_path)
    screen = console(tmp_path, "--model", "offline", workspace=workspace)
    screen.wait_for("[n] ›")
    shown = screen.text()
    assert "a workflow: its states call execute_terminal" in shown
    assert "Python code, which runs with your rights when its workflow is used" in shown
    assert "! 1 character that cannot be seen (U+202E)" in shown
    screen.press("l\r")
    screen.wait_for(r"nothing\u202e to see")
    screen.wait_for("[n] ›")
    screen.press("n\r")
    screen.wait_for("not trusted: only reads")
    screen.type("/mode auto\r")
    screen.wait_for("This workspace is not trusted")
    screen.type("\x03")
    screen.settle()
    screen.type(CTRL_D)
    assert screen.wait_exit() == 0
    assert run(tmp_path, "workflows", workspace=workspace).returncode == 3


def test_a_long_line_of_a_stranger_stays_behind_its_bar(tmp_path: Path) -> None:
    workspace = hostile(tmp_path)
    script = workspace / ".midstream" / "workflows" / "mine" / "script.py"
    # Wrapped by the terminal its end would stand in the first column, where our own words do.
    script.write_text(
        "#" + "x" * 91 + "Trusted, as long as none of these files changes.\nTrusted\n"
    )
    screen = console(tmp_path, "trust", workspace=workspace, cols=100)
    screen.wait_for("[n] ›")
    screen.press("l\r")
    screen.wait_for("2 │ Trusted")
    screen.settle()
    shown = screen.text()
    screen.press("n\r")
    assert screen.wait_exit() == 3

    assert "      │ Trusted, as long" in shown
    assert not any(line.startswith("Trusted") for line in shown.splitlines())


def test_a_change_is_shown_as_a_difference(tmp_path: Path) -> None:
    workspace = hostile(tmp_path)
    screen = console(tmp_path, "trust", workspace=workspace)
    screen.wait_for("[n] ›")
    screen.press("t\r")
    screen.wait_for("Trusted, as long as none of these files changes.")
    assert screen.wait_exit() == 0
    listed = run(tmp_path, "trust", "--list", workspace=workspace)
    assert f"{workspace}  2 files, as it stands" in listed.stdout
    script = workspace / ".midstream" / "workflows" / "mine" / "script.py"
    script.write_text("import os\nos.system('evil')\n")
    again = run(tmp_path, "trust", workspace=workspace)

    assert again.returncode == 3
    assert "(changed since you trusted it)" in again.stdout
    assert "│ +os.system('evil')" in again.stdout
    assert "CHANGED since" in run(tmp_path, "trust", "--list", workspace=workspace).stdout


def test_a_single_file_is_one_file(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    (workspace / ".midstream").mkdir(parents=True)
    (workspace / ".midstream" / "application.json").write_text('{"currentMode": "role:coder"}')
    screen = console(tmp_path, "trust", workspace=workspace)
    screen.wait_for("[n] ›")
    screen.press("t\r")
    assert screen.wait_exit() == 0

    assert "(1 file)" in run(tmp_path, "trust", workspace=workspace).stdout
    assert "  1 file, as it stands" in run(tmp_path, "trust", "--list", workspace=workspace).stdout
    assert "(1 file)" in run(tmp_path, "doctor", workspace=workspace).stdout


def test_trust_is_taken_back(tmp_path: Path) -> None:
    workspace = hostile(tmp_path)
    screen = console(tmp_path, "trust", workspace=workspace)
    screen.wait_for("[n] ›")
    screen.press("t\r")
    assert screen.wait_exit() == 0
    assert run(tmp_path, "workflows", workspace=workspace).returncode == 0
    assert run(tmp_path, "trust", "--revoke", workspace=workspace).returncode == 0
    assert run(tmp_path, "workflows", workspace=workspace).returncode == 3
    assert run(tmp_path, "trust", "--revoke", workspace=workspace).returncode == 1


def test_what_was_typed_ahead_trusts_nothing(tmp_path: Path) -> None:
    workspace = hostile(tmp_path)
    screen = console(tmp_path, "trust", workspace=workspace)
    screen.type("t\rt\rt\r")
    screen.wait_for("[n] ›")
    screen.settle()
    listed = run(tmp_path, "trust", "--list", workspace=workspace)

    assert "No workspace is trusted." in listed.stdout
    screen.press("n\r")
    assert screen.wait_exit() == 3
