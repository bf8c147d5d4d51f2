"""The real console in a real pty: the bottom line tells the truth, and no line is lost."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from console_kit import DEADLINE_S, MIDSTREAM, changed, console, environment, write_workflow
from screen import CTRL_C, CTRL_D, ESC, UP, Screen
from support.openai_server import Call, Gate, OpenAIServer, Reply

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
WORKS: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "stop"}],
}
COLOURS = Call(
    name="request_users_input", arguments={"question": "Which?", "choices": ["red", "blue"]}
)
HELD = """
import os, time
from midstream.tools import manager
from midstream.system import supervisor as process
from midstream.runtime import effects
manager.SOFT_STOP_S = effects.SOFT_STOP_S = 3600.0
intend = process.Child._intend
def held(self, *which):
    while "touch begun" in str(self.process.args) and not os.path.exists({go!r}):
        time.sleep(0.01)
    intend(self, *which)
process.Child._intend = held
"""
"""Ends no command before there is a file: leaving lasts so long, and there is time for a second key."""


def bottom(screen: Screen) -> str:
    """The last row that says anything."""
    return next((line for line in reversed(screen.lines()) if line.strip()), "")


def wait_for_bottom(screen: Screen, words: str) -> None:
    """Read until the bottom line says so."""
    screen.wait_until(lambda s: words in bottom(s), what=f"{words!r} in the bottom line")


def editor_line(screen: Screen) -> str:
    """The row the cursor stands on."""
    return screen.lines()[screen.cursor()[1]]


def wait_for_line(screen: Screen, text: str) -> None:
    """Read until the editor holds just this."""
    screen.wait_until(lambda s: editor_line(s) == f"› {text}", what=f"{text!r} in the editor")


def test_the_bottom_line_follows_the_line_being_typed(tmp_path: Path) -> None:
    gate = Gate()
    reply = Reply(text="Hm.", calls=(COLOURS,), gate=gate, gate_after=0)
    with OpenAIServer([reply]) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("hello\r")
        wait_for_bottom(screen, "interrupts dude")
        screen.wait_for("⋯ dude is thinking")
        assert "is thinking" not in bottom(screen)
        screen.type("/cost")
        wait_for_bottom(screen, "⏎ runs the command")
        screen.type("\x15//cost")
        wait_for_bottom(screen, "⏎ interrupts dude")
        gate.open()
        wait_for_bottom(screen, "⏎ asks whether it answers #1")
        screen.type("\x15")
        wait_for_bottom(screen, "answers #1")
        screen.type("#7 blue")
        wait_for_bottom(screen, "⏎ comes back: No open question has the number 7")


def test_a_wrong_command_says_what_is_meant_and_leaves_the_line_and_exit_leaves(
    tmp_path: Path,
) -> None:
    with console(tmp_path, "--model", "offline") as screen:
        wait_for_bottom(screen, "chat with dude")
        for command, hint in (
            ("/theme", "NO_COLOR=1 turns them off"),
            ("/save", "/export NAME.md saves one"),
            ("/new", "/clear begins a new chat"),
            ("/reset", "/clear begins a new chat"),
            ("/cots", "Did you mean /cost?"),
        ):
            screen.type(f"{command}\r")
            screen.wait_for(f"There is no command {command}.")
            screen.wait_for(hint)
            wait_for_bottom(screen, "chat with dude")
        screen.type("exit")
        wait_for_bottom(screen, "⏎ leaves")
        screen.type("\r")
        assert screen.wait_exit() == 0


def test_esc_stops_a_turn_that_waits_for_an_approval(tmp_path: Path) -> None:
    write = Call(name="write_file", arguments={"path": "a.txt", "content": "hi"})
    replies = [Reply(calls=(write,)), Reply(text="As you like.")]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("write it\r")
        screen.wait_for("wants to create a.txt")
        wait_for_bottom(screen, "Esc stops")
        screen.type(ESC)
        wait_for_bottom(screen, "⏎ resumes")
        assert "wants to run" not in screen.text()
        screen.type("\r")
        screen.wait_for("As you like.")
        assert not (tmp_path / "workspace" / "a.txt").exists()


def test_a_command_runs_while_a_refusal_waits_for_its_note(tmp_path: Path) -> None:
    write = Call(name="write_file", arguments={"path": "a.txt", "content": "hi"})
    replies = [Reply(calls=(write,)), Reply(text="I see.")]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("write it\r")
        screen.wait_for("for this run")
        screen.rest(FRESH_S * 2)  # a key pressed sooner after the card was drawn is only typed
        screen.type("w")
        screen.wait_for("why not?")
        screen.type("/mode\r")
        screen.wait_for("· role:dude")
        screen.wait_until(lambda s: editor_line(s).startswith("why not?"))
        screen.type("not that file\r")
        screen.wait_for("They said: not that file")
        screen.wait_for("I see.")


def test_what_a_run_ended_without_comes_back_with_up(tmp_path: Path) -> None:
    write_workflow(
        tmp_path / "config", "patient", {**WORKS, "workflow_name": "patient", "on_input": "queue"}
    )
    busy = Reply(chunks=("Bu", "sy"), gate=Gate(), gate_after=1)
    replies = [busy, Reply(text="The chat heard it.")]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("/workflow patient\r")
        screen.wait_for("Bu")
        screen.type("and the tests?\r")
        screen.wait_for("⏳ and the tests?")
        screen.type("/workflow stop\r")
        screen.wait_for("Not delivered: and the tests?")
        screen.wait_for("Up on an empty line brings it back")
        wait_for_bottom(screen, "chat with dude")
        screen.type(UP)
        wait_for_line(screen, "and the tests?")
        wait_for_bottom(screen, "⏎ sends to dude")
        screen.type("\r")
        screen.wait_for("The chat heard it.")


@pytest.mark.parametrize("ending", ["/workflow stop", "/undo", "/resume RUN stop"])
def test_who_ended_a_run_themselves_is_not_asked_where_the_next_line_goes(
    tmp_path: Path, ending: str
) -> None:
    write_workflow(tmp_path / "config", "works", {**WORKS, "workflow_name": "works"})
    gate = Gate()
    busy = Reply(chunks=("Bu", "sy"), gate=gate, gate_after=1)
    replies = [busy, busy, *([busy] if ending == "/undo" else []), Reply(text="Heard.")]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("/workflow works\r")
        screen.wait_for("started, run ")
        id = screen.text().partition("started, run ")[2].split()[0]
        screen.wait_for("Bu")
        screen.type("the tests first\r")
        screen.wait_until(lambda s: len(server.requests) == 2)
        wait_for_bottom(screen, "interrupts dude")
        screen.type(f"{ending.replace('RUN', id)}\r")
        if ending == "/undo":
            screen.wait_until(lambda s: len(server.requests) == 3)
        else:
            wait_for_bottom(screen, "chat with dude")
        screen.type("hello there")
        wait_for_line(screen, "hello there")
        assert "asks once more" not in bottom(screen)
        screen.type("\r")
        screen.wait_for("Heard.")
        assert "has ended. Enter now" not in "\n".join(screen.scrollback())


def test_a_line_typed_while_its_workflow_ends_is_sent_to_nobody_else_by_one_enter(
    tmp_path: Path,
) -> None:
    write_workflow(tmp_path / "config", "works", {"workflow_name": "works", **WORKS})
    gate = Gate()
    replies = [Reply(text="All is well.", gate=gate, gate_after=0), Reply(text="Hello to you.")]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("/workflow works\r")
        wait_for_bottom(screen, "interrupts dude")
        screen.type("the tests, too")
        wait_for_line(screen, "the tests, too")
        gate.open()
        wait_for_bottom(screen, "⏎ asks once more: works has ended")
        screen.type("\r")
        screen.wait_for("works has ended. Enter now sends to dude.")
        wait_for_line(screen, "the tests, too")
        assert len(server.requests) == 1
        wait_for_bottom(screen, "⏎ sends to dude")
        screen.type("\r")
        screen.wait_for("Hello to you.")


def test_a_line_that_waits_is_taken_back_with_up(tmp_path: Path) -> None:
    write_workflow(
        tmp_path / "config", "patient", {**WORKS, "workflow_name": "patient", "on_input": "queue"}
    )
    busy = Reply(chunks=("Bu", "sy"), gate=Gate(), gate_after=1)
    with OpenAIServer([busy]) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("/workflow patient\r")
        screen.wait_for("Bu")
        screen.type("and the tests?\r")
        screen.wait_for("⏳ and the tests?")
        screen.type(UP)
        wait_for_line(screen, "and the tests?")
        screen.wait_gone("⏳")


def test_a_workflow_that_waits_for_its_input_says_what_it_wants(tmp_path: Path) -> None:
    wanted = {"name": "task", "type": "string", "description": "What should be built?"}
    workflow = {**WORKS, "start_condition": "on_user_input", "input": wanted}
    write_workflow(tmp_path / "config", "builder", {**workflow, "workflow_name": "builder"})
    with OpenAIServer([Reply(text="Built.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        wait_for_bottom(screen, "chat with dude")
        screen.type("/workflow builder\r")
        screen.wait_for("What should be built?")
        wait_for_bottom(screen, "starts")
        screen.type("a house\r")
        screen.wait_for("✓ finished")
        assert server.requests[0]["messages"][-1]["content"] == "a house"
        screen.close()


def test_a_refused_answer_is_explained_once_with_the_way_past_the_question(tmp_path: Path) -> None:
    with (
        OpenAIServer([Reply(calls=(COLOURS,)), Reply(text="As you like.")]) as server,
        console(tmp_path, *MODEL, server=server) as screen,
    ):
        wait_for_bottom(screen, "chat with dude")
        screen.type("hello\r")
        wait_for_bottom(screen, "answers #1")
        screen.type("green\r")
        wait_for_line(screen, "green")
        screen.settle()
        told = [line for line in screen.scrollback() if "is not one of the choices" in line]
        assert len(told) == 1
        rows = (line.strip() for line in screen.scrollback())
        assert "1 red, 2 blue. /interrupt TEXT sends a new instruction instead." in " ".join(rows)
        screen.type("\x15/interrupt something else\r")
        screen.wait_for("As you like.")
        assert server.requests[-1]["messages"][-1]["content"] == "something else"


def is_running(word: str) -> bool:
    """Return whether a process has that word in its command line."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in place.read_bytes().split(b"\0"):
                return True
    return False


