"""`midstream rehearse` and `midstream test`: recorded, played, told apart, disturbed everywhere."""

import json
from pathlib import Path

import pytest

from midstream.cli.main import exit_code
from midstream.config.trust import TrustStore
from midstream.rehearsal.format import decoded

WORKFLOW = {
    "workflow_name": "shout",
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "dude", "context": "desk"}],
    "states": [
        {"name": "start", "agent": "dude", "post_handler": "keep", "next": "stop"},
        {"name": "stop", "input": "common_data.said"},
    ],
}
SCRIPT = "def keep(run):\n    run.common_data['said'] = run.last_response.text.upper()\n"
OFFLINE = {"dude": {"start": [{"text": "You said ${input}."}]}}


@pytest.fixture
def workspace(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = own_folder / "work"
    beside = folder / ".midstream" / "workflows" / "shout"
    (beside / "rehearsals").mkdir(parents=True)
    (beside.parent / "shout.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    (beside / "script.py").write_text(SCRIPT, encoding="utf-8")
    (beside / "offline.json").write_text(json.dumps(OFFLINE), encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def file(workspace: Path) -> Path:
    return workspace / ".midstream" / "workflows" / "shout" / "rehearsals" / "hi.json"


def command(*words: str) -> int:
    return exit_code([*words, "--trust-workspace"])


def shown(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().out


def change_the_script(workspace: Path) -> None:
    script = workspace / ".midstream" / "workflows" / "shout" / "script.py"
    script.write_text(SCRIPT.replace("upper", "lower"), encoding="utf-8")


@pytest.fixture
def recording(file: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    assert command("rehearse", "shout", "hello", "--record", str(file)) == 0
    assert "1 step of shout." in capfd.readouterr().err
    return file


def test_the_first_recording_makes_its_folder_and_no_other(workspace: Path, file: Path) -> None:
    file.parent.rmdir()
    assert command("rehearse", "shout", "hello", "--record", str(file)) == 0
    assert file.is_file()
    assert command("rehearse", "shout", "hello", "--record", "elsewhere/hi.json") == 2
    assert not (workspace / "elsewhere").exists()


def test_a_real_run_is_recorded_and_holds(
    recording: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rehearsal = decoded(recording.read_bytes())
    assert rehearsal.expected.output == "[OFFLINE] YOU SAID HELLO."
    assert command("rehearse", str(recording)) == 0
    out = shown(capfd)
    assert out.startswith("held ")
    assert "(1 step, " in out


def test_a_changed_script_is_told_with_exit_code_1(
    recording: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change_the_script(workspace)
    assert command("rehearse", str(recording)) == 1
    out = shown(capfd)
    assert "at the end: the output" in out
    assert "expected: [OFFLINE] YOU SAID HELLO." in out
    assert "got:      [offline] you said hello." in out


def test_what_differs_can_be_accepted(recording: Path, workspace: Path) -> None:
    change_the_script(workspace)
    assert command("rehearse", str(recording), "--accept") == 0
    assert command("rehearse", str(recording)) == 0


@pytest.mark.both_journals
def test_a_run_of_the_journal_becomes_a_rehearsal(
    recording: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["runs", "--json"]) == 0
    run = json.loads(shown(capfd).splitlines()[0])["run"]
    again = tmp_path / "again.json"
    assert command("rehearse", "shout", "--from", run[:5], "--record", str(again)) == 0
    assert decoded(again.read_bytes()) == decoded(recording.read_bytes())
    assert command("rehearse", "other", "--from", run, "--record", str(again)) == 2


def test_a_chat_is_no_workflow_to_rehearse(
    workspace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("chat", "hello") == 0
    capfd.readouterr()
    assert exit_code(["runs", "--json"]) == 0
    run = json.loads(shown(capfd).splitlines()[0])["run"]
    assert command("rehearse", "--from", run, "--record", str(tmp_path / "r.json")) == 2
    assert "is a chat" in capfd.readouterr().err


def test_disturbed_everywhere_it_prints_a_table(
    recording: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("rehearse", str(recording), "--interrupt-everywhere", "--kill-everywhere") == 0
    lines = shown(capfd).splitlines()
    assert lines[0].split() == ["tried", "held", "broken"]
    assert [line.split()[0] for line in lines[1:]] == ["interrupt", "kill", "both"]
    assert all(line.split()[3] == "0" for line in lines[1:])


def test_one_point_is_replayed_by_its_name(
    recording: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("rehearse", str(recording), "--point", "kill:3:flying", "--json") == 0
    told = json.loads(shown(capfd))
    assert told == {"point": "kill:3:flying", "broken": [], "end": "finished"}
    assert command("rehearse", str(recording), "--point", "nowhere") == 2


def test_one_that_differs_is_not_disturbed_but_told(
    recording: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change_the_script(workspace)
    assert command("rehearse", str(recording), "--kill-everywhere") == 1
    assert "the output" in shown(capfd)
    assert command("test") == 1
    assert "`midstream rehearse FILE --accept` records it." in shown(capfd)


def test_all_rehearsals_of_a_workspace_are_played(
    recording: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (recording.parent / "broken.json").write_text("{}", encoding="utf-8")
    assert command("test") == 1
    out = shown(capfd)
    assert out.count("held    ") == 1
    assert out.endswith("1 held, 1 differed.\n")
    assert "broken.json is no rehearsal" in out
    (recording.parent / "broken.json").unlink()
    assert command("test", str(workspace), "--json") == 0
    assert [json.loads(line)["held"] for line in shown(capfd).splitlines()] == [True]


def test_a_workspace_without_rehearsals_says_how_to_make_one(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("test") == 2
    assert "midstream rehearse NAME --record" in capfd.readouterr().err


def test_an_untrusted_workspace_is_not_played(recording: Path) -> None:
    assert exit_code(["test"]) == 3
    assert exit_code(["rehearse", str(recording)]) == 3


@pytest.mark.parametrize(
    "words", [("rehearse",), ("rehearse", "shout", "--from", "x"), ("rehearse", "nosuch.json")]
)
def test_a_command_that_says_too_little_is_refused(workspace: Path, words: tuple[str, ...]) -> None:
    assert command(*words) in (1, 2)


def test_a_recording_that_could_not_be_written_is_refused_before_the_run(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("rehearse", "shout", "--record", "nowhere/r.json") == 2
    assert exit_code(["runs", "--json"]) == 0
    assert shown(capfd) == ""


BUILT_IN = (
    *("code_architecture_review", "coder_reviewer", "fix_tests", "review_changes", "triage_issue"),
    "write_docs",
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_workflow_ships_a_rehearsal_that_holds_everywhere(
    name: str, workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import midstream

    shipped = Path(midstream.__file__).parent / "config" / "defaults" / "workflows" / name
    file = shipped / "rehearsals" / "offline.json"
    assert (
        command(
            "rehearse", str(file), "--interrupt-everywhere", "--kill-everywhere", "--pairs", "20"
        )
        == 0
    )
    out = shown(capfd)
    assert "pairs          20     20      0" in out
    assert "--point" not in out


def test_built_in_rehearsals_are_among_all(
    recording: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("test", "--all") == 0
    out = shown(capfd)
    assert out.count("held    ") == 1 + len(BUILT_IN)
    assert "All held." in out


def trust(workspace: Path, tmp_path: Path) -> TrustStore:
    store = TrustStore(tmp_path / "state")
    store.grant(store.status(workspace))
    return store


def test_recording_keeps_a_trusted_workspace_trusted(
    file: Path, workspace: Path, tmp_path: Path
) -> None:
    store = trust(workspace, tmp_path)
    assert exit_code(["rehearse", "shout", "hello", "--record", str(file)]) == 0
    assert exit_code(["rehearse", str(file), "--accept"]) == 0
    assert exit_code(["test"]) == 0
    assert store.status(workspace).kind == "trusted"


def test_an_import_written_down_is_not_trusted(
    recording: Path, workspace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["runs", "--json"]) == 0
    run = json.loads(shown(capfd).splitlines()[0])["run"]
    parcel = tmp_path / "run.jsonl"
    assert exit_code(["export", run, str(parcel)]) == 0
    parcel.write_text(parcel.read_text().replace(f'"run":"{run}"', '"run":"theirs"', 1))
    assert exit_code(["import", str(parcel)]) == 0
    store = trust(workspace, tmp_path)

    assert command("rehearse", "--from", "theirs", "--record", str(recording)) == 0
    assert store.status(workspace).kind == "trusted"  # the very same bytes
    other = recording.parent / "other.json"
    assert command("rehearse", "--from", "theirs", "--record", str(other)) == 0
    assert store.status(workspace).kind == "changed"


def test_a_recording_writes_over_rehearsals_alone(
    recording: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("rehearse", "shout", "hello", "--record", str(recording)) == 0
    mine = workspace / "package.json"
    mine.write_text('{"name": "mine"}', encoding="utf-8")
    assert command("rehearse", "shout", "hello", "--record", str(mine)) == 2
    assert "is no rehearsal" in capfd.readouterr().err
    assert mine.read_text(encoding="utf-8") == '{"name": "mine"}'


@pytest.mark.parametrize(
    "words",
    [
        ("hello",),
        ("--answer", "Ada"),
        ("--set", "a=1"),
        ("--accept", "--kill-everywhere"),
        ("--accept", "--point", "kill:3"),
        ("--record", "x.json", "--kill-everywhere"),
        ("--pairs", "3"),
        ("--pairs", "3", "--point", "kill:3"),
        ("--record", "x.json", "--from", "r", "--answer", "Ada"),
    ],
)
def test_options_that_would_do_nothing_are_refused(recording: Path, words: tuple[str, ...]) -> None:
    assert command("rehearse", str(recording), *words) == 2


def test_a_workflows_name_is_told_apart_from_a_file(
    workspace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("rehearse", "shout") == 2
    assert "midstream rehearse shout --record FILE" in capfd.readouterr().err
