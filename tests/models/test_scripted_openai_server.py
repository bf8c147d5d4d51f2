"""The scripted server: as strict as the real one, scriptable, and usable from another process."""

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from deadline import DEADLINE_S
from support.openai_server import Call, Fault, Gate, OpenAIServer, Reply, read_script

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def calling(*ids: str, name: str = "add") -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "1"}


def post(base_url: str, body: dict[str, Any]) -> tuple[int, Any]:
    request = Request(
        f"{base_url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]


def refusal_of(**body: Any) -> str:
    with OpenAIServer(default=Reply(text="taken")) as server:
        status, error = post(server.base_url, {"model": "gpt-5"} | body)
    assert status == 400, f"the server took it: {error}"
    return str(error["message"])


@pytest.mark.parametrize(
    ("messages", "wording"),
    [
        ([], "Invalid 'messages': empty array."),
        ([{"role": "robot", "content": "hi"}], "Invalid value: 'robot'. Supported values are:"),
        ([{"role": "user", "content": None}], "expected a string, got null."),
        ([{"role": "assistant", "content": None}], "expected a string, got null."),
        ([USER, result("c1")], "must be a response to a preceeding message with 'tool_calls'"),
        (
            [USER, calling("c1", "c2"), result("c1")],
            "The following tool_call_ids did not have response messages: c2",
        ),
        (
            [USER, calling("c1"), USER, result("c1")],
            "The following tool_call_ids did not have response messages: c1",
        ),
        ([USER, calling("c1"), result("c9")], "'tool_call_id' of 'c9' not found"),
        ([USER, calling("c1"), result("c1"), result("c1")], "'tool_call_id' of 'c1' not found"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": []}], "empty array"),
        ([USER, calling("c1", name="add up"), result("c1")], "does not match pattern"),
    ],
)
def test_a_broken_history_is_refused_in_the_real_words(
    messages: list[dict[str, Any]], wording: str
) -> None:
    assert wording in refusal_of(messages=messages)


@pytest.mark.parametrize(
    ("fields", "wording"),
    [
        ({"model": ""}, "you must provide a model parameter"),
        ({"tools": []}, "Invalid 'tools': empty array."),
        ({"tool_choice": "required"}, "only allowed when 'tools' are specified"),
        ({"parallel_tool_calls": True}, "only allowed when 'tools' are specified"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled"),
        ({"colour": "red"}, "Unrecognized request argument supplied: colour"),
        (
            {"tools": [{"type": "function", "function": {"name": "add up"}}]},
            "string does not match pattern",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}]},
            "Invalid schema for function 'add'",
        ),
    ],
)
def test_a_broken_request_is_refused_in_the_real_words(
    fields: dict[str, Any], wording: str
) -> None:
    assert wording in refusal_of(messages=[USER], **fields)


def test_a_whole_history_with_parallel_calls_is_taken() -> None:
    messages = [USER, calling("c1", "c2"), result("c2"), result("c1"), USER]

    with OpenAIServer([Reply(text="fine")]) as server:
        status, answer = post(
            server.base_url, {"model": "gpt-5", "messages": messages, "tools": [TOOL]}
        )

    assert status == 200
    assert json.loads(answer)["choices"][0]["message"]["content"] == "fine"


