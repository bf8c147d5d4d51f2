"""The real console in a real pty: files are named, own commands run, and a model gets what was sent."""

import json
from pathlib import Path
from typing import Any

from console_kit import chatting
from screen import ENTER, TAB, Screen
from support.openai_server import Gate, OpenAIServer, Reply

MODEL = ("--model", "openai:gpt-4o-mini")


def editor_line(screen: Screen) -> str:
    """The row the cursor stands on."""
    return screen.lines()[screen.cursor()[1]]


def workspace(home: Path) -> Path:
    folder = home / "workspace"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "reader.py").write_text("the contents of a file\n")
    (folder / "reader.log").write_text("")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / ".env").write_text("KEY=of-a-secret\n")
    # What a workspace nobody has trusted brings along.
    (folder / ".midstream").mkdir()
    return folder


def last_words(server: OpenAIServer) -> str:
    body: dict[str, Any] = server.requests[-1]
    return json.dumps(body["messages"][-1], ensure_ascii=False)


def test_a_file_is_named_and_nothing_of_it_is_pasted(tmp_path: Path) -> None:
    replies = [Reply(text="I see.")]
    with chatting(replies, tmp_path, *MODEL, workspace=workspace(tmp_path)) as (screen, server):
        screen.type("look at @rdr")
        screen.wait_for("file")
        assert "reader.log" not in screen.text()
        screen.type(TAB)
        screen.wait_until(lambda s: editor_line(s) == "› look at @src/deep/reader.py")
        screen.type(" and @env")
        screen.wait_for("hidden from agents")
        screen.type(TAB)
        screen.wait_until(lambda s: editor_line(s).endswith(" and @.env"))
        screen.type(ENTER)
        screen.wait_for("I see.")

        words = last_words(server)
        assert "look at @src/deep/reader.py and @.env" in words
        assert "contents of a file" not in words
        assert "of-a-secret" not in words


def test_a_command_of_ones_own_runs_beside_a_turn_and_is_sent_only_when_joined(
    tmp_path: Path,
) -> None:
    gate = Gate()
    replies = [Reply(text="Working on it.", gate=gate), Reply(text="Three."), Reply(text="I see.")]
    with chatting(replies, tmp_path, *MODEL, workspace=workspace(tmp_path)) as (screen, server):
        screen.type("begin" + ENTER)
        screen.wait_for("interrupts dude")
        screen.type("!echo $((1 + 2)) in ${PWD##*/}" + ENTER)
        screen.wait_for("┆ 3 in workspace")
        screen.wait_for("⏎ adds it to your words")
        gate.open()
        screen.wait_for("Working on it.")
        screen.type("what is it?" + ENTER)
        screen.wait_for("Three.")
        assert "3 in workspace" not in json.dumps(server.requests[-1])

        screen.type("!" + ENTER)
        screen.wait_until(lambda s: editor_line(s) == "› [output 1 line #1]")
        screen.type("and this" + ENTER)
        screen.wait_for("I see.")
        words = last_words(server)
        assert "3 in workspace" in words
        assert "[exit code 0]" in words
        assert "and this" in words
