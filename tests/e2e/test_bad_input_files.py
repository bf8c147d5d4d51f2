"""Broken workflows, scripts, roles and settings: what, where and what to do; never a traceback."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from console_kit import write_workflow
from pipes_kit import MODEL, OFFLINE, Ended, events, finished, of_type, run, settings, started
from support.openai_server import OpenAIServer, Reply


def workflow(*states: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"workflow_name": "w", "states": [*states, {"name": "stop"}], **more}


def played(home: Path, script: str, **state: str) -> Ended:
    """Run a workflow of one state with this script."""
    write_workflow(home / "config", "w", workflow({"name": "start", **state}), script)
    return run(home, "run", "w", *OFFLINE)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"workflow_name": "w",\n "states": [}', "w.json:2:13 $.states[0]", "expected a value"),
        ("", "w.json:1:1", "the file is empty"),
        ("[1, 2]", "w.json:1:1", "expected an object"),
        ("\xff", "w.json:1:1", "expected a value"),
        ('{"workflow_name": "w", "states": [{"name": "begin"}, {"name": "stop"}]}',
         "w.json:1:34 $.states", 'the state "start" is missing'),
        ('{"workflow_name": "w"}', "w.json:1:1", 'the key "states" is missing'),
        ('{"states": [{"name": "start", "next": "stpo"}, {"name": "stop"}]}',
         "$.states[0].next", 'Did you mean "stop"?'),
    ],
    ids=["not JSON", "empty", "a list", "no value", "no start", "no states", "unknown state"],
)  # fmt: skip
def test_a_workflow_that_cannot_be_read_is_told_with_its_place(
    tmp_path: Path, text: str, place: str, words: str
) -> None:
    write_workflow(tmp_path / "config", "w", {})
    (tmp_path / "config" / "workflows" / "w.json").write_text(text, encoding="utf-8")

    ended = run(tmp_path, "run", "w", *OFFLINE)

    assert ended.code == 1
    assert ended.out == ""
    assert place in ended.told
    assert words in ended.told


def test_a_role_that_does_not_exist_names_the_nearest(tmp_path: Path) -> None:
    agents = [{"agent_role": "reviewr", "context": "c"}]
    write_workflow(
        tmp_path / "config",
        "w",
        workflow({"name": "start", "agent": "reviewr"}, agents=agents, contexts=[{"name": "c"}]),
    )

    ended = run(tmp_path, "run", "w", *OFFLINE)

    assert ended.code == 1
    assert '$.agents[0].agent_role: there is no role "reviewr"' in ended.told
    assert 'Did you mean "reviewer"?' in ended.told


def test_a_role_file_with_a_problem_is_told_before_the_run_goes_on(tmp_path: Path) -> None:
    roles = tmp_path / "config" / "roles"
    roles.mkdir(parents=True)
    (roles / "mine.json").write_text('{"mine": {"systemMesage": "hi"}}', encoding="utf-8")
    ended = played(tmp_path, "")

    assert ended.code == 0
    assert ended.told.index("mine.json:1:11") < ended.told.index("started")
    assert 'Did you mean "systemMessage"?' in ended.told


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
        ("import nosuchmodule\ndef h(run): pass\n", "script.py:1", "No module named"),
        ("def h(run): pass\n1 / 0\n", "script.py:2", "ZeroDivisionError"),
        ("def h(run: pass\n", "script.py:1:", "this is not Python"),
        ("def other(run): pass\n", "$.states[0].pre_handler", 'no function "h"'),
        ("import sys\nsys.exit(0)\ndef h(run): pass\n", "script.py:2", "SystemExit"),
    ],
    ids=["import error", "error", "syntax", "no such handler", "exit"],
)
def test_a_script_that_cannot_be_imported_is_told_with_its_line(
    tmp_path: Path, script: str, line: str, words: str
) -> None:
    ended = played(tmp_path, script, pre_handler="h")

    assert ended.code == 1
    assert line in ended.told
    assert words in ended.told


@pytest.mark.parametrize(
    ("slot", "body", "words"),
    [
        ("pre_handler", "raise ValueError('no \\x1b[31mred')", "ValueError: no ␛[31mred"),
        ("pre_handler", "import sys; sys.exit(0)", "SystemExit"),
        ("pre_handler", "run.common_data['x'] = {1}", "common_data.x is {1} (set)"),
        ("transition_handler", "return 'strat'", "'strat' (h), a state the workflow does not have"),
        ("transition_handler", "return 5", "returned 5"),
    ],
    ids=["raises", "exits", "keeps no JSON", "unknown state", "no state"],
)
def test_a_handler_that_goes_wrong_fails_the_run_and_says_where(
    tmp_path: Path, slot: str, body: str, words: str
) -> None:
    ended = played(tmp_path, f"def h(run):\n    {body}\n", **{slot: "h"})

    assert ended.code == 1
    assert ended.out == ""
    assert "failed in start" in ended.told
    assert words in ended.told
    assert "\x1b" not in ended.err


def test_a_handler_that_never_returns_can_be_interrupted(tmp_path: Path) -> None:
    script = "import threading\ndef h(run):\n    run.log('here')\n    threading.Event().wait()\n"
    write_workflow(
        tmp_path / "config", "w", workflow({"name": "start", "pre_handler": "h"}), script
    )
    process = started(tmp_path, "run", "w", *OFFLINE)
    assert process.stderr is not None
    for line in process.stderr:
        if b"here" in line:
            break
    process.send_signal(signal.SIGINT)
    assert finished(process).code == 130


def test_a_broken_offline_part_is_told_when_it_is_played_and_not_before(tmp_path: Path) -> None:
    agents = [{"agent_role": "dude", "context": "c"}]
    write_workflow(
        tmp_path / "config",
        "w",
        workflow({"name": "start", "agent": "dude"}, agents=agents, contexts=[{"name": "c"}]),
    )
    part = tmp_path / "config" / "workflows" / "w" / "offline.json"
    part.write_text('{"dude": {"start": [', encoding="utf-8")

    with OpenAIServer([Reply(text="Hello.")]) as server:
        online = run(tmp_path, "run", "w", *MODEL, server=server)
    offline = run(tmp_path, "run", "w", *OFFLINE)

    assert (online.code, online.out) == (0, "Hello.\n")
    assert offline.code == 1
    assert "offline.json:1:21" in offline.told


def test_a_scripts_prints_and_warnings_do_not_mix_with_the_output(tmp_path: Path) -> None:
    script = (
        "import warnings\nprint('at import')\n"
        "def h(run):\n    print('hello')\n    warnings.warn('careful')\n"
        "    run.common_data['x'] = 'the output'\n"
    )
    spec = workflow({"name": "start", "pre_handler": "h"})
    spec["states"][-1]["input"] = "common_data.x"
    write_workflow(tmp_path / "config", "w", spec, script)

    plain = run(tmp_path, "run", "w", *OFFLINE)
    lines = run(tmp_path, "run", "w", *OFFLINE, "--json")

    assert plain.out == "the output\n"
    assert "at import" in plain.err
    assert "hello" in plain.err
    assert "careful" not in plain.err
    said = [event["text"] for event in of_type(events(lines.out), "console")]
    assert said == ["at import", "hello"]
    assert lines.err == ""


def test_settings_with_problems_are_told_and_the_others_count(tmp_path: Path) -> None:
    settings(tmp_path, modls={}, models={"base": "offline", "smart": 5, "fast": "offline"})

    ended = run(tmp_path, "chat", "Hello?")

    assert ended.code == 0
    assert 'unknown key "modls" is ignored. Did you mean "models"?' in ended.told
    assert "$.models.smart: expected text, found 5." in ended.told


@pytest.mark.journal_file
def test_a_state_folder_that_is_a_file_is_told_and_can_be_done_without(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be", encoding="utf-8")

    refused = run(tmp_path, "chat", "Hello?", *OFFLINE)
    assert refused.code == 1
    assert "--no-journal" in refused.err
    assert run(tmp_path, "chat", "Hello?", "--no-journal", *OFFLINE).code == 0
    assert run(tmp_path, *OFFLINE, lines="Hello?\n").code == 0


def test_a_mode_that_cannot_be_saved_is_told_and_counts_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where a folder should be", encoding="utf-8")

    ended = run(tmp_path, *OFFLINE, lines="/role coder\n/mode\n")

    assert ended.code == 0
    assert "The mode is role:coder until you leave" in ended.out
    assert "· role:coder\n" in ended.out


def test_validate_tells_every_problem_of_a_folder_at_once(tmp_path: Path) -> None:
    place = tmp_path / "config"
    write_workflow(place, "w", workflow({"name": "start", "pre_handler": "h"}), "x = (\n")
    (place / "roles").mkdir()
    (place / "roles" / "r.json").write_text('{"r": {"level": "huge"}}', encoding="utf-8")
    settings(tmp_path, currentMode="dude")

    ended = run(tmp_path, "validate", str(place))

    assert ended.code == 1
    assert ended.err == ""
    for words in ("application.json:1:17", "roles/r.json:1:", "w/script.py:1:5"):
        assert words in ended.out
    assert run(tmp_path, "validate", str(tmp_path / "nothing")).code == 2


def test_a_warning_is_an_error_to_those_who_are_strict(tmp_path: Path) -> None:
    place = tmp_path / "config"
    write_workflow(place, "w", workflow({"name": "start"}, {"name": "never", "wait": 1}))
    file = str(place / "workflows" / "w.json")

    plain, strict = run(tmp_path, "validate", file), run(tmp_path, "validate", "--strict", file)

    assert plain.code == 0
    assert 'warning: nothing leads to the state "never".' in plain.out
    assert strict.code == 1
    assert 'nothing leads to the state "never".' in strict.out
    assert "warning:" not in strict.out


def test_an_untrusted_workspace_is_exit_code_3_with_the_reason(tmp_path: Path) -> None:
    spec = workflow({"name": "start"})
    write_workflow(tmp_path / "workspace" / ".midstream", "w", spec)

    for command in (("run", "w"), ("chat", "hi"), ("roles",), ()):
        ended = run(tmp_path, *command, lines="hello\n")
        assert ended.code == 3
        assert ended.out == ""
        assert "workflows/w.json" in ended.told
        assert "--trust-workspace" in ended.told
    trusting = run(tmp_path, "run", "w", "--trust-workspace", *OFFLINE)
    assert trusting.code == 0
    assert json.loads(run(tmp_path, "--trust-workspace", "workflows", "--json").out)["w"] == ""


def test_lines_to_a_broken_workflow_come_back_and_the_console_goes_on(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "w", {"workflow_name": "w"})

    process = started(tmp_path, *OFFLINE, stdin=subprocess.PIPE)
    ended = finished(process, "/workflow w\n/workflow nosuch\n/mode\n")

    assert ended.code == 0
    assert 'the key "states" is missing' in ended.out
    assert "There is no workflow 'nosuch'" in ended.out
    assert "· role:dude\n" in ended.out
