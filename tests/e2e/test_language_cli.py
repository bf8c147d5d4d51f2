"""graph, explain, schema and init as a person types them."""

import json
import subprocess
import sys
from pathlib import Path
from xml.dom import minidom

import pytest
from console_kit import environment
from deadline import DEADLINE_S
from jsonschema import Draft202012Validator
from pipes_kit import OFFLINE, run, workspace_of

from midstream.language.json_text import parse


def test_a_workflow_is_drawn_in_text_or_in_another_language(tmp_path: Path) -> None:
    text = run(tmp_path, "graph", "coder_reviewer")
    mermaid = run(tmp_path, "graph", "coder_reviewer", "--format", "mermaid")
    dot = run(tmp_path, "graph", "coder_reviewer", "--format", "dot")

    assert (text.code, mermaid.code, dot.code) == (0, 0, 0), text.err
    assert "→ revise  otherwise" in text.out
    assert "◉ stop  common_data.result" in text.out
    assert max(map(len, text.out.splitlines())) <= 80
    assert mermaid.out.startswith("flowchart TD\n")
    assert dot.out.startswith('digraph "coder_reviewer" {\n')


def test_a_picture_is_written_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"
    ended = run(tmp_path, "graph", "coder_reviewer", "--format", "svg", "--output", str(file))

    assert (ended.code, ended.out) == (0, "")
    assert "picture.svg" in ended.err
    assert len(minidom.parse(str(file)).getElementsByTagName("svg")) == 1


def test_a_machine_is_given_to_programs(tmp_path: Path) -> None:
    machine = json.loads(run(tmp_path, "graph", "coder_reviewer", "--json").out)

    assert (machine["entry"], machine["resume"]) == ("start", "start")
    assert {"source": "revise", "target": "review", "kind": "next"} in machine["edges"]


def test_a_workflow_that_is_not_there_is_not_drawn(tmp_path: Path) -> None:
    ended = run(tmp_path, "graph", "coder_reviever")

    assert ended.code == 2
    assert "coder_reviewer" in ended.told


def test_a_workflow_is_explained(tmp_path: Path) -> None:
    ended = run(tmp_path, "explain", "coder_reviewer")
    plain = json.loads(run(tmp_path, "explain", "coder_reviewer", "--json").out)

    assert ended.code == 0, ended.err
    for title in ("What starts it", "What each state does", "What can stop it"):
        assert f"\n{title}\n" in ended.out
    assert [state["name"] for state in plain["states"]] == ["start", "review", "revise", "finish"]


@pytest.mark.parametrize("option", [(), ("--roles",), ("--settings",)])
def test_the_schema_is_printed(tmp_path: Path, option: tuple[str, ...]) -> None:
    ended = run(tmp_path, "schema", *option)

    assert ended.code == 0, ended.err
    Draft202012Validator.check_schema(json.loads(ended.out))


def test_a_starter_is_valid_runs_offline_and_has_a_rehearsal_that_holds(tmp_path: Path) -> None:
    begun = run(tmp_path, "init", "workflow", "my-haiku")
    folder = workspace_of(tmp_path) / ".midstream" / "workflows"
    file = folder / "my-haiku.json"
    checked = run(tmp_path, "validate", str(file))
    played = run(tmp_path, *OFFLINE, "--trust-workspace", "run", "my-haiku", "rain")
    rehearsed = run(tmp_path, "test", "--trust-workspace")
    schema = json.loads(run(tmp_path, "schema").out)

    assert begun.code == 0, begun.err
    assert "midstream run my-haiku rain --model offline --trust-workspace" in begun.out
    assert (checked.code, checked.out) == (0, "No problems.\n")
    assert (played.code, played.out.startswith("[offline] Rain on the warm roof")) == (0, True)
    assert (rehearsed.code, "All held." in rehearsed.out) == (0, True), rehearsed.out
    root = parse(file.read_text(encoding="utf-8")).root
    assert root is not None
    assert Draft202012Validator(schema).is_valid(root.value)
    assert "starter" not in "".join(
        path.read_text(encoding="utf-8") for path in folder.rglob("*.json")
    )


def test_a_starter_overwrites_nothing(tmp_path: Path) -> None:
    folder = workspace_of(tmp_path) / ".midstream" / "workflows"
    (folder / "mine").mkdir(parents=True)
    (folder / "yours.json").write_text("{}", encoding="utf-8")

    for name in ("mine", "yours", "../out", "", "fix_tests"):
        ended = run(tmp_path, "init", "workflow", name)
        assert ended.code == 2
        assert ended.err.startswith("midstream: ")
    assert sorted(path.name for path in folder.rglob("*")) == ["mine", "yours.json"]
    assert (folder / "yours.json").read_text(encoding="utf-8") == "{}"


def test_a_run_is_drawn_with_where_it_was(tmp_path: Path) -> None:
    assert run(tmp_path, *OFFLINE, "run", "coder_reviewer", "add a discount").code == 0
    (id,) = (json.loads(line)["run"] for line in run(tmp_path, "runs", "--json").out.splitlines())
    drawn = run(tmp_path, "show", id, "--graph")
    plain = json.loads(run(tmp_path, "show", id, "--graph", "--json").out)

    assert drawn.code == 0, drawn.err
    (line,) = (line for line in drawn.out.splitlines() if "│ review  " in line)
    assert "×2 · " in line
    visited = {each["state"][0]: each["visits"] for each in plain["visited"]}
    assert visited == {"start": 1, "review": 2, "revise": 1, "finish": 1, "stop": 1}
    assert all(each["seconds"] >= 0 for each in plain["visited"])


