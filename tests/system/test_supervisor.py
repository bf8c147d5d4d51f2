"""Children that are held, not only heard to their end; how commands end is in `test_tool_shell`."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S, Ahead, until, wait_until
from toolbench import alive_in

from midstream.system import process_tree, supervisor
from midstream.system.supervisor import (
    PIPED,
    Child,
    Kept,
    run_briefly,
    run_command,
    run_in_terminal,
    start_child,
)

SHELL = "/bin/sh"
ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "KILL_S", DEADLINE_S)


def shell(line: str, folder: Path) -> Child:
    return Child([SHELL, "-c", line], folder=folder, environment=ENVIRONMENT, stdin=PIPED)


def heard(child: Child, word: bytes) -> bytes:
    """Wait until a child has said a word; return what it said."""
    child.listen()
    said = b""
    while word not in said:
        child.wait(DEADLINE_S)
        said += child.read()
    return said


def test_a_child_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = shell("(setsid sleep 1000 &) ; sleep 1000 & echo on; trap '' TERM; wait", tmp_path)
    heard(child, b"on")

    child.end()
    child.end()

    assert child.exit_code == -signal.SIGKILL
    assert alive_in(tmp_path) == []


def test_a_child_may_end_by_itself_once_nobody_speaks_to_it(tmp_path: Path) -> None:
    child = shell("echo on; cat; touch heard-the-end; exit 5", tmp_path)
    heard(child, b"on")

    child.end(in_s=DEADLINE_S, grace_s=DEADLINE_S)

    assert child.exit_code == 5
    assert (tmp_path / "heard-the-end").exists()


def test_what_a_child_of_a_child_starts_is_known_by_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = shell("echo $MIDSTREAM_CALL; read line", tmp_path)
    outer.listen()
    while not (said := outer.read()):
        outer.wait(DEADLINE_S)
    monkeypatch.setenv(process_tree.TAG, said.decode().strip())
    inner = shell("(setsid sleep 1000 &); echo on", tmp_path)
    heard(inner, b"on")

    outer.end()

    assert alive_in(tmp_path) == []
    inner.end()


def test_what_is_older_than_a_child_is_not_asked_whether_it_belongs_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, child = (
        shell("echo on; cat", tmp_path),
        shell("(setsid sh -c 'echo on; exec sleep 1000' &)", tmp_path),
    )
    heard(older, b"on")
    heard(child, b"on")
    started = {each.pid: each.started for each in process_tree.processes()}
    asked: list[int] = []
    carries = process_tree._carries

    def noted(pid: int, mark: bytes) -> bool:
        asked.append(pid)
        return carries(pid, mark)

    monkeypatch.setattr(process_tree, "_carries", noted)

    child.end()
    older.end()

    assert alive_in(tmp_path) == []
    assert asked
    assert all(started.get(pid, sys.maxsize) >= started[older.process.pid] for pid in asked)


def test_what_is_just_becoming_another_program_belongs_to_it_all_the_same(tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.write_text(f"exec {SHELL} {again}\n")
    # Many variables: it takes as long as many short ones, and shows its environment in parts.
    many = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); export A$i=0123456789; done"
    begins = f"echo $$; {many}; exec {SHELL} {again}"
    child = shell(f"(setsid {SHELL} -c '{begins}' &); cat", tmp_path)
    mine = int(heard(child, b"\n"))

    # A look in twenty meets it where it has no environment.
    found = [process_tree.members(child.process.pid, child._tag) for _ in range(300)]

    child.end()
    assert all(mine in {each.pid for each in members} for members in found)
    assert alive_in(tmp_path) == []


def test_what_started_another_gets_a_signal_before_it(tmp_path: Path) -> None:
    child = shell("sleep 1000 & sleep 1000 & sleep 1000 & echo on; exec cat", tmp_path)
    heard(child, b"on")

    found = process_tree.members(child.process.pid, child._tag)

    child.end()
    assert found[0].pid == child.process.pid
    assert found == sorted(found, key=lambda process: (process.started, process.pid))
    assert len(found) == 4


def test_what_shows_no_environment_any_more_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = shell("(setsid sh -c 'echo $$; exec sleep 1000' &); cat", tmp_path)
    mine = int(heard(child, b"\n"))
    assert mine in child.left()

    monkeypatch.setattr(process_tree, "_carries", lambda *_: False)
    seen = child.left()
    monkeypatch.undo()
    child.end()

    assert mine in seen
    assert alive_in(tmp_path) == []


async def test_a_start_that_nobody_waits_for_leaves_nothing(tmp_path: Path) -> None:
    may_start = threading.Event()

    def start() -> Child:
        may_start.wait(DEADLINE_S)
        return shell("touch begun; sleep 1000", tmp_path)

    async def is_gone() -> bool:
        return "midstream-start" not in {thread.name for thread in threading.enumerate()}

    starting = asyncio.create_task(start_child(start))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait({starting})
    may_start.set()
    await until(is_gone)

    assert starting.cancelled()
    assert alive_in(tmp_path) == []


async def test_a_command_that_nobody_waits_for_is_seen_to_its_end_however_late_its_thread_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_heard, may_go_on = threading.Event(), threading.Event()

    class Stands(Kept):
        def feed(self, data: bytes) -> bool:
            is_heard.set()
            may_go_on.wait(DEADLINE_S)
            return super().feed(data)

    running = asyncio.create_task(
        run_command(
            [SHELL, "-c", "echo on; sleep 1000; true"],
            folder=tmp_path,
            environment=ENVIRONMENT,
            timeout_s=DEADLINE_S,
            stop=asyncio.Event(),
            sink=Stands(100),
        )
    )
    await asyncio.to_thread(is_heard.wait, DEADLINE_S)
    monkeypatch.setattr(supervisor, "KILL_S", 0)
    running.cancel()
    await asyncio.wait({running}, timeout=0.05)
    monkeypatch.setattr(supervisor, "KILL_S", DEADLINE_S)
    may_go_on.set()
    await asyncio.wait({running})

    assert running.cancelled()
    assert alive_in(tmp_path) == []


def test_what_was_killed_is_waited_for_although_the_machine_stood_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, send = Ahead(), process_tree.send
    killed: list[signal.Signals] = []

    def late(which: signal.Signals, *whom: Any) -> object:
        killed.append(which)
        if len(killed) > 2:
            return send(which, *whom)
        ahead.by_s = 2 * DEADLINE_S
        return ()

    monkeypatch.setattr(process_tree, "send", late)
    monkeypatch.setattr(supervisor, "time", ahead)
    child = Child([SHELL, "-c", "sleep 1000; true"], folder=tmp_path, environment=ENVIRONMENT)
    child.kill()

    assert child.see_off(child.left()) == ()
    child.end()


def test_what_says_too_much_is_ended(tmp_path: Path) -> None:
    ended, said = run_briefly(
        [SHELL, "-c", "while :; do echo more; done"],
        folder=tmp_path,
        environment=ENVIRONMENT,
        timeout_s=DEADLINE_S,
        max_bytes=1_000,
    )

    assert ended.cause == "enough"
    assert said.startswith(b"more\nmore\n")
    assert len(said) < 1_000_000
    assert alive_in(tmp_path) == []


def test_what_is_out_of_time_is_ended(tmp_path: Path) -> None:
    ended, _ = run_briefly(
        ["/bin/sleep", "1000"],
        folder=tmp_path,
        environment=ENVIRONMENT,
        timeout_s=0.0,
        max_bytes=1_000,
    )

    assert (ended.cause, ended.exit_code) == ("timed_out", -signal.SIGINT)


async def test_a_program_in_the_terminal_is_told_that_it_is_to_end(tmp_path: Path) -> None:
    line = f"trap 'echo bye > {tmp_path}/bye; exit' TERM; > {tmp_path}/on; while :; do sleep 0.01; done"

    async def is_on() -> bool:
        return (tmp_path / "on").exists()

    terminal = os.open(os.devnull, os.O_WRONLY)
    work = asyncio.create_task(run_in_terminal([SHELL, "-c", line], terminal=terminal))
    await until(is_on)
    work.cancel()
    await asyncio.wait({work})
    os.close(terminal)

    assert work.cancelled()
    assert (tmp_path / "bye").read_text() == "bye\n"


async def test_what_an_editor_leaves_behind_on_purpose_stays(tmp_path: Path) -> None:
    serves = f"import time; open({str(tmp_path / 'on')!r}, 'w').close(); time.sleep(1000)"
    line = f'cd {tmp_path}; setsid {sys.executable} -c "{serves}" & until [ -e {tmp_path}/on ]; do :; done'

    ended = await run_in_terminal([SHELL, "-c", line])

    left = alive_in(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert ended.exit_code == 0
    assert len(left) == 1


def test_where_no_process_can_be_seen_what_is_left_of_its_group_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "are_seen", lambda: False)
    monkeypatch.setattr(process_tree, "processes", list)

    _, said = run_briefly(
        [SHELL, "-c", "sleep 600 > /dev/null & echo $!"],
        environment=ENVIRONMENT,
        timeout_s=DEADLINE_S,
        max_bytes=100,
    )

    wait_until(lambda: process_tree._process(int(said)) is None)
