"""Keys typed before a question of the command line stands there, or pasted: they answer nothing."""

import json
import sys
from pathlib import Path

from console_kit import MIDSTREAM, console, environment, write_workflow
from deadline import DEADLINE_S
from screen import Screen
from tables import table

from midstream.cli.options import FULL_WORD
from midstream.tui.terminal_questions import QUIET_S

SERVER = Path(__file__).parents[1] / "mcp" / "hostile_server.py"

FLOW = {
    "workflow_name": "mine",
    "agents": [{"agent_role": "dude", "context": "c"}],
    "contexts": [{"name": "c"}],
    "states": [{"name": "start", "agent": "dude"}],
}

HELD = ("/bin/sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"')
"""Starts a program once a file is there: what is typed before is typed ahead, however slow the typing."""

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


@table("attack", AHEAD)
def test_it_answers_nothing(tmp_path: Path, attack: str) -> None:
    arguments, keys, question = AHEAD[attack]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    if "full" not in arguments:
        write_workflow(workspace / ".midstream", "mine", FLOW)
    held = tmp_path / "held"
    words = (*HELD, str(held), *MIDSTREAM, "--workspace", str(workspace), *arguments)
    screen = Screen.spawn(words, environment(tmp_path), cols=100, rows=30)
    screen.type(keys)
    held.touch()

    screen.wait_for(question)
    screen.settle()
    assert screen.text().rstrip().removesuffix(":").endswith(question)
    assert "Trusted" not in screen.text()
    assert not list(tmp_path.rglob("trust.json"))


UNFRESH: dict[str, tuple[tuple[str, ...], str, str]] = {
    # what is tried: the command, what comes once the question is there, what the question ends with
    "a pasted line": (("trust",), "trust\r", "[n] ›"),
    "pasted lines": (("trust",), "t\rt\r", "[n] ›"),
    "a t behind another key": (("trust",), "\x01t", "[n] ›"),
    "the rest of a torn answer of the terminal": (("trust",), "\x1b]52;c;|t|\x01", "[n] ›"),
    "the rest of one, and Enter": (("trust",), "\x1b]52;c;|t\r", "[n] ›"),
    "a t behind a torn setting": (("trust",), "\x1bP1$r|t|\x01", "[n] ›"),
    "a t behind a torn key": (("trust",), "\x1b[27;2;|t", "[n] ›"),
    "a t in a paste in pieces": (("trust",), "\x1b[200~|t\r|\x1b[201~", "[n] ›"),
    "a pasted t and Enter, in brackets": (("trust",), "\x1b[200~t\r\x1b[201~", "[n] ›"),
    "a pasted t at the start of the console": (
        ("--model", "offline"),
        "\x1b[200~t\r\x1b[201~",
        "[n] ›",
    ),
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


@table("attack", UNFRESH)
def test_what_is_pasted_or_torn_answers_nothing(tmp_path: Path, attack: str) -> None:
    arguments, keys, question = UNFRESH[attack]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write_workflow(workspace / ".midstream", "mine", FLOW)
    screen = console(tmp_path, *arguments, workspace=workspace)
    screen.wait_for(question)
    screen.settle(0.6)

    for piece in keys.split("|"):
        screen.type(piece)
        screen.settle(0.6)
    screen.rest(QUIET_S)
    screen.press("\r")

    with screen:
        screen.wait_until(lambda s: "Not " in s.text() or "chat with" in s.text())
        assert "Trusted" not in screen.text()
        assert not list(tmp_path.rglob("trust.json"))
        assert "everything" in question or "not trusted" in screen.text().casefold()
        assert "everything" not in question or "the word was not typed" in screen.text()


TOO_SOON = {
    # what is tried: which time never passes, and the keys
    "a t the moment it is drawn": ("FRESH_S", "t|\r"),
    "a t behind a report of the focus": ("QUIET_S", "\x1b[I|t|\r"),
}


@table("attack", TOO_SOON)
def test_what_comes_too_soon_answers_nothing(tmp_path: Path, attack: str) -> None:
    name, keys = TOO_SOON[attack]
    workspace = tmp_path / "workspace"
    write_workflow(workspace / ".midstream", "mine", FLOW)
    program = f"from midstream.tui import terminal_questions as q; q.{name} = 1e6; "
    program += "from midstream.__main__ import main; main()"
    words = (sys.executable, "-c", program, "--workspace", str(workspace), "trust")
    with Screen.spawn(words, environment(tmp_path)) as screen:
        screen.wait_for("[n] ›")
        screen.settle(0.6)
        for piece in keys.split("|"):
            screen.type(piece)
            screen.settle()
        screen.type("\x03")

        assert screen.wait_exit() == 130
        assert not list(tmp_path.rglob("trust.json"))


def test_a_pasted_yes_approves_no_server(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    servers = {"quick": {"command": sys.executable, "args": [str(SERVER)]}}
    (tmp_path / "config" / "application.json").write_text(json.dumps({"mcpServers": servers}))
    words = (*MIDSTREAM, "mcp", "approve", "quick")
    with Screen.spawn(
        words, env=environment(tmp_path), cwd=tmp_path, deadline_s=DEADLINE_S
    ) as screen:
        screen.type("y\ry\r")
        screen.wait_for("Approve exactly this? [y/N]:")
        screen.settle(0.6)
        screen.paste("y\r")
        screen.wait_for("Pasted text is ignored")
        screen.rest(QUIET_S)
        screen.press("\r")

        assert screen.wait_exit() == 1


@table("keys", ["t\r", "t|\r", "x|\x7f|t\r", "\x1b[A|t\r"])
def test_one_key_and_enter_are_typed_also_where_they_come_together(
    tmp_path: Path, keys: str
) -> None:
    workspace = tmp_path / "workspace"
    write_workflow(workspace / ".midstream", "mine", FLOW)
    with console(tmp_path, "trust", workspace=workspace) as screen:
        screen.wait_for("[n] ›")
        screen.settle(0.6)
        for piece in keys.split("|"):
            screen.type(piece)
            screen.settle()

        assert screen.wait_exit() == 0


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
    screen.wait_for("chat ")
    screen.type("\x04")
    assert screen.wait_exit() == 0
