"""`midstream mcp serve` as clients start it: on pipes, killed, gone on with; and over HTTP in a host."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_kit import TALK, write
from console_kit import environment
from deadline import DEADLINE_S
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult
from support.openai_server import Call, Gate, OpenAIServer, Reply

import midstream
from midstream.mcp_server.server import mcp_routes
from midstream.testing import ScriptedModel, asks

SERVE = (sys.executable, "-m", "midstream", "mcp", "serve", "--trust-workspace")
MODEL = ("--model", "openai:gpt-5-mini")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with a workspace that has a workflow."""
    write(tmp_path, "work/.midstream/workflows/talk.json", json.dumps(TALK))
    return tmp_path


@contextlib.asynccontextmanager
async def served(home: Path, model: OpenAIServer, **how: Any) -> AsyncIterator[Client]:
    """Give an official client that has started the server; its process id stands in a file."""
    write_pid = f'echo $$ > "{home}/pid"; exec "$@"'
    server = StdioServerParameters(
        command="/bin/sh",
        args=["-c", write_pid, "sh", *SERVE, *MODEL],
        cwd=home / "work",
        env=environment(home, model),
    )
    async with asyncio.timeout(DEADLINE_S), Client(stdio_client(server), **how) as client:
        yield client


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_run_is_steered_in_mid_turn_and_the_model_hears_it(home: Path, era: str) -> None:
    gate = Gate()
    story = Reply(chunks=("Once upon ", "a time"), gate=gate)
    with OpenAIServer([story, Reply(text="Short.")]) as model:
        async with served(home, model, mode=era) as client:
            run = (await told(client, "start_run", workflow="talk", input="a story"))["run"]
            await gate.reached

            steered = await told(client, "say_to_run", run=run, text="shorter", wait_s=60)

            assert (steered["output"], steered["heard"]["handling"]) == ("Short.", "interrupt")
            heard = [message["content"] for message in model.requests[1]["messages"][-3:]]
            assert heard == ["a story", "Once upon [interrupted]", "shorter"]


@pytest.mark.slow
@pytest.mark.both_journals
async def test_a_server_killed_in_mid_run_leaves_it_to_the_next_which_goes_on_with_it(
    home: Path,
) -> None:
    gate = Gate()
    story = Reply(chunks=("Once upon ", "a time"), gate=gate)
    with OpenAIServer([story, Reply(text="The end.")]) as model:
        with contextlib.suppress(Exception):  # the client's own, of a server that is gone
            async with served(home, model) as client:
                first = await told(client, "start_run", workflow="talk", key="k")
                await gate.reached
                os.kill(int((home / "pid").read_text()), signal.SIGKILL)
                await told(client, "run_status", run=first["run"], wait_s=60)
        gate.open()
        async with served(home, model) as client:
            assert (await told(client, "run_status", run=first["run"]))["status"] == "left"

            again = await told(client, "start_run", workflow="talk", key="k", wait_s=60)

            assert (again["run"], again["output"]) == (first["run"], "The end.")
            assert len((await told(client, "list_runs"))["runs"]) == 1


