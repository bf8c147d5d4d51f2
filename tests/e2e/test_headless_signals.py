"""Ctrl-C, SIGTERM and a closed terminal in the middle of work: the right code, nothing left behind."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from pipes_kit import MODEL, OFFLINE, finished, is_gone, started

from midstream.testing.openai_server import Call, Fault, OpenAIServer, Reply

COMMAND = "trap '' INT; sleep 600 & echo pids $$ $!; wait"


def read_until(process: "subprocess.Popen[bytes]", kind: str) -> dict[str, Any]:
    """Return the next event of a type."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["type"] == kind:
            return event
    raise AssertionError(f"no {kind}")


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while not is_gone(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_the_run_and_the_processes_of_its_tools(
    tmp_path: Path, number: int, code: int
) -> None:
    call = Call(name="execute_terminal", arguments={"command": COMMAND})
    with OpenAIServer([Reply(calls=(call,))]) as server:
        process = started(
            tmp_path, "chat", "wait", "--json", "--allow", "execute_terminal", *MODEL, server=server
        )
        pids = [int(word) for word in read_until(process, "tool_progress")["text"].split()[1:]]
        process.send_signal(number)
        process.send_signal(number)  # impatience cuts no cleaning up short
        returned = read_until(process, "tool_returned")
        kept = read_until(process, "console")
        ended = finished(process)

    assert len(pids) == 2
    assert returned["outcome"] == "unknown"
    assert f"`midstream resume {returned['run']}` goes on." in kept["text"]
    assert ended.code == code
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_a_request_that_hangs(tmp_path: Path, number: int, code: int) -> None:
    with OpenAIServer([Fault(how="hang")]) as server:
        process = started(tmp_path, "run", "coder_reviewer", "x", *MODEL, server=server)
        server.arrival(1).wait(30)
        process.send_signal(number)
        ended = finished(process)

        assert ended.code == code
        assert ended.out == ""
        assert "is kept where it stands: `midstream resume " in ended.told
        server.exchanges[0].ended.wait()
        assert server.exchanges[0].client_left


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
