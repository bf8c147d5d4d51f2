"""A running command, interrupted at the real prompt: its whole tree ends, the model hears the truth."""

import os
from pathlib import Path

from console_kit import console
from screen import CTRL_D
from support.openai_server import Call, OpenAIServer, Reply

MODEL = ("--model", "openai:gpt-4o-mini")


def processes_with(mark: str) -> list[int]:
    """Return the processes whose command line holds the mark."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in words and b"sleep" in words:
            found.append(int(place.name))
    return found


def test_words_end_a_command_with_all_it_started(tmp_path: Path) -> None:
    mark = f"86000.{os.getpid()}"
    script = f"(sleep {mark} & sleep {mark}) & echo begun; sleep {mark}\n"
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "go.sh").write_text(script)
    calls = (
        Call(name="execute_terminal", arguments={"command": "bash go.sh"}),
        Call(name="get_time", arguments={}),
    )
    with OpenAIServer([Reply(calls=calls), Reply(text="Stopped it.")]) as server:
        screen = console(
            tmp_path, *MODEL, "--allow", "execute_terminal", "--allow", "outside: *", server=server
        )
        screen.wait_for("chat with dude")
        screen.type("run it\r")
        screen.wait_for("begun")
        screen.wait_until(lambda _: len(processes_with(mark)) >= 3, what="three processes")
        screen.type("never mind\r")
        screen.wait_for("Stopped it.")
        assert processes_with(mark) == []

        messages = server.requests[1]["messages"]
        called = next(m for m in messages if m.get("tool_calls"))
        results = [m for m in messages if m["role"] == "tool"]
        assert [r["tool_call_id"] for r in results] == [c["id"] for c in called["tool_calls"]]
        assert "stopped" in results[0]["content"].lower()
        assert messages.index(results[-1]) < messages.index(
            {"role": "user", "content": "never mind"}
        )
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_leaving_ends_a_running_command(tmp_path: Path) -> None:
    mark = f"86001.{os.getpid()}"
    call = Call(
        name="execute_terminal", arguments={"command": f"printf 'be%s\\n' gun; sleep {mark}"}
    )
    with OpenAIServer([Reply(calls=(call,))]) as server:
        screen = console(
            tmp_path, *MODEL, "--allow", "execute_terminal", "--allow", "outside: *", server=server
        )
        screen.wait_for("chat with dude")
        screen.type("run it\r")
        screen.wait_for("begun")
        assert processes_with(mark)
        screen.type("/exit\r")
        assert screen.wait_exit() == 0
        assert processes_with(mark) == []
