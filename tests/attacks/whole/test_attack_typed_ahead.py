"""Keys typed before a question of the command line stands there, or pasted: they answer nothing."""

import json
import sys
from pathlib import Path

import pytest
from console_kit import MIDSTREAM, console, environment, write_workflow
from screen import Screen

from midstream.cli_options import FULL_WORD

SERVER = Path(__file__).parents[1] / "mcp" / "hostile_server.py"

FLOW = {
    "workflow_name": "mine",
    "agents": [{"agent_role": "dude", "context": "c"}],
    "contexts": [{"name": "c"}],
    "states": [{"name": "start", "agent": "dude"}],
}

AHEAD: dict[str, tuple[tuple[str, ...], str, str]] = {
    # what is tried: the command, the keys typed ahead, what the question that still stands ends with
    "the word of the mode full": (
        ("--model", "offline", "--permission-mode", "full"),
        f"{FULL_WORD}\r",
        f"Type '{FULL_WORD}' to go on",
    ),
    "the word, several times": (
        ("--model", "offline", "--permission-mode", "full"),
        f"{FULL_WORD}\r" * 5,
        f"Type '{FULL_WORD}' to go on",
    ),
    "a t for trust": (("trust",), "t\r", "[n] ›"),
    "trust at the start of the console": (("--model", "offline"), "t\rt\rt\r", "[n] ›"),
}


@pytest.mark.parametrize("attack", AHEAD)
def test_it_answers_nothing(tmp_path: Path, attack: str) -> None:
    arguments, keys, question = AHEAD[attack]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    if "full" not in arguments:
        write_workflow(workspace / ".midstream", "mine", FLOW)
    screen = console(tmp_path, *arguments, workspace=workspace)
    screen.type(keys)

    screen.wait_for(question)
    screen.settle()
    assert "Trusted" not in screen.text()
    assert "⏎" not in screen.text()
    assert not list(tmp_path.rglob("trust.json"))


UNFRESH: dict[str, tuple[tuple[str, ...], str, str]] = {
    # what is tried: the command, what comes once the question is there, what the question ends with
    "a t the moment it is drawn": (("trust",), "t", "[n] ›"),
    "a pasted t and Enter": (("trust",), "t\r", "[n] ›"),
    "a pasted t and Enter, in brackets": (("trust",), "\x1b[200~t\r\x1b[201~", "[n] ›"),
    "a pasted t at the start of the console": (("--model", "offline"), "t\r", "[n] ›"),
    "the pasted word of the mode full": (
        ("--model", "offline", "--permission-mode", "full"),
        f"{FULL_WORD}\r",
        f"Type '{FULL_WORD}' to go on",
    ),
    "the pasted word, Enter by hand": (
        ("--model", "offline", "--permission-mode", "full"),
        FULL_WORD,
        f"Type '{FULL_WORD}' to go on",
    ),
}


@pytest.mark.parametrize("attack", UNFRESH)
def test_what_is_pasted_or_comes_too_soon_answers_nothing(tmp_path: Path, attack: str) -> None:
    arguments, keys, question = UNFRESH[attack]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write_workflow(workspace / ".midstream", "mine", FLOW)
    screen = console(tmp_path, *arguments, workspace=workspace)
    screen.wait_for(question)
    if "moment" not in attack:
        screen.settle(0.6)

    screen.type(keys)
    screen.press("\r")

    with screen:
        screen.wait_until(lambda s: "Not " in s.text() or "⏎" in s.text())
        assert "Trusted" not in screen.text()
        assert not list(tmp_path.rglob("trust.json"))
        assert "everything" in question or "not trusted" in screen.text().casefold()
        assert "everything" not in question or "the word was not typed" in screen.text()


def test_a_pasted_yes_approves_no_server(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    servers = {"quick": {"command": sys.executable, "args": [str(SERVER)]}}
    (tmp_path / "config" / "application.json").write_text(json.dumps({"mcpServers": servers}))
    words = (*MIDSTREAM, "mcp", "approve", "quick")
    with Screen.spawn(words, env=environment(tmp_path), cwd=tmp_path, deadline_s=40) as screen:
        screen.type("y\ry\r")
        screen.wait_for("Approve exactly this? [y/N]:")
        screen.settle(0.6)
        screen.type("y\r")
        screen.wait_for("What is pasted does not count")
        screen.press("\r")

        assert screen.wait_exit() == 1


def test_ctrl_c_at_a_question_leaves(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    write_workflow(workspace / ".midstream", "mine", FLOW)
    screen = console(tmp_path, "trust", workspace=workspace)
    screen.wait_for("[n] ›")
    screen.press("tx\x7f\x03")

    assert screen.wait_exit() == 130
    assert "› t" in screen.text()
    assert "› tx" not in screen.text()


def test_the_word_typed_when_it_is_asked_for_is_one(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    screen = console(
        tmp_path, "--model", "offline", "--permission-mode", "full", workspace=workspace
    )
    screen.wait_for(f"Type '{FULL_WORD}' to go on")
    screen.press(f"{FULL_WORD}\r")
    screen.wait_for("full")
    screen.wait_for("⏎")
    screen.type("\x04")
    assert screen.wait_exit() == 0