@pytest.mark.parametrize("leaving", ["a key", "SIGTERM"])
def test_an_impatient_ctrl_c_while_leaving_leaves_no_process_behind(
    tmp_path: Path, leaving: str
) -> None:
    begun = tmp_path / "workspace" / "begun"
    seconds = (
        f"1000.{os.getpid()}{len(leaving)}"  # found again among all processes, in a sandbox or not
    )
    command = f"trap '' INT TERM; touch begun; sleep {seconds}; true"
    go = tmp_path / "go"
    shell = Call(name="execute_terminal", arguments={"command": command})
    with OpenAIServer([Reply(calls=(shell,))]) as server:
        screen = console(
            *(tmp_path, *MODEL, "--allow", "execute_terminal", "--allow", "outside: *"),
            server=server,
            program=changed(*HELD.format(go=str(go)).splitlines()),
        )
        wait_for_bottom(screen, "chat with dude")
        screen.type("wait\r")
        screen.wait_for("⋯ execute_terminal(")
        deadline = time.monotonic() + DEADLINE_S
        while not (begun.exists() and is_running(seconds)):
            assert time.monotonic() < deadline, screen.text()
            screen.settle(0.01)
        if leaving == "SIGTERM":
            screen.kill(signal.SIGTERM)
        else:
            screen.type(CTRL_D)
        # The terminal is in its own modes again: a Ctrl-C is a signal now.
        while screen.modes() != screen.modes_before:
            screen.settle(0.01)
        screen.type(CTRL_C)
        screen.wait_for("One moment: running work is being saved.")
        go.touch()
        assert screen.wait_exit() == (0 if leaving == "a key" else 128 + signal.SIGTERM)
        assert not is_running(seconds)
        screen.close()


