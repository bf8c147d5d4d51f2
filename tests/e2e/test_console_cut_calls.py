"""A call that is being written when a person cuts in: shown while it comes, and told as cut off."""

import signal
from pathlib import Path

import pytest
from console_kit import chatting, console, lines_left
from pipes_kit import checkpointed
from screen import CTRL_D, ESC
from support.openai_server import Call, Gate, Reply

MODEL = ("--model", "openai:gpt-4o-mini")
WRITE = Call(name="write_file", arguments={"path": "a.txt", "content": "many words " * 20})

MARK = "[interrupted while calling write_file: not made]"


def held(text: str) -> Reply:
    """Return a reply that never gets beyond the first piece of its call."""
    return Reply(text=text, calls=(WRITE,), gate=Gate(), holds_call=True)


def test_a_call_is_told_while_its_arguments_are_written(tmp_path: Path) -> None:
    gate = Gate()
    step = Reply(text="I make it.", calls=(WRITE,), gate=gate, holds_call=True)
    with chatting([step, Reply(text="Done so.")], tmp_path, *MODEL) as (screen, _):
        screen.type("make it\r")
        screen.wait_for("⋯ dude is writing a call of write_file")
        gate.open()
        screen.wait_for("#1 dude wants to create a.txt")
        assert not any("is writing a call" in line for line in screen.scrollback())


@pytest.mark.parametrize("text", ["I make it.", ""], ids=["after words", "alone"])
def test_words_that_cut_a_call_are_sent_with_what_was_not_made(tmp_path: Path, text: str) -> None:
    steps = [held(text), Reply(text="As you like.")]
    with chatting(steps, tmp_path, *MODEL) as (screen, server):
        screen.type("make it\r")
        screen.wait_for("is writing a call of write_file")
        screen.type("no, rename it\r")
        screen.wait_for("As you like.")
        assert f"▌ {MARK}" in screen.scrollback()
        heard = [message["content"] for message in server.requests[1]["messages"][1:]]
        assert heard == ["make it", f"{text} {MARK}".lstrip(), "no, rename it"]


def test_a_call_cut_by_esc_is_told_when_the_chat_goes_on(tmp_path: Path) -> None:
    with chatting([held(""), Reply(text="Once more.")], tmp_path, *MODEL) as (screen, server):
        screen.type("make it\r")
        screen.wait_for("is writing a call of write_file")
        screen.type(ESC)
        screen.wait_for(f"▌ {MARK}")
        screen.wait_for("⏎ resumes")
        screen.type("\r")
        screen.wait_for("Once more.")
        heard = [message["content"] for message in server.requests[1]["messages"][1:]]
        assert heard[:2] == ["make it", MARK]


@pytest.mark.parametrize("text", ["I make it.", ""], ids=["after words", "alone"])
@pytest.mark.parametrize("way", [CTRL_D, signal.SIGTERM], ids=["Ctrl-D", "SIGTERM"])
def test_a_call_cut_by_leaving_is_told_before_the_console_is_gone(
    tmp_path: Path, way: str | signal.Signals, text: str
) -> None:
    with chatting([held(text)], tmp_path, *MODEL) as (screen, _):
        screen.type("make it\r")
        screen.wait_for("is writing a call of write_file")
        lines = lines_left(screen, way)
    at = lines.index("› make it")
    told = ["▌ dude", *filter(None, [text]), f"▌ {MARK}"]
    assert lines[at + 1 : at + 1 + len(told)] == told
    assert "is kept where it stopped" in lines[at + 1 + len(told)]


def test_a_call_cut_by_a_crash_is_told_when_the_chat_goes_on(tmp_path: Path) -> None:
    with chatting([held(""), Reply(text="Once more.")], tmp_path, *MODEL) as (screen, server):
        screen.type("make it\r")
        screen.wait_for("is writing a call of write_file")
        checkpointed(tmp_path, "write_file")
        screen.kill(signal.SIGKILL)
        screen.wait_exit()
        with console(tmp_path, *MODEL, "--continue", server=server) as again:
            again.wait_for(f"▌ {MARK}")
            again.wait_for("resumes · chat with dude")
            again.type("go on\r")
            again.wait_for("Once more.")
        heard = [message["content"] for message in server.requests[1]["messages"][1:]]
        assert heard == ["make it", MARK, "go on"]
