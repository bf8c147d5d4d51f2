"""What the command line takes and refuses, and the exit codes it ends with."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click import Context
from console_kit import write_workflow
from pipes_kit import MODEL, OFFLINE, events, of_type, run
from support.openai_server import Call, OpenAIServer, Reply

from midstream.cli.main import cli

REVIEW = ("run", "code_architecture_review", *OFFLINE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "code_architecture_reviw"), "Did you mean 'code_architecture_review'?"),
        (("run", "coder_reviewer", "x", "--set", "max_round=1"), "Did you mean 'max_rounds'?"),
        (("run", "coder_reviewer", "x", "--set", "max_rounds"), "Write --set name=value."),
        (("run", "coder_reviewer", "x", "--set", "max_rounds=many"), "takes a number, not 'many'"),
        (("run", "coder_reviewer", "x", "--set", "max_rounds=NaN"), "takes a number, not 'NaN'"),
        (("run", "coder_reviewer", "x", "--allow", "write_fle"), "Did you mean 'write_file'?"),
        (("run", "coder_reviewer", "x", "--model", "gpt"), "Write provider:model"),
        pytest.param(
            ("run", "coder_reviewer", "x", "--detach"),
            "this one is of this machine alone",
            marks=pytest.mark.journal_file,
        ),
        (("run", "coder_reviewer", "--detach", "--answer", "x"), "midstream send RUN TEXT"),
        (
            ("run", "coder_reviewer", "x", "--detach", "--model", "offline"),
            "The settings of the worker's machine count",
        ),
        (
            ("run", "coder_reviewer", "x", "--queue", "q", "--permission-mode", "plan"),
            "--permission-mode cannot be combined",
        ),
        (
            ("run", "coder_reviewer", "--queue", "q", "--no-journal"),
            "find their runs in the journal",
        ),
        (("run", "coder_reviewer", "-x"), "Put words that begin with a dash after --."),
        (("run",), "Missing argument 'WORKFLOW'"),
        (("chat", "hi", "--role", "dud"), "Did you mean 'dude'?"),
        (("chat", " \n"), "The text is missing."),
        (("chat", "/cost"), "/cost is a command of the console"),
        (("chat", "/srv/app is gone"), "//TEXT says what begins with a slash"),
        (("--mode", "role:dud"), "Did you mean 'dude'?"),
        (("--mode", "dude"), "Did you mean 'role:dude'"),
        (("--mode", "role:dude", "roles"), "--mode is for the console"),
        (("rnu", "coder_reviewer"), "Did you mean 'run'?"),
        (("--workspace", "/nowhere", "roles"), "does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_line_is_exit_code_2_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    ended = run(tmp_path, *arguments)

    assert ended.code == 2
    assert ended.out == ""
    assert words in ended.told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run",), "Missing argument 'WORKFLOW'. Write midstream run [OPTIONS] WORKFLOW [INPUT]. "),
        (("runs", "--nope"), "No such option '--nope'. "),
        (("config", "blah"), "No such command 'blah'. midstream config "),
        (("--permission-mode", "x"), "'x' is not one of 'plan', 'ask', 'auto', 'full'. midstream "),
    ],
    ids=["missing", "option", "command", "value"],
)
def test_a_wrong_command_line_is_told_in_the_form_of_every_error(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    [line] = run(tmp_path, *arguments).told.splitlines()

    assert line.startswith("midstream: ")
    assert told in line
    assert line.endswith(" --help tells more.")


@pytest.mark.parametrize("input", [(), ("",), (" ",)], ids=["none", "empty", "blank"])
def test_a_workflow_that_waits_for_its_input_parks_without_one(
    tmp_path: Path, input: tuple[str, ...]
) -> None:
    ended = run(tmp_path, "run", "coder_reviewer", *input, *OFFLINE)

    assert ended.code == 4
    assert ended.out == ""
    assert "What should the coder do?" in ended.told
    assert "Give it with --answer TEXT, once for each question." in ended.told
    assert ended.told.endswith("` goes on.")


def test_what_an_answer_is_given_by_stands_below_a_question_of_several_lines(
    tmp_path: Path,
) -> None:
    ended = run(tmp_path, "run", "triage_issue", "it crashes", *OFFLINE)

    assert ended.code == 4
    assert "\n  Give it with --answer TEXT, once for each question.\n" in ended.err


def test_the_input_may_come_as_an_answer_and_may_begin_with_a_dash(tmp_path: Path) -> None:
    for arguments in (("--answer", "-v should help"), ("--", "-v should help")):
        ended = run(tmp_path, "run", "coder_reviewer", *OFFLINE, *arguments)
        assert ended.code == 0
        assert "The task: -v should help." in ended.err


def test_an_answer_that_is_no_choice_is_refused_and_the_next_one_is_tried(tmp_path: Path) -> None:
    parked = run(tmp_path, *REVIEW, "--answer", "purple")
    done = run(tmp_path, *REVIEW, "--answer", "purple", "--answer", "2")

    assert parked.code == 4
    assert "'purple' is not one of the choices" in parked.told
    assert "waits for an answer that fits (not 'purple')" in parked.told
    assert "Choices: complexity, change, coupling, size." in parked.told
    assert done.code == 0
    assert "What matters most: **change**" in done.out


def test_a_parked_run_says_which_and_what_it_asks_for(tmp_path: Path) -> None:
    ended = run(tmp_path, *REVIEW, "--json")

    found = events(ended.out)
    (asked,) = of_type(found, "question_asked")
    said, kept = of_type(found, "console")
    assert f"`midstream send {asked['run']} TEXT` answers it" in kept["text"]
    assert ended.code == 4
    assert asked["run"] in said["text"]
    assert asked["text"] in said["text"]


def test_a_variable_is_set_to_a_value_of_its_own_kind(tmp_path: Path) -> None:
    script = "def h(run):\n    run.common_data['x'] = run.variables\n"
    spec: dict[str, Any] = {
        "workflow_name": "w",
        "variables": {"count": 1, "name": "a", "list": [], "any": None},
        "states": [{"name": "start", "pre_handler": "h"}, {"name": "stop"}],
    }
    spec["states"][1]["input"] = "common_data.x"
    write_workflow(tmp_path / "config", "w", spec, script)
    given = ("count=2.5", "name=7", "list=[true]", "any=text")

    ended = run(tmp_path, "run", "w", *OFFLINE, *(f"--set={text}" for text in given))

    assert json.loads(ended.out) == {"count": 2.5, "name": "7", "list": [True], "any": "text"}


def test_a_tool_that_asks_is_refused_unless_it_was_allowed(tmp_path: Path) -> None:
    call = Call(name="write_file", arguments={"path": "new.txt", "content": "hi"})
    new = tmp_path / "workspace" / "new.txt"
    with OpenAIServer([Reply(calls=(call,)), Reply(text="Done.")] * 2) as server:
        refused = run(tmp_path, "chat", "write", *MODEL, server=server)
        was_written = new.exists()
        allowed = run(tmp_path, "chat", "write", *MODEL, "--allow", "write_file", server=server)

    assert refused.code == allowed.code == 0
    assert not was_written
    assert "--allow 'write: new.txt'" in refused.told
    assert new.read_text(encoding="utf-8") == "hi"


def test_help_shows_every_command_once_in_its_group(tmp_path: Path) -> None:
    shown = run(tmp_path, "--help").out.partition("Without a console:")[2]

    names = re.findall(r"^  (\w+)  +\S", shown, re.MULTILINE)
    assert sorted(names) == cli.list_commands(Context(cli))
    assert "..." not in shown


def test_listings_are_plain_or_one_json_object(tmp_path: Path) -> None:
    for what, name in (("workflows", "coder_reviewer"), ("roles", "dude"), ("tools", "get_time")):
        plain, lines = run(tmp_path, what), run(tmp_path, what, "--json")
        known = json.loads(lines.out)
        assert plain.code == lines.code == 0
        assert plain.err == lines.err == ""
        assert lines.out.count("\n") == 1
        assert [line.split()[0] for line in plain.out.splitlines()] == sorted(known)
        assert known[name]


def test_options_may_stand_before_the_command_too(tmp_path: Path) -> None:
    ended = run(tmp_path, "--json", "--model", "offline", "chat", "hi")

    assert ended.code == 0
    assert of_type(events(ended.out), "agent_responded")


@pytest.mark.parametrize(
    ("line", "offered"),
    [("midstream ru", ["run", "runs"]), ("midstream --mo", ["--mode", "--model"])],
)
def test_a_shell_completes_commands_and_options(
    tmp_path: Path, line: str, offered: list[str]
) -> None:
    asked = {"_MIDSTREAM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "1"}
    ended = run(tmp_path, env=asked)

    assert ended.out.split() == [f"plain,{each}" for each in offered]
