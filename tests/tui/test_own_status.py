"""The status line of a person's own: what it says, when it is looked up, what it can never do."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from deadline import DEADLINE_S

from midstream.config.settings import STATUS_FIELDS, read_settings
from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.tools.hooks import StatusCommand
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.own_status import LEAST_ROWS, MARK, OwnStatus, branch_of, filled
from midstream.tui.styled_lines import Row


def text_of(row: Row) -> str:
    return "".join(text for _, text in row)


class Nobody:
    """A scrollback nobody sees."""

    def redraw(self) -> None:
        """Do nothing."""

    def say(self, text: str, *, kind: str = "info") -> None:
        """Do nothing."""


class Asked:
    """A command that says what it is told, and counts how often."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, Json]] = []
        self.may_answer = asyncio.Event()

    async def run(self, told: Mapping[str, Json]) -> str:
        self.told.append(told)
        await self.may_answer.wait()
        return f"cost {told['cost']}\x1b[2J"


def test_a_template_leaves_out_pieces_that_would_be_empty() -> None:
    fields = {"model": "m", "tokens": ""}

    assert filled("{model} · {tokens} tokens · here", fields) == "m · here"
    assert filled("{{model}} {nothing}{model}", fields) == "{m} m"


def test_fields_are_not_filled_twice() -> None:
    assert filled("{state}", {"state": "{cost}", "cost": "$1"}) == "{cost}"


def test_a_field_there_is_not_is_said_with_its_place() -> None:
    found, problems = read_settings('{"statusLine": "{modl}"}', file="a.json")

    assert found == {}
    assert str(problems[0]) == (
        'a.json:1:16 $.statusLine: there is no field {modl}. Did you mean "model"?'
    )
    for field in STATUS_FIELDS:
        assert read_settings(f'{{"statusLine": "{{{field}}}"}}', file="")[1] == ()


def test_a_workspace_sets_none() -> None:
    text = '{"statusLine": {"command": "touch /tmp/x", "sandbox": false}}'
    found, problems = read_settings(text, file="a.json", is_workspace=True)

    assert found == {}
    assert "a workspace may not set the status line" in str(problems[0])
    assert read_settings(text, file="a.json")[0] == {
        "statusLine.command": "touch /tmp/x",
        "statusLine.sandbox": "false",
    }


def test_the_branch_is_read_from_one_small_plain_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git" / "HEAD"
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    head.write_text("ref: refs/heads/feature/x\n")
    assert branch_of(below) == "feature/x"
    head.write_text("0123456789abcdef\n")
    assert branch_of(tmp_path) == "01234567"
    head.unlink()
    os.mkfifo(head)
    assert branch_of(tmp_path) == ""


async def test_a_command_is_asked_once_while_nothing_changes_and_never_twice_at_a_time(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        background = BackgroundTasks(Nobody())  # type: ignore[arg-type]
        background.tasks = group
        own, command = OwnStatus(background, lambda: None, tmp_path), Asked()
        own.use("", command.run)

        def frame(cost: str, now: float, height: int = 24) -> str:
            return text_of(own.row({"cost": cost}, width=40, height=height, now=now))

        async def asked() -> list[Json]:
            for _ in range(10):
                await asyncio.sleep(0)
            return [told["cost"] for told in command.told]

        assert frame("$1", 10.0) == MARK
        assert await asked() == ["$1"]
        frame("$2", 20.0)
        assert await asked() == ["$1"]  # which has not answered yet
        command.may_answer.set()
        assert await asked() == ["$1"]
        assert frame("$1", 20.1) == f"{MARK}cost $1␛[2J"
        assert await asked() == ["$1"]  # nothing has changed
        frame("$3", 20.2)
        assert await asked() == ["$1", "$3"]
        frame("$4", 20.3)
        frame("$5", 21.1)
        assert await asked() == ["$1", "$3"]  # a second is not over
        frame("$6", 21.3)
        assert await asked() == ["$1", "$3", "$6"]
        assert frame("$6", 30.0, height=LEAST_ROWS - 1) == ""
        own.stop()


async def test_a_command_reads_json_and_its_first_line_counts(tmp_path: Path) -> None:
    command = StatusCommand(
        command="cat; echo; echo more", workspace=tmp_path, sandbox=None, timeout_s=DEADLINE_S
    )

    assert await command.run({"cost": "$1"}) == '{"cost":"$1"}'


@pytest.mark.slow
@pytest.mark.needs("bwrap")
async def test_in_the_sandbox_a_script_beside_the_hooks_runs_and_the_home_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "home/work"
    scripts = home / ".config/midstream/hooks"
    for folder in (workspace, scripts, home / "bin"):
        folder.mkdir(parents=True)
    (scripts.parent / "application.json").write_text("hidden words")
    look = "#!/bin/sh\ncat\nls ~/bin ~/.config/midstream/application.json 2>/dev/null\ntrue\n"
    for script in (scripts / "status.sh", home / "bin/status"):
        script.write_text(look)
        script.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    box = Sandbox(tmp_path / "state")
    box.measure()

    def command(words: str) -> StatusCommand:
        return StatusCommand(
            command=words,
            workspace=workspace,
            sandbox=box,
            timeout_s=DEADLINE_S,
            readable=(scripts,),
        )

    own = "~/.config/midstream/hooks/status.sh"
    assert await command(own).run({"cost": "$1"}) == '{"cost":"$1"}'
    assert await command(f"{own} | sed 1d").run({}) == ""
    with pytest.raises(WorldTrouble, match="exit code 127"):
        await command("~/bin/status").run({})


@pytest.mark.parametrize(
    ("script", "timeout_s", "said"),
    [
        ("exit 3", DEADLINE_S, "exit code 3"),
        ("exec sleep 1000", 0.05, "said nothing within 0.05 s"),
    ],
)
async def test_a_command_that_fails_or_is_slow_says_so(
    tmp_path: Path, script: str, timeout_s: float, said: str
) -> None:
    command = StatusCommand(command=script, workspace=tmp_path, sandbox=None, timeout_s=timeout_s)

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(WorldTrouble, match=said):
            await command.run({})
