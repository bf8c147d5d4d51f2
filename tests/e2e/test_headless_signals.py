"""Ctrl-C, SIGTERM and a closed terminal in the middle of work: the right code, nothing left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S, wait_until
from pipes_kit import MODEL, OFFLINE, checkpointed, finished, interrupt, started
from support.openai_server import Call, Fault, OpenAIServer, Reply

from midstream.system.own_process import run_until_signalled

COMMAND = "trap '' INT; sleep {seconds} & echo begun; wait"


def read_until(process: "subprocess.Popen[bytes]", kind: str) -> dict[str, Any]:
    """Return the next event of a type."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["type"] == kind:
            return event
    raise AssertionError(f"no {kind}")


def wait_until_gone(word: str) -> None:
    """Return when no process has that word in its command line, be it in a sandbox or not."""
    wait_until(lambda: not any(word.encode() in line for line in command_lines()), word)


def command_lines() -> Iterator[bytes]:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield place.read_bytes()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_the_run_and_the_processes_of_its_tools(
    tmp_path: Path, number: int, code: int
) -> None:
    seconds = f"600.{number}{os.getpid()}"  # found again among all processes
    command = COMMAND.format(seconds=seconds)
    call = Call(name="execute_terminal", arguments={"command": command})
    with OpenAIServer([Reply(calls=(call,))]) as server:
        process = started(
            tmp_path,
            "chat",
            "wait",
            "--json",
            "--allow",
            "execute_terminal",
            "--allow",
            "outside: *",
            *MODEL,
            server=server,
        )
        assert read_until(process, "tool_progress")["text"] == "begun\n"
        assert any(seconds.encode() in line for line in command_lines())
        process.send_signal(number)
        process.send_signal(number)  # impatience cuts no cleaning up short
        returned = read_until(process, "tool_returned")
        kept = read_until(process, "console")
        ended = finished(process)

    assert returned["outcome"] == "stopped"
    assert f"`midstream resume {returned['run']}` goes on." in kept["text"]
    assert ended.code == code
    wait_until_gone(seconds)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_a_request_that_hangs(tmp_path: Path, number: int, code: int) -> None:
    with OpenAIServer([Fault(how="hang")]) as server:
        process = started(tmp_path, "run", "coder_reviewer", "x", *MODEL, server=server)
        server.arrival(1).wait(DEADLINE_S)
        process.send_signal(number)
        ended = finished(process)

        assert ended.code == code
        assert ended.out == ""
        assert "is kept where it stopped: `midstream resume " in ended.told
        server.exchanges[0].ended.wait()
        assert server.exchanges[0].client_left


@pytest.mark.parametrize(
    "work", [("chat", "x"), ("run", "coder_reviewer", "x")], ids=lambda it: it[0]
)
def test_what_came_of_a_reply_before_the_signal_is_shown(
    tmp_path: Path, work: tuple[str, ...]
) -> None:
    with OpenAIServer([Fault(how="hang_mid", text="Once upon a time")]) as server:
        process = started(tmp_path, *work, *MODEL, server=server)
        checkpointed(tmp_path, "Once upon a")
        told = interrupt(process).err.splitlines()

    (shown,) = [at for at, line in enumerate(told) if line.startswith("Once upon a")]
    assert "[interrupted]" in told[shown + 1]
    assert "is kept where it stopped" in told[shown + 2]


def test_a_reply_that_stands_on_the_output_is_not_shown_once_more(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="Once upon a time.")]) as server:
        ended = finished(started(tmp_path, "chat", "x", *MODEL, server=server))

    assert ended.out == "Once upon a time.\n"
    assert "Once" not in ended.told


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_a_console_that_waits_for_lines(
    tmp_path: Path, number: int, code: int
) -> None:
    process = started(tmp_path, "--json", *OFFLINE, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    read_until(process, "agent_responded")
    process.send_signal(number)

    assert finished(process).code == code


def test_beside_threads_that_compute_the_loop_of_every_face_has_not_long_to_wait() -> None:
    async def interval() -> float:
        return sys.getswitchinterval()

    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.005)
        assert run_until_signalled(interval(), signals=()) == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)
