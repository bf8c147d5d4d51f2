"""The real console in a real pty, models on a real HTTP server: the main job, as a person does it."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from console_kit import changed, console, run, write_workflow
from screen import CTRL_C, CTRL_D, ESC, Screen
from support.openai_server import Call, Fault, Gate, OpenAIServer, Reply, Scripted

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
HELD = """
import asyncio, os
from midstream.models.offline import OfflineModel
reply = OfflineModel.request
async def held(self, request, listener):
    while request.state == "challenge" and not os.path.exists({go!r}):
        await asyncio.sleep(0.01)
    return await reply(self, request, listener)
OfflineModel.request = held
"""
"""Lets the reviewer of the offline review begin once there is a file: so long it can be interrupted."""


def test_a_person_chats_interrupts_and_nothing_is_lost(tmp_path: Path) -> None:
    gate = Gate()
    essay = Reply(chunks=("Once upon ", "a time ", "there was"), gate=gate, gate_after=2)
    with OpenAIServer([essay, Reply(text="Short: a story.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("tell me a story\r")
        screen.wait_for("Once upon a time")
        screen.type("no, shorter\r")
        screen.wait_for("Short: a story.")
        screen.wait_for("chat with dude")
        gate.open()

        second = server.requests[1]["messages"]
        assert [(m["role"], m["content"]) for m in second if m["role"] != "system"] == [
            ("user", "tell me a story"),
            ("assistant", "Once upon a time [interrupted]"),
            ("user", "no, shorter"),
        ]
        shown = "\n".join(screen.scrollback())
        assert "Once upon a time" in shown
        assert "there was" not in shown
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_the_review_runs_in_the_background_and_can_be_talked_to(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "app.py").write_text("def f(x):\n    return x if x else 0\n", encoding="utf-8")
    mode = "workflow:code_architecture_review"
    go = tmp_path / "go"
    held = changed(*HELD.format(go=str(go)).splitlines())
    with console(tmp_path, "--mode", mode, "--model", "offline", program=held) as screen:
        screen.wait_for("What matters most to you?")
        screen.wait_for("answers #1")
        screen.type("/cost\r")
        screen.wait_for("total")
        screen.type("what about naming?\r")
        screen.wait_for("is not one of the choices")
        screen.rest(FRESH_S * 2)  # a lone number begun sooner after the card is asked about
        screen.type("\x15" + "2\r")
        screen.wait_for("challenge")
        screen.type("look at naming too\r")
        screen.wait_for("⏹ interrupted")
        go.touch()
        screen.wait_for("✓ finished")
        screen.wait_for("chat with dude")
        report = "\n".join(screen.scrollback())
        assert "look at naming too" in report
        assert "change" in report
        screen.type("/exit\r")
        assert screen.wait_exit() == 0


def test_half_typed_words_survive_what_is_printed_meanwhile(tmp_path: Path) -> None:
    gate = Gate()
    reply = Reply(chunks=("one\n\n", "two\n\n", "three"), gate=gate, gate_after=1)
    with OpenAIServer([reply]) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("count\r")
        screen.wait_for("one")
        screen.type("half a thou")
        screen.wait_for("› half a thou")
        gate.open()
        screen.wait_for("three")
        screen.wait_for("⏎ sends to dude")
        assert any(line.startswith("› half a thou") for line in screen.lines())
        screen.type("ght")
        screen.wait_for("› half a thought")


def test_esc_stops_the_turn_and_the_next_words_go_on(tmp_path: Path) -> None:
    gate = Gate()
    with OpenAIServer([Reply(chunks=("I think ", "so"), gate=gate), Reply(text="Fine.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("do you?\r")
        screen.wait_for("I think")
        screen.type(ESC)
        screen.wait_for("interrupted")
        screen.wait_for("resumes")
        screen.type("never mind\r")
        screen.wait_for("Fine.")
        gate.open()
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_tool_call_waits_for_a_fresh_key(tmp_path: Path) -> None:
    call = Call(name="write_file", arguments={"path": "a.txt", "content": "hi"})
    with OpenAIServer([Reply(calls=(call,)), Reply(text="Written.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("write it\r")
        screen.wait_for("wants to create a.txt")
        screen.wait_for("for this run")
        assert not (tmp_path / "workspace" / "a.txt").exists()
        screen.rest(FRESH_S * 2)  # a key pressed sooner after the card was drawn is only typed
        screen.type("y")
        screen.wait_for("Written.")
        assert (tmp_path / "workspace" / "a.txt").read_text() == "hi"
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_model_that_fails_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    steps: list[Scripted] = [Fault(status=400, message="bad \x1b[31mrequest"), Reply(text="Back.")]
    with OpenAIServer(steps) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("bad")
        screen.wait_for("chat with dude")
        screen.type("again\r")
        screen.wait_for("Back.")
        assert b"\x1b[31mrequest" not in bytes(screen.raw)
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_raising_handler_fails_the_run_and_not_the_console(tmp_path: Path) -> None:
    workflow = {
        "workflow_name": "broken",
        "states": [{"name": "start", "pre_handler": "boom"}, {"name": "stop"}],
    }
    script = "def boom(run):\n    raise ValueError('no such thing')\n"
    write_workflow(tmp_path / "config", "broken", workflow, script)
    with console(tmp_path, "--model", "offline") as screen:
        screen.wait_for("chat with dude")
        screen.type("/workflow broken\r")
        screen.wait_for("no such thing")
        shown = "".join(screen.text().split())
        assert "boom" in shown
        assert "script.py:2" in shown
        screen.type("/mode\r")
        screen.wait_for("chat with dude")


def test_a_handler_that_never_returns_leaves_the_prompt_alive(tmp_path: Path) -> None:
    workflow = {
        "workflow_name": "stuck",
        "states": [{"name": "start", "pre_handler": "spin"}, {"name": "stop"}],
    }
    script = "import threading\n\n\ndef spin(run):\n    threading.Event().wait()\n"
    write_workflow(tmp_path / "config", "stuck", workflow, script)
    with console(tmp_path, "--model", "offline") as screen:
        screen.wait_for("chat with dude")
        screen.type("/workflow stuck\r")
        screen.wait_for("pre_handler")
        screen.type("/workflow stop\r")
        screen.wait_for("stopped")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_unknown_names_are_told_with_the_nearest_and_the_mode_stays(tmp_path: Path) -> None:
    with console(tmp_path, "--model", "offline") as screen:
        screen.wait_for("chat with dude")
        for line, hint in (
            ("/role codr", "coder"),
            ("/workflow coder_reviewr", "coder_reviewer"),
            ("/mode wrkflow:x", "workflow:x"),
        ):
            screen.type(f"{line}\r")
            screen.wait_until(partial(_says, f"Did you mean '{hint}'"))
            screen.wait_until(lambda s: s.lines()[s.cursor()[1]] != "›")  # it is back in the editor
            screen.type("\x15")
            screen.wait_until(lambda s: s.lines()[s.cursor()[1]].rstrip() == "›")
        screen.type("/mode\r")
        screen.wait_for("chat with dude")


def _says(words: str, screen: Screen) -> bool:
    return words in " ".join(screen.text().split())


def test_ctrl_c_twice_on_an_empty_line_leaves_with_the_terminal_as_it_was(tmp_path: Path) -> None:
    offered = "ConsoleInterface.__init__.__kwdefaults__['leave_s'] = 3600.0"
    patient = changed("from midstream.tui.interface import ConsoleInterface", offered)
    screen = console(tmp_path, "--model", "offline", program=patient)
    screen.wait_for("chat with dude")
    screen.type("some words")
    screen.wait_for("some words")
    screen.type(CTRL_C)
    screen.wait_gone("some words")
    screen.type(CTRL_C)
    screen.type(CTRL_C)
    assert screen.wait_exit() == 0
    assert screen.modes() == screen.modes_before
    screen.close()


def test_sigterm_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    screen = console(tmp_path, "--mode", "workflow:code_architecture_review", "--model", "offline")
    screen.wait_for("started, run")
    screen.kill(signal.SIGTERM)
    screen.wait_exit()
    assert screen.modes() == screen.modes_before
    screen.close()


def test_a_closed_terminal_ends_the_process(tmp_path: Path) -> None:
    screen = console(tmp_path, "--mode", "workflow:code_architecture_review", "--model", "offline")
    screen.wait_for("started, run")
    pid = screen.process.pid
    screen.hang_up()
    assert not os.path.exists(f"/proc/{pid}") or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.both_journals
def test_an_unwritable_state_folder_is_told_and_nothing_else_happens(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    with console(tmp_path, "--model", "offline") as screen:
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("offline model")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_it_works_on_twenty_columns(tmp_path: Path) -> None:
    with console(tmp_path, "--model", "offline", cols=20, rows=12) as screen:
        screen.wait_for("chat with dude")
        screen.type("/mode\r")
        screen.wait_for("chat with dude")


def test_a_megabyte_pasted_arrives_whole(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="Got it.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        text = "\n".join(f"line {number} of the paste" for number in range(41_000))
        screen.paste(text)
        screen.wait_for("pasted")
        screen.type("\r")
        screen.wait_for("Got it.")
        said = server.requests[0]["messages"][-1]["content"]
        assert said.replace("\r\n", "\n").strip() == text
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_an_untrusted_workspace_is_asked_about_once(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workflow = {"workflow_name": "mine", "states": [{"name": "start"}, {"name": "stop"}]}
    write_workflow(workspace / ".midstream", "mine", workflow)
    refused = run(tmp_path, "workflows", workspace=workspace)
    assert refused.returncode == 3
    assert "not trusted" in refused.stderr

    screen = console(tmp_path, "--model", "offline", workspace=workspace)
    screen.wait_for("a workflow that calls no tools")
    screen.wait_for("[n] ›")
    screen.press("l\r")
    screen.wait_for("1 │ {")
    screen.press("t\r")
    screen.wait_for("chat with dude")
    screen.type(CTRL_D)
    assert screen.wait_exit() == 0
    listed = run(tmp_path, "workflows", workspace=workspace)
    assert listed.returncode == 0
    assert "mine" in listed.stdout
