"""`midstream serve` as a program meets it: let in by its key, killed in mid-word, ended in good order."""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from console_kit import environment
from openai import AsyncOpenAI
from support.openai_server import Gate, OpenAIServer, Reply

from midstream.cli.main import exit_code
from midstream.config.directories import user_state_dir

SERVE = (sys.executable, "-m", "midstream", "serve", "--port", "0", "--model", "openai:gpt-5-mini")
TO = {"X-Conversation-Id": "c1"}

pytestmark = pytest.mark.slow


class Served:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, said: str) -> None:
        self.process = process
        self.said = said
        self.address = re.findall(r"http://127\.0\.0\.1:\d+", said)[0]
        self.key_file = Path(re.findall(r"key in (.+)", said)[0])
        self.key = self.key_file.read_text().strip()

    def client(self, key: str = "") -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.address}/v1", api_key=key or self.key, max_retries=0)


@contextlib.asynccontextmanager
async def served(home: Path, model: OpenAIServer, *doors: str) -> AsyncIterator[Served]:
    work = home / "work"
    work.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *SERVE,
        *doors,
        cwd=work,
        env=environment(home, model),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = ""
    try:
        while "Ctrl-C ends it." not in said:
            line = await process.stdout.readline()
            assert line, said
            said += line.decode()
        yield Served(process, said)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.communicate()


async def stream_of(client: AsyncOpenAI, words: str, once: str = "") -> AsyncIterator[str]:
    stream: Any = await client.chat.completions.create(
        model="role:dude",
        messages=[{"role": "user", "content": words}],
        stream=True,
        extra_headers={**TO, "Idempotency-Key": once} if once else TO,
    )
    async for chunk in stream:
        yield chunk.choices[0].delta.content or ""


@pytest.mark.both_journals
async def test_a_server_killed_in_mid_word_goes_on_with_the_same_run(tmp_path: Path) -> None:
    gate = Gate()
    story = Reply(chunks=("Once upon a time there ", "was"), gate=gate)
    with OpenAIServer([story], default=Reply(text="Short.")) as model:
        async with served(tmp_path, model, "--openai") as first, first.client() as client:
            pieces, text = stream_of(client, "a story"), ""
            while "there" not in text:
                text += await anext(pieces)
            os.kill(first.process.pid, signal.SIGKILL)
            with pytest.raises((openai.APIError, httpx2.HTTPError, httpx.HTTPError)):
                await anext(pieces)
            assert text == "Once upon a time there "
        gate.open()
        async with served(tmp_path, model, "--openai") as second, second.client() as client:
            assert second.key == first.key
            reply = await client.chat.completions.create(
                model="role:dude",
                messages=[{"role": "user", "content": "shorter"}],
                extra_headers=TO,
            )
            assert reply.choices[0].message.content == "Short."
            said = json.dumps(model.requests[-1]["messages"])
            assert said.index("a story") < said.index("shorter")


async def test_words_that_are_asked_again_after_each_kill_are_heard_once(tmp_path: Path) -> None:
    chance = random.Random(7)
    words = [f"chapter {number}" for number in range(3)]
    killed: set[str] = set()
    with OpenAIServer([], default=Reply(text="Once upon a time there was a pond. " * 3)) as model:
        while words:
            async with served(tmp_path, model, "--openai") as server, server.client() as client:
                while words:
                    pieces = stream_of(client, words[0], once=words[0])
                    if words[0] not in killed:
                        killed.add(words[0])
                        for _ in range(chance.randrange(1, 5)):
                            await anext(pieces)
                        os.kill(server.process.pid, signal.SIGKILL)
                        break
                    assert "".join([piece async for piece in pieces]).startswith("Once upon")
                    words.pop(0)
        said = [
            message["content"]
            for message in model.requests[-1]["messages"]
            if message["role"] == "user"
        ]
    assert said == ["chapter 0", "chapter 1", "chapter 2"]


async def test_programs_are_let_in_by_the_key_alone_and_every_door_is_there(
    tmp_path: Path,
) -> None:
    with OpenAIServer([], default=Reply(text="Hello.")) as model:
        doors = ("--web", "--mcp", "--openai", "--agui")
        async with (
            served(tmp_path, model, *doors) as server,
            httpx2.AsyncClient(timeout=None) as http,
        ):
            assert server.key_file.stat().st_mode & 0o777 == 0o600
            for path in ("/v1/models", "/agui", "/mcp"):
                answer = await http.get(f"{server.address}{path}")
                assert answer.status_code == 401
                assert "Nobody is known to ask this." in answer.text
            async with server.client("wrong") as stranger:
                with pytest.raises(openai.AuthenticationError, match="This is not the key"):
                    await stranger.models.list()
            foreign = {"Authorization": f"Bearer {server.key}", "Host": "evil.example"}
            answer = await http.get(f"{server.address}/v1/models", headers=foreign)
            assert answer.status_code == 421

            invited = re.findall(r"http\S+invite=\S+", server.said)
            assert (await http.get(invited[0])).status_code == 200
            assert (await http.get(f"{server.address}/v1/models")).status_code == 403
            own = {"Authorization": f"Bearer {server.key}"}
            assert (await http.get(f"{server.address}/agui", headers=own)).status_code == 200
            api = await http.get(f"{server.address}/api/runs", headers={**own, "Cookie": "none=1"})
            assert api.status_code == 403  # approvals are there: no program comes in


async def test_a_signal_ends_it_in_good_order_and_keeps_the_run(tmp_path: Path) -> None:
    gate = Gate()
    story = Reply(chunks=("Once upon ", "a time"), gate=gate)
    with OpenAIServer([story], default=Reply(text="Short.")) as model:
        async with served(tmp_path, model, "--openai") as first, first.client() as client:
            pieces = stream_of(client, "a story")
            while not (await anext(pieces)).startswith("Once"):
                pass
            first.process.send_signal(signal.SIGTERM)
            assert await first.process.wait() == 128 + signal.SIGTERM
        async with served(tmp_path, model, "--openai") as second, second.client() as client:
            assert [piece async for piece in stream_of(client, "shorter")][-2:] == ["Short.", ""]


def test_what_cannot_be_served_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["serve"]) != 0
    assert "Name what is: --web, --mcp, --openai, --agui." in capfd.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert exit_code(["serve", "--openai", "--port", port]) != 0
        assert f"Nothing can listen at 127.0.0.1:{port}: another program does already" in (
            capfd.readouterr().err
        )
    assert exit_code(["serve", "--openai", "--port", "1", "--listen", "0.0.0.0:8377"]) != 0
    assert "Leave --port 1 out." in capfd.readouterr().err
    key = user_state_dir(os.environ) / "serve.key"
    key.parent.mkdir(parents=True, exist_ok=True)
    key.write_text("k" * 40)
    key.chmod(0o644)
    assert exit_code(["serve", "--openai"]) != 0
    assert "Others can read the key" in capfd.readouterr().err
    key.unlink()
