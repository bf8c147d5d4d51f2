import asyncio
import os
import re
import shutil
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S, Ahead, until
from toolbench import Bench, alive_in, patient

from midstream.language.names import Outcome
from midstream.system import process_tree as tree
from midstream.system import supervisor as process_module
from midstream.system.offloop import in_thread
from midstream.system.programs import command_environment, environment_inside
from midstream.system.supervisor import Ended, run_command
from midstream.tools.shell import Output, verdict

__all__ = ["patient"]

HOUR_S = 3600.0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """Return the clock of the commands, which waits for an hour between two signals."""
    ahead = Ahead()
    monkeypatch.setattr(process_module, "time", ahead)
    monkeypatch.setattr(process_module, "GRACE_S", 2 * HOUR_S)
    return ahead


@pytest.fixture
def deaf(ahead: Ahead, monkeypatch: pytest.MonkeyPatch) -> set[signal.Signals]:
    """Return the signals of which nothing comes: an hour has passed once one of them was sent."""
    send, deaf = tree.send, set[signal.Signals]()

    def sent(which: signal.Signals, *whom: Any) -> None:
        send(which, *whom)
        ahead.by_s += HOUR_S if which in deaf else 0.0

    monkeypatch.setattr(tree, "send", sent)
    return deaf


async def interrupted(bench: Bench, command: str) -> tuple[Outcome, str]:
    """Run a command until it says "ready", then ask it to stop."""
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("execute_terminal", command=command))
        await bench.until_told("ready")
        bench.stop.set()
    return call.result().outcome, call.result().text


# --- what a command gets and gives ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "outcome", "text"),
    [
        ("echo hi", "completed", "Exit code: 0\n\nhi\n"),
        ("echo out; echo err >&2; exit 3", "failed", "Exit code: 3\n\nout\nerr\n"),
        ("true", "completed", "Exit code: 0\n\n(no output)"),
        ("kill -9 $$", "failed", "Ended by SIGKILL\n\n(no output)"),
        ("no-such-program-here 2>/dev/null", "failed", "Exit code: 127\n\n(no output)"),
        ("cat", "completed", "Exit code: 0\n\n(no output)"),
        ("[ -t 0 ] || [ -t 1 ] || echo no terminal", "completed", "Exit code: 0\n\nno terminal\n"),
        ("printf 'a\\0b\\377c'", "completed", "Exit code: 0\n\nab\ufffdc"),
        ("[[ a == a ]] && echo bash", "completed", "Exit code: 0\n\nbash\n"),
    ],
)
async def test_a_command_gives_its_exit_code_and_output(
    bench: Bench, command: str, outcome: str, text: str
) -> None:
    ended = await bench.call("execute_terminal", command=command)

    assert (ended.outcome, ended.text) == (outcome, text)


async def test_a_command_runs_in_the_workspace_with_its_own_session(bench: Bench) -> None:
    text = await bench.text(
        "execute_terminal", command="pwd; ps -o sid= -p $$ | tr -d ' '; echo $$"
    )

    folder, session, pid = text.splitlines()[2:]
    assert folder == str(bench.context.workspace)
    assert session == pid


async def test_a_command_sees_no_secrets(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-hush")
    monkeypatch.setenv("SOME_PROJECT_SETTING", "hush")

    text = await bench.text("execute_terminal", command="env")

    assert "hush" not in text
    assert "PATH=" in text


def test_the_environment_of_commands_is_a_list_of_names() -> None:
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "LC_API_KEY": "x",
        "LD_PRELOAD": "x",
        "DB_PASSWORD": "x",
    }

    assert command_environment(given) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONUNBUFFERED": "1",
    }


def test_in_a_sandbox_it_is_the_same_but_for_what_leads_nowhere_there() -> None:
    given = command_environment({"PATH": "/bin", "CI": "1", "SSL_CERT_FILE": "/etc/own.pem"})

    assert environment_inside({**given, "LC_API_KEY": "x", "LD_PRELOAD": "x"}) == {
        name: value for name, value in given.items() if name != "SSL_CERT_FILE"
    }


async def test_output_is_told_while_the_command_runs(bench: Bench, tmp_path: Path) -> None:
    command = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo late"
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("execute_terminal", command=command))
        await bench.until_told("ready")
        (tmp_path / "go").touch()

    assert "".join(bench.told) == "ready\nlate\n"
    assert call.result().text.endswith("ready\nlate\n")


async def test_what_python_prints_is_told_at_once(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\nprint('ready')\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"
    )
    async with asyncio.TaskGroup() as group:
        call = group.create_task(
            bench.call("execute_terminal", command=f"{sys.executable} slow.py")
        )
        await bench.until_told("ready")
        (tmp_path / "go").touch()

    assert call.result().outcome == "completed"


