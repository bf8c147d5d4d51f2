"""The example `serve_runs.py`, served by uvicorn: its runs go on when it is killed in mid-sentence."""

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deadline import DEADLINE_S
from examples_kit import EXAMPLES, started
from support.openai_server import Call, Gate, OpenAIServer, Reply

SERVE = ("-m", "uvicorn", "serve_runs:app", "--timeout-graceful-shutdown", "1")


class Server:
    """The example as a process of its own, in a folder that keeps its journal."""

    def __init__(self, folder: Path, models: OpenAIServer) -> None:
        with (folder / "server.log").open("wb") as log:
            self.process = started(
                folder,
                *(*SERVE, "--app-dir", str(EXAMPLES), "--port", "0"),
                models=models,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.PIPE,
            )
        self.http = httpx.Client(base_url=self._address(), timeout=DEADLINE_S, trust_env=False)

    def _address(self) -> str:
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"running on (http://\S+)", line):
                return found[1]
        raise AssertionError("".join(said))

    def end(self, number: int) -> None:
        """End it with a signal."""
        self.process.send_signal(number)
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Let nothing of it be left."""
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def start(self, topic: str) -> str:
        """Return the id of a run that has begun."""
        return str(self.http.post("/runs", json=topic).json()["id"])

    def events(self, run: str, last: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a run as a client that comes back hears them."""
        headers = {"Last-Event-ID": str(last)}
        with self.http.stream("GET", f"/runs/{run}/events", headers=headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def serve(tmp_path: Path, models: OpenAIServer) -> Iterator[Any]:
    with contextlib.ExitStack() as closing:

        def served() -> Server:
            server = Server(tmp_path, models)
            closing.callback(server.close)
            return server

        yield served


def until(events: Iterator[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the events up to the first of a kind."""
    heard = []
    for event in events:
        heard.append(event)
        if event["type"] == kind:
            return heard
    raise AssertionError(f"no {kind} in {heard}")


def facts(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events if "seq" in event]


def test_words_reach_a_run_while_it_streams(models: OpenAIServer, serve: Any) -> None:
    models.add(Reply(text="An old silent pond", gate=Gate()), Reply(text="Snow on my hat"))
    server = serve()
    run = server.start("rain")
    events = server.events(run)
    until(events, "text_delta")

    said = server.http.post(f"/runs/{run}/words", json="about snow, please").json()

    rest = list(events)
    assert said["handling"] == "interrupt"
    (cut,) = [event for event in rest if event["type"] == "interrupted"]
    assert (cut["text"], cut["partial"]) == ("about snow, please", "An old silen")
    assert rest[-1]["type"] == "run_finished"
    assert rest[-1]["output"] == "Snow on my hat"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_ended_goes_on_and_its_reader_misses_nothing(
    number: int, models: OpenAIServer, serve: Any
) -> None:
    models.add(Reply(text="An old silent pond", gate=Gate()), Reply(text="A frog leaps in"))
    first = serve()
    run = first.start("rain")
    events = first.events(run)
    heard = until(events, "text_delta")
    first.end(number)
    with contextlib.suppress(httpx.HTTPError):
        heard += events

    second = serve()
    rest = list(second.events(run, last=facts(heard)[-1]))

    assert facts(heard + rest) == [*range(1, facts(rest)[-1] + 1)]
    assert [event["type"] for event in rest if event["type"] == "run_recovered"]
    assert rest[-1]["output"] == "A frog leaps in"
    whole = list(second.events(run))
    assert [each for each in heard + rest if "seq" in each] == [e for e in whole if "seq" in e]


def test_a_question_outlives_the_server_and_takes_its_answer_once(
    models: OpenAIServer, serve: Any
) -> None:
    asking = Call(name="request_users_input", arguments={"question": "Which season?"})
    models.add(Reply(calls=(asking,)), Reply(text="Snow on my hat"))
    first = serve()
    run = first.start("a haiku")
    until(first.events(run), "question_asked")
    first.end(signal.SIGKILL)

    second = serve()
    said = second.http.post(f"/runs/{run}/words", json="winter").json()

    assert said["handling"] == "answer"
    assert list(second.events(run))[-1]["output"] == "Snow on my hat"
    assert len(models.requests) == 2


def test_a_run_there_is_not_is_refused_in_words(serve: Any) -> None:
    refused = serve().http.post("/runs/nosuchrun/words", json="hello")
    assert refused.status_code == 409
    assert "no run 'nosuchrun'" in refused.json()["error"]
