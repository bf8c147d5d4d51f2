"""What a process has started ends with it, and a worker that cannot say that it lives is ended, too."""

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from deadline import DEADLINE_S, wait_until

from midstream.system import process_tree as tree
from midstream.system import watchdog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has process handles")

PROGRAM = Path(__file__).with_name("guarded.py")


def begun(within_s: float, then: str, will: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Return the process and handles of the tools it has started, but for those that have ended by now."""
    process = subprocess.Popen(
        [sys.executable, "-W", "default", str(PROGRAM), str(within_s), then, str(will)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if then == "forget" else None,
    )
    assert process.stdout is not None
    handles = []
    for each in process.stdout.readline().split():
        with suppress(ProcessLookupError):
            handles.append(os.pidfd_open(int(each)))
    return process, handles


def ended(handles: list[int]) -> bool:
    """Return whether all of them end before it is said that something hangs."""
    try:
        return all(select.select([each], [], [], DEADLINE_S)[0] for each in handles)
    finally:
        for each in handles:
            os.close(each)


def test_one_that_stands_still_is_killed_with_its_tools(tmp_path: Path) -> None:
    process, tools = begun(5.0, "stop", tmp_path / "made")

    assert ended(tools)
    assert process.wait(DEADLINE_S) == -9
    wait_until((tmp_path / "made").exists, "its will is carried out")
    assert process.stdout is not None
    process.stdout.close()


def test_what_was_seen_before_is_ended_and_the_worker_stands_still_before_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, tool = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    handle = os.pidfd_open(worker.pid)
    seen = [each for each in tree.processes() if each.pid in (worker.pid, tool.pid)]
    found: list[object] = []

    def look(*_: object, **__: object) -> list[tree.Process]:
        if not found:
            stopped = os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
            found.extend((tool.wait(DEADLINE_S), stopped and stopped.si_code))
        return []

    monkeypatch.setattr(tree, "send", look)
    watchdog._kill(worker.pid, handle, "tag", seen)

    assert found == [-9, os.CLD_STOPPED]
    assert worker.wait(DEADLINE_S) == -9
    os.close(handle)


def test_the_tools_of_one_that_is_killed_end_with_it(tmp_path: Path) -> None:
    process, tools = begun(1_000.0, "die", tmp_path / "made")

    wait_until(lambda: any(tmp_path.iterdir()), "its will is carried out")
    assert select.select(tools, [], [], 0)[0] == tools
    assert [each.name for each in tmp_path.iterdir()] == ["made"]
    assert ended(tools)
    assert process.wait(DEADLINE_S) == -9
    assert process.stdout is not None
    process.stdout.close()


def test_one_that_leaves_is_left_in_peace(tmp_path: Path) -> None:
    process, tools = begun(1_000.0, "leave", tmp_path / "made")

    assert ended(tools)
    assert process.wait(DEADLINE_S) == 0
    assert list(tmp_path.iterdir()) == []
    assert process.stdout is not None
    process.stdout.close()


def test_what_one_has_forgotten_ends_after_it_and_nobody_complains_of_the_watchdog(
    tmp_path: Path,
) -> None:
    process, tools = begun(1_000.0, "forget", tmp_path / "made")

    said, complaints = process.communicate(timeout=DEADLINE_S)
    assert ended(tools)
    assert (process.returncode, said, complaints) == (0, b"", b"")