async def test_endless_output_keeps_head_and_tail(bench: Bench) -> None:
    command = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"
    text = await bench.text("execute_terminal", command=command)

    assert text.startswith("Exit code: 0\n\nfirst\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert "characters left out" in text
    assert len(text) < 50_000
    assert sum(map(len, bench.told)) < 3_000_000


def test_output_counts_what_it_leaves_out() -> None:
    output = Output(first=5, last=5)
    for piece in (b"0123", b"456789", b"abcdef", "\u00e9".encode()[:1], "\u00e9".encode()[1:]):
        output.feed(piece)

    assert output.text() == "01234\n[... 7 characters left out ...]\ncdef\u00e9"


def test_output_that_just_fits_is_whole() -> None:
    output = Output(first=5, last=5)
    for piece in (b"01234567", b"89"):
        output.feed(piece)

    assert output.text() == "0123456789"


@pytest.mark.parametrize("command", ["", "echo \0", "x" * 60_000])
async def test_a_command_that_cannot_be_is_refused(bench: Bench, command: str) -> None:
    await bench.failure("execute_terminal", command=command)


async def test_a_missing_workspace_is_words_not_a_crash(tmp_path: Path) -> None:
    text = await Bench(tmp_path / "gone").failure("execute_terminal", command="true")

    assert "could not be started" in text


async def test_without_bash_the_plain_shell_has_to_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)

    assert "hi" in await bench.text("execute_terminal", command="echo hi")


# --- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000 & echo started",
        "setsid sleep 1000 >/dev/null 2>&1 & echo started",
        "(setsid sleep 1000 &) ; sleep 0.05; echo started",
        "nohup sleep 1000 >/dev/null 2>&1 & echo started",
    ],
)
async def test_nothing_outlives_the_command(bench: Bench, command: str) -> None:
    text = await bench.text("execute_terminal", command=command)

    assert "started" in text
    assert "1 background process outlived it and was ended" in text
    assert alive_in(bench.context.workspace) == []


async def test_a_command_out_of_time_is_ended_with_all_it_started(
    bench: Bench, ahead: Ahead, deaf: set[signal.Signals]
) -> None:
    deaf.add(signal.SIGINT)
    command = "trap '' INT; (setsid sleep 1000 &); while :; do echo begun; sleep 0.05; done"
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("execute_terminal", command=command, timeout_s=600))
        await bench.until_told("begun")
        ahead.by_s += 600
    ended = call.result()

    assert ended.outcome == "stopped"
    assert re.match(
        r"Stopped after \d+ s, when its time of 600 s was over\. Ended by SIG", ended.text
    )
    assert "begun" in ended.text
    assert alive_in(bench.context.workspace) == []


async def test_a_machine_that_stands_still_takes_no_time_from_a_command_that_ends(
    bench: Bench, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = tree.send

    def sent(which: signal.Signals, *whom: Any) -> None:
        send(which, *whom)
        ahead.by_s += 3 * HOUR_S if which == signal.SIGINT else 0.0

    monkeypatch.setattr(tree, "send", sent)
    saves = "trap 'sleep 0.3; echo saved; exit 0' TERM"
    command = f"trap '' INT; {saves}; echo ready; while :; do sleep 0.02; done"

    outcome, text = await interrupted(bench, command)

    assert (outcome, "saved" in text) == ("completed", True)


@pytest.mark.parametrize(
    ("ignored", "command", "outcome", "words"),
    [
        (
            (),
            "trap 'echo saved; exit 0' INT; echo ready; while :; do sleep 0.02; done",
            "completed",
            "Exit code: 0 (after it was told to stop)\n\nready\nsaved",
        ),
        (
            (),
            "trap 'echo undone; exit 7' INT; echo ready; while :; do sleep 0.02; done",
            "stopped",
            "s. Exit code: 7. What it had done until then stays.",
        ),
        ((), "echo ready; sleep 1000", "stopped", "s. Ended by SIGINT. What it"),
        (
            (signal.SIGINT,),
            "trap '' INT; echo ready; sleep 1000; :",
            "stopped",
            "s. Ended by SIGTERM. What it",
        ),
        (
            (signal.SIGINT, signal.SIGTERM),
            "trap '' INT TERM; echo ready; while :; do sleep 0.05; done",
            "stopped",
            "s. Ended by SIGKILL. What it",
        ),
    ],
)
async def test_a_soft_stop_asks_before_it_kills(
    bench: Bench,
    deaf: set[signal.Signals],
    ignored: tuple[signal.Signals, ...],
    command: str,
    outcome: str,
    words: str,
) -> None:
    deaf.update(ignored)
    ended, text = await interrupted(bench, command)

    assert ended == outcome
    assert words in text
    assert alive_in(bench.context.workspace) == []


async def test_a_soft_stop_reaches_what_has_left_the_session(
    bench: Bench, deaf: set[signal.Signals]
) -> None:
    # What bash starts in the background does not hear SIGINT; SIGTERM comes after a second.
    deaf.add(signal.SIGINT)
    loop = "echo ready; while :; do sleep 0.02; done"
    command = f"(setsid bash -c 'trap \"echo heard; exit\" TERM; {loop}' &)"
    ended, text = await interrupted(bench, f"{command}; sleep 1000; :")

    assert ended == "stopped"
    assert "heard" in text
    assert alive_in(bench.context.workspace) == []


STUBBORN_TREE = """
trap 'touch was-asked' INT TERM
sleep 1000 &
(setsid sleep 1000 &)
setsid bash -c 'setsid sleep 1000 & env -i sleep 1000 & sleep 1000' &
while :; do sleep 1000; done
"""


async def test_cancelling_kills_the_whole_tree(bench: Bench) -> None:
    async def all_are_there() -> bool:
        return len(alive_in(bench.context.workspace)) >= 7

    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("execute_terminal", command=STUBBORN_TREE))
        await until(all_are_there)
        call.cancel()
        await asyncio.wait({call})

        assert call.cancelled()
        assert alive_in(bench.context.workspace) == []
        assert not (bench.context.workspace / "was-asked").exists()


