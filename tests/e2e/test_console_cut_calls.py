"""A call that is being written when a person cuts in: shown while it comes, and told as cut off."""

from pathlib import Path

from console_kit import chatting
from support.openai_server import Call, Gate, Reply

MODEL = ("--model", "openai:gpt-4o-mini")
WRITE = Call(name="write_file", arguments={"path": "a.txt", "content": "many words " * 20})


def test_a_call_is_told_while_its_arguments_are_written(tmp_path: Path) -> None:
    gate = Gate()
    step = Reply(text="I make it.", calls=(WRITE,), gate=gate, holds_call=True)
    with chatting([step, Reply(text="Done so.")], tmp_path, *MODEL) as (screen, _):
        screen.type("make it\r")
        screen.wait_for("⋯ dude is writing a call of write_file")
        gate.open()
        screen.wait_for("#1 dude wants to create a.txt")
        assert not any("is writing a call" in line for line in screen.scrollback())
