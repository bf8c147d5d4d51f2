"""review_changes, played whole: lines come from the diff, and no finding stays that nobody could show."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S
from playing import Gate, Play, play

from midstream.core.run import Run

NAME = "review_changes"
DIFF = """\
diff --git a/till.py b/till.py
--- a/till.py
+++ b/till.py
@@ -1,3 +1,4 @@
 def total(prices):
-    return sum(prices)
+    first = prices[0]
+    return first + sum(prices)
 # +++ b/other.py
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x = 1
"""


def submits(**arguments: object) -> list[dict[str, Any]]:
    return [{"calls": [{"name": "submit", "arguments": arguments}]}]


def finding(file: str, line: int, severity: str, title: str) -> dict[str, Any]:
    return {"file": file, "line": line, "severity": severity, "title": title, "why": "It fails."}


FOUND = {
    "reviewer": {
        "look": submits(
            findings=[
                finding("till.py", 40, "note", "Is far away."),
                finding("b/till.py", 2, "error", "Fails on none."),
                finding("made_up.py", 1, "warning", "Is nowhere."),
                finding("till.py", 3, "warning", "Is a matter of taste."),
            ]
        )
    },
    "checker": {
        "check": submits(
            checks=[
                {"number": 2, "holds": True, "why": "prices[0] raises."},
                {"number": 3, "holds": True, "why": "Who knows."},
                {"number": 4, "holds": False, "why": "It is not."},
            ]
        )
    },
}


async def reviewed(work: Play, change: str = DIFF, **start: Any) -> Run:
    async with asyncio.timeout(DEADLINE_S):
        await work.machine.start(change, **start)
        return await work.machine.wait()


async def test_what_holds_is_reported_with_its_place_the_heaviest_first(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also=FOUND)
    run = await reviewed(work)

    assert run.status == "finished", run.error
    assert work.states() == ["start", "sort", "look", "check", "report", "stop"]
    assert run.common_data["files"] == {"till.py": [[2, 3]]}
    heads = [line for line in run.output.splitlines() if line.startswith(("##", "`", "- "))]
    assert heads == [
        "## error: Fails on none.",
        "`till.py:2`",
        "## warning: Is nowhere.",
        "`made_up.py:1`, no file of this change",
        "## note: Is far away.",
        "`till.py:40`, not a changed line",
        "## Did not hold",
        "- Is a matter of taste. (`till.py:3`): It is not.",
    ]
    assert "1 file changed; 3 of 4 findings held." in run.output
    assert run.output.count("Nobody checked it.") == 1


async def test_the_same_as_sarif(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also=FOUND)
    run = await reviewed(work, variables={"format": "sarif"})

    (told,) = json.loads(run.output)["runs"]
    assert [result["level"] for result in told["results"]] == ["error", "warning", "note"]
    (place,) = told["results"][0]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "till.py"},
        "region": {"startLine": 2},
    }
    assert told["results"][1]["locations"] == [], "nobody is sent to a file that is not there"


async def test_a_name_for_git_has_it_show_the_change(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(("git", *who, *words), cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "till.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-qm", "one")
    (tmp_path / "till.py").write_text("x = 1\ny = 2\n")
    work = await play(NAME, tmp_path, also=FOUND)
    run = await reviewed(work, "HEAD", allowed=("execute_terminal", "outside: *"))

    assert work.states()[:4] == ["start", "read", "sort", "look"]
    assert run.common_data["files"] == {"till.py": [[2, 2]]}


async def test_no_change_is_no_review(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    run = await reviewed(work, "--- nothing")

    assert work.states() == ["start", "sort", "report", "stop"]
    assert run.output == "There is no change to review."


async def test_nothing_found_is_a_good_answer(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also={"reviewer": {"look": submits(findings=[])}})
    run = await reviewed(work)

    assert work.states() == ["start", "sort", "look", "report", "stop"]
    assert "0 of 0 findings held" in run.output


async def test_what_was_not_read_is_said(tmp_path: Path) -> None:
    added = "".join(f"+line {n} {'x' * 70}\n" for n in range(3_000))
    diff = f"--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,3000 @@\n{added}"
    run = await reviewed(await play(NAME, tmp_path, also=FOUND), diff)

    assert run.status == "finished", run.error
    assert run.common_data["files"] == {"big.txt": [[1, 3000]]}
    assert "**Not all of it was read**" in run.output


@pytest.mark.parametrize("state", ["look", "check"])
async def test_words_lead_back_to_the_reviewer(tmp_path: Path, state: str) -> None:
    gate = Gate()
    work = await play(NAME, tmp_path, sleep=gate)

    speaking = work.speaking(gate, state=state)
    await work.machine.start(DIFF)
    await speaking
    await work.machine.say("mind the empty list")
    gate.open()
    run = await work.machine.wait()

    assert run.status == "finished", run.error
    at = work.states().index(state)
    assert work.states()[at : at + 2] == [state, "look"]
    assert "mind the empty list" in run.output