async def test_cancelling_during_a_soft_stop_kills_at_once(bench: Bench) -> None:
    command = "trap 'echo heard' INT TERM; echo ready; while :; do sleep 0.01; done"
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("execute_terminal", command=command))
        await bench.until_told("ready")
        bench.stop.set()
        await bench.until_told("heard")
        call.cancel()
        await asyncio.wait({call})

    assert call.cancelled()
    assert alive_in(bench.context.workspace) == []


async def test_many_commands_at_once_do_not_disturb_each_other(bench: Bench) -> None:
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(bench.call("execute_terminal", command=f"sleep 0.05; echo n{number}"))
            for number in range(20)
        ]

    assert [call.result().text for call in calls] == [
        f"Exit code: 0\n\nn{number}\n" for number in range(20)
    ]


async def test_a_fork_storm_is_survived(bench: Bench) -> None:
    command = "for i in $(seq 60); do (setsid sleep 1000 &) ; done; echo ready; sleep 1000"
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("execute_terminal", command=command))
        await bench.until_told("ready")
        call.cancel()
        await asyncio.wait({call})

    assert alive_in(bench.context.workspace) == []


async def test_cancelling_a_bare_command_kills_it_unasked(tmp_path: Path) -> None:
    class Deaf:
        def feed(self, data: bytes) -> bool:
            begun.set()
            return True

        def tick(self) -> float | None:
            return None

    begun = threading.Event()
    command = run_command(
        ["bash", "-c", "trap 'touch was-asked' INT TERM; echo on; while :; do sleep 0.02; done"],
        folder=tmp_path,
        environment=command_environment(os.environ),
        timeout_s=100,
        stop=asyncio.Event(),
        sink=Deaf(),
    )
    async with asyncio.TaskGroup() as group:
        work = group.create_task(command)
        await in_thread(partial(begun.wait, DEADLINE_S))
        work.cancel()
        await asyncio.wait({work})

    assert alive_in(tmp_path) == []
    assert not (tmp_path / "was-asked").exists()


@pytest.mark.parametrize(
    ("ended", "outcome", "words"),
    [
        (Ended(exit_code=0), "completed", "Exit code: 0"),
        (Ended(exit_code=1), "failed", "Exit code: 1"),
        (Ended(exit_code=-signal.SIGSEGV), "failed", "Ended by SIGSEGV"),
        (
            Ended(exit_code=0, cause="timed_out", ran_s=6.2),
            "stopped",
            "Stopped after 6 s, when its time of 5 s was over. Exit code: 0.",
        ),
        (
            Ended(exit_code=-signal.SIGINT, cause="stopped", ran_s=0.42),
            "stopped",
            "Stopped after 0.4 s. Ended by SIGINT.",
        ),
        (
            Ended(exit_code=-signal.SIGKILL, cause="stopped", ran_s=3, survivors=(4,)),
            "unknown",
            "still running: 4",
        ),
        (Ended(exit_code=0, survivors=(4, 5)), "unknown", "still running: 4, 5"),
    ],
)
def test_the_verdict_tells_the_truth(ended: Ended, outcome: str, words: str) -> None:
    found, text = verdict(ended, 5)

    assert found == outcome
    assert words in text
