"""Commands in the sandbox as the tool runs them: what is asked, what is shown, how they end."""

import asyncio
import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from deadline import DEADLINE_S, until
from msgspec.structs import replace
from toolbench import Bench, Said, patient

from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.safety.capability import Capability, SandboxLevel
from midstream.safety.policy import Policy, judged
from midstream.system import supervisor as process_module
from midstream.system.process_tree import processes
from midstream.system.supervisor import Ended
from midstream.tools.base import Planned
from midstream.tools.manager import ToolManager
from midstream.tools.sandbox.bwrap import interpreter
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tools.shell import as_told, terminal_tool

__all__ = ["patient"]


def planned(bench: Bench, boxed: Sandbox | None, command: str, **more: Json) -> Planned:
    tool = terminal_tool(boxed)
    assert tool.plan is not None
    return tool.plan({"command": command, **more}, bench.context)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return Bench(workspace)


# --- what is asked and shown ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "leaves"), [("full", False), ("partial", True), ("none", True), (None, True)]
)
def test_only_in_a_full_sandbox_a_command_leaves_none(
    bench: Bench, level: SandboxLevel | None, leaves: bool
) -> None:
    sandbox = None if level is None else Said(level)

    command, *more = planned(bench, sandbox, "make test").requests

    assert str(command) == "exec: make test"
    assert list(map(str, more)) == (["outside: make test"] if leaves else [])


def test_a_line_for_a_shell_is_one_whole(bench: Bench) -> None:
    (request,) = planned(bench, Said("full"), "make && rm -rf $HOME").requests

    assert request == Capability(kind="shell", target="make && rm -rf $HOME")


@pytest.mark.parametrize("network", [True, ["*"], ["pypi.org", "*"]])
def test_the_whole_network_is_one_thing_to_ask_for(bench: Bench, network: Json) -> None:
    plan = planned(bench, Said("full"), "pip install x", network=network)

    assert [str(each) for each in plan.requests][1:] == ["net: \\*"]
    assert "the sandbox (full) and the network, shared: any host" in plan.shows


def test_each_host_is_asked_for_by_its_name(bench: Bench) -> None:
    hosts = ["PyPI.org.", "127.0.0.1:08080", "[::FFFF:127.0.0.1]:8080", "pypi.org"]

    plan = planned(bench, Said("full"), "pip install x", network=hosts)

    assert [str(each) for each in plan.requests][1:] == ["net: pypi.org", "net: 127.0.0.1:8080"]
    assert "the sandbox (full) and of the network only pypi.org, 127.0.0.1:8080" in plan.shows


@pytest.mark.parametrize(
    "host",
    [
        *("https://pypi.org/", "pypi.org/simple", "a@pypi.org", "*.pypi.org", "", "bücher.example"),
        *("2130706433", "127.1", "pypi.org:99999", "pypi.org\n", "a b", "pypi.org,evil.example"),
    ],
)
def test_what_is_no_host_is_refused_with_what_to_write(bench: Bench, host: str) -> None:
    with pytest.raises(UserMistake, match="is no host") as raised:
        planned(bench, Said("full"), "pip install x", network=[host])

    assert "such as pypi.org" in raised.value.hint


@pytest.mark.parametrize(("level", "sandbox"), [("none", True), ("full", False)])
def test_outside_a_sandbox_nothing_keeps_a_command_to_the_hosts_it_names(
    bench: Bench, level: SandboxLevel, sandbox: bool
) -> None:
    plan = planned(bench, Said(level), "make", network=["pypi.org"], sandbox=sandbox)

    assert [str(each) for each in plan.requests] == ["exec: make", "outside: make", "net: pypi.org"]
    assert "no sandbox: it can do whatever you can, and reach any host" in plan.shows


def test_a_command_that_names_a_host_does_not_only_look(bench: Bench) -> None:
    plan = planned(bench, Said("full"), "cat notes.txt", network=["pypi.org"])

    assert [each.kind for each in plan.requests] == ["shell", "net"]