def test_a_reply_streams_in_pieces_with_usage_only_where_it_is_asked_for() -> None:
    reply = Reply(text="a text of two pieces", calls=(Call(name="add", arguments={"a": 1}),))
    body = {"model": "gpt-5", "messages": [USER], "stream": True}
    with OpenAIServer([reply, reply]) as server:
        _, plain = post(server.base_url, body)
        _, counted = post(server.base_url, body | {"stream_options": {"include_usage": True}})

    lines = [line.removeprefix("data: ") for line in plain.split("\n\n") if line]
    chunks = [json.loads(line) for line in lines[:-1]]
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert lines[-1] == "[DONE]"
    assert [text for text in texts if text] == ["a text of tw", "o pieces"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert "usage" not in plain
    assert '"total_tokens":18' in counted


def test_requests_are_remembered_in_order_refused_ones_too() -> None:
    with OpenAIServer(default=Reply(text="ok")) as server:
        post(server.base_url, {"model": "one", "messages": [USER]})
        post(server.base_url, {"model": "two", "messages": []})
        server.arrival(2).wait()

    assert [body["model"] for body in server.requests] == ["one", "two"]
    assert [exchange.status for exchange in server.exchanges] == [200, 400]


def test_a_fault_comes_as_often_as_it_says_and_then_the_script_goes_on() -> None:
    body = {"model": "gpt-5", "messages": [USER]}
    with OpenAIServer([Fault(status=429, times=2), Reply(text="ok")]) as server:
        statuses = [post(server.base_url, body)[0] for _ in range(3)]

    assert statuses == [429, 429, 200]


def test_a_step_may_be_made_from_the_request() -> None:
    def echo(body: dict[str, Any]) -> Reply:
        return Reply(text=body["messages"][-1]["content"].upper())

    with OpenAIServer(default=echo) as server:
        _, answer = post(server.base_url, {"model": "gpt-5", "messages": [USER]})

    assert json.loads(answer)["choices"][0]["message"]["content"] == "HI"


def test_a_script_that_ran_out_says_so() -> None:
    with OpenAIServer() as server:
        status, error = post(server.base_url, {"model": "gpt-5", "messages": [USER]})

    assert (status, error["message"]) == (400, "The test server's script has run out.")


def test_a_gate_holds_the_stream_until_it_is_opened() -> None:
    gate = Gate()
    body = {"model": "gpt-5", "messages": [USER], "stream": True}
    with OpenAIServer([Reply(chunks=("one ", "two"), gate=gate)]) as server:
        host = server.base_url.removeprefix("http://").removesuffix("/v1")
        line = http.client.HTTPConnection(host, timeout=DEADLINE_S)
        line.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = line.getresponse()
        gate.reached.wait()
        before = answer.read1()
        gate.open()
        after = answer.read()
        line.close()

    assert b"two" not in before
    assert b"two" in after


def test_a_gate_that_is_never_opened_does_not_hold_up_the_end() -> None:
    gate = Gate()
    body = {"model": "gpt-5", "messages": [USER], "stream": True}
    with OpenAIServer([Reply(text="held", gate=gate)]) as server:
        host = server.base_url.removeprefix("http://").removesuffix("/v1")
        line = http.client.HTTPConnection(host, timeout=DEADLINE_S)
        line.request("POST", "/v1/chat/completions", json.dumps(body))
        gate.reached.wait()

    line.close()
    assert server.exchanges[0].ended.has_happened


def test_a_script_in_json_is_the_script() -> None:
    steps = read_script(
        b'[{"type": "reply", "text": "hi", "calls": [{"name": "add", "arguments": {"a": 1}}]},'
        b' {"type": "fault", "status": 429, "retry_after": "2"}]'
    )

    assert steps == [
        Reply(text="hi", calls=(Call(name="add", arguments={"a": 1}),)),
        Fault(status=429, retry_after="2"),
    ]


def test_a_script_with_a_step_that_is_none_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_script(b'[{"type": "poem"}]')


def test_the_server_runs_as_a_program_until_it_is_told_to_end(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"type": "reply", "text": "from afar"}]')
    command = [sys.executable, "-m", "support.openai_server", "--script", str(script)]
    tests = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=tests, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        base_url = program.stdout.readline().strip()
        _, first = post(base_url, {"model": "gpt-5", "messages": [USER]})
        _, second = post(base_url, {"model": "gpt-5", "messages": [USER]})
        program.send_signal(signal.SIGTERM)
        code = program.wait(timeout=DEADLINE_S)

    assert json.loads(first)["choices"][0]["message"]["content"] == "from afar"
    assert json.loads(second)["choices"][0]["message"]["content"] == "OK"
    assert code == 0
