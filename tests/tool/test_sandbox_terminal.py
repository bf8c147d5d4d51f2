"""Commands in the sandbox as the tool runs them: what is asked, what is shown, how they end."""

import asyncio
import os
from pathlib import Path

import pytest
from toolbench import Bench

from midstream.core.safety.capability import Capability, SandboxLevel
from midstream.core.safety.policy import Policy
from midstream.tool.base import Planned
from midstream.tool.manager import ToolManager
from midstream.tool.process import Ended
from midstream.tool.process_tree import processes
from midstream.tool.sandbox.measuring import Measured
from midstream.tool.sandbox.sandbox import Sandbox
from midstream.tool.shell import as_told, terminal_tool


class Said(Sandbox):
    """A sandbox of which only is said how good it is."""

    def __init__(self, level: SandboxLevel) -> None:
        super().__init__(Path("/nonexistent"))
        self._known = (Measured(level=level, why="no bubblewrap"), None)


def planned(
    bench: Bench, sandbox: Sandbox | None, command: str, *, network: bool = False
) -> Planned:
    tool = terminal_tool(sandbox)
    assert tool.plan is not None
    return tool.plan({"command": command, "network": network}, bench.context)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return Bench(workspace)


# --- what is asked and shown ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "sandboxed"), [("full", True), ("partial", False), ("none", False), (None, False)]
)
def test_only_a_full_sandbox_makes_a_command_sandboxed(
    bench: Bench, level: SandboxLevel | None, sandboxed: bool
) -> None:
    sandbox = None if level is None else Said(level)

    (request,) = planned(bench, sandbox, "make test").requests

    assert request == Capability(
        kind="exec", target="make test", argv=("make", "test"), sandboxed=sandboxed
    )


def test_a_line_for_a_shell_is_one_whole(bench: Bench) -> None:
    (request,) = planned(bench, Said("full"), "make && rm -rf $HOME").requests

    assert request == Capability(kind="shell", target="make && rm -rf $HOME", sandboxed=True)


def test_the_network_is_asked_for_and_makes_the_command_one_that_is_not_sandboxed(
    bench: Bench,
) -> None:
    plan = planned(bench, Said("full"), "pip install x", network=True)

    assert [each.kind for each in plan.requests] == ["exec", "net"]
    assert not plan.requests[0].sandboxed
    assert "the sandbox (full) and the network, shared" in plan.shows


def test_a_workspace_that_cannot_be_boxed_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(bench.context.workspace))

    plan = planned(bench, Said("full"), "make")

    assert not plan.requests[0].sandboxed
    assert "no sandbox: it can do whatever you can" in plan.shows
    assert "holds the whole home folder" in plan.shows


def test_what_is_shown_is_exact_with_controls_made_visible(bench: Bench) -> None:
    plan = planned(bench, None, "echo a\x1b[2K\r\u202eb\nin /elsewhere")

    assert plan.shows.splitlines() == [
        "$ echo a\u241b[2K\u240d\\u202eb",
        "> in /elsewhere",
        f"in {bench.context.workspace}",
        "with no sandbox: it can do whatever you can",
    ]


def test_a_command_that_only_looks_is_shown_as_it_is_run(bench: Bench) -> None:
    (bench.context.workspace / "notes.txt").touch()

    plan = planned(bench, Said("full"), "cat notes.txt")

    assert [str(each) for each in plan.requests] == ["exec: cat notes.txt", "read: notes.txt"]
    assert "it is run as /usr/bin/cat -- notes.txt" in plan.shows


def test_a_command_that_only_seems_to_look_is_a_line_like_every_other(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "secret").touch()
    (bench.context.workspace / "way").symlink_to(tmp_path / "secret")
    os.mkfifo(bench.context.workspace / "pipe")

    for command in ("cat way", "cat pipe"):
        (request,) = planned(bench, Said("full"), command).requests
        assert request == Capability(kind="shell", target=command, sandboxed=True)


def test_git_with_settings_that_start_something_does_not_only_look(bench: Bench) -> None:
    folder = bench.context.workspace / ".git"
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text('[filter "x"]\n\tclean = touch pwned\n')

    (request,) = planned(bench, None, "git status").requests

    assert request.kind == "shell"
    assert not (bench.context.workspace / "pwned").exists()


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (Ended(exit_code=130, cause="stopped"), -2),
        (Ended(exit_code=137, cause="timed_out"), -9),
        (Ended(exit_code=137), 137),
        (Ended(exit_code=1, cause="stopped"), 1),
        (Ended(exit_code=200, cause="stopped"), 200),
    ],
)
def test_a_signal_of_ours_is_told_from_an_exit_code(ended: Ended, code: int) -> None:
    assert as_told(ended).exit_code == code