@pytest.mark.parametrize("network", [["pypi.org"], ["*"]])
def test_what_installing_writes_into_is_asked_for(bench: Bench, network: Json) -> None:
    (bench.context.workspace / "node_modules/.bin").mkdir(parents=True)
    (bench.context.workspace / ".venv").mkdir()
    (bench.context.workspace / ".venv/pyvenv.cfg").touch()

    reaching = planned(bench, Said("full"), "pip install x", network=network)
    alone = planned(bench, Said("full"), "pip install x")

    assert {each.target for each in reaching.requests if each.kind == "write_protected"} == {
        *(".venv", "node_modules/.bin"),
    }
    assert [each.kind for each in alone.requests] == ["exec"]


def test_auto_asks_for_the_host_alone_and_a_rule_may_allow_it(bench: Bench) -> None:
    requests = planned(bench, Said("full"), "npm ci", network=["registry.npmjs.org"]).requests
    auto = Policy(mode="auto", sandbox="full")

    asked = judged(requests, auto)
    allowed = judged(requests, replace(auto, allow=("net: *.npmjs.org",)))
    denied = judged(requests, replace(auto, deny=("net: registry.npmjs.org:443",)))

    assert [str(each) for each in asked.asked] == ["net: registry.npmjs.org"]
    assert "auto asks about the host registry.npmjs.org" in asked.reason
    assert (allowed.kind, denied.kind) == ("allow", "deny")


def test_a_workspace_that_cannot_be_boxed_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(bench.context.workspace))

    plan = planned(bench, Said("full"), "make")

    assert [each.kind for each in plan.requests] == ["exec", "outside"]
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
        assert request == Capability(kind="shell", target=command)


def test_git_with_settings_that_start_something_does_not_only_look(bench: Bench) -> None:
    folder = bench.context.workspace / ".git"
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text('[filter "x"]\n\tclean = touch pwned\n')

    requests = planned(bench, None, "git status").requests

    assert [each.kind for each in requests] == ["shell", "outside"]
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


@pytest.mark.needs("bwrap")
async def test_a_command_reaches_the_hosts_it_names_and_is_told_of_others(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nreach\n")
        writer.close()

    code = (
        "import sys, urllib.request as u, urllib.error as e\n"
        "for url in sys.argv[1:]:\n"
        "    try:\n        print(u.urlopen(url).read())\n"
        "    except e.HTTPError as error:\n        print(error.reason)"
    )
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        here = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for bench in benches(tmp_path)[1:]:
            (bench.context.workspace / "fetch.py").write_text(code)
            line = (
                f"{interpreter()} fetch.py http://{here}/ http://evil.example/ http://localhost:1/"
            )

            text = await bench.text("execute_terminal", command=line, network=[here, "localhost:1"])

            assert "b'reach\\n'" in text
            assert "evil.example is refused: the command did not name it" in text
            assert "\n[not reached: evil.example: the command did not name it. It reaches" in text


@pytest.mark.needs("bwrap")
async def test_cancelled_a_command_lets_go_of_the_hosts_it_reached(tmp_path: Path) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(4096):
                asked.set()
        left.set()
        writer.close()

    async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
        here = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        code = "import sys, urllib.request as u\nu.urlopen(sys.argv[1])"
        for bench in benches(tmp_path)[1:]:
            (bench.context.workspace / "fetch.py").write_text(code)
            line = f"trap '' INT TERM; {interpreter()} fetch.py http://{here}/"
            async with asyncio.TaskGroup() as group:
                call = group.create_task(
                    bench.call("execute_terminal", command=line, network=[here])
                )
                await asked.wait()
                call.cancel()

            await left.wait()
            assert call.cancelled()
            assert at_work(bench) == []


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


async def test_told_to_stop_a_command_may_end_softly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "GRACE_S", 2 * DEADLINE_S)
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

        assert call.result().outcome == "stopped"
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


async def no_more_than(descriptors: int) -> bool:
    return len(os.listdir("/proc/self/fd")) <= descriptors


