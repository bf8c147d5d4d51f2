"""The real console in a real pty: what a person reads while runs go on and afterwards."""

import re
from pathlib import Path
from typing import Any

import pytest
from console_kit import console, environment, write_workflow
from deadline import DEADLINE_S
from screen import CTRL_D, Screen
from support.openai_server import Call, Gate, OpenAIServer, Reply

MODEL = ("--model", "openai:gpt-4o-mini")
CTRL_O = "\x0f"
CODE = """\
Here it is:

```python
def total(items):
    return sum(items)  # all of them
```
"""
LINE: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude", "next": "middle"},
        {"name": "middle", "agent": "dude", "next": "end"},
        {"name": "end", "agent": "dude"},
        {"name": "stop"},
    ],
}
WIDTHS = (40, 80, 200)


def workspace(home: Path) -> Path:
    """A folder with a file of three lines."""
    folder = home / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    return folder


def wait_for_prompt(screen: Screen) -> None:
    """Read until a line can be sent to the chat."""
    screen.wait_until(lambda s: "chat with dude" in s.text(), what="the prompt")


@pytest.mark.parametrize("cols", WIDTHS)
def test_a_turn_from_thinking_to_scrollback(tmp_path: Path, cols: int) -> None:
    thinking, writing = Gate(), Gate()
    look = Call(name="read_files", arguments={"paths": ["a.py"]})
    replies = [
        Reply(calls=(look,), gate=thinking, gate_after=0, text="Let me look.", usage=(900, 340)),
        Reply(chunks=(CODE[:20], CODE[20:]), gate=writing, gate_after=1),
    ]
    with (
        OpenAIServer(replies) as server,
        console(
            tmp_path, *MODEL, server=server, workspace=workspace(tmp_path), cols=cols
        ) as screen,
    ):
        wait_for_prompt(screen)
        screen.type("show me\r")
        screen.wait_for("⋯ dude is thinking")
        thinking.open()
        screen.wait_for("✓ read_files(a.py) · 3 lines")
        screen.wait_for("⋯ dude is writing")
        screen.wait_for(" · ~34")
        assert len(screen.lines()) - screen.lines().count("") <= 30
        writing.open()
        screen.wait_for("def total(items):")
        screen.wait_gone("⋯ dude")

        screen.type(CTRL_O)
        screen.wait_for("three = 3")
        screen.type("/last\r")
        screen.wait_for("There is no earlier tool result")
        screen.type("/history\r")
        screen.wait_for("1 turn · ")
        screen.type("/context\r")
        screen.wait_for("Estimated at 4 characters")
        screen.type("/state\r")
        screen.wait_for("└ contexts")
        assert all(len(line) <= cols for line in screen.scrollback())
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_colours_are_those_that_can_be_read_on_any_background(tmp_path: Path) -> None:
    said = f"{CODE}\n\n# Head\n\n`x` and [a link](http://a.b) and **bold**\n\n> a\n\n1. b\n\n|a|\n|-|\n|1|"
    with (
        OpenAIServer([Reply(text=said)]) as server,
        console(tmp_path, *MODEL, server=server) as screen,
    ):
        wait_for_prompt(screen)
        screen.type("show me\r")
        screen.wait_for("return sum(items)")
        screen.type("/nonsense\r")
        screen.wait_for("! ")
        screen.settle()

    printed = screen.raw.decode()
    assert "\x1b[35mdef\x1b[0m" in printed
    used = [{*found.split(";")} for found in re.findall(r"\x1b\[([\d;]*)m", printed)]
    unreadable = {"30", "37", "34", "33", *map(str, range(40, 48)), *map(str, range(90, 108))}
    assert [codes for codes in used if codes & unreadable] == []
    # Bold is drawn bright by many.
    assert [codes for codes in used if "1" in codes and codes & {*map(str, range(30, 38))}] == []


def test_without_colour_nothing_is_coloured(tmp_path: Path) -> None:
    env = environment(tmp_path) | {"NO_COLOR": "1"}
    with OpenAIServer([Reply(text=CODE)]) as server:
        env |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-test-not-a-key"}
        folder = workspace(tmp_path)
        from console_kit import MIDSTREAM

        argv = [*MIDSTREAM, "--workspace", str(folder), *MODEL]
        with Screen.spawn(argv, env=env, cols=80, rows=30, deadline_s=DEADLINE_S) as screen:
            wait_for_prompt(screen)
            screen.type("show me\r")
            screen.wait_for("return sum(items)")
            screen.settle()
    codes = re.findall(r"\x1b\[([\d;]*)m", screen.raw.decode())
    used = {code for found in codes for code in found.split(";")}
    assert used <= {"", "0", "1", "2", "3", "4", "7", "9", "22", "23", "24", "27"}


