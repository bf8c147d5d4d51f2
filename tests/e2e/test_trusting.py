"""The first start in a stranger's folder, at a real terminal, and `midstream trust`."""

import re
from pathlib import Path
from typing import Any

from console_kit import console, run, write_workflow
from screen import Screen

CTRL_D = "\x04"

WORKFLOW = {
    "workflow_name": "mine",
    "agents": [{"agent_role": "dude", "context": "c"}],
    "contexts": [{"name": "c"}],
    "states": [{"name": "start", "tool": "execute_terminal", "arguments": {"command": "ls"}}],
}

FLOW: dict[str, Any] = {
    "workflow_name": "mine",
    "states": [
        {"name": "start", "ask": {"question": "Which colour?"}, "next": "stop"},
        {"name": "stop"},
    ],
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
    assert "! No sandbox, permission mode or rule holds Python code: it has your files" in shown
    assert "! 1 character that cannot be seen (U+202E)" in shown
    screen.press("l\r")
    screen.wait_for(r"nothing\u202e to see")
    screen.wait_for("[n] ›")
    screen.press("x\r")
    screen.wait_for("'x' is not one of these keys: nothing was decided.")
    screen.press("n\r")
    screen.wait_for("Not trusted: none of it is used")
    screen.wait_for("not trusted: only reads")
    screen.type("/permissions auto\r")
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


def codes(screen: Screen) -> list[str]:
    """Return the codes that were shown, in their order."""
    return re.findall(r"/trust (\w{6}) trusts", "\n".join(screen.scrollback()))


def test_a_workflow_written_while_the_console_is_open_is_found_shown_and_trusted(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "repo"
    workspace.mkdir()
    with console(tmp_path, "--model", "offline", workspace=workspace) as screen:
        screen.wait_for("chat with dude")
        write_workflow(workspace / ".midstream", "fresh", FLOW)
        screen.type("/workflow fresh\r")
        screen.wait_for("The workflow fresh is there, but its current version is not trusted.")
        screen.type("/workflows\r")
        screen.wait_for("not trusted as it stands: /trust shows it")
        screen.type("/trust 123456\r")
        screen.wait_for("No files were shown with that code.")
        screen.type("/trust\r")
        screen.wait_for("workflows/fresh.json")
        write_workflow(workspace / ".midstream", "fresh", {**FLOW, "description": "Another."})
        screen.wait_for("trusts exactly these files")
        screen.type(f"/trust {codes(screen)[-1]}\r")
        screen.wait_for("The files have changed meanwhile: nothing was trusted.")
        screen.type(f"/trust {codes(screen)[-1]}\r")
        screen.wait_for("Trusted. Roles, workflows and commands can be used now")
        screen.type("/workflow fresh\r")
        screen.wait_for("Which colour?")
        screen.type("\x1b")
        screen.wait_for("⏎ resumes")

        write_workflow(workspace / ".midstream", "fresh", {**FLOW, "description": "A third."})
        screen.type("/trust\r")
        screen.wait_for("A third.")


def test_what_nobody_has_trusted_is_explained_and_drawn_and_nothing_of_it_runs(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    ran = tmp_path / "ran"
    script = f"open({str(ran)!r}, 'w').close()\ndef look(run): ...\n"
    flow = {**FLOW, "description": "Asks \x1b[31mred."}
    flow["states"] = [{**flow["states"][0], "pre_handler": "look"}, flow["states"][1]]
    write_workflow(workspace / ".midstream", "mine", flow, script)
    (workspace / ".midstream" / "tools").mkdir()
    (workspace / ".midstream" / "tools" / "t.py").write_text(script)

    for command in ("explain", "graph"):
        ended = run(tmp_path, command, "mine", workspace=workspace)
        assert ended.returncode == 0, ended
        assert "\x1b" not in ended.stdout
    assert "colour?" in run(tmp_path, "explain", "mine", workspace=workspace).stdout
    assert run(tmp_path, "run", "mine", workspace=workspace).returncode == 3
    assert not ran.exists()


def test_a_workspace_that_is_to_be_left_alone_needs_no_trust(tmp_path: Path) -> None:
    workspace = hostile(tmp_path)
    alone = ("--model", "offline", "--no-trust-workspace")

    listed = run(tmp_path, "workflows", *alone, workspace=workspace)
    talked = run(tmp_path, *alone, lines="hello\n", workspace=workspace)
    played = run(tmp_path, "test", *alone, workspace=workspace)

    assert listed.returncode == talked.returncode == 0, (listed, talked)
    assert played.returncode == 3
    assert played.stderr.rstrip().endswith("For this time alone: --trust-workspace.")
    assert re.search("^mine +not trusted as it stands", listed.stdout, re.MULTILINE)
