"""The built-in workflows with models over HTTP, well-behaved and odd."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from console_kit import environment
from pipes_kit import MODEL, run, workspace_of
from support.openai_server import Call, OpenAIServer, Reply, Scripted

import midstream
from midstream import UserMistake, WorldTrouble
from midstream.language.names import Json

REVIEW = ("run", "code_architecture_review", *MODEL)
CODE = ("run", "coder_reviewer", "mend it", *MODEL)


def calls(name: str, *arguments: Json, text: str = "") -> Reply:
    """Return a reply that calls a tool, once for each set of arguments."""
    return Reply(text=text, calls=tuple(Call(name=name, arguments=each) for each in arguments))


def says(text: str) -> Reply:
    return Reply(text=text)


ASK = calls(
    "request_users_input",
    {"question": "What matters?", "choices": ["size", "change"]},
    text="One question.",
)
SIDE = says("`app.py` has 9999 lines.")
GUESS = {"kind": "bug", "severity": "low", "summary": "It is slow."}
FORM = '{"kind": "question", "severity": "low"}'


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
    return midstream.run(name, input, answers=answers, model=MODEL[1], workspace=workspace_of(home))


def requests_of(server: OpenAIServer) -> list[dict[str, Any]]:
    """Return the requests, none of which the real API would have refused."""
    assert {exchange.status for exchange in server.exchanges} == {200}
    return server.requests


def test_the_review_asks_measures_and_reports(tmp_path: Path) -> None:
    with OpenAIServer([SIDE, SIDE, SIDE, says("Has it?"), says("It has 2.")]) as server:
        ended = run(tmp_path, *REVIEW, "--answer", "size", server=server)
        heard = requests_of(server)

    assert ended.code == 0
    assert "What matters most: **size**. The heaviest places by that:\n\n- `app.py`" in ended.out
    assert ended.out.count("> `app.py` has [?] lines.") == 3
    assert "> It has 2." in ended.out
    offered = {tool["function"]["name"] for body in heard for tool in body["tools"]}
    assert "read_files" in offered
    assert not {"write_file", "edit_file", "execute_terminal"} & offered
    assert "9999" in json.dumps(heard[3]["messages"]), "the reviewer reads what was found"
    assert "Has it?" in json.dumps(heard[4]["messages"])


@pytest.mark.parametrize(
    "opening",
    [
        [says("It is a bug."), calls("submit", GUESS)],
        [calls("submit", GUESS, {**GUESS, "kind": "feature"})],
        [calls("submit", {"kind": "bug"}), calls("submit", GUESS)],
        [calls("submit", {**GUESS, "kind": "disaster"}), calls("submit", GUESS)],
    ],
    ids=["in words first", "twice", "half of it", "a kind of its own"],
)
def test_a_structured_reply_is_had_of_a_model_with_ways_of_its_own(
    home: Path, opening: list[Scripted]
) -> None:
    with OpenAIServer([*opening, says("Dear reporter.")]) as server:
        reply = output_of(home, server, "triage_issue", FORM, input="It is slow")
        heard = requests_of(server)

    assert reply == "Dear reporter."
    assert heard[0]["tool_choice"] == "required"


def test_a_model_that_never_hands_in_its_reply_is_given_up(home: Path) -> None:
    with OpenAIServer(default=says("It is a bug.")) as server:
        with pytest.raises(WorldTrouble, match="submit"):
            output_of(home, server, "triage_issue", input="It is slow")
        assert 1 < len(requests_of(server)) < 10


def test_a_question_of_an_agent_without_an_answer_is_told_to_whoever_called(home: Path) -> None:
    with (
        OpenAIServer([ASK]) as server,
        pytest.raises(UserMistake, match="waits for what was not given: What matters"),
    ):
        output_of(home, server, "coder_reviewer", input="mend it")


def test_tests_are_mended_by_a_model_and_run_again(tmp_path: Path) -> None:
    plan = {"cause": "There is no file ok.", "change": "Write it."}
    write = calls("write_file", {"path": "ok", "content": "1"})
    given = (
        "--answer",
        "make it",
        "--allow",
        "execute_terminal",
        "--allow",
        "outside: *",
        "--allow",
        "write_file",
    )
    with OpenAIServer([calls("submit", plan), write, says("Written.")]) as server:
        ended = run(tmp_path, "run", "fix_tests", "test -e ok", *MODEL, *given, server=server)
        heard = requests_of(server)

    assert ended.code == 0
    assert ended.out == "`test -e ok` passes now.\n\nWritten.\n"
    assert "Exit code: 1" in json.dumps(heard[0]["messages"])
    assert heard[0]["tool_choice"] == "required"
    assert "Write it." in json.dumps(heard[1]["messages"])


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


def test_auto_says_at_its_start_that_without_a_sandbox_it_asks(tmp_path: Path) -> None:
    # A folder that holds the home gets none, on any machine.
    home = {"HOME": str(workspace_of(tmp_path))}
    with OpenAIServer([says("Hello."), says("Hello.")]) as server:
        auto = run(
            tmp_path, "chat", "hi", "--permission-mode", "auto", *MODEL, server=server, env=home
        )
        ask = run(tmp_path, "chat", "hi", *MODEL, server=server, env=home)

    words = "There is no sandbox here, so in auto every command asks first"
    assert auto.told.count(words) == 1
    assert words not in ask.told