@contextlib.contextmanager
def started(home: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Give the server as a process with pipes of our own. No model is configured."""
    with subprocess.Popen(
        words or SERVE,
        cwd=home / "work",
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        yield server


@pytest.mark.slow
@pytest.mark.needs("npm")
def test_the_typescript_client_starts_steers_answers_and_cancels(home: Path) -> None:
    gate = Gate()

    def reply(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return Reply(text=f"{last['content']} it is.")
        if last["content"] == "which?":
            asked = {"question": "Which colour?", "choices": ["red", "blue"]}
            return Reply(calls=(Call(name="request_users_input", arguments=asked),))
        if last["content"] == "a story":
            return Reply(chunks=("Once upon ", "a time"), gate=gate)
        return Reply(text=f"{last['content']}!")

    program = ["node", str(Path(__file__).with_name("client.mjs")), *SERVE, *MODEL]
    with (
        OpenAIServer(default=reply) as model,
        subprocess.Popen(
            program,
            cwd=home / "work",
            env=environment(home, model),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client,
    ):
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        gate.reached.wait()
        found = json.loads(client.communicate("go on\n", timeout=DEADLINE_S)[0])
        assert client.returncode == 0

    assert len(found["tools"]) == 8
    assert found["asked"]["output"] == "blue it is."
    assert found["forms"][0]["properties"]["answer"]["enum"] == ["red", "blue"]
    assert any("Which colour?" in words for words in found["progress"])
    assert (found["cancelled"], found["going"]["status"]) == (True, "running")
    assert found["steered"]["output"] == "shorter!"
    words = [event["words"] for event in found["events"]["events"]]
    assert "dude: Once upon [interrupted]" in words
    assert "mcp:typescript says: shorter" in words
    assert [each["output"] for each in found["many"]] == [f"{n}!" for n in range(20)]
    assert found["wrong"]["isError"]
    assert json.loads(found["resource"]["contents"][0]["text"])["status"] == "finished"


def request(id: int, method: str, **params: Any) -> bytes:
    asked = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps(asked).encode()


HELLO = request(
    1,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "pipe", "version": "1"},
)
READY = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'


@pytest.mark.slow
def test_nothing_but_the_protocol_stands_on_stdout_whatever_comes_in(home: Path) -> None:
    write(home, "work/.midstream/tools/noisy.py", "print('noise')\n")
    too_long = request(2, "tools/call", name="start_run", arguments={"input": "x" * 5_000_000})
    ids_last = '{"method": "ping", "params": {"_meta": {"x": "%s"}}, "jsonrpc": "2.0", "id": "z"}'
    lines = (
        b"hello?",
        HELLO,
        READY,
        b"[1, 2]",
        too_long,
        (ids_last % ("y" * 5_000_000)).encode(),
        b"\x00\xff\xfe",
        request(3, "tools/call", name="list_workflows", arguments={}),
        request(4, "ping"),
    )
    with started(home) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"".join(line + b"\n" for line in lines))
        server.stdin.flush()
        said = [json.loads(server.stdout.readline()) for _ in range(5)]
        rest, errors = server.communicate(timeout=DEADLINE_S)

    assert (server.returncode, rest) == (0, b""), errors
    answers = {each["id"]: each for each in said}
    assert answers[1]["result"]["serverInfo"]["name"] == "midstream"
    assert "4,000,000 bytes" in answers[2]["error"]["message"]
    assert "4,000,000 bytes" in answers["z"]["error"]["message"]
    assert "talk" in answers[3]["result"]["structuredContent"]["workflows"]
    assert answers[4]["result"] == {}
    assert b"noise" in errors


@pytest.mark.slow
def test_a_folder_nobody_has_trusted_is_not_served(home: Path) -> None:
    with started(home, *SERVE[:-1]) as server:
        said, errors = server.communicate(HELLO, timeout=DEADLINE_S)

    assert (server.returncode, said) == (3, b"")
    assert b"is not trusted" in errors


@pytest.mark.slow
def test_a_signal_ends_it_though_its_client_does_not_leave(home: Path) -> None:
    with started(home) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(HELLO + b"\n")
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        server.stdin.write(
            READY + b"\n" + request(2, "tools/call", name="list_workflows", arguments={}) + b"\n"
        )
        server.stdin.flush()
        found = json.loads(server.stdout.readline())["result"]["structuredContent"]
        assert "offline" in found["notices"][0]  # no model is configured: who starts a run is told

        server.terminate()

        assert server.wait(DEADLINE_S) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_client_that_reads_no_more_ends_it_by_leaving(home: Path) -> None:
    # With a model that was chosen it has nothing to say on stderr, whether it is ready by then or not.
    with started(home, *SERVE, "--model", "offline") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        server.stdin.write(HELLO + b"\n" + READY + b"\n" + request(2, "tools/list") + b"\n")
        server.stdin.close()

        assert (server.wait(DEADLINE_S), server.stderr.read()) == (0, b"")


async def test_a_host_serves_it_over_http(home: Path) -> None:
    import uvicorn
    from starlette.applications import Starlette

    model = ScriptedModel(asks("Sure?"), "Done.", asks("Sure?"), "Done.")

    async def yes(_: Any, __: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "yes"})

    elicit: Any = yes

    async with (
        asyncio.timeout(DEADLINE_S),
        midstream.open(home / "work", model=model, trust=True, journal=home / "j.db") as engine,
    ):
        routes, sessions = mcp_routes(engine)
        app = Starlette(routes=routes, lifespan=lambda _: sessions)
        host = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", ws="none"))
        serving = asyncio.create_task(host.serve())
        while not host.started:  # uvicorn tells nobody  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        port = host.servers[0].sockets[0].getsockname()[1]
        for era in ("legacy", "auto"):
            address = f"http://127.0.0.1:{port}/mcp"
            async with Client(address, mode=era, elicitation_callback=elicit) as client:
                (tools, listed) = await asyncio.gather(
                    client.list_tools(), told(client, "list_workflows")
                )
                assert len(tools.tools) == 8
                assert "talk" in listed["workflows"]
                started = await told(client, "start_run", workflow="talk", key=era, wait_s=60)
                assert (started["output"], started["heard"]["handling"]) == ("Done.", "answer")
        host.should_exit = True
        await serving