# --- commands that run ----------------------------------------------------------------------------


def boxes(tmp_path: Path) -> list[Sandbox | None]:
    """Return no sandbox, and this machine's where there is one."""
    sandbox = Sandbox(tmp_path / "state")
    return [None] if sandbox.measure().level == "none" else [None, sandbox]


def benches(tmp_path: Path) -> list[Bench]:
    found = []
    for number, sandbox in enumerate(boxes(tmp_path)):
        workspace = tmp_path / f"work{number}"
        workspace.mkdir()
        manager = ToolManager(
            [terminal_tool(sandbox)],
            built_in=(),
            policy=lambda: Policy(mode="full", sandbox="full"),
        )
        found.append(Bench(workspace, manager))
    return found


async def test_a_command_tells_its_exit_code_and_output_alike(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        failed = await bench.failure("execute_terminal", command="echo a; exit 3")
        missing = await bench.failure("execute_terminal", command="no-such-program here")

        assert failed.startswith("Exit code: 3")
        assert failed.endswith("\n\na\n")
        assert missing.startswith("Exit code: 127")
        assert "no-such-program: not found" in missing


async def test_output_is_told_while_a_command_runs_alike(tmp_path: Path) -> None:
    line = "echo ready >&2; until [ -e go ]; do sleep 0.05; done; echo over"
    for bench in benches(tmp_path):
        async with asyncio.TaskGroup() as group:
            call = group.create_task(bench.call("execute_terminal", command=line))
            await bench.until_told("ready")
            (bench.context.workspace / "go").touch()

        assert call.result().text.endswith("ready\nover\n")


async def test_an_argv_is_started_with_its_words_as_they_are(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        text = await bench.text("execute_terminal", command="/bin/echo -n ' a  b' '*' \"c d\"")

        assert text.endswith("\n\n a  b * c d")


async def test_told_to_stop_a_command_may_end_softly(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        line = "trap 'echo tidy; exit 7' INT; echo ready; while :; do sleep 0.05; done"
        async with asyncio.TaskGroup() as group:
            call = group.create_task(bench.call("execute_terminal", command=line))
            await bench.until_told("ready")
            bench.stop.set()

        assert call.result().outcome == "stopped"
        assert "tidy" in call.result().text


async def test_told_to_stop_a_command_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        line = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"
        async with asyncio.TaskGroup() as group:
            call = group.create_task(bench.call("execute_terminal", command=line))
            await bench.until_told("ready")
            bench.stop.set()

        assert call.result().outcome == "unknown"
        assert "Ended by SIGKILL" in call.result().text
        assert at_work(bench) == []


async def test_cancelled_nothing_of_a_command_goes_on(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        line = (
            "trap '' INT TERM HUP; setsid sh -c 'trap \"\" INT TERM; sleep 99' & echo ready; wait"
        )
        async with asyncio.TaskGroup() as group:
            call = group.create_task(bench.call("execute_terminal", command=line))
            await bench.until_told("ready")
            call.cancel()

        assert call.cancelled()
        assert at_work(bench) == []


async def test_a_command_leaves_no_folders_and_no_descriptors_behind(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        await bench.text("execute_terminal", command="true; true")
        before = len(os.listdir("/proc/self/fd"))
        await bench.text("execute_terminal", command="true; true")

        assert len(os.listdir("/proc/self/fd")) == before
        assert os.listdir(bench.context.workspace) == []


async def test_a_command_that_makes_what_decides_what_runs_later_is_told(tmp_path: Path) -> None:
    for bench in benches(tmp_path)[1:]:
        text = await bench.text("execute_terminal", command="mkdir .husky objects refs; touch HEAD")
        again = await bench.text("execute_terminal", command="touch .husky/x || true; echo done")

        assert "[it made .husky, HEAD, config: what decides what runs later" in text
        assert "it made" not in again


async def test_a_sandbox_that_breaks_never_runs_the_command_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bench in benches(tmp_path)[1:]:
        monkeypatch.setattr("midstream.tool.sandbox.launch.home_of", lambda env: Path("/proc/x"))

        text = await bench.failure("execute_terminal", command="touch done; echo done")

        assert "The sandbox could not be started: bwrap: " in text
        assert not (bench.context.workspace / "done").exists()


def at_work(bench: Bench) -> list[int]:
    """Return the processes that work in the workspace."""
    found = []
    for process in processes():
        try:
            if os.readlink(f"/proc/{process.pid}/cwd") == str(bench.context.workspace):
                found.append(process.pid)
        except OSError:
            continue
    return found
