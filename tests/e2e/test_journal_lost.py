"""The journal is taken away under a headless run: it ends, says so, and the run is in a file."""

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from pipes_kit import OFFLINE, finished, run, started, workspace_of

SCRIPT = """
import time

def step(run):
    n = run.common_data["n"] = run.common_data.get("n", 0) + 1
    run.log(f"step {n}")

def next(run):
    if run.common_data["n"] == 5:
        (HERE / "there").touch()
        while not (HERE / "go").exists():
            time.sleep(0.01)
    return "start" if run.common_data["n"] < 50 else "stop"
"""
WORKFLOW = """{"workflow_name": "slow", "start_condition": "immediate", "agents": [], "contexts": [],
"states": [{"name": "start", "post_handler": "step", "transition_handler": "next"}, {"name": "stop"}]}"""

WAYS: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "log emptied": lambda path: os.truncate(f"{path}-wal", 0),
    "folder removed": lambda path: shutil.rmtree(path.parent),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_run_whose_journal_is_taken_away_ends_and_is_written_to_a_file(
    tmp_path: Path, way: Callable[[Path], object]
) -> None:
    journal = tmp_path / "kept" / "journal.db"
    folder = workspace_of(tmp_path)
    own = folder / ".midstream" / "workflows"
    (own / "slow").mkdir(parents=True)
    (own / "slow.json").write_text(WORKFLOW, encoding="utf-8")
    (own / "slow" / "script.py").write_text(
        f"import pathlib\nHERE = pathlib.Path({str(folder)!r})\n{SCRIPT}"
    )
    env = {"MIDSTREAM_JOURNAL": str(journal), "TMPDIR": str(tmp_path)}
    process = started(tmp_path, "run", "slow", "--trust-workspace", *OFFLINE, env=env)
    while not (folder / "there").exists() and process.poll() is None:
        time.sleep(0.01)
    way(journal)
    (folder / "go").touch()
    ended = finished(process)

    assert ended.code == 1
    assert "was changed while it was in use" in ended.told
    assert "step 7" not in ended.told
    assert "is kept where it stopped" not in ended.told
    (file,) = re.findall(r"is in (\S+\.jsonl)", ended.told)
    assert "step 5" in Path(file).read_text(encoding="utf-8")


def broken(home: Path) -> Path:
    path = home / "state" / "journal.db"
    path.parent.mkdir()
    path.write_bytes(b"no database at all " * 400)
    return path


@pytest.mark.journal_file
@pytest.mark.parametrize("command", [("chat", "hello"), ("run", "code_architecture_review")])
def test_without_a_journal_nothing_begins(tmp_path: Path, command: tuple[str, str]) -> None:
    path = broken(tmp_path)
    ended = run(tmp_path, *command, *OFFLINE)

    assert (ended.code, ended.out) == (1, "")
    assert str(path) in ended.told
    assert "--no-journal" in ended.told


def test_who_wants_no_journal_has_none(tmp_path: Path) -> None:
    path = broken(tmp_path)
    ended = run(tmp_path, "chat", "hello", "--no-journal", *OFFLINE)

    assert ended.code == 0
    assert "offline model" in ended.out
    assert str(path) not in ended.told
    path.unlink()
    assert run(tmp_path, "chat", "hello", "--no-journal", *OFFLINE).code == 0
    assert not path.exists()


def test_what_reads_no_runs_needs_no_journal(tmp_path: Path) -> None:
    broken(tmp_path)

    assert run(tmp_path, "roles").code == 0


@pytest.mark.journal_file
def test_who_waits_for_another_program_hears_so_and_goes_on_when_it_is_free(tmp_path: Path) -> None:
    assert run(tmp_path, "chat", "hello", *OFFLINE).code == 0
    path = tmp_path / "state" / "journal.db"
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    with open(tmp_path / "told", "wb") as told:
        process = started(tmp_path, "chat", "hello", *OFFLINE, stderr=told)
        while process.poll() is None and b"locked" not in (tmp_path / "told").read_bytes():
            time.sleep(0.01)
        holder.execute("rollback")
        ended = finished(process)
    holder.close()

    assert ended.code == 0
    words = " ".join((tmp_path / "told").read_text(encoding="utf-8").split())
    assert f"{path} is locked by another program; midstream waits" in words


@pytest.mark.journal_file
def test_a_damaged_journal_is_salvaged(tmp_path: Path) -> None:
    assert run(tmp_path, "chat", "hello", *OFFLINE).code == 0
    path = tmp_path / "state" / "journal.db"
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])
    refused = run(tmp_path, "runs", "--all")
    assert refused.code == 1
    assert "doctor --salvage" in refused.told
    salvaged = run(tmp_path, "doctor", "--salvage")

    assert salvaged.code == 0
    assert "1 run whole" in salvaged.out
    assert "journal.db.damaged-" in salvaged.out
    assert run(tmp_path, "runs", "--all").out.count("\n") == 1
    assert "Nothing is damaged" in run(tmp_path, "doctor", "--salvage").out
