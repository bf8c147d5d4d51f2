"""Rehearsals of workflows written in Python: by their path, and by name beside those in JSON."""

import json
from pathlib import Path

import pytest

from midstream.cli.main import exit_code
from midstream.rehearsal.format import decoded

FLOW = '''import midstream
from pathlib import Path


@midstream.tool(effect="read")
def measure(text: str) -> int:
    """Return how long a text is."""
    with Path("calls").open("a") as file:
        file.write("x")
    return len(text)


flow = midstream.Workflow("judged", input=str, tools=[measure])
poet = flow.agent("poet", system="You write.")


@flow.start(ask=poet, prompt="About ${input}")
def write(run):
    run.data["text"] = run.reply
    return weigh


@flow.state(call="measure", arguments={"text": "${input}"})
def weigh(run):
    run.data["long"] = run.result
    return look


@flow.state(question="Good?", choices=["yes", "no"])
def look(run):
    return midstream.stop(run.data["long"]) if run.result == "yes" else write
'''


@pytest.fixture
def workspace(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = own_folder / "work"
    (folder / ".midstream" / "workflows" / "judged" / "rehearsals").mkdir(parents=True)
    (folder / ".midstream" / "workflows" / "judged.py").write_text(FLOW, encoding="utf-8")
    (folder / "judged.py").write_text(FLOW, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def command(*words: str) -> int:
    return exit_code([*words, "--trust-workspace"])


def record(name: str, file: Path) -> None:
    answers = ("--answer", "no", "--answer", "yes")
    assert command("rehearse", name, "rain", *answers, "--record", str(file)) == 0


@pytest.mark.parametrize("name", ["judged", "judged.py:flow", "judged.py"])
def test_one_is_recorded_holds_and_tells_what_its_functions_do_otherwise(
    workspace: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = workspace / "r.json"
    record(name, file)
    rehearsal = decoded(file.read_bytes())
    assert (rehearsal.workflow, rehearsal.expected.output) == (name, "4")
    assert rehearsal.expected.states == ("start", *("write", "weigh", "look") * 2, "stop")
    called = (workspace / "calls").read_text()

    assert command("rehearse", str(file)) == 0
    assert (workspace / "calls").read_text() == called, "no tool is called"
    for place in (workspace / "judged.py", workspace / ".midstream" / "workflows" / "judged.py"):
        place.write_text(FLOW.replace('== "yes"', '== "no"'), encoding="utf-8")
    capfd.readouterr()
    assert command("rehearse", str(file)) == 1
    assert "expected: write" in capfd.readouterr().out


def test_disturbed_everywhere_it_holds(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record("judged.py", workspace / "r.json")
    capfd.readouterr()
    assert command("rehearse", "r.json", "--interrupt-everywhere", "--kill-everywhere") == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()[1:]]
    assert {row[0] for row in rows} >= {"interrupt", "kill"}
    assert all(row[-1] == "0" for row in rows)


def test_those_beside_it_are_played_with_all_others(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record("judged", workspace / ".midstream/workflows/judged/rehearsals/rain.json")
    capfd.readouterr()
    assert command("test") == 0
    assert "All held." in capfd.readouterr().out


def test_a_rehearsal_names_no_file_outside_its_workspace(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record("judged.py", workspace / "r.json")
    told = json.loads((workspace / "r.json").read_text(encoding="utf-8"))
    (workspace.parent / "evil.py").write_text("open('was here', 'w')\n", encoding="utf-8")
    for name in (f"{workspace.parent}/evil.py:flow", "../evil.py:flow", "sub/../../evil.py"):
        file = workspace / "evil.json"
        file.write_text(json.dumps({**told, "workflow": name}), encoding="utf-8")
        assert command("rehearse", str(file)) == 2
        assert "which is not in this workspace" in capfd.readouterr().err
    assert not (workspace / "was here").exists()


def test_a_workflow_s_file_is_told_apart_from_a_rehearsal_s(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("rehearse", "judged.py:flow") == 2
    assert "is a workflow, not a rehearsal's file" in capfd.readouterr().err
