"""What the plain console says of files it reads later, and of workflows whose two names differ."""

from pathlib import Path

from console_kit import run, write_workflow


def test_a_broken_role_file_is_told_once_when_roles_are_read(tmp_path: Path) -> None:
    roles = tmp_path / "config" / "roles"
    roles.mkdir(parents=True)
    (roles / "bad.json").write_text('{"x": {"level": "huge"}}')
    done = run(tmp_path, "--model", "offline", lines="/roles\n/roles\n")

    assert done.returncode == 0
    assert done.stdout.count("bad.json:1:") == 1


def test_a_broken_role_file_is_told_to_a_person_who_only_chats(tmp_path: Path) -> None:
    roles = tmp_path / "config" / "roles"
    roles.mkdir(parents=True)
    (roles / "bad.json").write_text('{"x": {"level": "huge"}}')
    done = run(tmp_path, "--model", "offline", lines="hello\nhello again\n")

    assert done.stdout.count("bad.json:1:") == 1


def test_a_workflow_is_returned_to_by_the_name_it_was_started_by(tmp_path: Path) -> None:
    workflow = {
        "workflow_name": "inner",
        "start_condition": "on_user_input",
        "states": [{"name": "start"}, {"name": "stop"}],
    }
    write_workflow(tmp_path / "config", "outer", workflow)
    lines = "/workflow outer\n/role dude\n/workflow outer\n"
    done = run(tmp_path, "--model", "offline", lines=lines)

    assert "/workflow outer returns to it." in done.stdout
    assert "Back to" in done.stdout
    assert done.stdout.count("inner  started") == 1


def test_the_settings_tell_the_truth_about_a_model_chosen_meanwhile(tmp_path: Path) -> None:
    done = run(tmp_path, lines="/model offline\n/config\n")

    (line,) = [line for line in done.stdout.splitlines() if "models.base" in line]
    assert "offline  (this session" in line
