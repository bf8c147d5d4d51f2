"""Commands in the background: begun, looked at, waited for, stopped, and gone with their run."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from deadline import DEADLINE_S
from toolbench import Bench, alive_in, patient

from midstream.core.notices import AnyNotice, BackgroundEnded
from midstream.language.names import Json, Outcome
from midstream.runtime import background as background_module
from midstream.runtime.background import MAX_RUNNING, Background, Command
from midstream.runtime.ports import ToolOutcome
from midstream.safety.policy import Policy
from midstream.safety.redaction import Redactor
from midstream.tools import shell
from midstream.tools.manager import ToolManager

__all__ = ["patient"]

WAITS = "echo ready; until [ -e go ]; do sleep 0.05; done; echo gone"
KEY = "sk-ant-api03-Zq7Xw2Kd9Lm4" + "Pn8R" * 18


class Run(Bench):
    """A bench whose calls have what a run gives them: an id, and commands that last."""

    def __init__(self, workspace: Path, manager: ToolManager | None = None) -> None:
        super().__init__(workspace, manager)
        self.folder = workspace
        self.notices: list[AnyNotice] = []
        self.background = Background(self.notices.append, Redactor())
        self._calls = 0

    async def call(self, name: str, **arguments: Json) -> ToolOutcome:
        self._calls += 1
        self.context = msgspec.structs.replace(
            self.context, call=f"call_{self._calls}", background=self.background
        )
        return await super().call(name, **arguments)

    async def begin(self, command: str = WAITS) -> str:
        text = await self.text("execute_terminal", command=command, background=True)
        return text.partition(" ")[0]


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    run = Run(tmp_path)
    yield run
    await run.background.close()


async def test_the_call_returns_a_handle_and_the_command_goes_on(run: Run) -> None:
    text = await run.text("execute_terminal", command=WAITS, background=True)

    assert text.startswith("task-1 runs in the background")
    assert text.endswith("ready\n")
    assert alive_in(run.folder)
    assert (await run.text("tasks", action="list")).startswith("task-1 runs in the background for")


async def test_one_that_ends_in_a_moment_is_told_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "_FIRST_S", DEADLINE_S)
    ended = await run.call("execute_terminal", command="echo no; exit 3", background=True)

    assert ended.outcome == "failed"
    assert ended.text.startswith("task-1 ended at once. Exit code: 3")
    assert ended.text.endswith("no\n")


async def test_its_end_is_waited_for(run: Run) -> None:
    handle = await run.begin()
    wait = asyncio.ensure_future(run.text("tasks", action="wait", handle=handle, timeout_s=600))
    (run.folder / "go").touch()

    text = await wait
    assert text.startswith("task-1 ended: Exit code: 0")
    assert text.endswith("ready\ngone")
    assert [each.handle for each in run.notices if isinstance(each, BackgroundEnded)] == [handle]


async def test_what_it_prints_is_waited_for_and_looked_for(run: Run) -> None:
    await run.begin("seq 5; until [ -e go ]; do sleep 0.05; done; echo listening on 80; sleep 600")
    wait = asyncio.ensure_future(
        run.text("tasks", action="wait", until=r"listening on \d+", timeout_s=600)
    )
    (run.folder / "go").touch()

    assert "It has printed" in await wait
    found = await run.text("tasks", action="tail", until="^[24]$")
    assert found.partition("\n\n")[2] == "2\n4"


async def test_a_port_is_waited_for(run: Run) -> None:
    await run.begin()
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        text = await run.text("tasks", action="wait", until=f"port {port}", timeout_s=600)

    assert text.startswith(f"Port {port} is open.")


async def test_a_wait_that_comes_to_nothing_says_so_and_stops_nothing(run: Run) -> None:
    await run.begin()
    text = await run.text("tasks", action="wait", until="never", timeout_s=0)

    assert "it goes on" in text
    assert alive_in(run.folder)


async def test_words_that_end_a_wait_leave_the_command_alone(run: Run) -> None:
    await run.begin()
    wait = asyncio.ensure_future(run.call("tasks", action="wait", timeout_s=600))
    await asyncio.sleep(0)
    run.stop.set()

    assert (await wait).outcome in ("stopped", "not_run", "unknown")
    assert alive_in(run.folder)


async def test_it_is_stopped_with_all_it_started(run: Run) -> None:
    handle = await run.begin("trap '' INT; (setsid sleep 600 &) ; sleep 600 & echo ready; wait")
    text = await run.text("tasks", action="stop", handle=handle)

    assert text.startswith("task-1 ended: ")
    assert alive_in(run.folder) == []
    assert (await run.text("tasks", action="list")).startswith("task-1 ended: ")


async def test_all_of_them_end_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "SOFT_S", DEADLINE_S)
    run = Run(tmp_path)
    await run.begin()
    await run.begin("(setsid sleep 600 &); echo ready; sleep 600")
    await run.background.close()

    assert alive_in(tmp_path) == []
    assert len([each for each in run.notices if isinstance(each, BackgroundEnded)]) == 2
    refused = await run.failure("execute_terminal", command=WAITS, background=True)
    assert "run in the background already" in refused


async def test_one_that_does_not_end_softly_is_killed_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "SOFT_S", 0.0)
    run = Run(tmp_path)
    await run.begin("trap '' INT TERM; echo ready; while :; do sleep 0.1; done")
    await run.background.close()

    assert alive_in(tmp_path) == []


async def test_only_so_many_run_at_once(run: Run) -> None:
    for _ in range(MAX_RUNNING):
        await run.begin("sleep 600")

    refused = await run.failure("execute_terminal", command="sleep 600", background=True)
    assert "task-1, task-2" in refused


async def test_it_is_judged_as_in_the_foreground(tmp_path: Path) -> None:
    denied = Policy(mode="plan")
    run = Run(tmp_path, ToolManager(policy=lambda: denied))
    ended = await run.call("execute_terminal", command="touch x", background=True)
    planned = await run.manager.review(
        "execute_terminal", {"command": "touch x", "background": True}, run.context
    )

    assert (ended.outcome, planned.kind) == ("denied", "deny")
    assert run.background.commands() == ()


async def test_the_card_says_that_it_goes_on(tmp_path: Path) -> None:
    asking = Policy(mode="ask")
    run = Run(tmp_path, ToolManager(policy=lambda: asking))
    arguments: dict[str, Json] = {"command": "npm run dev"}
    plain = await run.manager.review("execute_terminal", arguments, run.context)
    behind = await run.manager.review(
        "execute_terminal", {**arguments, "background": True}, run.context
    )

    assert "in the background" in behind.shows
    assert "in the background" not in plain.shows
    assert plain.asks[-1] != behind.asks[-1], "a yes to one is none to the other"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"action": "wait", "until": "(a"}, "no pattern"),
        ({"action": "tail", "until": "(a+)+(b" + "x" * 400}, "not fit"),
        ({"action": "stop", "handle": "task-9"}, "There is no command 'task-9'"),
        ({"action": "wait", "until": "port 99999"}, "no port"),
        ({"action": "stop", "handle": "../1"}, "There is no command"),
    ],
)
async def test_what_cannot_be_done_is_said(run: Run, arguments: dict[str, Json], word: str) -> None:
    await run.begin()

    assert word in await run.failure("tasks", **arguments)


async def test_without_a_run_nothing_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert "Nothing can go on" in await bench.failure(
        "execute_terminal", command="sleep 9", background=True
    )
    assert await bench.text("tasks", action="list") == "Nothing runs in the background."


async def test_in_a_git_worktree_nothing_goes_on_that_would_outlive_it(run: Run) -> None:
    run.context = msgspec.structs.replace(run.context, worktrees=("coder-3",))

    assert "Nothing can go on" in await run.failure(
        "execute_terminal", command=WAITS, background=True
    )
    assert run.background.commands() == ()


async def test_endless_output_is_bounded_and_a_secret_at_the_cut_is_none(run: Run) -> None:
    await run.begin(f"yes {KEY} | head -c 3000000; echo; echo the end; sleep 600")
    text = await run.text("tasks", action="wait", until="the end", timeout_s=600)

    [command] = run.background.commands()
    assert len(command.output.text()) <= shell.RECENT_CHARS + 100
    assert "Pn8RPn8R" not in command.output.text()
    assert "lines before]" in text


async def test_a_secret_in_the_command_is_not_told(run: Run) -> None:
    handle = await run.begin(f"true {KEY}; sleep 600")
    await run.text("tasks", action="stop", handle=handle)

    assert "Pn8R" not in str(run.notices)
    assert "Pn8R" not in await run.text("tasks", action="list")


async def test_words_that_follow_the_exit_code_are_told_with_it(run: Run) -> None:
    async def work(command: Command) -> tuple[Outcome, str]:
        await command.stop.wait()
        return "completed", "Exit code: 0\n[it made .envrc: what runs later should be looked at]"

    command = run.background.begin("task-7", "make", work, shell.Output())
    text = await run.text("tasks", action="stop", handle="task-7")

    assert text.startswith("task-7 ended: Exit code: 0 [it made .envrc:")
    assert isinstance(run.notices[-1], BackgroundEnded)
    assert ".envrc" in run.notices[-1].how
    assert command.ended is not None
