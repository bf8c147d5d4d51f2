"""The built-in workflows with models over HTTP, well-behaved and odd."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from console_kit import environment
from pipes_kit import MODEL, run, workspace_of

from midstream import UserMistake, WorldTrouble, run_workflow
from midstream.core.names import Json
from midstream.testing.openai_server import Call, OpenAIServer, Reply, Scripted

REVIEW = ("run", "code_architecture_review", *MODEL)
CODE = ("run", "coder_reviewer", "mend it", *MODEL)


def calls(name: str, *arguments: Json, text: str = "") -> Reply:
    """Return a reply that calls a tool, once for each set of arguments."""
    return Reply(text=text, calls=tuple(Call(name=name, arguments=each) for each in arguments))


def says(text: str) -> Reply:
    return Reply(text=text)


MEASURE = calls("measure_code", {})
ASK = calls(
    "request_users_input",
    {"question": "What matters?", "choices": ["size", "change"]},
    text="One question.",
)
WORDS = [says("Size, then."), says("`app.py` has 9999 lines."), says("Has it?"), says("It has 2.")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for what runs in this process, which need not load everything anew."""
    for name in set(os.environ) - set(environment(tmp_path)):
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-not-a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    return tmp_path


def output_of(
    home: Path, server: OpenAIServer, name: str, *answers: str, input: Json = None
) -> Json:
    """Return the output of a workflow as a program that imports midstream gets it."""
    os.environ["OPENAI_BASE_URL"] = server.base_url
    return run_workflow(name, input, answers=answers, model=MODEL[1], workspace=workspace_of(home))


def requests_of(server: OpenAIServer) -> list[dict[str, Any]]:
    """Return the requests, none of which the real API would have refused."""
    assert {exchange.status for exchange in server.exchanges} == {200}
    return server.requests


def test_the_review_asks_measures_and_reports(tmp_path: Path) -> None:
    with OpenAIServer([MEASURE, says("Done."), ASK, *WORDS]) as server:
        ended = run(tmp_path, *REVIEW, "--answer", "1", server=server)
        heard = requests_of(server)

    assert ended.code == 0
    assert "What matters most: **size**. The heaviest places by that:\n\n- `app.py`" in ended.out
    assert "> `app.py` has [?] lines." in ended.out
    assert "> It has 2." in ended.out
    offered = [[tool["function"]["name"] for tool in body["tools"]] for body in heard]
    assert offered[0] == ["measure_code"]
    assert "request_users_input" in offered[2]


@pytest.mark.parametrize(
    "opening",
    [
        [says("I have measured it: 3 files."), MEASURE, says("Done.")],
        [calls("measure_code", {}, {}), says("Done.")],
        [calls("measure_code", {"folder": "src"}), MEASURE, says("Done.")],
        [calls("measure_code", {"path": "."}, {}), says("Done.")],
    ],
    ids=["in words first", "twice", "with unknown arguments", "half wrong"],
)
def test_a_surveyor_with_ways_of_its_own_still_measures(
    home: Path, opening: list[Scripted]
) -> None:
    with OpenAIServer([*opening, ASK, *WORDS]) as server:
        report = output_of(home, server, "code_architecture_review", "size")
        requests_of(server)

    assert "| files | 1 |" in report


def test_a_surveyor_that_never_measures_is_given_up_with_advice(home: Path) -> None:
    with OpenAIServer(default=says("I have measured it: 3 files.")) as server:
        with pytest.raises(WorldTrouble, match="did not call measure_code") as told:
            output_of(home, server, "code_architecture_review")
        assert len(requests_of(server)) == 3

    assert "choose a model that is better with tools" in told.value.hint


def test_an_architect_that_asks_in_words_gets_no_answer_and_goes_on(home: Path) -> None:
    with OpenAIServer([MEASURE, says("Done."), says("What matters?"), *WORDS[1:]]) as server:
        report = output_of(home, server, "code_architecture_review")

    assert "What matters most: **no one thing**" in report


def test_a_question_without_an_answer_is_told_to_whoever_called(home: Path) -> None:
    with (
        OpenAIServer([MEASURE, says("Done."), ASK]) as server,
        pytest.raises(UserMistake, match="waits for an answer nobody gave: What matters"),
    ):
        output_of(home, server, "code_architecture_review")


async def test_the_sync_door_is_closed_where_a_loop_runs(home: Path) -> None:
    with pytest.raises(UserMistake, match="without an event loop"):
        run_workflow("coder_reviewer", "mend it", model="offline", workspace=home)


def test_a_coder_and_a_reviewer_agree_through_the_parsing_tool(tmp_path: Path) -> None:
    verdicts = [
        {"approved": False, "comments": "Test it."},
        {"approved": True, "comments": "Good."},
    ]
    steps = [
        calls("read_files", {"paths": ["app.py"]}),
        says("Mended."),
        calls("verdict", verdicts[0]),
        says("Tested."),
        calls("verdict", verdicts[1]),
    ]
    with OpenAIServer(steps) as server:
        ended = run(tmp_path, *CODE, server=server)
        heard = requests_of(server)

    assert ended.code == 0
    assert ended.out == "Tested.\n\nApproved after 2 rounds: Good.\n"
    assert heard[2]["tool_choice"] == "required"
    assert "Not yet. Test it." in json.dumps(heard[3]["messages"])


@pytest.mark.parametrize(
    "verdict",
    [
        [says("Approved!"), calls("verdict", {"approved": True, "comments": "Good."})],
        [
            calls("verdict", {"approved": "yes"}),
            calls("verdict", {"approved": True, "comments": "Good."}),
        ],
        [
            Reply(
                calls=(
                    Call(name="read_files", arguments={"paths": ["app.py"]}),
                    Call(name="verdict", arguments={"approved": True, "comments": "Good."}),
                )
            )
        ],
        [Reply(calls=(Call(name="verdict", arguments='{"approved": tru'),)),
         calls("verdict", {"approved": True, "comments": "Good."})],
    ],
    ids=["in words first", "not the schema", "reading beside it", "not JSON"],
)  # fmt: skip
def test_a_reviewer_with_ways_of_its_own_still_decides(home: Path, verdict: list[Scripted]) -> None:
    with OpenAIServer([says("Mended."), *verdict]) as server:
        result = output_of(home, server, "coder_reviewer", input="mend it")
        requests_of(server)

    assert result == "Mended.\n\nApproved after 1 round: Good."


def test_a_role_that_answers_through_a_tool_answers_in_json(tmp_path: Path) -> None:
    verdict = {"approved": True, "comments": "Good."}
    with OpenAIServer([calls("verdict", verdict)]) as server:
        ended = run(tmp_path, "chat", "Good?", "--role", "code_reviewer", *MODEL, server=server)

    assert ended.code == 0
    assert json.loads(ended.out) == verdict
