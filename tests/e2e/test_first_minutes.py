"""The console of somebody who has set nothing up: what it is, what is here, what to try."""

from pathlib import Path

import pytest
from console_kit import console, run

SHOWN = "midstream is a console for AI coding"


@pytest.mark.parametrize(("cols", "rows"), [(40, 60), (80, 30), (200, 40)])
def test_the_first_screen_is_shown_once_and_again_when_asked(
    tmp_path: Path, cols: int, rows: int
) -> None:
    with console(tmp_path, cols=cols, rows=rows, is_new=True) as screen:
        screen.wait_for("chat with dude")
        first = "\n".join(screen.scrollback())
        assert SHOWN.split()[0] in first
        assert "OPENAI_API_KEY" in first
        assert "No model is configured" not in first
        screen.type("/exit\r")
        screen.wait_exit()

    with console(tmp_path, cols=cols, rows=rows, is_new=True) as screen:
        screen.wait_for("chat with dude")
        assert "Until you choose a model" not in " ".join("\n".join(screen.scrollback()).split())
        assert "No model is configured" in "\n".join(screen.scrollback())
        screen.type("/welcome\r")
        screen.wait_for("Try")


def test_what_is_typed_meanwhile_is_kept(tmp_path: Path) -> None:
    with console(tmp_path, is_new=True) as screen:
        screen.type("hello there")
        screen.wait_for("Try")
        screen.wait_for("› hello there")


@pytest.mark.parametrize("option", ["--mode=role:coder", "--model=offline", "--continue"])
def test_who_asks_for_something_gets_that(tmp_path: Path, option: str) -> None:
    with console(tmp_path, option, is_new=True) as screen:
        screen.wait_for("chat with")
        assert SHOWN not in "\n".join(screen.scrollback())


def test_the_first_screen_comes_after_the_demo_too(tmp_path: Path) -> None:
    demo = ("--mode", "workflow:code_architecture_review", "--model", "offline")
    with console(tmp_path, *demo, is_new=True) as screen:
        screen.wait_for("What matters most to you?")
        screen.type("size\r")
        screen.wait_for("✓ finished")
        screen.wait_for("chat with dude")
        screen.type("\x04")
        assert screen.wait_exit() == 0
    assert not (tmp_path / "config").exists()
    with console(tmp_path, is_new=True) as screen:
        screen.wait_for("Try")
        assert SHOWN in "\n".join(screen.scrollback())


def test_a_setting_is_changed_in_the_console_and_a_misfit_named(tmp_path: Path) -> None:
    file = tmp_path / "config" / "application.json"
    with console(tmp_path, cols=200) as screen:
        screen.wait_for("chat with dude")
        screen.type("/config editing vim\r")
        screen.wait_for('expected emacs or vi, found "vim". Did you mean "vi"?')
        assert not file.exists()
        screen.type("\x15/config editing vi\r")
        screen.wait_for("editing = vi  (user:")
        screen.type("/config permissionMode plan\r")
        screen.wait_for("It is in effect now.")
        screen.wait_for("· plan ·")
    assert '"editing": "vi"' in file.read_text()


def test_a_pipe_gets_a_line_and_no_screen(tmp_path: Path) -> None:
    done = run(tmp_path, lines="/exit\n")

    assert SHOWN not in done.stdout
    assert done.stdout.count("No model is configured") == 1


@pytest.mark.parametrize("cols", [40, 80])
def test_an_error_before_the_console_is_there_is_broken_between_words(
    tmp_path: Path, cols: int
) -> None:
    with console(tmp_path, "chat", "hello", cols=cols) as screen:
        screen.wait_exit()
        told = screen.scrollback()
    words = " ".join(told).partition("[offline]")[0].split()
    for word in ("OPENAI_API_KEY", "OPENAI_BASE_URL.", "offline", "endpoint"):
        assert word in words


def test_what_ends_the_program_is_broken_between_words(tmp_path: Path) -> None:
    with console(tmp_path, "send", "nosuchrun", "hello", cols=24) as screen:
        screen.wait_exit()
        told = screen.scrollback()
    assert len(told) > 1
    for word in ("midstream:", "'nosuchrun'"):
        assert any(word in line for line in told), told
    assert all(part[-1:] != " " and len(part) < 24 for part in (line.rstrip() for line in told))


TOLD_CODER = "This is a git repository: /role coder works on its code."


def told_coder(home: Path, *options: str, workspace: Path, command: str = "") -> bool:
    """Start a console, run a command in it, leave; return whether it told of the coder."""
    with console(home, *options, workspace=workspace) as screen:
        screen.wait_for("chat with ")
        if command:
            screen.type(f"{command}\r")
            screen.wait_for("chat with coder")
        screen.type("/exit\r")
        screen.wait_exit()
        return TOLD_CODER in "\n".join(screen.scrollback())


def folder(home: Path, name: str, *, is_repository: bool = True) -> Path:
    """Return a new folder, a git repository or none."""
    (home / name / (".git" if is_repository else "src")).mkdir(parents=True)
    return home / name


def test_who_starts_in_a_repository_is_told_of_the_coder_once_in_each(tmp_path: Path) -> None:
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    (two / "src").mkdir()
    assert told_coder(tmp_path, workspace=one)
    assert not told_coder(tmp_path, workspace=one)
    assert told_coder(tmp_path, workspace=two / "src")
    assert not told_coder(tmp_path, workspace=folder(tmp_path, "none", is_repository=False))
    assert TOLD_CODER not in run(tmp_path, lines="hi\n", workspace=folder(tmp_path, "pipe")).stdout


def test_who_chose_a_mode_in_a_repository_is_not_told_of_the_coder(tmp_path: Path) -> None:
    named, chosen = folder(tmp_path, "named"), folder(tmp_path, "chosen")
    assert not told_coder(tmp_path, "--mode", "role:dude", workspace=named)
    run(tmp_path, "--mode", "role:coder", "--model", "offline", lines="hi\n", workspace=chosen)
    assert not told_coder(tmp_path, workspace=chosen)
    assert told_coder(tmp_path, workspace=named, command="/role coder")
    assert not told_coder(tmp_path, workspace=folder(tmp_path, "other"))  # it begins with the coder
