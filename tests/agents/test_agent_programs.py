"""External agents as workers: what an agent that behaves, and one that does not, comes to."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deadline import jump

from midstream.agents import agent_process, presets
from midstream.agents.external_agents import AcpAgents
from midstream.agents.presets import PRESETS, Patience, resolve
from midstream.core.events import Usage
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.language.names import AGENT_PRESETS, Outcome
from midstream.runtime.ports import (
    ExternalAgents,
    ExternalCall,
    ExternalPrompt,
    ModelReply,
    Permission,
)
from midstream.safety.redaction import Redactor

FAKE = str(Path(__file__).with_name("fake_agent.py"))
DEADLINE_S = 120
QUICK = Patience(start_s=60, idle_s=60, working_s=60, cancel_s=30)


class Listener:
    """Notes what it hears; `permits` answers permission requests, None waits for ever."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.heard: list[Any] = []
        self.sessions: list[tuple[str, bool]] = []
        self.permits: bool | None = True
        self.fails: WorldTrouble | None = None
        self.came = asyncio.Event()
        self.asked = asyncio.Event()

    @property
    def words(self) -> str:
        return "".join(each[1] for each in self.heard if each[0] == "text")

    def text(self, delta: str) -> None:
        self.heard.append(("text", delta))
        self.came.set()

    def thinking(self, delta: str) -> None:
        self.heard.append(("thinking", delta))

    def calling(self, name: str) -> None:
        pass

    def status(self, text: str) -> None:
        self.heard.append(("status", text))

    def metered(self, used: Callable[[], Usage | None]) -> None:
        self.used = used

    async def opened(self, session: str, *, is_new: bool) -> None:
        self.sessions.append((session, is_new))

    async def called(self, call: ExternalCall) -> None:
        if self.fails is not None:
            raise self.fails
        self.heard.append(("called", call))

    async def permit(self, call: ExternalCall) -> Permission:
        self.heard.append(("permit", call))
        self.asked.set()
        if self.permits is None:
            await asyncio.Event().wait()
        return Permission(is_granted=bool(self.permits))

    async def returned(self, id: str, outcome: Outcome, text: str) -> None:
        self.heard.append(("returned", id, outcome, text))

    def _place(self, path: str) -> Path:
        place = (self.workspace / path).resolve()
        if not place.is_relative_to(self.workspace):
            raise UserMistake(f"{path!r} is outside the workspace.", hint="Leave it.")
        return place

    async def read_text(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        try:
            return self._place(path).read_text()
        except FileNotFoundError as error:
            raise UserMistake(f"There is no file {path!r}.") from error

    async def write_text(self, path: str, text: str) -> None:
        self._place(path).write_text(text)
        self.heard.append(("wrote", path))


class Kit:
    def __init__(self, folder: Path, *manners: str, patience: Patience = QUICK) -> None:
        self.folder = folder
        self.acp = (sys.executable, FAKE, *manners)
        self.agents: ExternalAgents = AcpAgents(
            environ=os.environ, redacted=Redactor({}).redacted, patience=patience
        )
        self.listener = Listener(folder)

    def about(self, text: str, **other: Any) -> ExternalPrompt:
        given: dict[str, Any] = {"whole": f"{text}", "session": self.session, **other}
        return ExternalPrompt(
            agent="ann", acp=self.acp, owner="run", workspace=self.folder, text=text, **given
        )

    @property
    def session(self) -> str:
        return self.listener.sessions[-1][0] if self.listener.sessions else ""

    async def prompt(self, text: str, **other: Any) -> ModelReply:
        return await self.agents.prompt(self.about(text, **other), self.listener)


@asynccontextmanager
async def kit(folder: Path, *manners: str, patience: Patience = QUICK) -> AsyncIterator[Kit]:
    made = Kit(folder, *manners, patience=patience)
    try:
        yield made
    finally:
        await made.agents.end("run")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def gone(*pids: int) -> None:
    while any(map(is_alive, pids)):  # noqa: ASYNC110 - the system tells nobody
        await asyncio.sleep(0.01)


# --- one that behaves -----------------------------------------------------------------------------


async def test_words_stream_and_a_session_goes_on(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        first = await it.prompt("say never", whole="say Hel|lo.")
        second = await it.prompt("say Again.", whole="say never")

    assert (first.text, second.text, it.listener.words) == ("Hello.", "Again.", "Hello.Again.")
    assert [is_new for _, is_new in it.listener.sessions] == [True, False]
    assert "starting python" in str(it.listener.heard[0])


async def test_a_call_is_told_once_it_is_known_and_words_behind_it_are_a_new_paragraph(
    tmp_path: Path,
) -> None:
    async with kit(tmp_path) as it:
        reply = await it.prompt("call")

    assert reply.text == "I look.\n\nIt is well."
    call, returned = it.listener.heard[2:4]
    assert call[1].command == "make test"
    assert (call[1].kind, returned) == ("execute", ("returned", "1", "completed", "all is well"))


async def test_what_an_agent_says_it_used_is_counted(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        told = (await it.prompt("usage")).usage
        quota = (await it.prompt("quota")).usage

    assert told is not None
    assert (told.input_tokens, told.output_tokens, told.cost_usd) == (7, 5, "0.25")
    assert quota is not None
    assert (quota.input_tokens, quota.output_tokens, quota.cost_usd) == (3, 2, "0.00")


@pytest.mark.parametrize(
    ("granted", "offered", "said"),
    [
        (True, "allow_always allow_once reject_once", "id-allow_once"),
        (False, "allow_always allow_once reject_once", "id-reject_once"),
        (True, "allow_always reject_once", "cancelled"),
        (False, "allow_once", "cancelled"),
    ],
)
async def test_a_permission_is_for_once_or_none(
    tmp_path: Path, granted: bool, offered: str, said: str
) -> None:
    async with kit(tmp_path) as it:
        it.listener.permits = granted
        reply = await it.prompt(f"may {offered}")

    assert reply.text == said
    asked = [each[1] for each in it.listener.heard if each[0] == "permit"]
    assert [call.command for call in asked] == ["rm -rf /tmp/x"]


async def test_what_an_agent_says_it_used_gives_no_budget_back(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        used = (await it.prompt("owed")).usage

    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (0, 1_000_000_000)


async def test_what_is_asked_about_is_what_is_shown(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        await it.prompt("may-then")

    assert [each[1].command for each in it.listener.heard if each[0] in ("called", "permit")] == [
        "ls",
        "rm x",
    ]


async def test_files_are_read_and_written_by_the_listener(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        missing = json.loads((await it.prompt("read a.txt")).text)
        written = json.loads((await it.prompt("write a.txt stone")).text)
        found = json.loads((await it.prompt("read a.txt")).text)
        outside = json.loads((await it.prompt("write ../a.txt stone")).text)
        elsewhere = (await it.prompt("elsewhere")).text

    assert "Resource not found" in missing["error"]["message"]
    assert missing["error"]["code"] == -32002
    assert (written["result"], found["result"]) == ({}, {"content": "stone"})
    assert "outside" in outside["error"]["message"]
    assert not (tmp_path.parent / "a.txt").exists()
    assert "no such session" in elsewhere
    assert "There is no method terminal/create" in elsewhere


async def test_a_session_is_taken_up_by_a_new_program_or_told_anew(tmp_path: Path) -> None:
    for manner, is_new, said in (
        ("loads", False, "new"),
        ("resumes", False, "new"),
        ("forgets", True, "whole"),
    ):
        async with kit(tmp_path, manner) as it:
            await it.prompt("say Hello.")
            await it.agents.end("run")
            reply = await it.prompt("say new", whole="say whole")

        assert (reply.text, it.listener.sessions[-1][1]) == (said, is_new)
        assert "said before" not in it.listener.words


# --- stopping -------------------------------------------------------------------------------------


async def test_a_stopped_agent_says_no_more_and_goes_on_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    async with kit(tmp_path) as it:
        prompting = asyncio.create_task(it.prompt("wait"))
        await it.listener.came.wait()
        prompting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompting

        assert it.listener.words == "waiting"
        assert (await it.prompt("say Here.")).text == "Here."
    assert [is_new for _, is_new in it.listener.sessions] == [True, False]
    assert it.listener.words == "waitingHere."


async def test_an_open_permission_is_cancelled_with_the_turn(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        it.listener.permits = None
        prompting = asyncio.create_task(it.prompt("ask-and-wait"))
        await it.listener.asked.wait()
        prompting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompting

        assert json.loads((tmp_path / "outcome").read_text()) == {"outcome": "cancelled"}


async def test_one_that_does_not_stop_is_killed_with_all_it_started(tmp_path: Path) -> None:
    patience = Patience(start_s=60, idle_s=60, working_s=60, cancel_s=0.1)
    async with kit(tmp_path, patience=patience) as it:
        prompting = asyncio.create_task(it.prompt("deaf"))
        await it.listener.came.wait()
        pids = [int(each) for each in it.listener.words.split()]
        prompting.cancel()
        prompting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompting

        assert not any(map(is_alive, pids))
        assert (await it.prompt("say Anew.")).text == "Anew."


async def test_what_the_listener_refuses_ends_the_turn(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        it.listener.fails = WorldTrouble("The disk is full.")
        with pytest.raises(WorldTrouble, match="The disk is full"):
            await it.prompt("call")

        it.listener.fails = None
        assert (await it.prompt("say Here.")).text == "Here."


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_nothing_outlives_us_when_we_are_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
sys.path[:0] = {[str(each) for each in Path(FAKE).parents[:2]]!r}
from pathlib import Path
from test_agent_programs import Kit

async def main():
    kit = Kit(Path({str(tmp_path)!r}), "stays")
    prompting = asyncio.create_task(kit.prompt("deaf"))
    await kit.listener.came.wait()
    print(kit.listener.words, flush=True)
    await prompting

asyncio.run(main())
"""
    ours = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
    )
    assert ours.stdout is not None
    pids = [int(each) for each in (await ours.stdout.readline()).split()]
    assert len(pids) == 2
    assert all(map(is_alive, pids))

    ours.send_signal(signal.SIGKILL)
    await ours.wait()
    await gone(*pids)


# --- one that does not behave ---------------------------------------------------------------------


async def test_one_that_dies_in_mid_word_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    async with kit(tmp_path, "loads") as it:
        with pytest.raises(WorldTrouble, match="exit code 3") as caught:
            await it.prompt("die")

        assert "the key is" in caught.value.what
        assert "sk-secret" not in caught.value.what
        assert it.listener.words == "half a wo"
        assert (await it.prompt("say Here.")).text == "Here."
    assert [is_new for _, is_new in it.listener.sessions] == [True, False]


async def test_odd_messages_harm_nothing(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        reply = await it.prompt("odd")

    assert reply.text == "still here"
    [call] = [each[1] for each in it.listener.heard if each[0] == "called"]
    assert (call.kind, call.paths) == ("other", ("a",))


async def test_a_line_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        assert (await it.prompt("huge-line")).text == "after it"


@pytest.mark.parametrize("manner", ["flood", "flood-lines", "calls"])
async def test_a_flood_ends_the_agent_and_leaves_the_loop_free(
    tmp_path: Path, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_process, "MAX_TURN_MESSAGES", 2_000)
    patience = Patience(start_s=60, idle_s=60, working_s=60, cancel_s=0.1)
    async with kit(tmp_path, patience=patience) as it:
        with pytest.raises(WorldTrouble, match=r"over|does not read"):
            await it.prompt(manner)

        assert (await it.prompt("say Anew.")).text == "Anew."


async def test_one_that_is_silent_for_too_long_is_ended(tmp_path: Path) -> None:
    patience = Patience(start_s=60, idle_s=0.5, working_s=60, cancel_s=0.1)
    async with kit(tmp_path, patience=patience) as it:
        with pytest.raises(WorldTrouble, match=r"fell silent for 0\.5 s"):
            await it.prompt("silent")


async def test_a_machine_that_stood_still_is_no_silence(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        prompting = asyncio.create_task(it.prompt("wait"))
        await it.listener.came.wait()
        jump(QUICK.idle_s)
        for _ in range(20):
            await asyncio.sleep(0)
        prompting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompting
        await it.prompt("say Here.")

    assert [is_new for _, is_new in it.listener.sessions] == [True, False]


async def test_one_that_never_answers_is_ended(tmp_path: Path) -> None:
    patience = Patience(start_s=0.5)
    async with kit(tmp_path, "mute", patience=patience) as it:
        with pytest.raises(WorldTrouble, match="did not answer initialize"):
            await it.prompt("say Hello.")


async def test_control_characters_reach_nobody_as_half_a_text(tmp_path: Path) -> None:
    async with kit(tmp_path) as it:
        reply = await it.prompt("escape")

    reply.text.encode()
    assert reply.text.endswith("\ufffd")


@pytest.mark.parametrize(
    ("manner", "words"),
    [("login", "wants a login"), ("newer", "speaks version 9")],
)
async def test_one_that_cannot_be_used_says_what_to_do(
    tmp_path: Path, manner: str, words: str
) -> None:
    async with kit(tmp_path, manner) as it:
        with pytest.raises(UserMistake, match=words) as caught:
            await it.prompt("say Hello.")

    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stop max_tokens", "reached its limit of tokens"),
        ("stop refusal", "refused"),
        ("stop cancelled", "stopped by itself"),
        ("fail no credit", "Internal error: no credit"),
    ],
)
async def test_a_turn_that_is_not_done_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    async with kit(tmp_path) as it:
        with pytest.raises(WorldTrouble, match=words):
            await it.prompt(text)


# --- presets --------------------------------------------------------------------------------------


def test_every_preset_the_language_knows_is_there() -> None:
    assert tuple(sorted(PRESETS)) == tuple(sorted(AGENT_PRESETS))


def test_one_that_is_not_installed_says_how_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path)}

    with pytest.raises(UserMistake, match="Gemini CLI is not installed") as caught:
        resolve("gemini", workspace=tmp_path / "work", environ=environ)

    assert caught.value.hint == "npm install --global @google/gemini-cli"
    with pytest.raises(UserMistake, match="no program 'nothing-here'"):
        resolve(("nothing-here",), workspace=tmp_path / "work", environ=environ)


def test_what_npx_has_kept_is_found_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    place = tmp_path / ".npm/_npx/0abc/node_modules"
    package = place / "@agentclientprotocol/claude-agent-acp"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"version": "1.2.3"}')
    (package / "index.js").write_text("#!/usr/bin/env node\n")
    (package / "index.js").chmod(0o755)
    (place / ".bin").mkdir()
    (place / ".bin/claude-agent-acp").symlink_to(package / "index.js")

    launch = resolve("claude", workspace=tmp_path / "work", environ={"HOME": str(tmp_path)})

    assert launch.argv == (str(place / ".bin/claude-agent-acp"),)
    assert presets.version_of(launch.argv[0]) == "1.2.3"


async def test_a_preset_is_put_into_the_mode_in_which_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "qwen").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    (programs / "qwen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENAI_API_KEY", "of-its-own")
    monkeypatch.setenv("GITHUB_TOKEN", "of-nobody")
    work = tmp_path / "work"
    work.mkdir()
    async with kit(work) as it:
        it.acp = "qwen"  # type: ignore[assignment]
        told = json.loads((await it.prompt("tell")).text)
        it.acp = (sys.executable, FAKE)
        own = json.loads((await it.prompt("tell")).text)

    assert told["mode"] == "default"
    assert told["env"]["OPENAI_API_KEY"] == "of-its-own"
    assert own["mode"] == "auto"
    for env in (told["env"], own["env"]):
        assert "GITHUB_TOKEN" not in env
    assert "OPENAI_API_KEY" not in own["env"]
