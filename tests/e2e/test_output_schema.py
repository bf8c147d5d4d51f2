"""`midstream chat --output-schema`: JSON that fits on one line, or an exit code."""

import json
from pathlib import Path
from typing import Any

from pipes_kit import MODEL, OFFLINE, run
from support.openai_server import Call, OpenAIServer, Reply
from tables import table

OBJECT: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["name"],
}


def schema(home: Path, wanted: Any = OBJECT) -> str:
    path = home / "schema.json"
    path.write_text(wanted if isinstance(wanted, str) else json.dumps(wanted), encoding="utf-8")
    return str(path)


def submits(value: Any) -> Reply:
    return Reply(calls=(Call(name="submit", arguments=value),))


def test_the_reply_is_json_on_one_line(tmp_path: Path) -> None:
    with OpenAIServer([submits({"name": "ä\n", "lines": 3})]) as server:
        ended = run(
            tmp_path, "chat", "read", *MODEL, "--output-schema", schema(tmp_path), server=server
        )
        (request,) = server.requests

    assert (ended.code, ended.out) == (0, '{"name": "\\u00e4\\n", "lines": 3}\n')
    tool = next(
        each["function"] for each in request["tools"] if each["function"]["name"] == "submit"
    )
    assert (request["tool_choice"], tool["parameters"]["required"]) == ("required", ["name"])


def test_any_type_will_do_and_a_text_is_json_too(tmp_path: Path) -> None:
    wanted = '{"type": ["string", "null"]}'
    for value in ("yes", None):
        with OpenAIServer([submits({"value": value})]) as server:
            ended = run(tmp_path, "chat", "read", *MODEL, "--output-schema", wanted, server=server)

        assert (ended.code, ended.out) == (0, f"{json.dumps(value)}\n")


def test_what_does_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    with OpenAIServer([submits({"lines": 1}), submits({"name": "a"})]) as server:
        ended = run(
            tmp_path, "chat", "read", *MODEL, "--output-schema", schema(tmp_path), server=server
        )
        asked = [json.dumps(request["messages"]) for request in server.requests]

    assert (ended.code, ended.out) == (0, '{"name": "a"}\n')
    assert "'name' is a required property" in asked[1]


def test_what_never_fits_is_exit_code_1_and_nothing_on_stdout(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="Just words.")] * 9) as server:
        ended = run(
            tmp_path, "chat", "read", *MODEL, "--output-schema", schema(tmp_path), server=server
        )

    assert (ended.code, ended.out) == (1, "")
    assert "unusable replies" in ended.told


BAD = {
    "no such type": ('{\n  "type": "objekt"\n}', "schema.json:2:11"),
    "a list": ("[]", "expected an object, such as"),
    "no JSON": ('{"type": ', "schema.json:1:10"),
    "a reference to elsewhere": ('{"$ref": "https://x.y/z"}', "leads out of the schema"),
}


@table(("text", "told"), BAD.values(), ids=BAD)
def test_a_bad_schema_is_told_with_its_place_before_anything_is_asked(
    tmp_path: Path, text: str, told: str
) -> None:
    ended = run(tmp_path, "chat", "read", *OFFLINE, "--output-schema", schema(tmp_path, text))

    assert (ended.code, ended.out) == (2, "")
    assert told in ended.told


def test_a_schema_may_come_on_stdin_and_then_the_words_do_not(tmp_path: Path) -> None:
    read = run(tmp_path, "chat", "hi", *OFFLINE, "--output-schema", "-", lines="{1")
    both = run(tmp_path, "chat", "-", *OFFLINE, "--output-schema", "-", lines="{}")
    gone = run(tmp_path, "chat", "hi", *OFFLINE, "--output-schema", "nowhere.json")

    assert [each.code for each in (read, both, gone)] == [2, 2, 2]
    assert "stdin:1:2" in read.told
    assert "would be read from stdin" in both.told
    assert "There is no file nowhere.json" in gone.told