def test_the_console_draws_the_active_workflow(tmp_path: Path) -> None:
    lines = "/graph\n/graph coder_reviewer\n/workflow coder_reviewer\n/graph\n/stop\n"
    ended = run(tmp_path, *OFFLINE, lines=lines, env={"COLUMNS": "60"})

    told = ended.out + ended.err
    assert "No workflow is active." in told
    assert told.count("◉ stop  common_data.result") == 2


def test_drawing_a_schema_needs_no_heavy_library(tmp_path: Path) -> None:
    code = "import sys, midstream.cli.language; print(any(m in sys.modules for m in HEAVY))"
    heavy = "HEAVY = ('pydantic_ai', 'openai', 'jsonschema', 'lizard', 'tree_sitter');"
    ended = subprocess.run(
        [sys.executable, "-c", heavy + code],
        env=environment(tmp_path, None),
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )

    assert ended.stdout == "False\n"


def test_init_and_validate_need_no_names(tmp_path: Path) -> None:
    before = run(tmp_path, "validate")
    begun = run(tmp_path, "init")
    after = run(tmp_path, "validate", "--strict")

    assert before.code == 2
    assert "no .midstream/ here" in before.err
    assert (begun.code, after.code) == (0, 0), begun.err + after.err
    assert (workspace_of(tmp_path) / ".midstream" / "workflows" / "haiku.json").is_file()


def test_what_is_validated_may_be_a_workflows_name(tmp_path: Path) -> None:
    run(tmp_path, "init", "workflow", "mine")
    folder = workspace_of(tmp_path)

    for name in ("mine", "mine.json", "coder_reviewer", str(folder)):
        ended = run(tmp_path, "validate", "--strict", name)
        assert (ended.code, ended.out) == (0, "No problems.\n"), ended.err
    wrong = run(tmp_path, "validate", "mien")
    assert wrong.code == 2
    assert (
        "There is no file 'mien', and no workflow of that name. Did you mean 'mine'?" in wrong.err
    )
    gone = run(tmp_path, "validate", "gone/mine.json")
    assert gone.code == 2
    assert "There is no file 'gone/mine.json'." in gone.err


def test_tools_that_nobody_has_trusted_are_said_to_be_why_they_are_missing(tmp_path: Path) -> None:
    beside = workspace_of(tmp_path) / ".midstream"
    (beside / "workflows").mkdir(parents=True)
    calls = {"name": "start", "tool": "shout", "arguments": {}}
    workflow = {"workflow_name": "loud", "states": [calls, {"name": "stop"}]}
    (beside / "workflows" / "loud.json").write_text(json.dumps(workflow), encoding="utf-8")

    without = run(tmp_path, "validate", "loud")
    (beside / "tools").mkdir()
    (beside / "tools" / "shout.py").write_text("", encoding="utf-8")
    unread = run(tmp_path, "validate", "loud")

    for ended in (without, unread):
        assert ended.code == 1
        assert 'there is no tool "shout"' in ended.out
    assert "midstream trust" not in without.told
    assert "not read until it is trusted" in unread.err
    assert "midstream trust" in unread.err


def test_problems_are_given_to_programs(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"workflow_name": "w", "stats": []}', encoding="utf-8")
    ended = run(tmp_path, "validate", "--json", str(tmp_path / "w.json"))
    first = json.loads(ended.out.splitlines()[-1])

    assert ended.code == 1
    assert (first["line"], first["column"], first["path"]) == (1, 24, "$.stats")
    assert first["severity"] == "error"
    assert run(tmp_path, "validate", "--json", "coder_reviewer").out == ""


def test_a_file_where_a_name_is_wanted_leads_to_the_name(tmp_path: Path) -> None:
    ended = run(tmp_path, "graph", ".midstream/workflows/coder_reviewer.json")

    assert ended.code == 2
    assert "Did you mean 'coder_reviewer'?" in ended.err


def test_a_rehearsal_is_told_apart_from_a_workflow(tmp_path: Path) -> None:
    run(tmp_path, "init", "workflow", "mine")
    file = workspace_of(tmp_path) / ".midstream/workflows/mine/rehearsals/rain.json"
    ended = run(tmp_path, "validate", str(file))

    assert ended.code == 1
    assert ended.out == (
        f"{file}:1:1 $: this is a rehearsal: it is played, not validated. "
        f"`midstream rehearse {file}` plays it.\n"
    )


def test_an_answer_refused_by_one_question_is_not_held_against_the_next(tmp_path: Path) -> None:
    folder = workspace_of(tmp_path) / ".midstream" / "workflows"
    folder.mkdir(parents=True)
    states = [
        {"name": "start", "ask": {"question": "How?", "choices": ["hard", "soft"]}, "next": "why"},
        {"name": "why", "ask": "Why?"},
        {"name": "stop"},
    ]
    text = json.dumps({"workflow_name": "two", "states": states})
    (folder / "two.json").write_text(text, encoding="utf-8")
    answers = ("--answer", "x", "--answer", "hard")
    ended = run(tmp_path, *OFFLINE, "--trust-workspace", "run", "two", *answers)

    assert ended.code == 4
    assert "waits for an answer that was not given: Why?" in ended.err