def test_verbose_shows_results_as_they_come(tmp_path: Path) -> None:
    look = Call(name="read_files", arguments={"paths": ["a.py"]})
    replies = [Reply(calls=(look,), thinking="I should look."), Reply(text="Three.")]
    with (
        OpenAIServer(replies) as server,
        console(tmp_path, *MODEL, server=server, workspace=workspace(tmp_path)) as screen,
    ):
        wait_for_prompt(screen)
        screen.type("/verbose on\r")
        screen.wait_for("are shown in full")
        screen.type("count\r")
        screen.wait_for("Three.")

        told = "\n".join(screen.scrollback())
        assert "┊ dude: reasoning\n  ┊ I should look.\n" in told
        assert "  ┊      3  three = 3\n" in told


def test_how_far_a_workflow_is_stands_over_who_is_at_work(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "line", {**LINE, "workflow_name": "line"})
    gate = Gate()
    replies = [Reply(text="One."), Reply(chunks=("Tw", "o."), gate=gate, gate_after=1)]
    with (
        OpenAIServer(replies, default=Reply(text="Three.")) as server,
        console(tmp_path, *MODEL, server=server) as screen,
    ):
        wait_for_prompt(screen)
        screen.type("/workflow line\r")
        screen.wait_for("▶ line · step 2 of 3 · ")
        screen.wait_for("⋯ middle · dude is writing")
        gate.open()
        screen.wait_for("✓ finished")
        screen.wait_gone("step ")


def test_the_title_says_what_goes_on_and_is_given_back(tmp_path: Path) -> None:
    gate = Gate()
    with (
        OpenAIServer([Reply(chunks=("On", "e."), gate=gate, gate_after=1)]) as server,
        console(tmp_path, *MODEL, server=server, workspace=workspace(tmp_path)) as screen,
    ):
        wait_for_prompt(screen)
        screen.wait_until(lambda s: b"\x1b]2;dude \xc2\xb7 workspace" in s.raw, what="the title")
        screen.type("hello\r")
        screen.wait_until(lambda s: "\x1b]2;● dude".encode() in s.raw, what="the busy title")
        gate.open()
        wait_for_prompt(screen)
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        assert screen.raw.count(b"\x1b[22;2t") == screen.raw.count(b"\x1b[23;2t") == 1
        last = screen.raw.rindex(b"\x1b]2;")
        assert screen.raw[last:].startswith(b"\x1b]2;\x07\x1b[23;2t")


def test_everything_drawn_is_drawn_in_whole_frames(tmp_path: Path) -> None:
    reply = Reply(chunks=tuple(f"word{number} " for number in range(300)))
    with OpenAIServer([reply]) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_prompt(screen)
        screen.type("hello\r")
        screen.wait_for("word299")
        screen.settle()

    begun, ended = b"\x1b[?2026h", b"\x1b[?2026l"
    assert screen.raw.count(begun) == screen.raw.count(ended) > 3
    beside = re.sub(
        re.escape(begun) + b".*?" + re.escape(ended), b"", bytes(screen.raw), flags=re.S
    )
    assert b"word" not in beside


def test_typed_text_survives_every_width(tmp_path: Path) -> None:
    gate = Gate()
    reply = Reply(chunks=("streaming words " * 40, "end."), gate=gate, gate_after=1)
    with OpenAIServer([reply]) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_prompt(screen)
        screen.type("hello\r")
        screen.wait_for("streaming words")
        screen.type("half a th")
        for cols, rows in ((40, 10), (200, 50), (40, 24), (80, 30)):
            screen.resize(cols, rows)
            screen.settle()
        screen.type("ought")
        screen.wait_until(
            lambda s: s.lines()[s.cursor()[1]] == "› half a thought", what="the typed text"
        )
        gate.open()
        screen.wait_for("end.")
        assert screen.lines()[screen.cursor()[1]] == "› half a thought"


def test_another_theme_counts_at_once_and_at_the_next_start(tmp_path: Path) -> None:
    with console(tmp_path, "--model", "offline") as screen:
        wait_for_prompt(screen)
        screen.type("/config theme lihgt\r")
        screen.wait_for('Did you mean "light"?')
        screen.settle()
        assert b"38;5;" not in screen.raw
        screen.type("/config theme light\r")
        screen.wait_for("It is in effect now.")
        screen.settle()
        light = b"\x1b[38;5;24m"
        assert light in screen.raw
        cell = screen.cell(screen.cursor()[0] - 2, screen.cursor()[1])
        assert (cell.data, cell.fg) == ("›", "005f87")
    with console(tmp_path, "--model", "offline") as screen:
        wait_for_prompt(screen)
        screen.type("/cost\r")
        screen.settle()
        assert b"38;5;" in screen.raw
