"""Runs from other processes: listed, shown, followed, answered, resumed and stopped."""

import asyncio
import json
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pipes_kit import OFFLINE, Ended, events, finished, of_type, run, started, workspace_of

from midstream.store.sqlite import SqliteStore

REVIEW = "code_architecture_review"


def parked(home: Path) -> str:
    """Return a run that was begun without a console and waits for an answer that was not given."""
    assert run(home, "run", REVIEW, *OFFLINE).code == 4
    return str(one(run(home, "runs", "--json"))["run"])


def one(ended: Ended) -> dict[str, Any]:
    """Return the only object a command wrote."""
    assert ended.code == 0, ended.err
    [line] = ended.out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def objects(ended: Ended) -> list[dict[str, Any]]:
    """Return the objects a command wrote, one a line."""
    return [json.loads(line) for line in ended.out.splitlines()]


class Living:
    """A console on pipes that stays, with a run that waits for an answer."""

    def __init__(self, home: Path) -> None:
        self.process = started(home, "--json", *OFFLINE, stdin=subprocess.PIPE)
        self.run = ""

    def tell(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def until(self, type: str) -> dict[str, Any]:
        """Return the next event of a type."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == type:
                return event
        raise AssertionError(f"{type} never came")


@contextmanager
def living(home: Path) -> Iterator[Living]:
    """Give a console that lives, and end it."""
    console = Living(home)
    try:
        console.tell(f"/workflow {REVIEW}")
        console.run = str(console.until("question_asked")["run"])
        yield console
    finally:
        if console.process.poll() is None:
            console.process.kill()
        console.process.communicate()


# --- looking ----------------------------------------------------------------------------------


def test_runs_are_listed_where_they_belong(tmp_path: Path) -> None:
    nothing = run(tmp_path, "runs")
    id = parked(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = ("--workspace", str(tmp_path / "elsewhere"))
    listed = run(tmp_path, "runs")
    kept = one(run(tmp_path, "runs", "--json"))

    assert nothing.out == f"No runs in {workspace_of(tmp_path)}.\n"
    assert listed.out.split()[:3] == [id, REVIEW, "start"]
    assert "waits for you (no process runs it)" in listed.out
    assert (kept["status"], kept["asking"], kept["owner"]) == ("waiting", ["focus/q1"], "")
    assert run(tmp_path, "runs", *elsewhere, "--json").out == ""
    assert "Others: midstream runs --all" in run(tmp_path, "runs", *elsewhere).out
    assert one(run(tmp_path, "runs", *elsewhere, "--json", "--all")) == kept
    assert str(workspace_of(tmp_path)) in run(tmp_path, "runs", *elsewhere, "--all").out


def test_the_newest_run_stands_first(tmp_path: Path) -> None:
    for words in ("one", "two"):
        assert run(tmp_path, "chat", words, *OFFLINE).code == 0
    listed = [line.split()[0] for line in run(tmp_path, "runs").out.splitlines()]
    found = objects(run(tmp_path, "runs", "--json"))

    assert [each["run"] for each in found] == listed
    assert {each["status"] for each in found} == {"waiting"}
    lines = run(tmp_path, "runs").out.splitlines()
    assert all(" answered " in line for line in lines)
    assert [line.split("  ")[1] for line in lines] == ["role:dude (two)", "role:dude (one)"]
    assert found[0]["started_at"] > found[1]["started_at"]
    first = run(tmp_path, "runs", "--limit", "1").out.splitlines()
    assert first[0].split()[0] == listed[0]
    assert first[1] == f"There are older ones: midstream runs --after {listed[0]}"
    behind = ("runs", "--limit", "1", "--after")
    assert objects(run(tmp_path, *behind, listed[0], "--json")) == found[1:]
    assert run(tmp_path, *behind, listed[1]).out == f"No runs behind {listed[1]}.\n"


def test_a_run_is_shown_by_the_beginning_of_its_id(tmp_path: Path, journal_address: str) -> None:
    id = parked(tmp_path)
    shown = run(tmp_path, "show", id[:3])
    found = one(run(tmp_path, "show", id[:3], "--json"))

    assert shown.out.startswith(f"Run {id}: {REVIEW}")
    assert "asks       #1 focus/q1: What matters most to you?" in shown.out
    assert "(1 complexity, 2 change, 3 coupling, 4 size)" in shown.out
    assert f"folder     {workspace_of(tmp_path)}" in shown.out
    journal = journal_address or tmp_path / "state" / "journal.db"
    assert f"journal    {journal}" in shown.out
    assert "branch_finished" in shown.out.splitlines()[-1]
    [question] = found["questions"]
    assert (question["number"], question["choices"][3]) == (1, "size")
    assert found["cost"]["requests"] == 0, "what comes before the question needs no model"
    assert found["last_events"][-1]["type"] == "branch_finished"


def test_the_events_of_a_run_are_written_from_any_place(tmp_path: Path) -> None:
    id = parked(tmp_path)
    all_of_them = events(run(tmp_path, "events", id, "--json").out)
    some = events(run(tmp_path, "events", id, "--json", "--after", "4").out)
    plain = run(tmp_path, "events", id, "--after", "4").out

    assert [each["seq"] for each in all_of_them] == list(range(1, len(all_of_them) + 1))
    assert some == all_of_them[4:]
    assert plain.split()[:1] == ["5"]
    assert 'question_asked  branch="focus" question_id="focus/q1"' in plain


def test_an_unknown_run_is_told_and_changes_nothing(tmp_path: Path) -> None:
    parked(tmp_path)
    for command in (("show", "zzz"), ("events", "zzz"), ("send", "zzz", "x"), ("stop", "zzz")):
        ended = run(tmp_path, *command)
        assert ended.code == 2
        assert "There is no run 'zzz'. midstream runs --all lists them." in ended.told


def test_an_answer_to_a_question_nobody_asked_is_refused_and_not_kept(tmp_path: Path) -> None:
    id = parked(tmp_path)
    ended = run(tmp_path, "send", id, "--question", "7", "size")
    assert ended.code == 2
    assert f"Run {id} has no question '7'. It asks #1 " in ended.told
    assert one(run(tmp_path, "show", id, "--json"))["letters"] == []


# --- talking to one that lives --------------------------------------------------------------------


def test_a_living_run_is_answered_and_followed_from_other_processes(tmp_path: Path) -> None:
    with living(tmp_path) as console:
        kept = one(run(tmp_path, "runs", "--json"))
        following = started(tmp_path, "events", console.run, "--follow", "--json")
        assert following.stdout is not None
        first = json.loads(following.stdout.readline())
        receipt = one(run(tmp_path, "send", console.run, "size", "--key", "k", "--json"))
        again = one(run(tmp_path, "send", console.run, "size", "--key", "k", "--json"))
        late = run(tmp_path, "send", console.run, "change", "--question", "1", "--json")
        heard = console.until("input_received")
        console.until("run_finished")
        followed = events(following.stdout.read().decode())
        finished(following)

    assert (kept["status"], bool(kept["owner"])) == ("waiting", True)
    assert first["type"] == "run_started"
    assert (receipt["handling"], receipt["is_taken"]) == ("answer", True)
    assert again == receipt
    assert late.code == 1
    assert objects(late)[0]["reason"] == "already answered"
    assert (heard["text"], heard["source"], heard["input_id"]) == ("size", "send", "k")
    facts = [each for each in followed if "seq" in each]
    assert [each["seq"] for each in facts] == list(range(2, len(facts) + 2))
    assert followed[-1]["type"] == "run_finished"
    shown: dict[tuple[str, str], str] = {}
    for each in of_type(followed, "text_delta"):
        whose = (each.get("branch", ""), each["agent"])
        shown[whose] = shown.get(whose, "") + each["text"]
    said: dict[tuple[str, str], str] = {}
    for each in of_type(followed, "agent_responded"):
        whose = (each.get("branch", ""), each["agent"])
        said[whose] = said.get(whose, "") + each["text"]
    # Who is slow to join may have missed the beginning; what came is what was said, each piece once.
    assert shown
    assert all(text in said[whose] for whose, text in shown.items())
    assert len(of_type(followed, "question_answered")) == 1
    assert "**size**" in followed[-1]["output"]


def test_waiting_tells_what_became_of_the_words(tmp_path: Path) -> None:
    with living(tmp_path) as console:
        refused = objects(run(tmp_path, "send", console.run, "purple", "--json"))
        taken = run(tmp_path, "send", console.run, "-", "--wait", lines="size\n")
        console.until("run_finished")

    assert [each["is_taken"] for each in refused] == [False]
    assert "not one of the choices" in refused[0]["reason"]
    assert taken.out == (f"Sent to run {console.run}: your line is the answer.\nIt was answered.\n")


def test_a_living_run_is_stopped_from_another_process(tmp_path: Path) -> None:
    with living(tmp_path) as console:
        ended = run(tmp_path, "stop", console.run)
        stopped = console.until("run_stopped")
        again = run(tmp_path, "stop", console.run)

    assert ended.out == f"Run {console.run} is stopped.\n"
    assert stopped["reason"] == "stopped by midstream stop"
    assert (again.code, again.out) == (0, f"Run {console.run} has ended already: stopped.\n")


# --- one that nobody runs -------------------------------------------------------------------------


def test_words_to_a_run_whose_process_was_killed_are_heard_once_when_it_goes_on(
    tmp_path: Path,
) -> None:
    with living(tmp_path) as console:
        console.process.kill()
        console.process.wait()
        kept = one(run(tmp_path, "runs", "--json"))
        sent = [one(run(tmp_path, "send", console.run, "size", "--key", "k", "--json"))] * 2
        waited = run(tmp_path, "send", console.run, "size", "--key", "k", "--wait", "--json")
        shown = run(tmp_path, "show", console.run)
        resumed = run(tmp_path, "resume", console.run, *OFFLINE)
        told = events(run(tmp_path, "events", console.run, "--json").out)
        after = one(run(tmp_path, "send", console.run, "size", "--key", "k", "--json"))

    assert kept["was_cut"]
    assert (sent[0]["handling"], sent[0]["is_taken"]) == ("queue", True)
    assert "the run is not running now" in sent[0]["reason"]
    assert waited.code == 4
    assert objects(waited)[-1]["disposition"] is None
    assert "not heard  size" in shown.out
    assert resumed.code == 0
    assert "What matters most: **size**" in resumed.out
    assert [each["text"] for each in of_type(told, "input_received")] == ["size"]
    assert [each["was_cut"] for each in of_type(told, "run_recovered")] == [True]
    assert after["handling"] == "answer"


def test_a_parked_run_goes_on_with_its_answer_given_beforehand(tmp_path: Path) -> None:
    id = parked(tmp_path)
    ended = run(tmp_path, "resume", id[:4], "--answer", "size", *OFFLINE)
    again = run(tmp_path, "resume", id, *OFFLINE)

    assert ended.code == 0
    assert "What matters most: **size**" in ended.out
    assert again.code == 2
    assert f"Run {id} has ended." in again.told


def test_words_to_a_run_nobody_runs_say_what_delivers_them(tmp_path: Path) -> None:
    id = parked(tmp_path)
    sent = run(tmp_path, "send", id, "size")

    assert (
        sent.code,
        sent.out.endswith(f" until it is resumed with `midstream resume {id}`.\n"),
    ) == (
        0,
        True,
    )


def test_a_run_nobody_runs_is_stopped_here_and_says_what_it_never_heard(tmp_path: Path) -> None:
    id = parked(tmp_path)
    run(tmp_path, "send", id, "size")
    ended = run(tmp_path, "stop", id, "--json")

    assert one(ended)["unheard"] == ["size"]
    assert one(run(tmp_path, "runs", "--json"))["status"] == "stopped"
    assert one(run(tmp_path, "show", id, "--json"))["letters"] == []


FLOW = {
    "workflow_name": "asking",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "awaits_input": True, "post_handler": "note"},
        {"name": "stop", "input": "common_data.said"},
    ],
}
SCRIPT = "def note(run):\n    run.common_data['said'] = 'first'\n"


@pytest.mark.parametrize(("choice", "said"), [("--old", "first\n"), ("--new", "second\n")])
def test_a_changed_workflow_is_asked_about_and_goes_on_as_chosen(
    tmp_path: Path, choice: str, said: str
) -> None:
    workflows = tmp_path / "config" / "workflows"
    (workflows / "asking").mkdir(parents=True)
    (workflows / "asking.json").write_text(json.dumps(FLOW), encoding="utf-8")
    (workflows / "asking" / "script.py").write_text(SCRIPT, encoding="utf-8")
    run(tmp_path, "run", "asking", *OFFLINE)
    id = one(run(tmp_path, "runs", "--json"))["run"]
    run(tmp_path, "send", id, "go on")
    changed = SCRIPT.replace("first", "second")
    (workflows / "asking" / "script.py").write_text(changed, encoding="utf-8")
    asked = run(tmp_path, "resume", id, *OFFLINE)
    chosen = run(tmp_path, "resume", id, choice, *OFFLINE)

    assert asked.code == 2
    assert "script.py changed (+1 -1 lines)" in asked.told
    assert f"midstream resume {id} --old" in asked.told
    assert (chosen.code, chosen.out) == (0, said)


# --- what is kept by key ----------------------------------------------------------------------


def put(home: Path, data: bytes) -> str:
    """Return the key of a content in the journal of a home."""
    store = SqliteStore.opened(home / "state" / "journal.db")
    try:
        return asyncio.run(store.put(data))
    finally:
        store.close()


@pytest.mark.journal_file
def test_a_content_is_written_by_its_key(tmp_path: Path) -> None:
    parked(tmp_path)
    key = put(tmp_path, "wörds\r\n\x1b[31mred".encode())
    told = one(run(tmp_path, "blob", key, "--json"))

    assert run(tmp_path, "blob", key).out == "wörds\r\n\x1b[31mred"
    assert b64decode(told["base64"]) == "wörds\r\n\x1b[31mred".encode()
    assert (told["type"], told["key"], told["size"]) == ("blob", key, 16)


def test_a_key_that_is_none_or_keeps_nothing_is_told(tmp_path: Path) -> None:
    none, nothing = run(tmp_path, "blob", "../../x"), run(tmp_path, "blob", "0" * 64)

    assert (none.code, nothing.code) == (2, 1)
    assert "../../x is no key" in none.err
    assert "are missing" in nothing.err
