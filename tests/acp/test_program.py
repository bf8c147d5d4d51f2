"""The real program behind an editor: on pipes, killed, and with the official client."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acp_kit import home, program, work
from api_kit import write
from deadline import DEADLINE_S
from support.openai_server import Gate, OpenAIServer, Reply

from midstream.agents.json_rpc import Disconnected

__all__ = ["home", "work"]

pytestmark = pytest.mark.slow

NPM = Path(__file__).parents[1] / "npm"


@pytest.mark.both_journals
async def test_a_session_outlives_a_kill(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    script = (
        Reply(text="Hello."),
        Reply(chunks=("One ", "two"), gate=gate, gate_after=1),
        Reply(text="One two three."),
        Reply(text="Bye."),
    )
    with OpenAIServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        async with program(cwd=work) as (editor, process):
            session = await editor.opened(work)
            await editor.prompt(session, "hi")
            cut = editor.begin(session, "count")
            await editor.until(lambda e: "One" in e.text())
            process.kill()
            await process.wait()
            with pytest.raises(Disconnected, match="has ended"):
                await cut
        async with program(cwd=work) as (editor, process):
            await editor.initialize()
            await editor.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
            assert editor.users() == ["hi", "count"]
            await editor.until(lambda e: "One two three." in e.text())
            assert await editor.prompt(session, "good bye") == "end_turn"
            assert editor.text().endswith("Bye.")


async def test_the_end_of_stdin_and_sigterm_end_it(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIServer([]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        async with program(cwd=work) as (editor, process):
            await editor.initialize()
            await editor.new(work)
            process.stdin.close()
            assert await process.wait() == 0
        async with program(cwd=work) as (editor, process):
            await editor.initialize()
            await editor.new(work)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 128 + signal.SIGTERM


def test_nothing_but_the_protocol_is_on_stdout(work: Path, home: Path) -> None:
    noisy = "import os\nprint('printed')\nos.write(1, b'written')\nos.system('echo said')\n"
    noisy += "def start(run):\n    print('handled')\n"
    flow = {
        "workflow_name": "noisy",
        "states": [{"name": "start", "pre_handler": "start"}, {"name": "stop"}],
    }
    write(home, "config/workflows/noisy.json", json.dumps(flow))
    write(home, "config/workflows/noisy/script.py", noisy)
    write(home, "config/application.json", json.dumps({"currentMode": "workflow:noisy"}))
    asked = (
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/new", {"cwd": str(work), "mcpServers": []}),
    )
    with subprocess.Popen(
        [sys.executable, "-m", "midstream", "acp"],
        cwd=work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        sent, heard = process.stdin, process.stdout
        assert sent is not None
        assert heard is not None

        def ask(id: int, method: str, params: object) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            sent.write(json.dumps(message) + "\n")
            sent.flush()
            while True:
                line: dict[str, Any] = json.loads(heard.readline())
                assert line["jsonrpc"] == "2.0"
                if line.get("id") == id:
                    return line

        for id, (method, params) in enumerate(asked):
            answer = ask(id, method, params)
        session = answer["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        assert ask(9, "session/prompt", prompt)["result"] == {"stopReason": "end_turn"}
        rest, told = process.communicate(timeout=DEADLINE_S)

    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    for word in ("printed", "written", "said", "handled"):
        assert word in told


@pytest.mark.parametrize("stdin", ["/dev/null", __file__])
def test_what_is_no_pipe_is_said_and_nothing_hangs(work: Path, stdin: str) -> None:
    with Path(stdin).open() as given:
        ended = subprocess.run(
            [sys.executable, "-m", "midstream", "acp"],
            cwd=work,
            stdin=given,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "midstream: midstream acp talks to an editor over pipes, and its stdin is none. "
        "Let the editor start it: docs/editors.md says how.\n"
    )


@pytest.mark.needs("npm")
def test_the_official_client_talks_to_it(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    write(work, "a.txt", "old\n")
    script = (
        Reply(chunks=("One ", "two"), gate=gate, gate_after=1),
        Reply(text="Three."),
        Reply(text="Four."),
        Reply(text="Five."),
    )
    with OpenAIServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = subprocess.run(
            ["node", str(NPM / "acp_client.mjs"), sys.executable, str(work)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["stops"] == ["end_turn", "end_turn", "end_turn"]
    assert told["text"] == "One \n\n*[interrupted]*\n\nThree."
    assert told["again"] == told["text"]
    assert told["listed"] == ["count"]
    assert told["modes"] == ["plan", "ask", "auto"]
    assert told["states"] == ["running", "end_turn"]
