"""Streams that are closed, full, broken, ASCII or a terminal: nothing hangs, nothing is lost unsaid."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S
from pipes_kit import MODEL, OFFLINE, events, finished, run, started
from support.openai_server import Call, Fault, Gate, OpenAIServer, Reply

LOST = "midstream: The output cannot be written: "


def closing(*numbers: int) -> Callable[[], None]:
    """Return what closes streams of a process before it begins."""

    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


@pytest.mark.parametrize(
    "arguments",
    [
        ("chat", "hi", *OFFLINE),
        ("chat", "hi", "--json", *OFFLINE),
        ("workflows",),
        ("tools", "--json"),
        ("--help",),
        ("--version",),
        OFFLINE,
    ],
    ids=" ".join,
)
def test_a_full_disk_under_stdout_is_told_and_fails(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        process = started(
            tmp_path,
            *arguments,
            env={"PYTHONUNBUFFERED": ""},
            stdin=subprocess.PIPE,
            stdout=full,
        )
        ended = finished(process, "hello\n")

    assert ended.code == 1
    assert f"{LOST}No space left on device." in ended.told


def test_a_full_disk_under_stderr_harms_nothing(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = finished(started(tmp_path, "chat", "hi", *OFFLINE, stderr=full))

    assert ended.code == 0
    assert ended.out.startswith("[offline] ")


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        ((0,), ("chat", "hi"), 0),
        ((0,), (), 0),
        ((1,), ("chat", "hi"), 1),
        ((1,), ("chat", "hi", "--json"), 1),
        ((2,), ("chat", "hi"), 0),
        ((0, 1, 2), ("chat", "hi"), 1),
    ],
)
def test_closed_streams_are_no_surprise(
    tmp_path: Path, closed: tuple[int, ...], arguments: tuple[str, ...], code: int
) -> None:
    ended = run(tmp_path, *arguments, *OFFLINE, before=closing(*closed))

    assert ended.code == code
    assert (f"{LOST}Bad file descriptor." in ended.err) == (closed == (1,))
    assert (ended.out == "") == (1 in closed or not arguments)


def test_a_reader_that_leaves_ends_the_run_without_a_word(tmp_path: Path) -> None:
    gate = Gate()
    steps = [Reply(gate=gate, text="one two three " * 9, calls=(Call(name="get_time"),))]
    with OpenAIServer(steps, default=Fault(how="hang")) as server:
        process = started(tmp_path, "chat", "hi", "--json", *MODEL, server=server)
        gate.reached.wait(DEADLINE_S)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        gate.open()
        ended = finished(process)

    assert ended.code == 1
    assert ended.err == ""


@pytest.mark.parametrize("words", ["naïve 😀 日本", b"caf\xe9"], ids=["unicode", "no UTF-8"])
def test_words_of_any_kind_pass_under_any_locale(tmp_path: Path, words: str | bytes) -> None:
    shown = words if isinstance(words, str) else "caf\ufffd"
    for env in ({}, {"PYTHONIOENCODING": "ascii"}):
        ended = run(tmp_path, "chat", words, *OFFLINE, env=env)
        assert ended.code == 0
        assert f"> {shown}\n" in ended.out
    lines = events(run(tmp_path, "chat", words, "--json", *OFFLINE).out)
    assert shown in [event.get("text") for event in lines]


def test_names_that_are_no_text_are_unknown_and_not_a_crash(tmp_path: Path) -> None:
    for arguments in (
        ("run", b"\xff"),
        ("chat", "hi", "--role", b"\xff"),
        ("run", "coder_reviewer", "x", "--set", b"\xff=1"),
        ("--mode", b"role:\xff"),
        ("validate", b"\xff.json"),
    ):
        assert run(tmp_path, *arguments).code == 2


def on_a_terminal(home: Path, *arguments: str, server: OpenAIServer) -> bytes:
    """Return what the program writes to a terminal as its stdout."""
    ours, theirs = pty.openpty()
    try:
        process = started(home, *arguments, server=server, stdout=theirs)
        os.close(theirs)
        written = b""
        while data := _read(ours):
            written += data
        assert finished(process).code == 0
        return written
    finally:
        os.close(ours)


def _read(number: int) -> bytes:
    try:
        return os.read(number, 65536)
    except OSError:  # a terminal whose other side is closed
        return b""


def test_a_terminal_gets_the_output_made_harmless_and_a_pipe_gets_it_as_it_is(
    tmp_path: Path,
) -> None:
    text = "red: \x1b[31m, clipboard: \x1b]52;c;aGk=\x07"
    with OpenAIServer(default=Reply(text=text)) as server:
        shown = on_a_terminal(tmp_path, "chat", "hi", *MODEL, server=server)
        piped = run(tmp_path, "chat", "hi", *MODEL, server=server)

    assert shown.decode() == "red: ␛[31m, clipboard: ␛]52;c;aGk=␇\r\n"
    assert piped.out == f"{text}\n"
    assert "\x1b" not in piped.err


def test_output_and_progress_do_not_repeat_each_other(tmp_path: Path) -> None:
    with OpenAIServer(default=Reply(text="The answer.")) as server:
        ended = run(tmp_path, "chat", "hi", *MODEL, server=server)

    assert ended.out == "The answer.\n"
    assert ended.err == ""


def test_json_has_every_event_and_nothing_else(tmp_path: Path) -> None:
    ended = run(tmp_path, "run", "code_architecture_review", "--answer", "1", "--json", *OFFLINE)
    found = events(ended.out)
    facts: list[dict[str, Any]] = [event for event in found if "seq" in event]

    assert ended.code == 0
    assert ended.err == ""
    assert [event["seq"] for event in facts] == list(range(1, len(facts) + 1))
    assert len({event["run"] for event in facts}) == 1
    assert all(isinstance(event["at"], float) for event in found if event["type"] != "console")
    assert {event["type"] for event in facts} >= {
        "run_started",
        "state_transition",
        "handler_ran",
        "agent_responded",
        "tool_called",
        "tool_returned",
        "question_asked",
        "input_received",
        "question_answered",
        "workflow_output",
        "run_finished",
    }
    assert facts[-1]["type"] == "run_finished"


def test_without_a_model_the_console_says_so_in_one_line(tmp_path: Path) -> None:
    chat = run(tmp_path, "chat", "hi")
    plain = run(tmp_path, lines="hi\n")

    (line,) = chat.err.splitlines()
    assert "No model is configured" in line
    assert "OPENAI_API_KEY" in line
    assert plain.out.count("No model is configured (") == 1
    assert "No model" not in run(tmp_path, "chat", "hi", *OFFLINE).err