async def test_a_command_leaves_no_folders_and_no_descriptors_behind(tmp_path: Path) -> None:
    for bench in benches(tmp_path):
        await bench.text("execute_terminal", command="true; true")
        before = len(os.listdir("/proc/self/fd"))
        await bench.text("execute_terminal", command="true; true")

        # What other tests left behind may open and close some meanwhile.
        await until(partial(no_more_than, before))
        assert os.listdir(bench.context.workspace) == []


async def test_a_command_that_makes_what_decides_what_runs_later_is_told(tmp_path: Path) -> None:
    for bench in benches(tmp_path)[1:]:
        text = await bench.text("execute_terminal", command="mkdir .husky objects refs; touch HEAD")
        again = await bench.text("execute_terminal", command="touch .husky/x || true; echo done")

        assert "[it made .husky, HEAD: what decides what runs later" in text
        assert "it made" not in again


async def test_a_sandbox_that_breaks_never_runs_the_command_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bench in benches(tmp_path)[1:]:
        monkeypatch.setattr("midstream.tools.sandbox.launch.home_of", lambda env: Path("/proc/x"))

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


async def test_what_a_command_makes_further_down_is_told(tmp_path: Path) -> None:
    for bench in benches(tmp_path)[1:]:
        work = bench.context.workspace
        (work / "pkg/.vscode").mkdir(parents=True)
        (work / "pkg/AGENTS.md").write_text("a person's")

        refused = await bench.failure("execute_terminal", command="echo x >> pkg/AGENTS.md")
        remade = await bench.text(
            "execute_terminal",
            command="mv pkg old; mkdir pkg; echo x > pkg/AGENTS.md; mkdir -p d/refs d/objects; "
            "echo ref: refs/heads/x > d/HEAD; touch d/config",
        )

        assert "Read-only file system" in refused
        assert "[it made d/HEAD, d/config, old/.vscode, old/AGENTS.md: what decides" in remade
        assert "[it changed pkg/AGENTS.md: what decides" in remade
        assert "[it removed pkg/.vscode: what decides" in remade
        assert (work / "old/AGENTS.md").read_text() == "a person's"


async def test_a_socket_of_the_host_is_shut_or_told(tmp_path: Path) -> None:
    for bench in benches(tmp_path)[1:]:
        work = bench.context.workspace
        line = (
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"s\")' && echo in; "
            "echo ready; until [ -e go ]; do sleep 0.05; done"
        )
        with socket.socket(socket.AF_UNIX) as service, socket.socket(socket.AF_UNIX) as later:
            service.bind(str(work / "s"))
            service.listen()
            async with asyncio.TaskGroup() as group:
                call = group.create_task(bench.call("execute_terminal", command=line))
                await bench.until_told("ready")
                later.bind(str(work / "later"))
                later.listen()
                (work / "go").touch()

            assert "ConnectionRefusedError" in call.result().text
            assert "[it could reach later: a program outside opened that" in call.result().text


async def test_a_command_is_asked_about_where_not_all_could_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bench in benches(tmp_path)[1:]:
        work = bench.context.workspace
        whole = planned(bench, Sandbox(tmp_path / "state"), "make")
        await bench.text("execute_terminal", command="true; true")
        monkeypatch.setattr("midstream.tools.sandbox.guarded_files.MAX_DEPTH", 2)
        (work / "a/b/c/d").mkdir(parents=True)

        # By what was seen a moment ago this one may run unasked.
        late = await bench.call("execute_terminal", command="echo ran")
        told = await bench.text("execute_terminal", command="echo ran")
        cut = planned(bench, Sandbox(tmp_path / "state"), "make")

        assert [each.kind for each in whole.requests] == ["exec"]
        assert [each.kind for each in cut.requests] == ["exec", "outside"]
        assert "the sandbox (partial) and no network (not all of the workspace" in cut.shows
        assert "its folders are more than 2 deep" in cut.shows
        assert late.outcome == "not_run"
        assert late.text.startswith("Not run: not all of the workspace could be looked through")
        assert "[not all of the workspace could be looked through" in told