def test_leaving_a_chat_that_only_waits_says_nothing_of_interruptions(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="Hello.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        wait_for_bottom(screen, "chat with dude")
        screen.type("hi\r")
        screen.wait_for("Hello.")
        wait_for_bottom(screen, "chat with dude")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        assert "interrupted" not in "\n".join(screen.scrollback())
        screen.close()


def test_a_terminal_without_any_skill_gets_plain_lines(tmp_path: Path) -> None:
    screen = Screen.spawn(
        [*MIDSTREAM, "--workspace", str(tmp_path), "--model", "offline"],
        env={**environment(tmp_path), "TERM": "dumb"},
        deadline_s=DEADLINE_S,
    )
    screen.wait_for("Chat with dude. Enter sends a line, /help lists the commands, Ctrl-D leaves.")
    screen.type("hello\r")
    screen.wait_for("offline model")
    assert "› hello" not in "\n".join(screen.scrollback()), "the terminal has shown it already"
    screen.wait_for("configured, so I")
    screen.type("/exit\r")
    assert screen.wait_exit() == 0
    assert b"\x1b" not in bytes(screen.raw)
    screen.close()


def test_words_that_interrupt_stand_after_what_they_cut_which_is_rendered(tmp_path: Path) -> None:
    cut = Reply(chunks=("Some **bold** words,\n\n```py\nx = 1\n", "y"), gate=Gate(), gate_after=1)
    replies = [cut, Reply(text="In German, then.")]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        wait_for_bottom(screen, "chat with dude")
        screen.type("go\r")
        screen.wait_for("x = 1")
        wait_for_bottom(screen, "interrupts dude")
        screen.type("in German\r")
        screen.wait_for("In German, then.")
        told = [line for line in screen.scrollback() if line]

    assert told[told.index("› go") + 1 :][:7] == [
        "▌ dude",
        "Some bold words,",
        "x = 1",
        "▌ [interrupted]",
        "⏹ interrupted · dude cut off",
        "› in German",
        "▌ dude",
    ]
